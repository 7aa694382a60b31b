#include "ledger/claim.h"

const struct claim claim_c52 = {
  .id = "C-52",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence = "Twice the heads cost 83 % more operations at 128k tokens and gain 0.5 to 1.2 % of loss.",
  .scale = "the gain is measured at billions of parameters; the cost is arithmetic, not an experiment",
};
