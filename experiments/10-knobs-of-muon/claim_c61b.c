#include "ledger/claim.h"

const struct claim claim_c61b = {
  .id = "C-61b",
  .source = "arXiv 2606.08388",
  .sentence = "At a fixed Frobenius norm of the weights Muon's spectra become flat.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muonh\n",
  .arm = {{"step 0", NULL, "weight/svd_entropy@*blocks*:0-0:mean"},
          {"the end", NULL, "weight/svd_entropy@*blocks*:last:mean"}},
  .equal = EQUAL_RATE,
  .metric = "weight/svd_entropy@*blocks*:last:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.02,
  .refute = "an entropy of singular values that is not higher by 0.02 at the end",
  .hours = 0.015,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
