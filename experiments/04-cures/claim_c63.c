#include "ledger/claim.h"

const struct claim claim_c63 = {
  .id = "C-63",
  .source = "arXiv 2606.13276",
  .sentence = "With a Stiefel constraint on queries and keys the logits stay low, without it they grow.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"Muon", "preset=muon"},
          {"Stiefel on q and k", "preset=muon stabilizers=stiefel stiefel.tensors=qk"}},
  .equal = EQUAL_TUNED,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_LESS,
  .matters = 2,
  .refute = "max logits above half of those without the constraint",
  .hours = 0.15,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
