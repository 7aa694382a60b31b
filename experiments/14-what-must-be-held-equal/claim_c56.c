#include "ledger/claim.h"

const struct claim claim_c56 = {
  .id = "C-56",
  .source = "first-order perturbation, d sigma_1 = u_1^T dW v_1, whose mean is zero where the update's "
            "vectors are random",
  .sentence =
    "It is the direction of an update that makes logits: with random singular vectors and Muon's own "
    "spectrum they grow far less.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "optimizer = spliced\n"
            "spliced.spectrum = muon\n",
  .arm = {{"Muon's vectors", "spliced.vectors=muon"}, {"random vectors", "spliced.vectors=random"}},
  .equal = EQUAL_RMS,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those with Muon's own vectors",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
