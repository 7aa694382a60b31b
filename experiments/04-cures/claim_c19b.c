#include "ledger/claim.h"

const struct claim claim_c19b = {
  .id = "C-19b",
  .source = "kexue.fm/archives/11126",
  .sentence = "With weight decay on gains as well as on matrices, QK-Norm still lowers the logits.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "train.decay_gains = 1\n",
  .arm = {{"Muon", "preset=muon"}, {"QK-Norm", "preset=muon stabilizers=qk_norm"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without",
  .hours = 0.05,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
