#include "ledger/claim.h"

const struct claim claim_c55 = {
  .id = "C-55",
  .source = "kexue.fm/archives/11126",
  .sentence = "Muon leads weights that Adam has pre-trained away from their low rank: fine-tuned by it their "
              "singular values have a higher entropy than fine-tuned by Adam.",
  .start = "model.context = 32\n"
           "train.steps = 600\n"
           "train.weight_decay = 0.1\n",
  .regime = "model.context = 32\n"
            "train.steps = 150\n"
            "train.warmup = 10\n"
            "train.val_every = 25\n"
            "train.weight_decay = 0.1\n"
            "markov.lag = 6\n",
  .arm = {{"Adam", "preset=adam train.lr=0.003", .start = "preset=adam train.lr=0.003"},
          {"Muon", "preset=muon train.lr=0.01", .start = "preset=adam train.lr=0.003"}},
  .equal = EQUAL_TUNED,
  .metric = "weight/svd_entropy@*blocks*:last:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.02,
  .refute = "an entropy that is not higher by 0.02",
  .revised =
    "it needed scale for want of a second phase; its runs are those of C-30. That Adam's weights are "
    "of lower rank to begin with is C-28",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
