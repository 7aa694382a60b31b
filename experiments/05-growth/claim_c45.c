#include "ledger/claim.h"

const struct claim claim_c45 = {
  .id = "C-45",
  .source = "sigmaReparam, arXiv 2303.06296",
  .sentence = "Attention whose logits grow collapses: its entropy falls.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"QK-Norm", "preset=muon stabilizers=qk_norm"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_RATE,
  .metric = "attn/entropy@l1h*:last5%:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.1,
  .refute = "an entropy in the last layer that is not lower by a tenth",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
