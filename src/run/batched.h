/* batched.h - runs of one structure that go together: what is done for one is done for all
   On a device that computes the runs of a launch itself a program is replayed once for all. One run alone is a
   lockstep, too: a step has one form. */
#ifndef MAXLOGIT_RUN_BATCHED_H
#define MAXLOGIT_RUN_BATCHED_H
#include "base/thread.h"
#include "run/state.h"

struct batched {
  struct trainer **run;     /* [count], in the order of their slabs */
  struct program **program; /* [count], to work with */
  int count;
  struct pool *pool; /* the host's work for a run is a piece of it; NULL: for one run after another */
};
#define ALONE(t) (&(struct batched){(struct trainer *[]){t}, (struct program *[1]){NULL}, 1, NULL})

/* Which of the runs; NULL: all. */
typedef int batched_choice(const struct trainer *);

/* A program of all. Those that are not chosen, where only some have something to do, compute what nobody reads. */
void batched_replay(const struct batched *, enum part);
/* The host's work for each run, at the same time where there is a pool. */
typedef void batched_work(struct trainer *, const void *context);
void batched_each(const struct batched *, batched_choice *, batched_work *, const void *context);
/* Draw the batches: of the run's own seed and step, or, for validation and probe, number `index` of all runs. */
void batched_draw(const struct batched *, batched_choice *, enum data_split, uint64_t index);
/* Micro-batch i of this rank's through PART_STEP or PART_LOOK. */
void batched_run_micro(const struct batched *, batched_choice *, enum part, long i);
/* It has been seen: with the last one all is joined, that of the other ranks, too. */
void batched_reduce(const struct batched *, enum part, long i);
/* All of them. */
void batched_run_pass(const struct batched *, batched_choice *, enum part);
#endif
