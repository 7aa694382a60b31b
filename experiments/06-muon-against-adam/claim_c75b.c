#include "ledger/claim.h"

const struct claim claim_c75b = {
  .id = "C-75b",
  .source = "Moonlight, arXiv 2502.16982: weight decay 0.1 on all parameters",
  .sentence = "With weight decay on gains as well as on matrices, each at its best rate, Muon's max logits "
              "are higher than Adam's.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Adam", "preset=adam train.lr=0.003 train.decay_gains=1"},
          {"Muon", "preset=muon train.lr=0.01 train.decay_gains=1"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "a ratio below 1.25",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
