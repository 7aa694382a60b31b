/* grad_reduce.h - gradients, losses and maxima of micro-batches are reduced in a fixed balanced tree
   Micro-batches are taken in the order of the batch. While their number is even it is halved; the odd rest is added
   with a binary counter. The share of a rank is then a subtree, if the number of ranks is a power of two, so a batch
   has the same bits on any number of ranks. The gradients (sums) and the numbers of the report are reduced. */
#ifndef MAXLOGIT_RUN_GRAD_REDUCE_H
#define MAXLOGIT_RUN_GRAD_REDUCE_H
#include "model/pass.h"

enum { REDUCE_LEVELS = 24 }; /* 2^20 micro-batches, and one more for the odd rest */
/* The programs of one kind of pass. CLEAR: set the sums to zero between two micro-batches. RANKS: reduce over the
   ranks. KEEP + level: store a partial sum of this level. JOIN + level: add the stored partial sum of this level. */
enum grad_reduce_part {
  REDUCE_CLEAR,
  REDUCE_RANKS,
  REDUCE_KEEP,
  REDUCE_JOIN = REDUCE_KEEP + REDUCE_LEVELS,
  REDUCE_PARTS = REDUCE_JOIN + REDUCE_LEVELS
};

struct grad_reduce;
/* Record the programs. `micro_batches`: those of this rank. Call it after every report_add. */
struct grad_reduce *grad_reduce_new(struct model *, enum passes, long micro_batches);
void grad_reduce_free(struct grad_reduce *);
/* The program of a part; NULL if that part is not needed. */
struct program *grad_reduce_program(const struct grad_reduce *, int grad_reduce_part);
/* When ranks are reduced. LAST: each rank has neighboring micro-batches, and ranks are reduced after the last of
   them. FIRST: the i-th micro-batches of all ranks are neighbors, and ranks are reduced after each; then only one
   gradient exists at a time. */
enum grad_reduce_ranks { REDUCE_ONE_RANK, REDUCE_RANKS_LAST, REDUCE_RANKS_FIRST };
/* Replay the reductions that micro-batch i completes. */
void grad_reduce_add(long micro_batches, enum grad_reduce_ranks, long i,
                     void (*replay)(void *context, int grad_reduce_part), void *context);
#endif
