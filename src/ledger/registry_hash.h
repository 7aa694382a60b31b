/* registry_hash.h - what is fixed of a claim before its data, as a hash
   The rule, its seeds, the regime, arms, measure, prediction and margin. Sentences and sources are not of it. */
#ifndef MAXLOGIT_LEDGER_REGISTRY_HASH_H
#define MAXLOGIT_LEDGER_REGISTRY_HASH_H
#include "ledger/claim.h"

void registry_hash(const struct claim *, char out[16]); /* 12 hex digits */
#endif
