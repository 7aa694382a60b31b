#include "ledger/claim.h"

const struct claim claim_c28b = {
  .id = "C-28b",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence =
    "Routers of experts trained by Muon have a higher entropy of singular values, as other weights have.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "model.ffn = moe\n"
            "moe.experts = 16\n"
            "moe.active = 2\n"
            "moe.balance = bias\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_TUNED,
  .metric = "weight/svd_entropy@*w_router:last:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.02,
  .refute = "an entropy of Muon's routers that is not higher by 0.02",
  .revised = "at one learning rate, three times above the best, a comparison of optimisers is one of rates: "
             "each arm is tuned",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
