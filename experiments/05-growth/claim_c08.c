#include "ledger/claim.h"

const struct claim claim_c08 = {
  .id = "C-08",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "Only few heads explode (K2: an eighth of them).",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon, latent attention", NULL}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last:over=100",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 0.5,
  .prediction = PREDICT_LESS,
  .matters = 0.25,
  .refute = "more than a quarter of the heads above 100",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
