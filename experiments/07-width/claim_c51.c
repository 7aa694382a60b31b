#include "ledger/claim.h"

const struct claim claim_c51 = {
  .id = "C-51",
  .source = "Kimi K2, arXiv 2507.20534",
  .sentence = "At an equal loss a sparsity of 48 takes 1.15 to 1.69 times fewer operations than 32 to 8.",
  .scale = "a law over models of billions of parameters; C-51b has its sign",
};
