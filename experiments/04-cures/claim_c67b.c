#include "ledger/claim.h"

const struct claim claim_c67b = {
  .id = "C-67b",
  .source = "arXiv 2511.21377",
  .sentence =
    "At an equal change of the logits in a step, which QuacK holds, larger logits end with no higher loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.1\n"
            "train.weight_decay = 0.1\n"
            "preset = muon_qk_slow\n"
            "qk_clip.tau = 10\n",
  .arm = {{"QuacK, clipped at 10", "stabilizers=quack+qk_clip"},
          {"QuacK", "stabilizers=quack"},
          {"max logit, clipped", "stabilizers=quack+qk_clip", "probe/max_logit:last5%:max"},
          {"max logit, not clipped", "stabilizers=quack", "probe/max_logit:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_NOT_MORE,
  .matters = 0.05,
  .refute = "a loss that is higher by 0.05 nat",
  .hours = 0.03,
  .explored = "1 and 2 at this rate: 2.26 and 2.27 nat clipped, 2.26 and 2.25 not, max logits of 17 and 500.",
};
