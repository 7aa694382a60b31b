#include "ledger/claim.h"

const struct claim claim_c60 = {
  .id = "C-60",
  .source = "DynMuon, arXiv 2605.17109",
  .sentence =
    "A spectrum of the updates raised to a power that falls from 0.5 to -0.2 over the training ends with a "
    "lower loss than Muon's flat one (the sign alone can be seen here).",
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
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .hours = 0.1,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
