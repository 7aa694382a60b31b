#include "ledger/claim.h"

const struct claim claim_c53 = {
  .id = "C-53",
  .source = "arXiv 2408.15664",
  .sentence = "Balancing by a bias alone keeps the experts' loads even.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muon\n"
            "model.ffn = moe\n"
            "moe.experts = 16\n"
            "moe.active = 2\n",
  .arm = {{"no balancing", "moe.balance=none"},
          {"by bias", "moe.balance=bias"},
          {"by an auxiliary loss", "moe.balance=aux"}},
  .equal = EQUAL_RATE,
  .metric = "moe/max_vio:last20%:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "a MaxVio (largest load over the mean, less 1) above half of that without balancing",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
