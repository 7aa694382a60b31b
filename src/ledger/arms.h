/* arms.h - the configuration of an arm's runs, and the first phases that they start from
   An arm of a claim with `start` goes on from other runs, one for each seed, which lie in a folder of their own beside
   the arm's (train.init_from finds them there by their seeds). They are run before what starts from them is planned:
   its id depends on their weights. */
#ifndef MAXLOGIT_LEDGER_ARMS_H
#define MAXLOGIT_LEDGER_ARMS_H
#include "ledger/ledger.h"

/* What every run of the ledger records, so that claims can share it: a run's id does not tell what was recorded. Its
   first line says where the runs lie. */
extern const char ledger_records[];
/* Of arm a, at a rate of its own where it is tuned ("": at its regime's). */
int arm_config(const struct ledger *, const struct claim *, int a, const char *rate, struct config *,
               struct error *);
int arm_set_seeds(struct config *, int first, int seeds, struct error *);

/* Run the first phases of these seeds, of all claims that are not settled; `tuned`: of those alone whose arms are
   tuned, which are marked (entry.lacks_start) where that fails. *failed is set where some run could not be done. */
int starts_run(struct ledger *, int first, int seeds, int tuned, int *failed, struct error *);
/* Are those of arm a over? Without a first phase they are. */
int starts_are_done(const struct ledger *, const struct claim *, int a, int first, int seeds, int *done,
                    struct error *);
#endif
