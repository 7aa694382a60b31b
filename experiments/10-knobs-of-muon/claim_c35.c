#include "ledger/claim.h"

const struct claim claim_c35 = {
  .id = "C-35",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "An update's RMS of 0.2 is better than one of 0.05.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n"
            "preset = muon\n",
  .arm = {{"RMS 0.05", "muon.rms=0.05"}, {"RMS 0.2", "muon.rms=0.2"}, {"RMS 0.4", "muon.rms=0.4"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.02,
  .refute = "a loss that is not lower by 0.02 nat",
  .revised = "at one rate a larger RMS is a larger rate: each arm is tuned, and what is left is the balance "
             "with decay and with what Adam trains",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
