/* rounds.h - runs of many configurations, computed as one sweep */
#ifndef MAXLOGIT_LEDGER_ROUNDS_H
#define MAXLOGIT_LEDGER_ROUNDS_H
#include "run/sweep.h"

struct round {
  struct sweep sweep;
  struct config **config; /* [configs], which must outlive it */
  size_t configs;
};
/* The round has the configuration from now on. */
void round_keep(struct round *, struct config *);
/* The runs of one of them join the others; *folder, where it is NULL, becomes where they lie. */
void round_join(struct round *, struct sweep *, char **folder);
void round_free(struct round *);
/* Computes what `plan` fills in, and waits for those that another process has in hand; then it plans anew, `again`. The
   round of the last plan is the caller's to free. */
int round_run(struct round *, int (*plan)(void *context, struct round *, int again, struct error *),
              void *context, struct error *);
#endif
