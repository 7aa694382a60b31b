#include "ledger/claim.h"

const struct claim claim_c78 = {
  .id = "C-78",
  .source = "arXiv 2410.13835",
  .sentence = "Gradient descent without Adam's normalization makes no peaks of the residual stream.",
  .regime = "model.context = 32\n"
            "train.steps = 607\n"
            "train.weight_decay = 0.1\n"
            "preset = adam\n"
            "record.observe = default+sink+outliers\n",
  .arm = {{"Adam", "train.lr=0.005"}, {"SGD", "optimizer=sgd train.lr=0.1"}},
  .equal = EQUAL_RATE,
  .metric = "stream/kurtosis:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "-",
  .scale =
    "the source's peaks are of the first position, where attention has a sink; no sink arises in these "
    "models (C-77)",
  .hours = 0.01,
  .explored = "none: the regime was not tried",
};
