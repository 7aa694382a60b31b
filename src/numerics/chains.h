/* chains.h - calls that go row by row over the same rows: a piece of rows runs through all of them while it is near,
   and threads meet once for all of them instead of once a call */
#ifndef MAXLOGIT_CHAINS_H
#define MAXLOGIT_CHAINS_H
#include "numerics/device.h"
#include "numerics/waves.h"

/* A call; op OP_COUNT: one that is never part of a chain. */
struct link {
  enum op op;
  const union op_args *args;
};

/* Is the i-th argument of such calls a tensor of whose rows each belongs to that row of the results? */
int chain_cuts(enum op, int field);

/* A new order of the calls, none before what it depends on: order[i], the call that comes i-th, and length[i], how many
   from there on are a chain (1: none). Memory need not be placed; what a chain touches is in use as long as it runs.
   Those that do not pay on this device (NULL: any) are left as they are. */
void chains_find(const struct device *, const struct link *, const struct footprint *, int calls, int *order,
                 int *length);

/* Rows that run through a chain at a time, on this device; 0: its calls are better made one after another. */
long chain_piece(const struct device *, const struct link *, int count);
/* Bytes of device_scratch that chain_run takes. */
size_t chain_scratch(const struct device *, const struct link *, int count);
/* The same bits as its calls one after another. */
void chain_run(struct device *, const struct link *, int count, long piece);
#endif
