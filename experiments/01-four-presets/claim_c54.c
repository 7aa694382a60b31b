#include "ledger/claim.h"

const struct claim claim_c54 = {
  .id = "C-54",
  .source = "kexue.fm/archives/11126",
  .sentence = "QK-Clip is not for Muon alone: under Adam it holds the logits as well.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"Adam", "preset=adam"}, {"AdamClip", "preset=adamclip qk_clip.tau=100"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without the clip",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
