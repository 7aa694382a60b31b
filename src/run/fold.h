/* fold.h - what the micro-batches of a pass leave is joined by one fixed balanced tree
   The leaves lie in the order of the batch; as long as a number of them is even it is halved, the odd rest is a
   binary counter: so the part of a rank, of a power of two of them, is a subtree, and a batch has the same bits on
   any number of ranks. Joined are gradients (sums) and what passes add up in the report. */
#ifndef MAXLOGIT_RUN_FOLD_H
#define MAXLOGIT_RUN_FOLD_H
#include "model/model.h"

enum { FOLD_LEVELS = 24 }; /* 2^20 micro-batches, and one more for the odd rest */
/* For each kind of passes: between two leaves all is empty again; a level's partial sum is put aside, or joined with
   what stands there; and all of this rank's with the others'. */
enum fold_part {
  FOLD_FRESH,
  FOLD_ACROSS,
  FOLD_KEEP,
  FOLD_JOIN = FOLD_KEEP + FOLD_LEVELS,
  FOLD_PARTS = FOLD_JOIN + FOLD_LEVELS
};

struct fold;
/* `leaves`: micro-batches of this rank. After all report_add. */
struct fold *fold_new(struct model *, enum passes, long leaves);
void fold_free(struct fold *);
/* NULL: there is none. */
struct program *fold_program(const struct fold *, int fold_part);
/* What ranks have is joined when each has seen all its leaves, which are neighbours; or leaf by leaf, of which the i-th
   of all ranks are neighbours: no more than one gradient is then there at a time. */
enum fold_ranks { FOLD_ALONE, FOLD_RANKS_LAST, FOLD_RANKS_FIRST };
/* Leaf i has been seen: what to do, by replaying parts. */
void fold_leaf(long leaves, enum fold_ranks, long i, void (*replay)(void *context, int fold_part),
               void *context);
#endif
