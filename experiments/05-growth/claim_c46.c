#include "ledger/claim.h"

const struct claim claim_c46 = {
  .id = "C-46",
  .source = "kexue.fm/archives/11371",
  .sentence = "Attention of small models is diffuse, so that a clip touches few pairs.",
  .scale = "the source's numbers are of 4096 tokens; with 32 a row has nothing to be diffuse over. How much "
           "probability the first k keys take is not recorded",
};
