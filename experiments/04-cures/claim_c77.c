#include "ledger/claim.h"

const struct claim claim_c77 = {
  .id = "C-77",
  .source = "arXiv 2410.10781",
  .sentence = "Attention without normalization makes no sink.",
  .regime = "model.context = 32\n"
            "train.steps = 606\n"
            "train.lr = 0.005\n"
            "train.weight_decay = 0.1\n"
            "preset = adam\n"
            "record.observe = default+sink+outliers\n",
  .arm = {{"softmax", NULL}, {"sigmoid", "stabilizers=sigmoid"}},
  .equal = EQUAL_RATE,
  .metric = "sink/mass:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "-",
  .scale = "no sink arises in these models: no head gives the first position a weight of 0.3, which the "
           "source counts as a sink; a mean over all visible positions would give it 0.13",
  .hours = 0.01,
  .explored = "1, after 1500 steps: 0.25 and 0.06 on the built-in source, 0.13 and 0.10 on a text.",
};
