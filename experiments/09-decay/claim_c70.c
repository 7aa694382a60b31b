#include "ledger/claim.h"

const struct claim claim_c70 = {
  .id = "C-70",
  .source = "Kimi K2, arXiv 2507.20534: 70k of 220k steps; C-06",
  .sentence =
    "Decay of the learning rate turns growing logits down by itself: they end lower than at a constant rate.",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n",
  .arm = {{"constant", "train.schedule=constant"}, {"cosine", "train.schedule=cosine"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits above four fifths of those at a constant rate",
  .hours = 0.24,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
