#include "ledger/claim.h"

const struct claim claim_c16b = {
  .id = "C-16b",
  .source = "Kimi K2, arXiv 2507.20534, section 2.1",
  .sentence = "Alpha may be chosen freely: the loss does not depend on it.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "preset = muonclip\n"
            "qk_clip.tau = 10\n",
  .arm = {{"alpha 0.5", "qk_clip.alpha=0.5"},
          {"alpha 0.9", "qk_clip.alpha=0.9"},
          {"alpha 0.1", "qk_clip.alpha=0.1"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_SAME,
  .matters = 0.03,
  .refute = "losses that differ by 0.03 nat",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
