#include "ledger/claim.h"

const struct claim claim_c38 = {
  .id = "C-38",
  .source = "Moonlight, arXiv 2502.16982",
  .sentence = "Ten steps of Newton-Schulz are no better than five.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n"
            "preset = muon\n",
  .arm = {{"5 steps", NULL}, {"10 steps", "muon.ns_steps=10"}},
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
