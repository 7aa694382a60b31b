#include "ledger/claim.h"

const struct claim claim_c21 = {
  .id = "C-21",
  .source = "kexue.fm/archives/11126",
  .sentence = "Partial QK-Norm holds the logits of latent attention down.",
  .regime = "preset = mla_muon\n"
            "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"none", NULL}, {"partial QK-Norm", "stabilizers=qk_norm_partial"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
