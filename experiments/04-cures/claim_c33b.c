#include "ledger/claim.h"

const struct claim claim_c33b = {
  .id = "C-33b",
  .source = "GLM-5, arXiv 2602.15763",
  .sentence =
    "At an equal RMS of the update Muon on every head's block by itself keeps logits lower than Muon on "
    "whole matrices, in ordinary multi-head attention.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"per-head Muon", "preset=muon_split"}},
  .equal = EQUAL_RMS,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.5,
  .refute = "max logits above two thirds of whole-matrix Muon's",
  .revised = "what was held equal is said; heads that align make the update of a whole matrix longer in "
             "spectral norm by up to the root of their number, which C-33c takes out",
  .withdrawn =
    "a factor of scale: heads' blocks that align make a whole matrix's update longer in spectral norm by up "
    "to the root of their number, so an equal RMS favours neither by right; C-33c holds the norm equal",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
