#include "ledger/claim.h"

const struct claim claim_c42 = {
  .id = "C-42",
  .source = "arXiv 2309.14322",
  .sentence = "The growth is not the softmax's doing: in pointwise attention logits grow too.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"Muon, pointwise attention", "preset=muon stabilizers=pointwise"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:150-600:slope",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 0,
  .prediction = PREDICT_MORE,
  .matters = 0.5,
  .refute = "logits that grow as the root of the steps or slower, or not at all",
  .hours = 0.05,
  .revised =
    "it needed scale for want of attention without a softmax, which there is now (stabilizers = pointwise); "
    "C-01 has the same regime with a softmax",
  .explored =
    "1 to 3, of both kinds of attention in C-01's regime: exponents of 0.71 to 0.98 without a softmax, 1.2 "
    "to 1.6 with it.",
};
