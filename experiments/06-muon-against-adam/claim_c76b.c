#include "ledger/claim.h"

const struct claim claim_c76b = {
  .id = "C-76b",
  .source = "arXiv 2506.19697: an excess of 0.04",
  .sentence = "Under Muon the residual stream has almost no outliers: its kurtosis is within 1 of a normal "
              "distribution's, which is 3.",
  .regime = "model.context = 32\n"
            "train.steps = 605\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "record.observe = default+outliers\n"
            "override.match = update_rms\n",
  .arm = {{"Muon", "preset=muon"}},
  .equal = EQUAL_RMS,
  .metric = "stream/kurtosis:last5%:max",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 3,
  .prediction = PREDICT_SAME,
  .matters = 1,
  .refute = "a kurtosis above 4",
  .hours = 0.03,
  .explored = "1, after 1500 steps at lr 0.005: 5.0 on the built-in source, 19 on a text. Six hundred steps "
              "gave 1.92 [1.51, 2.53] before claims that record had lengths of their own.",
};
