#include "ledger/claim.h"

const struct claim claim_c67 = {
  .id = "C-67",
  .source = "arXiv 2511.21377",
  .sentence =
    "At an equal size of the logits, which a clip holds, larger changes in a step end with a higher loss.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.1\n"
            "train.weight_decay = 0.1\n"
            "qk_clip.tau = 10\n",
  .arm = {{"a tenth of the rate on q and k", "preset=muon_qk_slow stabilizers=qk_clip"},
          {"the full rate", "preset=muonclip"},
          {"max logit, a tenth of the rate", "preset=muon_qk_slow stabilizers=qk_clip",
           "probe/max_logit:last5%:max"},
          {"max logit, the full rate", "preset=muonclip", "probe/max_logit:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "val_loss:last3:mean",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_MORE,
  .matters = 0.05,
  .refute = "a loss that is not higher by 0.05 nat",
  .hours = 0.03,
  .explored = "1 and 2 at this rate: 2.09 and 2.27 nat, max logits of 10 to 13 and 20 at the end.",
};
