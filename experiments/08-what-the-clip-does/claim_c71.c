#include "ledger/claim.h"

const struct claim claim_c71 = {
  .id = "C-71",
  .source = "none: a question of this project",
  .sentence =
    "Of the threshold there is a knee: far below what the logits reach, at a thirtieth, the clip costs loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"tau 1", "preset=muonclip qk_clip.tau=1"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.02,
  .refute = "a loss that is not higher by 0.02 nat",
  .hours = 0.15,
  .explored = "1: a run without a clip at the rate 0.01, whose logits reached 30.",
};
