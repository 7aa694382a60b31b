#include "ledger/claim.h"

const struct claim claim_c74c = {
  .id = "C-74c",
  .source = "none: a question of this project",
  .sentence = "At the best rates weight decay on the gains lowers Muon's max logits, too.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"decay of matrices", "preset=muon train.lr=0.01"},
          {"decay of gains, too", "preset=muon train.lr=0.01 train.decay_gains=1"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits above four fifths of those without decay of gains",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
