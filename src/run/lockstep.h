/* lockstep.h - runs of one structure that go together: what is done for one is done for all
   On a device that computes the runs of a launch itself a program is replayed once for all. One run alone is a
   lockstep, too: a step has one form. */
#ifndef MAXLOGIT_RUN_LOCKSTEP_H
#define MAXLOGIT_RUN_LOCKSTEP_H
#include "base/thread.h"
#include "run/state.h"

struct lockstep {
  struct trainer **run;     /* [count], in the order of their slabs */
  struct program **program; /* [count], to work with */
  int count;
  struct pool *pool; /* the host's work for a run is a piece of it; NULL: for one run after another */
};
#define ALONE(t) (&(struct lockstep){(struct trainer *[]){t}, (struct program *[1]){NULL}, 1, NULL})

/* Which of the runs; NULL: all. */
typedef int lockstep_choice(const struct trainer *);

/* A program of all. Those that are not chosen, where only some have something to do, compute what nobody reads. */
void lockstep_replay(const struct lockstep *, enum part);
/* The host's work for each run, at the same time where there is a pool. */
typedef void lockstep_work(struct trainer *, const void *context);
void lockstep_each(const struct lockstep *, lockstep_choice *, lockstep_work *, const void *context);
/* Draw the batches: of the run's own seed and step, or, for validation and probe, number `index` of all runs. */
void lockstep_draw(const struct lockstep *, lockstep_choice *, enum data_split, uint64_t index);
/* Micro-batch i of this rank's through PART_STEP or PART_LOOK. */
void lockstep_run_part(const struct lockstep *, lockstep_choice *, enum part, long i);
/* It has been seen: with the last one all is joined, that of the other ranks, too. */
void lockstep_fold(const struct lockstep *, enum part, long i);
/* All of them. */
void lockstep_run_pass(const struct lockstep *, lockstep_choice *, enum part);
#endif
