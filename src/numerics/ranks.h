/* ranks.h - operations between the ranks of a run, recorded in its programs like any other
   All ranks of a group record the same calls of these and make them in the order of recording, never concurrently
   with other calls. A device that has no ranks on an axis records nothing. */
#ifndef MAXLOGIT_NUMERICS_RANKS_H
#define MAXLOGIT_NUMERICS_RANKS_H
#include "comm/comm.h"
#include "numerics/program.h"

/* Set the group of an axis of the device's runs. Call it before programs are recorded. */
void device_set_ranks(struct device *, enum rank_axis, const struct comm *);
/* Number of ranks of the axis, and the index of this rank. */
int device_ranks(const struct device *, enum rank_axis);
int device_rank(const struct device *, enum rank_axis);

/* Record: y [rows, cols], without gaps, becomes the sum, or the largest, over the ranks of the axis. */
void op_all_reduce_sum(struct program *, struct tensor *y, enum rank_axis);
void op_all_reduce_max(struct program *, struct tensor *y, enum rank_axis);
/* x of the previous rank; a temporary. With one rank x itself. */
struct tensor *op_ring_shift(struct program *, struct tensor *x, enum rank_axis);
#endif
