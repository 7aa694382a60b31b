/* bench_cuda.h - maxlogit bench device=cuda: runs together on a GPU, against that device's own measured limits */
#ifndef MAXLOGIT_BENCH_CUDA_H
#define MAXLOGIT_BENCH_CUDA_H
#include "base/error.h"

struct bench_cuda {
  const char *stack; /* NULL: all */
  double seconds;    /* for each figure */
  int json;
  int most_runs; /* at a time */
  int costs;     /* only attention by itself, and what maxima, recording and stabilisers cost */
};
/* Prints one table, or JSON. */
int bench_cuda(const struct bench_cuda *, struct error *);
#endif
