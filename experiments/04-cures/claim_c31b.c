#include "ledger/claim.h"

const struct claim claim_c31b = {
  .id = "C-31b",
  .source = "arXiv 2511.21377",
  .sentence = "A tenth of the learning rate on w_q and w_k holds the logits.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"}, {"a tenth of the rate on q and k", "preset=muon_qk_slow"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .withdrawn = "the comparison of C-22, of which it says the opposite: counted there",
  .refute = "max logits above half of those at the full rate",
  .explored =
    "1 to 3 of an earlier experiment on another text (its table stands in 01 to 04); none on this source.",
};
