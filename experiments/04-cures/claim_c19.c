#include "ledger/claim.h"

const struct claim claim_c19 = {
  .id = "C-19",
  .source = "kexue.fm/archives/11126",
  .sentence = "QK-Norm suppresses the explosion.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"QK-Norm", "preset=muon stabilizers=qk_norm"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
