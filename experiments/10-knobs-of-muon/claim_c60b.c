#include "ledger/claim.h"

const struct claim claim_c60b = {
  .id = "C-60b",
  .source = "asked here: DynMuon, arXiv 2605.17109, reports no logits",
  .sentence =
    "A spectrum of the updates raised to a power that falls from 0.5 to -0.2 makes no higher logits than "
    "Muon's flat one.",
  .regime = "model.width = 32\n"
            "model.heads = 2\n"
            "model.context = 32\n"
            "train.steps = 300\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "optimizer = spliced\n"
            "spliced.spectrum = power\n",
  .arm = {{"flat", NULL},
          {"from 0.5 to -0.2", "spliced.power=0.5 spliced.power_end=-0.2 spliced.power_steps=300"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_MORE,
  .matters = 1.25,
  .refute = "max logits above 1.25 times those of the flat spectrum",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
