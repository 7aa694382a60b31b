#include "ledger/claim.h"

const struct claim claim_c26 = {
  .id = "C-26",
  .source = "kexue.fm/archives/11126",
  .sentence = "Muon's updates have full rank, Adam's do not: the entropy of their singular values.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_TUNED,
  .metric = "update/svd_entropy@*attn*:100-599:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.1,
  .refute = "an entropy of Muon's updates that is not higher by 0.1",
  .revised = "at one learning rate, three times above the best, a comparison of optimisers is one of rates: "
             "each arm is tuned",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
