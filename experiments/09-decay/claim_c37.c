#include "ledger/claim.h"

const struct claim claim_c37 = {
  .id = "C-37",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Muon without decay is ahead early, with it later.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n"
            "preset = muon\n",
  .arm = {{"no decay", "train.weight_decay=0"}, {"decay 0.1", "train.weight_decay=0.1"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.01,
  .refute = "-",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
  .scale = "the lines cross after tens of thousands of steps of a model of 800 million parameters; the trend "
           "is the loss after 600",
};
