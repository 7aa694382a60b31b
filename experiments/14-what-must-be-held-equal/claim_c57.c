#include "ledger/claim.h"

const struct claim claim_c57 = {
  .id = "C-57",
  .source =
    "first-order perturbation: of updates of one RMS, the fewer directions it has the longer is its first",
  .sentence =
    "Adam's spectrum on Muon's singular vectors, at an equal RMS of the update, makes logits higher than "
    "Muon's flat one.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n"
            "optimizer = spliced\n"
            "spliced.vectors = muon\n",
  .arm = {{"Muon's spectrum", "spliced.spectrum=muon"}, {"Adam's spectrum", "spliced.spectrum=adam"}},
  .equal = EQUAL_RMS,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.25,
  .refute = "max logits below 1.25 times those of Muon's own spectrum",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
