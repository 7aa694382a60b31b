/* fusion.h - calls that go row by row over the same rows: a piece of rows runs through all of them while it is near,
   and threads meet once for all of them instead of once a call */
#ifndef MAXLOGIT_NUMERICS_FUSION_H
#define MAXLOGIT_NUMERICS_FUSION_H
#include "numerics/device.h"
#include "numerics/levels.h"

/* A call; op OP_COUNT: one that is never part of a fusion. */
struct link {
  enum op op;
  const union op_args *args;
};

/* Is the i-th argument of such calls a tensor of whose rows each belongs to that row of the results? */
int fusion_cuts(enum op, int field);

/* A new order of the calls, none before what it depends on: order[i], the call that comes i-th, and length[i], how many
   from there on are a fusion (1: none). Memory need not be placed; what a fusion touches is in use as long as it runs.
   Those that do not pay on this device (NULL: any) are left as they are. */
void fusions_find(const struct device *, const struct link *, const struct footprint *, int calls, int *order,
                  int *length);

/* Rows that run through a fusion at a time, on this device; 0: its calls are better made one after another. */
long fusion_piece(const struct device *, const struct link *, int count);
/* Bytes of device_scratch that fusion_run takes. */
size_t fusion_scratch(const struct device *, const struct link *, int count);
/* The same bits as its calls one after another. */
void fusion_run(struct device *, const struct link *, int count, long piece);
#endif
