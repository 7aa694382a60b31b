#include "ledger/claim.h"

const struct claim claim_c34 = {
  .id = "C-34",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Heads taken by themselves get larger updates where Muon's scale is left out.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 100\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "muon.scale = none\n",
  .arm = {{"whole matrices", NULL}, {"per head", "muon.per_head=qkv"}},
  .equal = EQUAL_RATE,
  .metric = "update/frobenius_norm@*w_qc:50-99:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.5,
  .identity = 1,
  .refute = "updates below 1.5 times those of whole matrices",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
