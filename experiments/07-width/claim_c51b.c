#include "ledger/claim.h"

const struct claim claim_c51b = {
  .id = "C-51b",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence = "At an equal number of active operations more experts end with a lower loss (the sign alone "
              "can be seen here).",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n"
            "model.ffn = moe\n"
            "moe.active = 2\n"
            "moe.balance = bias\n",
  .arm = {{"8 experts", "moe.experts=8"}, {"32 experts", "moe.experts=32"}, {"16 experts", "moe.experts=16"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat with four times the experts",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
