#include "ledger/claim.h"

const struct claim claim_c76 = {
  .id = "C-76",
  .source = "arXiv 2506.19697",
  .sentence = "Muon's residual stream has fewer outliers than Adam's: its kurtosis is lower at an equal RMS "
              "of the update.",
  .regime = "model.context = 32\n"
            "train.steps = 604\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "record.observe = default+outliers\n"
            "override.match = update_rms\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_RMS,
  .metric = "stream/kurtosis:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "a kurtosis above 1/1.25 of Adam's",
  .hours = 0.05,
  .explored = "1, after 1500 steps at lr 0.005: 5.0 and 4.8 on the built-in source, 19 and 28 on a text. Six "
              "hundred steps gave 1.04 [0.92, 1.2] before claims that record had lengths of their own.",
};
