#include "ledger/claim.h"

const struct claim claim_c24 = {
  .id = "C-24",
  .source = "kexue.fm/archives/10739",
  .sentence =
    "Under Muon decay bounds the spectral norm: 0.2 sqrt(max(out, in)) / decay, here 5.33 of w_q and w_k.",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.3\n"
            "preset = muon\n",
  .arm = {{"Muon, decay 0.3", NULL}},
  .equal = EQUAL_RATE,
  .metric = "weight/spectral_norm@*w_[qk]:last:max",
  .contrast = CONTRAST_RATIO,
  .level = 5.333333,
  .prediction = PREDICT_NOT_MORE,
  .matters = 1.05,
  .identity = 1,
  .refute = "a spectral norm above the bound by 5 %",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
