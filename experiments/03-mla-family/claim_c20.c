#include "ledger/claim.h"

const struct claim claim_c20 = {
  .id = "C-20",
  .source = "kexue.fm/archives/11126; Kimi K2, arXiv 2507.20534",
  .sentence = "QK-Norm is impossible for latent attention when it decodes from the latent cache.",
  .scale = "what it costs to decode wants a large model on a serving machine; that the absorbed form is "
           "exact to rounding is no matter of statistics: `maxlogit eval RUN.h5 --decode=absorbed` shows it, "
           "and tests/app/decode.sh checks it",
};
