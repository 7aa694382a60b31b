#include "ledger/claim.h"

const struct claim claim_c42 = {
  .id = "C-42",
  .source = "arXiv 2309.14322",
  .sentence = "The growth is not the softmax's doing: pointwise attention shows it too.",
  .scale = "attention without a softmax is not in this program; nothing is run",
};
