#include "ledger/claim.h"

const struct claim claim_c21c = {
  .id = "C-21c",
  .source = "kexue.fm/archives/11126: \"length activation\" is very poor, which it does not define",
  .sentence = "Read at four times its context without further training, partial QK-Norm has a higher loss "
              "than no norm.",
  .start = "preset = mla_muon\n"
           "model.context = 32\n"
           "train.steps = 600\n"
           "train.lr = 0.01\n"
           "train.weight_decay = 0.1\n",
  .regime = "preset = mla_muon\n"
            "model.context = 128\n"
            "train.batch = 2\n"
            "train.steps = 1\n"
            "train.warmup = 0\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"none", NULL},
          {"partial QK-Norm", "stabilizers=qk_norm_partial", .start = "stabilizers=qk_norm_partial"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:0-0:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.05,
  .refute = "a loss that is not higher by 0.05 nat",
  .hours = 0.005,
  .explored =
    "1 to 3 of this folder's table, on a text, at one rate and a context of 48: no order of the two "
    "was seen that outlasted a change of rounding; none on this source.",
};
