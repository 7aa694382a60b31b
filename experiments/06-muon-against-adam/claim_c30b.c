#include "ledger/claim.h"

const struct claim claim_c30b = {
  .id = "C-30b",
  .source = "kexue.fm/archives/11126; Moonlight, arXiv 2502.16982, table 6",
  .sentence = "What Muon has pre-trained is fine-tuned better by Muon than by Adam.",
  .start = "model.context = 32\n"
           "train.steps = 600\n"
           "train.weight_decay = 0.1\n",
  .regime = "model.context = 32\n"
            "train.steps = 150\n"
            "train.warmup = 10\n"
            "train.val_every = 25\n"
            "train.weight_decay = 0.1\n"
            "markov.lag = 6\n",
  .arm = {{"Muon", "preset=muon train.lr=0.01", .start = "preset=muon train.lr=0.01"},
          {"Adam", "preset=adam train.lr=0.003", .start = "preset=muon train.lr=0.01"}},
  .equal = EQUAL_TUNED,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.01,
  .refute = "a loss of Adam's fine-tuning that is not higher by 0.01 nat",
  .hours = 0.06,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
