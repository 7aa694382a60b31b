#include "ledger/claim.h"

const struct claim claim_c18b = {
  .id = "C-18b",
  .source = "kexue.fm/archives/11126",
  .sentence = "A hard cap leaves the logits before it growing.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"hard cap at 50", "preset=muon stabilizers=hard_cap hard_cap.cap=50"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_LESS,
  .matters = 1.5,
  .refute = "logits before the cap that end at less than two thirds of those without a cap",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
