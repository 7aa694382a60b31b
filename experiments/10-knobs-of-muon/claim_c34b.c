#include "ledger/claim.h"

const struct claim claim_c34b = {
  .id = "C-34b",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Scaled to one RMS, updates of heads and of whole matrices are of one size.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 100\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"whole matrices", NULL}, {"per head", "muon.per_head=qkv"}},
  .equal = EQUAL_RATE,
  .metric = "update/frobenius_norm@*w_qc:50-99:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_SAME,
  .matters = 1.1,
  .identity = 1,
  .refute = "sizes that differ by a tenth",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
