#include "ledger/claim.h"

const struct claim claim_c31 = {
  .id = "C-31",
  .source = "arXiv 2511.21377",
  .sentence =
    "QuacK, learning rates that shrink as the other factor grows, ends with a lower loss than QK-Clip.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"QK-Clip 10", "preset=muonclip qk_clip.tau=10"}, {"QuacK", "preset=muon_quack"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .revised = "the price of a clip was measured at a rate three times above the best: each arm is tuned, and "
             "tau is 10, a third of what the logits reach there, for 30 would never act",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
