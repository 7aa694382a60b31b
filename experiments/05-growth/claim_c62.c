#include "ledger/claim.h"

/* The paper's tail, exp(-d^2 a^2 / r) with a the logit over its largest possible, |M| d / sqrt(d_h), is that of inputs
   that point anywhere: of such, of length sqrt(d), a logit is normal with a variance of at most |M|^2 r / d_h, so that
   of n pairs none is beyond |M| sqrt(2 ln(n / 0.01)) but for a chance of 1 % (r = d_h; d_h = 16, d = 64). The probe
   batch has 8 x 32 x 33 / 2 pairs for each of 8 heads: 5.48. Without regard to the rank it were sqrt(d / r) = 2 times
   that. Gains of the norm before w_q and w_k, which start at 1, are not in M. */
const struct claim claim_c62 = {
  .id = "C-62",
  .source = "arXiv 2602.18851, PMLR v306",
  .sentence =
    "Logits stay within the rank-aware bound: below the norm of w_q^T w_k times sqrt(2 ln(pairs / 0.01)), "
    "here 5.48.",
  .regime = "model.context = 32\n"
            "train.steps = 600\n"
            "train.lr = 0.01\n"
            "train.weight_decay = 0.1\n",
  .arm = {{"norm of w_q^T w_k", "preset=muon", "head_qk/spectral_norm:last:max"},
          {"max logit", "preset=muon", "probe/max_logit:last5%:max"}},
  .equal = EQUAL_RATE,
  .metric = "probe/max_logit:last5%:max",
  .contrast = CONTRAST_RATIO,
  .prediction = PREDICT_NOT_MORE,
  .matters = 5.48,
  .refute = "max logits beyond 5.48 times the largest norm of a head's form",
  .hours = 0.015,
  .explored = "none: the regime and the margin were set beforehand and not tried.",
};
