#include "ledger/claim.h"

const struct claim claim_c43b = {
  .id = "C-43b",
  .source = "arXiv 2309.14322",
  .sentence = "The size of the batch does not matter for the logits.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "preset = adam\n",
  .arm = {{"batch 8", "train.batch=8"}, {"batch 16", "train.batch=16"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_SAME,
  .matters = 1.5,
  .refute = "max logits that differ by a factor of 1.5",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
