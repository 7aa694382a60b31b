#include "ledger/claim.h"

const struct claim claim_c30 = {
  .id = "C-30",
  .source = "kexue.fm/archives/11126; Moonlight, arXiv 2502.16982",
  .sentence = "Fine-tuning with another optimiser than the pre-training's is worse.",
  .scale = "it needs a pre-training that is long enough to be one",
};
