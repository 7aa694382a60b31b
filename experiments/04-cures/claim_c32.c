#include "ledger/claim.h"

const struct claim claim_c32 = {
  .id = "C-32",
  .source = "arXiv 2511.21377",
  .sentence =
    "What must be held is the change of a logit in a step, not the logit: at a rate at which Muon fails, "
    "QuacK ends with a lower loss than QK-Clip.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.1\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"QK-Clip 10", "preset=muonclip qk_clip.tau=10"}, {"QuacK", "preset=muon_quack"}},
  .equal = EQUAL_RATE,
  .tuned = "C-31",
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_LESS,
  .matters = 0.01,
  .refute = "a loss that is not lower by 0.01 nat",
  .hours = 0.03,
  .revised =
    "it needed scale, since the change of single logits is not recorded; here each is held by the cure that "
    "is made for it, at ten times Muon's best rate. C-31 has the same two at their best rates",
  .explored =
    "1 and 2, of Muon, both cures, and a tenth of the rate on q and k with and without a clip at this rate: "
    "losses of 2.26 to 2.28 all but the last, 2.09, where the source's entropy is 1.51.",
};
