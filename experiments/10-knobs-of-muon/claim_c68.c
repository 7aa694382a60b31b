#include "ledger/claim.h"

const struct claim claim_c68 = {
  .id = "C-68",
  .source = "note by A. Polloreno, 2026",
  .sentence = "Orthogonalising a head's factors apart does not bound their product: its spectral norm grows "
              "with the steps.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0\n"
            "preset = muon\n"
            "muon.per_head = qk\n",
  .arm = {{"per-head Muon", NULL}},
  .equal = EQUAL_RATE,
  .metric = "head_qk/spectral_norm:150-600:slope",
  .contrast = CONTRAST_DIFFERENCE,
  .level = 0,
  .prediction = PREDICT_MORE,
  .matters = 0.25,
  .refute = "an exponent of the growth of |w_q^T w_k| not above a quarter",
  .hours = 0.015,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
