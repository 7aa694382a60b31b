/* arms.h - the configuration of an arm's runs, and the first phases from which they start
   An arm of a claim with `start` continues other runs, one for each seed. They are in a separate folder, where
   train.init_from finds them by their seeds. They are run before the arm's runs are planned, because the ids of these
   depend on their weights. */
#ifndef MAXLOGIT_LEDGER_ARMS_H
#define MAXLOGIT_LEDGER_ARMS_H
#include "ledger/ledger.h"

/* Settings that every run of the ledger records, so that claims can share runs: a run's id does not depend on them. The
   first line sets the folder of the runs. */
extern const char ledger_records[];
/* The configuration of arm a. `rate`: the learning rate of a tuned arm; "": that of its regime. */
int arm_config(const struct ledger *, const struct claim *, int a, const char *rate, struct config *,
               struct error *);
int arm_set_seeds(struct config *, int first, int seeds, struct error *);

/* Run the first phases of these seeds for all claims that are not settled. With `tuned` only those of tuned arms; if a
   first phase fails, its claim is then marked (entry.lacks_start). *failed is set if some run could not be done. */
int starts_run(struct ledger *, int first, int seeds, int tuned, int *failed, struct error *);
/* Sets *done if the first phases of arm a are over; an arm without a first phase counts as done. */
int starts_are_done(const struct ledger *, const struct claim *, int a, int first, int seeds, int *done,
                    struct error *);
#endif
