#include "ledger/claim.h"

const struct claim claim_c05 = {
  .id = "C-05",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence = "Muon without a cure passes a max logit of 1000 soon (9B active of 53B parameters).",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"Muon", "preset=muon"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .level = 1000,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "max logits below 1000",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
  .scale = "a model of 53 billion parameters; the trend is the value that a small one reaches in 600 steps, "
           "against 1000",
};
