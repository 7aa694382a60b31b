#include "ledger/claim.h"

const struct claim claim_c15 = {
  .id = "C-15",
  .source = "kexue.fm/archives/11126",
  .sentence = "With QK-Clip the max logit of the next batch is certainly at most tau.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"QK-Clip 30", "preset=muonclip qk_clip.tau=30"}},
  .equal = EQUAL_RATE,
  .metric = "attn/max_logit:last50%:max",
  .contrast = CONTRAST_RATIO,
  .level = 30,
  .prediction = PREDICT_NOT_MORE,
  .matters = 1.02,
  .refute = "a maximum over the second half of the run above tau by 2 %",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
