#include "ledger/claim.h"

const struct claim claim_c38b = {
  .id = "C-38b",
  .source = "kexue.fm/archives/10922",
  .sentence = "How exact the orthogonalisation is does not show in a small model's loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n"
            "preset = muon\n",
  .arm = {{"Keller's coefficients", NULL},
          {"nearly exact: Polar Express, 8 steps", "muon.coefficients=polar_express muon.ns_steps=8"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_SAME,
  .matters = 0.03,
  .refute = "losses that differ by 0.03 nat",
  .revised = "at one learning rate, three times above the best, a comparison of optimisers is one of rates: "
             "each arm is tuned",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
