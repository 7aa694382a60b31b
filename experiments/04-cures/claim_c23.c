#include "ledger/claim.h"

const struct claim claim_c23 = {
  .id = "C-23",
  .source = "kexue.fm/archives/11126",
  .sentence = "A higher decay of w_q and w_k does not work.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"ten times the decay on q and k", "preset=muon_qk_decay"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_LESS,
  .matters = 2,
  .refute = "max logits below half of those at the common decay",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
