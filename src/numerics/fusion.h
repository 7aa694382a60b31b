/* fusion.h - calls over the same rows: a piece of rows runs through all of them while it is in cache, and threads
   synchronize once for all instead of once per call */
#ifndef MAXLOGIT_NUMERICS_FUSION_H
#define MAXLOGIT_NUMERICS_FUSION_H
#include "numerics/device.h"
#include "numerics/levels.h"

/* A call; op OP_COUNT: one that is never part of a fusion. */
struct link {
  enum op op;
  const union op_args *args;
};

/* Is the i-th argument of such calls a tensor whose rows each belong to the same row of the results? */
int fusion_cuts(enum op, int field);

/* Reorder the calls so that each follows its dependencies: order[i] is the i-th call, and length[i] the number of
   calls from there on that form a fusion (1: none). Memory need not be placed yet; tensors of a fusion are in use for
   its whole duration. Fusions that do not pay on this device are left out (NULL: keep all). */
void fusions_find(const struct device *, const struct link *, const struct footprint *, int calls, int *order,
                  int *length);

/* Rows per piece of a fusion on this device; 0: its calls are faster one after another. */
long fusion_piece(const struct device *, const struct link *, int count);
/* Bytes of device_scratch that fusion_run takes. */
size_t fusion_scratch(const struct device *, const struct link *, int count);
/* The same bits as its calls one after another. */
void fusion_run(struct device *, const struct link *, int count, long piece);
#endif
