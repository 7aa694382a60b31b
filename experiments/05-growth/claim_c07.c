#include "ledger/claim.h"

const struct claim claim_c07 = {
  .id = "C-07",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Logits above 100 are few even in a layer whose maximum is there: a share of about 1e-4.",
  .regime = "model.context = 32\n"
            "train.steps = 500\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "record.level = 100\n",
  .arm = {{"Muon", "preset=muon"}},
  .equal = EQUAL_RATE,
  .metric = "attn/share_above:last5%:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 0.001,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.001,
  .refute = "more than two in a thousand logits above 100",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
