#include "ledger/claim.h"

const struct claim claim_c55 = {
  .id = "C-55",
  .source = "kexue.fm/archives/11126",
  .sentence = "Weights pre-trained by Adam are of low rank, and Muon's updates lead away from them.",
  .scale = "it needs a pre-training that is long enough to be one, and its fine-tuning (C-30)",
};
