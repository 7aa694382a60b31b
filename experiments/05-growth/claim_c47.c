#include "ledger/claim.h"

const struct claim claim_c47 = {
  .id = "C-47",
  .source = "arXiv 2309.14322; kexue.fm/archives/11126",
  .sentence = "Heads that start with logits a thousand times as large are lost, and the loss with them.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.weight_decay = 0.1\n"
            "train.lr = 0.01\n",
  .arm = {{"Muon", "preset=muon"}, {"all logits x 1000 at the start", "preset=muon train.plant=*:*:31.6"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.1,
  .refute = "a loss that is not higher by 0.1 nat",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
