#include "ledger/claim.h"

const struct claim claim_c20 = {
  .id = "C-20",
  .source = "arXiv 2606.16310, against kexue.fm/archives/11126 and Kimi K2, arXiv 2507.20534",
  .sentence =
    "QK-Norm, called impossible for latent attention that decodes from its latent cache, is decoded "
    "there exactly, with one 1/rms a head and token beside the latents.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 200\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "record.observe = default+decode\n"
            "stabilizers = qk_norm\n",
  .arm = {{"QK-Norm, absorbed", NULL}},
  .equal = EQUAL_RATE,
  .metric = "decode/roundings:last",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 15.3,
  .identity = 1,
  .refute =
    "a token's loss that is off by more than sums of 32 terms are, 4 + 2 sqrt(32) roundings of every weight",
  .revised =
    "it needed scale, and said what the sources say; its opposite is an identity, which every run's end can "
    "be held against",
  .explored = "none: it is an identity.",
};
