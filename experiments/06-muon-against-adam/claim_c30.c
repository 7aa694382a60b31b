#include "ledger/claim.h"

const struct claim claim_c30 = {
  .id = "C-30",
  .source = "kexue.fm/archives/11126; Moonlight, arXiv 2502.16982, table 6",
  .sentence = "What Adam has pre-trained is fine-tuned better by Adam than by Muon.",
  .start = "model.context = 32\n"
           "train.steps = 600\n"
           "train.weight_decay = 0.1\n",
  .regime = "model.context = 32\n"
            "train.steps = 150\n"
            "train.warmup = 10\n"
            "train.val_every = 25\n"
            "train.weight_decay = 0.1\n"
            "markov.lag = 6\n",
  .arm = {{"Adam", "preset=adam train.lr=0.003", .start = "preset=adam train.lr=0.003"},
          {"Muon", "preset=muon train.lr=0.01", .start = "preset=adam train.lr=0.003"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.01,
  .refute = "a loss of Muon's fine-tuning that is not higher by 0.01 nat",
  .hours = 0.06,
  .revised =
    "it needed scale for want of a second phase; here fine-tuning goes on from each seed's own pre-training, "
    "on symbols that look back by six instead of four. Its sentence is two: C-30b is the other row of the "
    "2 x 2, and a mismatch is what makes both hold",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
