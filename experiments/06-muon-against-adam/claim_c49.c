#include "ledger/claim.h"

const struct claim claim_c49 = {
  .id = "C-49",
  .source = "huggingface.co, a fine-tuning of Qwen3-4B",
  .sentence = "Fine-tuning with MuonClip is slower than with Muon and AdamW.",
  .scale = "a fine-tuning of a model of four billion parameters, by a report that is weak evidence itself",
};
