#include "ledger/claim.h"

const struct claim claim_c64 = {
  .id = "C-64",
  .source = "arXiv 2606.03899: momentum suppresses perturbations and keeps the signal",
  .sentence = "With less momentum Muon's directions are noisier, and its logits grow less.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"momentum 0.95", "preset=muon"}, {"momentum 0.5", "preset=muon muon.momentum=0.5"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits with a momentum of 0.5 above four fifths of those with 0.95",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
