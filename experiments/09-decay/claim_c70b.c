#include "ledger/claim.h"

const struct claim claim_c70b = {
  .id = "C-70b",
  .source = "Kimi K2, arXiv 2507.20534: 70k of 220k steps; C-06",
  .sentence = "Under a cosine the max logit falls from its peak.",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n"
            "train.schedule = cosine\n",
  .arm = {{"steps 300 to 700", NULL, "probe/max_logit:300-700:max"},
          {"last 5 %", NULL, "probe/max_logit:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "a max logit at the end that is not lower by a fifth than in the middle",
  .hours = 0.025,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
