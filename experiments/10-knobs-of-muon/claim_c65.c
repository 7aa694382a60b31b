#include "ledger/claim.h"

const struct claim claim_c65 = {
  .id = "C-65",
  .source = "AMO, arXiv 2605.17806",
  .sentence =
    "Three steps of Newton-Schulz leave updates of w_q and w_k less orthogonal than those of w_v and w_o.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n"
            "muon.ns_steps = 3\n",
  .arm = {{"w_v, w_o", NULL, "update/svd_entropy@*w_[vo]:100-599:mean"},
          {"w_q, w_k", NULL, "update/svd_entropy@*w_[qk]:100-599:mean"}},
  .equal = EQUAL_RATE,
  .metric = "update/svd_entropy@*w_[qk]:100-599:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "an entropy of the updates' singular values that is not lower by 0.01",
  .hours = 0.015,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
