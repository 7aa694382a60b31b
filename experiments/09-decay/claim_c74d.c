#include "ledger/claim.h"

const struct claim claim_c74d = {
  .id = "C-74d",
  .source = "none: a question of this project",
  .sentence = "Under Muon weight decay on the gains costs no loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"decay of matrices", "preset=muon train.lr=0.01"},
          {"decay of gains, too", "preset=muon train.lr=0.01 train.decay_gains=1"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.01,
  .refute = "a loss higher by more than 0.01 nat",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
