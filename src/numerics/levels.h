/* levels.h - calls of a program that may run at the same time, derived from the memory that they read and write */
#ifndef MAXLOGIT_NUMERICS_LEVELS_H
#define MAXLOGIT_NUMERICS_LEVELS_H
#include "numerics/tensor.h"

/* One tensor of a call. by_rows: each of its rows belongs to the same row of the results (fusion.h). */
struct access {
  const struct tensor *tensor;
  int writes, by_rows;
};

/* The tensors of a call. A barrier waits for all calls before it, and all calls after it wait for it. */
struct footprint {
  const struct access *access;
  int count, barrier;
};

/* May the tensors share memory, and is one of them written? Before memory is placed, tensors of one owner may share
   it. */
int accesses_meet(const struct access *, const struct access *);
int footprints_meet(const struct footprint *, const struct footprint *);

/* level[i] of every call. Calls of one level do not depend on each other; the dependencies of a call have lower
   levels. Returns the number of levels. */
int levels_find(const struct footprint *, int calls, int *level);
#endif
