#include "ledger/claim.h"

const struct claim claim_c23c = {
  .id = "C-23c",
  .source = "kexue.fm/archives/11126",
  .sentence = "A higher decay of all weights costs loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.03\n"
            "preset = muon\n",
  .arm = {{"decay 0.1", "train.weight_decay=0.1"},
          {"decay 0.3", "train.weight_decay=0.3"},
          {"no decay", "train.weight_decay=0"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.01,
  .refute = "a loss that is not higher by 0.01 nat",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
