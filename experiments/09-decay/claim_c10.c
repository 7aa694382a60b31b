#include "ledger/claim.h"

const struct claim claim_c10 = {
  .id = "C-10",
  .source = "kexue.fm/archives/11126",
  .sentence =
    "Late in a run weight decay turns the max logit down (here: its growth; whether it falls is C-06).",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.03\n"
            "preset = muon\n",
  .arm = {{"no decay", "train.weight_decay=0"}, {"decay 0.3", "train.weight_decay=0.3"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:400-1000:slope",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.5,
  .refute = "an exponent of the late growth that is not lower by a half",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
