/* tuned_rates.h - best rates of tuned arms that were chosen before
   They are kept in experiments/rates.def, which `maxlogit claims --rates` writes, each under the hash of what its claim
   registers. Chosen on seeds of their own (tuning.h), they are known before a verdict's runs, and choosing them again
   is nearly half of a ledger's work. A claim that was changed since, other settings and other numerics are tuned. */
#ifndef MAXLOGIT_LEDGER_TUNED_RATES_H
#define MAXLOGIT_LEDGER_TUNED_RATES_H
#include "ledger/ledger.h"

/* Fill in those of an entry's arms. 0: not all of them are known, and nothing is filled in. */
int tuned_rates_load(const struct ledger *, struct entry *);
/* Say which entries have others than those that are kept. */
void tuned_rates_compare(const struct ledger *);
/* On standard output, as they are kept. */
void tuned_rates_print(const struct ledger *);
#endif
