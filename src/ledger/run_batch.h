/* run_batch.h - runs of many configurations, computed as one sweep */
#ifndef MAXLOGIT_LEDGER_RUN_BATCH_H
#define MAXLOGIT_LEDGER_RUN_BATCH_H
#include "run/sweep.h"

struct run_batch {
  struct sweep sweep;
  struct config **config; /* [configs], which must outlive it */
  size_t configs;
};
/* The round has the configuration from now on. */
void run_batch_own(struct run_batch *, struct config *);
/* The runs of one of them join the others; *folder, where it is NULL, becomes where they lie. */
void run_batch_join(struct run_batch *, struct sweep *, char **folder);
void run_batch_free(struct run_batch *);
/* Computes what `plan` fills in, and waits for those that another process has in hand; then it plans anew, `again`. The
   round of the last plan is the caller's to free. */
int run_batch_run(struct run_batch *,
                  int (*plan)(void *context, struct run_batch *, int again, struct error *), void *context,
                  struct error *);
#endif
