/* waves.h - which calls of a program may run at the same time: known from the memory that they read and write */
#ifndef MAXLOGIT_WAVES_H
#define MAXLOGIT_WAVES_H
#include "numerics/tensor.h"

/* One tensor of a call. */
struct access {
  const struct tensor *tensor;
  int writes;
};

/* What a call touches; a barrier waits for all before it, and all after wait for it. */
struct footprint {
  struct access access[16];
  int count, barrier;
};

/* wave[i] of every call: calls of one wave do not depend on each other; whatever a call depends on lies in an earlier
   one. Returns the number of waves. */
int waves_find(const struct footprint *, int calls, int *wave);
#endif
