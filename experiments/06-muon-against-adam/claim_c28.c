#include "ledger/claim.h"

const struct claim claim_c28 = {
  .id = "C-28",
  .source = "Moonlight, arXiv 2502.16982; arXiv 2509.26030",
  .sentence = "Weights trained by Muon have a higher entropy of singular values.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_TUNED,
  .metric = "weight/svd_entropy@*blocks*:last:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.02,
  .refute = "an entropy of Muon's weights that is not higher by 0.02",
  .revised = "at one learning rate, three times above the best, a comparison of optimisers is one of rates: "
             "each arm is tuned",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
