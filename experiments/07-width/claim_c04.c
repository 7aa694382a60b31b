#include "ledger/claim.h"

const struct claim claim_c04 = {
  .id = "C-04",
  .source = "kexue.fm/archives/11126; arXiv 2309.14322",
  .sentence = "Larger models explode more: the max logit rises with the width.",
  .regime = "model.context = 32\n"
            "train.steps = 300\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "preset = muon\n",
  .arm = {{"width 32, 2 heads", "model.width=32 model.heads=2"},
          {"width 128, 8 heads", "model.width=128 model.heads=8"},
          {"width 64, 4 heads", "model.width=64 model.heads=4"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 2,
  .refute = "a max logit at width 128 below twice that at width 32",
  .explored = "none here; a prototype in another program had 50, 430 and 1830.",
};
