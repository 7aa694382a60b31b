#include "ledger/claim.h"

const struct claim claim_c75 = {
  .id = "C-75",
  .source = "Moonlight, arXiv 2502.16982: weight decay 0.1 on all parameters",
  .sentence = "With weight decay on gains as well as on matrices, Muon's max logits are higher than Adam's "
              "at an equal learning rate and RMS of the update.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "train.decay_gains = 1\n"
            "override.match = update_rms\n",
  .arm = {{"Adam", "preset=adam"}, {"Muon", "preset=muon"}},
  .equal = EQUAL_RMS,
  .tuned = "C-75b",
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "a ratio below 1.25",
  .hours = 0.05,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
