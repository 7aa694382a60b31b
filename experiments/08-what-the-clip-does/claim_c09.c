#include "ledger/claim.h"

const struct claim claim_c09 = {
  .id = "C-09",
  .source = "Kimi K2, arXiv 2507.20534; kexue.fm/archives/11126",
  .sentence = "The clip works for a while and then falls silent by itself.",
  .regime = "model.context = 32\n"
            "train.steps = 1000\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.3\n"
            "preset = muonclip\n"
            "qk_clip.tau = 20\n",
  .arm = {{"steps 100 to 300", NULL, "qk_clip/gamma@l1h*:100-300:over=0.999999"},
          {"last fifth", NULL, "qk_clip/gamma@l1h*:last20%:over=0.999999"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.1,
  .refute =
    "a share of steps without a clip, over the heads of the last layer, that does not rise by a tenth",
  .explored = "none here; the threshold is half of what a prototype reached without a clip.",
};
