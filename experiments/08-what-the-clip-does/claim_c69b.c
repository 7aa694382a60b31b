#include "ledger/claim.h"

const struct claim claim_c69b = {
  .id = "C-69b",
  .source = "kexue.fm/archives/11126",
  .sentence = "Clipping w_o by the same rule costs no loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muonclip\n"
            "qk_clip.tau = 10\n",
  .arm = {{"QK-Clip", NULL},
          {"QK-Clip and w_o", "stabilizers=qk_clip+max_output_clip max_output_clip.tau=5"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.02,
  .refute = "a loss that is higher by 0.02 nat",
  .hours = 0.15,
  .explored = "1: a run with tau 30, whose largest output went from 4.5 at step 100 to 11 at step 500.",
};
