#include "ledger/claim.h"

const struct claim claim_c43 = {
  .id = "C-43",
  .source = "arXiv 2309.14322",
  .sentence = "A longer warm-up lowers the logits.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "preset = adam\n",
  .arm = {{"warm-up 50", "train.warmup=50"}, {"warm-up 250", "train.warmup=250"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits that are not lower by a fifth",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
