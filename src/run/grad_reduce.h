/* grad_reduce.h - what the micro-batches of a pass leave is joined by one fixed balanced tree
   The leaves lie in the order of the batch; as long as a number of them is even it is halved, the odd rest is a
   binary counter: so the part of a rank, of a power of two of them, is a subtree, and a batch has the same bits on
   any number of ranks. Joined are gradients (sums) and what passes add up in the report. */
#ifndef MAXLOGIT_RUN_GRAD_REDUCE_H
#define MAXLOGIT_RUN_GRAD_REDUCE_H
#include "model/model.h"

enum { REDUCE_LEVELS = 24 }; /* 2^20 micro-batches, and one more for the odd rest */
/* For each kind of passes: between two leaves all is empty again; a level's partial sum is put aside, or joined with
   what stands there; and all of this rank's with the others'. */
enum grad_reduce_part {
  REDUCE_CLEAR,
  REDUCE_RANKS,
  REDUCE_KEEP,
  REDUCE_JOIN = REDUCE_KEEP + REDUCE_LEVELS,
  REDUCE_PARTS = REDUCE_JOIN + REDUCE_LEVELS
};

struct grad_reduce;
/* `leaves`: micro-batches of this rank. After all report_add. */
struct grad_reduce *grad_reduce_new(struct model *, enum passes, long micro_batches);
void grad_reduce_free(struct grad_reduce *);
/* NULL: there is none. */
struct program *grad_reduce_program(const struct grad_reduce *, int grad_reduce_part);
/* What ranks have is joined when each has seen all its leaves, which are neighbours; or leaf by leaf, of which the i-th
   of all ranks are neighbours: no more than one gradient is then there at a time. */
enum grad_reduce_ranks { REDUCE_ONE_RANK, REDUCE_RANKS_LAST, REDUCE_RANKS_FIRST };
/* Leaf i has been seen: what to do, by replaying parts. */
void grad_reduce_add(long micro_batches, enum grad_reduce_ranks, long i,
                     void (*replay)(void *context, int grad_reduce_part), void *context);
#endif
