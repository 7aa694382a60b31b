#include "ledger/claim.h"

const struct claim claim_c48 = {
  .id = "C-48",
  .source = "arXiv 2606.16310",
  .sentence = "QK-normed latent attention ends with a lower loss than QK-Clip.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"QK-Clip 10", "stabilizers=qk_clip qk_clip.tau=10"}, {"QK-Norm", "stabilizers=qk_norm"}},
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
