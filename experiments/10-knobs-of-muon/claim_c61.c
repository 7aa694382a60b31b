#include "ledger/claim.h"

const struct claim claim_c61 = {
  .id = "C-61",
  .source = "arXiv 2606.08388",
  .sentence = "Muon keeps the stable rank of the weights during training.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n",
  .arm = {{"step 0", NULL, "weight/stable_rank@*blocks*:0-0:mean"},
          {"the end", NULL, "weight/stable_rank@*blocks*:last:mean"}},
  .equal = EQUAL_RATE,
  .metric = "weight/stable_rank@*blocks*:last:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_LESS,
  .matters = 1.25,
  .refute = "a stable rank at the end below four fifths of that at the start",
  .hours = 0.015,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
