#include "ledger/claim.h"

const struct claim claim_c53 = {
  .id = "C-53",
  .source = "arXiv 2408.15664",
  .sentence = "Balancing by a bias alone keeps the experts' loads even.",
  .scale = "there is no mixture of experts in these runs",
};
