#include "ledger/claim.h"

const struct claim claim_c81 = {
  .id = "C-81",
  .source = "a question of this project",
  .sentence =
    "Each at its best rate, Muon's max logits are of one size on two sources, the built-in one and the "
    "copy task.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n",
  .arm = {{"built-in source", "data=markov train.lr=0.01"}, {"copy task", "data=copy train.lr=0.01"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_SAME,
  .matters = 1.7,
  .refute = "a ratio beyond 1.7: in regimes tried before, the values lay between 19 and 32",
  .hours = 0.15,
  .explored = "none of these seeds; eight other regimes at tuned rates gave 19 to 32.",
};
