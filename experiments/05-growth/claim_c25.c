#include "ledger/claim.h"

const struct claim claim_c25 = {
  .id = "C-25",
  .source = "kexue.fm/archives/11126",
  .sentence = "The explosion is a growth of the spectral norms: both grow by the same power of the step.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.03\n"
            "train.weight_decay = 0\n",
  .arm = {{"norm of w_q^T w_k", "preset=muon", "head_qk/spectral_norm@l1h*:100-600:slope"},
          {"max logit", "preset=muon", "probe/max_logit@l1h*:100-600:slope"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_DIFFERENCE,
  .prediction = PREDICT_SAME,
  .matters = 0.5,
  .refute = "exponents that differ by a half",
  .explored = "1 and 2, of Adam and Muon without a cure at three rates, with and without decay, to find "
              "where logits grow.",
};
