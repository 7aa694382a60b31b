#include "ledger/claim.h"

const struct claim claim_c21b = {
  .id = "C-21b",
  .source = "kexue.fm/archives/11126",
  .sentence = "Partial QK-Norm is poor at contexts longer than trained (\"length activation\").",
  .scale = "the source does not define the term, and a context of a few dozen tokens is no long one; the "
           "trend on three seeds, loss at four times the context, stands in this folder",
};
