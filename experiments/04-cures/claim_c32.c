#include "ledger/claim.h"

const struct claim claim_c32 = {
  .id = "C-32",
  .source = "arXiv 2511.21377",
  .sentence = "What must be held is the change of a logit in a step, not the logit.",
  .scale = "the source's evidence is a model of a billion parameters that trains with logits of 1e4; the "
           "change of single logits from step to step is not recorded here",
};
