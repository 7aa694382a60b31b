#include "ledger/claim.h"

const struct claim claim_c18b = {
  .id = "C-18b",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "A hard cap leaves the logits before it growing.",
  .regime = "train.lr = 0.03\ntrain.steps = 600\nmodel.context = 32\n",
  .arm = {{"no cap", "preset=muon"}, {"cap 50", "preset=muon stabilizers=hard_cap hard_cap.cap=50"}},
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_LESS,
  .matters = 1.5,
  .refute = "logits before the cap that end at less than two thirds of those without a cap",
  .explored = "seed 11 showed the growth without a cap.",
};
