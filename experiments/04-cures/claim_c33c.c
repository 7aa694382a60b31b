#include "ledger/claim.h"

const struct claim claim_c33c = {
  .id = "C-33c",
  .source = "GLM-5, arXiv 2602.15763",
  .sentence = "At an equal spectral norm of the update Muon on every head's block by itself keeps logits "
              "lower than Muon on whole matrices, in ordinary multi-head attention.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "override.match = update_spectral_norm\n",
  .arm = {{"Muon", "preset=muon"}, {"per-head Muon", "preset=muon_split"}},
  .equal = EQUAL_NORM,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.5,
  .refute = "max logits above two thirds of whole-matrix Muon's",
  .hours = 0.03,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
