#include "ledger/claim.h"

const struct claim claim_c74 = {
  .id = "C-74",
  .source = "none: a question of this project",
  .sentence =
    "Weight decay on the gains of the norms, added to that on matrices, lowers the max logits under Muon.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n",
  .arm = {{"decay of matrices", NULL}, {"decay of gains, too", "train.decay_gains=1"}},
  .equal = EQUAL_RATE,
  .tuned = "C-74c",
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without decay of gains",
  .hours = 0.05,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
