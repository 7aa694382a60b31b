/* registry_hash.h - a hash of the parts of a claim that are fixed before its data
   These are the rule, its seeds, the regime, arms, measure, prediction and margin, but not sentences and sources. */
#ifndef MAXLOGIT_LEDGER_REGISTRY_HASH_H
#define MAXLOGIT_LEDGER_REGISTRY_HASH_H
#include "ledger/claim.h"

void registry_hash(const struct claim *, char out[16]); /* 12 hex digits */
#endif
