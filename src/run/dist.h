/* dist.h - the ranks of a run: who they are, what each has of the work, that they are alike before the first step */
#ifndef MAXLOGIT_RUN_DIST_H
#define MAXLOGIT_RUN_DIST_H
#include "run/state.h"

/* Of a run that is being built; beside others on one device it has one. */
struct comm *dist_ranks(int beside_others);
/* Threads of a rank where nobody says: its share of the cores that several may run on. */
int dist_threads(const struct trainer *, int threads);
/* Which ranks are along the context: STATUS_USAGE where it cannot be cut so. All ranks call. */
int dist_split(struct trainer *, struct error *);
/* Micro-batches of each rank; STATUS_USAGE where they cannot be divided. */
int dist_divide(struct trainer *, struct error *);
/* STATUS_USAGE, and what of the model or the record wants whole sequences. */
int dist_check_parts(const struct trainer *, struct error *);
/* What is shared out among ranks, a choice of comm.shard; with one rank nothing. */
long dist_shards(const struct trainer *);
/* Do gradients go to the other ranks while the reverse pass goes on? Where a rank has one micro-batch: others add to
   the same gradients later. */
int dist_reduces_early(const struct trainer *);
/* STATUS_USAGE where weights cannot be. Before there is a model. */
int dist_check_shards(const struct trainer *, struct error *);
/* They all have the same program, configuration, data and state to go on from: STATUS_FAIL, and who has not. */
int dist_verify(struct trainer *, struct error *);
/* See trainer_barrier. */
int dist_barrier(struct trainer *, int *stops, struct error *);
#endif
