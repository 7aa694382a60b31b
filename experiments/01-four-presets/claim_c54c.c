#include "ledger/claim.h"

const struct claim claim_c54c = {
  .id = "C-54c",
  .source = "kexue.fm/archives/11126",
  .sentence = "With weight decay on gains as well as on matrices, QK-Clip still holds the logits under Adam.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n"
            "train.decay_gains = 1\n",
  .arm = {{"Adam", "preset=adam"}, {"AdamClip", "preset=adamclip qk_clip.tau=10"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.25,
  .refute = "max logits above four fifths of those without the clip",
  .control = {{"clips", 1, 0}},
  .hours = 0.05,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
