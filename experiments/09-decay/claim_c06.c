#include "ledger/claim.h"

const struct claim claim_c06 = {
  .id = "C-06",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "The max logit rises and then falls by itself.",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.3\n"
            "preset = muon\n",
  .arm = {{"steps 100 to 400", NULL, "probe/max_logit:100-400:max"},
          {"last 5 %", NULL, "probe/max_logit:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "a max logit at the end that is not lower by a fifth than at its early peak",
  .explored = "none here; a prototype in another program had 44 and then 22.",
};
