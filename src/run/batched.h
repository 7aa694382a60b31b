/* batched.h - runs of one structure that are stepped together
   A device that computes all runs of a batch itself replays a program once for all of them. A single run is a batch of
   one, so a step has one form. */
#ifndef MAXLOGIT_RUN_BATCHED_H
#define MAXLOGIT_RUN_BATCHED_H
#include "base/thread.h"
#include "run/state.h"

struct batched {
  struct trainer **run;     /* [count], in the order of their memory on the device */
  struct program **program; /* [count], scratch */
  int count;
  struct pool *pool; /* threads for the host's work, one run each; NULL: one run after another */
};
#define ALONE(t) (&(struct batched){(struct trainer *[]){t}, (struct program *[1]){NULL}, 1, NULL})

/* Selects runs; a NULL choice means all. */
typedef int batched_choice(const struct trainer *);

/* Replay a part's program for all runs. Runs that are not chosen compute values that are never read. */
void batched_replay(const struct batched *, enum part);
/* The host's work for each run, in parallel if there is a pool. */
typedef void batched_work(struct trainer *, const void *context);
void batched_each(const struct batched *, batched_choice *, batched_work *, const void *context);
/* Draw the batches. Training batches depend on the run's seed and step, validation and probe batches on `index`. */
void batched_draw(const struct batched *, batched_choice *, enum data_split, uint64_t index);
/* Run micro-batch i of this rank through PART_STEP or PART_LOOK. */
void batched_run_micro(const struct batched *, batched_choice *, enum part, long i);
/* Reduce after micro-batch i; after the last one also over the ranks. */
void batched_reduce(const struct batched *, enum part, long i);
/* All micro-batches, each followed by its reduction. */
void batched_run_pass(const struct batched *, batched_choice *, enum part);
#endif
