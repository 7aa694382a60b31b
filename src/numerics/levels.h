/* levels.h - which calls of a program may run at the same time: known from the memory that they read and write */
#ifndef MAXLOGIT_NUMERICS_LEVELS_H
#define MAXLOGIT_NUMERICS_LEVELS_H
#include "numerics/tensor.h"

/* One tensor of a call. by_rows: each row for that row of the results (fusion.h). */
struct access {
  const struct tensor *tensor;
  int writes, by_rows;
};

/* What a call touches; a barrier waits for all before it, and all after wait for it. */
struct footprint {
  const struct access *access;
  int count, barrier;
};

/* May they share memory, and does one of them write? Before memory is placed, what has one owner may. */
int accesses_meet(const struct access *, const struct access *);
int footprints_meet(const struct footprint *, const struct footprint *);

/* level[i] of every call: calls of one level do not depend on each other; whatever a call depends on lies in an earlier
   one. Returns the number of levels. */
int levels_find(const struct footprint *, int calls, int *level);
#endif
