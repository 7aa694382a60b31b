#include "ledger/claim.h"

const struct claim claim_c21b = {
  .id = "C-21b",
  .source = "kexue.fm/archives/11126: \"length activation\" is very poor, which it does not define",
  .sentence = "After a short training at four times the context partial QK-Norm has a higher loss there than "
              "no norm.",
  .start = "preset = mla_muon\n"
           "model.context = 32\n"
           "train.steps = 600\n"
           "train.lr = 0.01\n"
           "train.weight_decay = 0.1\n",
  .regime = "preset = mla_muon\n"
            "model.context = 128\n"
            "train.batch = 2\n"
            "train.steps = 50\n"
            "train.warmup = 0\n"
            "train.val_every = 25\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"none", NULL},
          {"partial QK-Norm", "stabilizers=qk_norm_partial", .start = "stabilizers=qk_norm_partial"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.01,
  .refute = "a loss that is not higher by 0.01 nat",
  .hours = 0.1,
  .revised =
    "it needed scale, the term being undefined; \"length activation\" is taken for what 50 steps at "
    "four times the context make of it, as in this folder's table, each arm at its own best rate there. "
    "Contexts of thousands of tokens it says nothing of",
  .explored =
    "1 to 3 of this folder's table, on a text, at one rate and a context of 48: six runs with a norm "
    "were worse than twelve without; none on this source.",
};
