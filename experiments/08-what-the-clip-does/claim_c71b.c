#include "ledger/claim.h"

const struct claim claim_c71b = {
  .id = "C-71b",
  .source = "none: a question of this project",
  .sentence = "Above the knee, at a tenth of what the logits reach, the clip costs no loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"tau 3", "preset=muonclip qk_clip.tau=3"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.02,
  .refute = "a loss that is higher by 0.02 nat",
  .hours = 0.15,
  .explored = "1: a run without a clip at the rate 0.01, whose logits reached 30.",
};
