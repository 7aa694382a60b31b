#include "ledger/claim.h"

const struct claim claim_c23b = {
  .id = "C-23b",
  .source = "kexue.fm/archives/11126",
  .sentence = "A higher decay of all weights lowers the logits.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.03\n"
            "preset = muon\n",
  .arm = {{"decay 0.1", "train.weight_decay=0.1"},
          {"decay 0.3", "train.weight_decay=0.3"},
          {"no decay", "train.weight_decay=0"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.5,
  .refute = "max logits above two thirds",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
