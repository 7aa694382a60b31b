#include "ledger/claim.h"

const struct claim claim_c14 = {
  .id = "C-14",
  .source = "kexue.fm/archives/11126",
  .sentence =
    "The rotary key that all heads share must not be clipped: one head's clip would take the others along.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "stabilizers = qk_clip\n"
            "qk_clip.tau = 30\n",
  .arm = {{"rotary key untouched", "qk_clip.mla=exact"}, {"clipped by every head", "qk_clip.mla=kr_head"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit@l1h*:last5%:median",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "a median head of the last layer whose max logit is not lower by a fifth",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
