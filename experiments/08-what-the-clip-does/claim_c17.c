#include "ledger/claim.h"

const struct claim claim_c17 = {
  .id = "C-17",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence =
    "The clip leaves the step's own forward and backward pass alone: the first loss is the same number.",
  .regime = "model.context = 32\n"
            "train.steps = 20\n"
            "train.lr = 0.01\n",
  .arm = {{"Muon", "preset=muon"}, {"clipped at step 0", "preset=muonclip qk_clip.tau=0.5"}},
  .equal = EQUAL_RATE,
  .metric = "loss:0-0",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_SAME,
  .matters = 1e-12,
  .identity = 1,
  .refute = "a first loss that differs at all",
  .explored = "none: it is an identity.",
};
