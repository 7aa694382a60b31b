/* tuned_rates.h - stored best rates of tuned arms
   They are stored in experiments/rates.def, which `maxlogit claims --rates` writes, each under the registry hash of its
   claim. Rates are chosen on separate seeds (tuning.h) and do not depend on a verdict's runs, and tuning is nearly half
   of a ledger's work. Claims that were changed since, other settings and other numerics are tuned again. */
#ifndef MAXLOGIT_LEDGER_TUNED_RATES_H
#define MAXLOGIT_LEDGER_TUNED_RATES_H
#include "ledger/ledger.h"

/* Fill in the rates of an entry's arms. Returns 0, and fills in nothing, unless all of them are stored. */
int tuned_rates_load(const struct ledger *, struct entry *);
/* Print a message for each entry with rates other than the stored ones. */
void tuned_rates_compare(const struct ledger *);
/* Print the rates on standard output, in the format of rates.def. */
void tuned_rates_print(const struct ledger *);
#endif
