#include "ledger/claim.h"

const struct claim claim_c39 = {
  .id = "C-39",
  .source = "arXiv 2309.14322",
  .sentence = "The first layer's logits are the largest.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"last layer", "preset=adam", "probe/max_logit@l1h*:last5%:max"},
          {"first layer", "preset=adam", "probe/max_logit@l0h*:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "a first layer whose max logit is below 1.25 times the last one's",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
