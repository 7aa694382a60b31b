#include "ledger/claim.h"

const struct claim claim_c16 = {
  .id = "C-16",
  .source = "Kimi K2, arXiv 2507.20534, section 2.1",
  .sentence = "Alpha divides the clip between w_q and w_k: more of it on w_q makes w_q the smaller.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "preset = muonclip\n"
            "qk_clip.tau = 10\n",
  .arm = {{"alpha 0.1", "qk_clip.alpha=0.1"},
          {"alpha 0.9", "qk_clip.alpha=0.9"},
          {"alpha 0.5", "qk_clip.alpha=0.5"}},
  .equal = EQUAL_RATE,
  .metric = "head_q/frobenius_norm@l1h*:last:mean",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .identity = 1,
  .refute = "a norm of w_q's rows that is not lower by a fifth",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
