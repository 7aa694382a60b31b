#include "ledger/claim.h"

const struct claim claim_c50 = {
  .id = "C-50",
  .source = "MagiAttention, docs/source/blog/muon_qk_clip.md",
  .sentence = "Returning the max logits costs an attention kernel 1 to 3.5 %.",
  .scale = "a timing of one kernel on large GPUs; `maxlogit bench` times this program's own recordings",
};
