/* bench_cuda.h - maxlogit bench device=cuda: runs together on a GPU, against that device's own measured limits */
#ifndef MAXLOGIT_BENCH_CUDA_H
#define MAXLOGIT_BENCH_CUDA_H
#include "base/error.h"

/* What every run that is measured is set to, on any device: to train, and nothing beside. Ends with NULL. */
extern const char *const bench_common[];

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
