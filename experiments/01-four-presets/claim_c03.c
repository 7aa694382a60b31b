#include "ledger/claim.h"

const struct claim claim_c03 = {
  .id = "C-03",
  .source = "kexue.fm/archives/11126",
  .sentence = "Adam's max logits explode too, where the rate is high.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"Adam", "preset=adam"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .level = 100,
  .prediction = PREDICT_MORE,
  .matters = 2,
  .refute = "max logits that do not pass 200 nat",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
