/* company.h - runs of one structure that go together: what is done for one is done for all
   On a device that computes the runs of a launch itself a program is replayed once for all. One run is a company, too:
   a step has one form. */
#ifndef MAXLOGIT_COMPANY_H
#define MAXLOGIT_COMPANY_H
#include "base/thread.h"
#include "run/state.h"

struct company {
  struct trainer **run;     /* [count], in the order of their slabs */
  struct program **program; /* [count], to work with */
  int count;
  struct pool *pool; /* the host's work for a run is a piece of it; NULL: for one run after another */
};
#define ALONE(t) (&(struct company){(struct trainer *[]){t}, (struct program *[1]){NULL}, 1, NULL})

/* Which of the runs; NULL: all. */
typedef int company_choice(const struct trainer *);

/* A program of all. Those that are not chosen, where only some have something to do, compute what nobody reads. */
void company_replay(const struct company *, enum part);
/* The host's work for each run, at the same time where there is a pool. */
typedef void company_work(struct trainer *, const void *context);
void company_each(const struct company *, company_choice *, company_work *, const void *context);
/* Draw the batches: of the run's own seed and step, or, for validation and probe, number `index` of all runs. */
void company_draw(const struct company *, company_choice *, enum data_split, uint64_t index);
/* The batches through PART_STEP or PART_LOOK: one micro-batch, or all. */
void company_run_part(const struct company *, company_choice *, enum part, long micro_batch);
void company_run_pass(const struct company *, company_choice *, enum part);
#endif
