/* dist.h - the ranks of one run: their groups, the share of each, and the check that they agree before the first
   step */
#ifndef MAXLOGIT_RUN_DIST_H
#define MAXLOGIT_RUN_DIST_H
#include "run/state.h"

/* The group of a run that is being built. A run that shares its device with other runs has one rank. */
struct comm *dist_ranks(int beside_others);
/* Threads per rank: `threads`, or, if that is 0, an equal share of the cores that several ranks may use. */
int dist_threads(const struct trainer *, int threads);
/* Choose the ranks along the context. Collective. STATUS_USAGE if the context cannot be divided by them. */
int dist_split(struct trainer *, struct error *);
/* Assign micro-batches to ranks; STATUS_USAGE if they cannot be divided. */
int dist_divide(struct trainer *, struct error *);
/* STATUS_USAGE, naming the part of the model or record that needs whole sequences. */
int dist_check_parts(const struct trainer *, struct error *);
/* The choice of comm.shard: which tensors are sharded. With one rank: none. */
long dist_shards(const struct trainer *);
/* Are gradients reduced while the backward pass continues? Only with one micro-batch per rank: further micro-batches
   would add to gradients that were already reduced. */
int dist_reduces_early(const struct trainer *);
/* STATUS_USAGE if weights cannot be sharded. Called before the model exists. */
int dist_check_shards(const struct trainer *, struct error *);
/* All ranks have the same program, configuration, data and start state; otherwise STATUS_FAIL names the rank that
   differs. Collective. */
int dist_verify(struct trainer *, struct error *);
/* See trainer_barrier. */
int dist_barrier(struct trainer *, int *stops, struct error *);
#endif
