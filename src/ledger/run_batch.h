/* run_batch.h - runs of many configurations, computed as one sweep */
#ifndef MAXLOGIT_LEDGER_RUN_BATCH_H
#define MAXLOGIT_LEDGER_RUN_BATCH_H
#include "run/sweep.h"

struct run_batch {
  struct sweep sweep;
  struct config **config; /* [configs], which must outlive the sweep */
  size_t configs;
};
/* Transfer ownership of the configuration to the batch. */
void run_batch_own(struct run_batch *, struct config *);
/* Add the points of a sweep to the batch. If *folder is NULL, it becomes the folder of the runs. */
void run_batch_join(struct run_batch *, struct sweep *, char **folder);
void run_batch_free(struct run_batch *);
/* Plan the batch and compute it. If another process computes some of its runs, wait and plan anew with `again`. The
   caller frees the last batch. */
int run_batch_run(struct run_batch *,
                  int (*plan)(void *context, struct run_batch *, int again, struct error *), void *context,
                  struct error *);
#endif
