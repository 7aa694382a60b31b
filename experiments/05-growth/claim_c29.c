#include "ledger/claim.h"

const struct claim claim_c29 = {
  .id = "C-29",
  .source = "kexue.fm/archives/11126",
  .sentence = "Queries and keys grow, values and outputs do not: only those meet in a product.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"w_v, w_o", "preset=muon", "weight/spectral_norm@*w_[vo]:last:mean"},
          {"w_q, w_k", "preset=muon", "weight/spectral_norm@*w_[qk]:last:mean"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "spectral norms of w_q and w_k below 1.25 times those of w_v and w_o",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
