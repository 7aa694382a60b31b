#include "ledger/claim.h"

const struct claim claim_c69 = {
  .id = "C-69",
  .source = "kexue.fm/archives/11126",
  .sentence = "MaxOutput explosion: with queries and keys clipped the largest attention output grows.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n"
            "preset = muonclip\n"
            "qk_clip.tau = 10\n"
            "stabilizers = qk_clip+max_output_clip\n"
            "max_output_clip.tau = 1e30\n",
  .arm = {{"steps 50 to 150", NULL, "max_output:50-150:max"}, {"last 5 %", NULL, "max_output:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "max_output:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_MORE,
  .matters = 1.5,
  .refute = "a largest output at the end below 1.5 times that of steps 50 to 150",
  .hours = 0.015,
  .explored = "1: a run with tau 30, whose largest output went from 4.5 at step 100 to 11 at step 500.",
};
