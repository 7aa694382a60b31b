#include "ledger/claim.h"

const struct claim claim_c01 = {
  .id = "C-01",
  .source = "kexue.fm/archives/11126",
  .sentence = "Without a cure the max logit grows linearly with the steps, or faster.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"Muon", "preset=muon"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:150-600:slope",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 0.5,
  .prediction = PREDICT_MORE,
  .matters = 0.5,
  .refute = "an exponent of the growth below one",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
