#include "ledger/claim.h"

const struct claim claim_c33 = {
  .id = "C-33",
  .source = "GLM-5, arXiv 2602.15763",
  .sentence = "Muon on every head's block by itself keeps the logits of latent attention, whose projections "
              "are tall, without a clip.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"whole matrices", NULL}, {"per head", "muon.per_head=qkv"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 1.5,
  .refute = "max logits above two thirds of whole-matrix Muon's",
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
