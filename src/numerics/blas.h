/* blas.h - OpenBLAS and LAPACK in single-precision runs: their names and versions, and a decomposition for records
   only */
#ifndef MAXLOGIT_NUMERICS_BLAS_H
#define MAXLOGIT_NUMERICS_BLAS_H
#include "base/error.h"

/* OpenBLAS uses one thread from now on. */
void blas_pin(void);
/* For /code and doctor: library and version; core type. */
const char *device_blas_config(void);
const char *device_blas_core(void);

/* Room for decompositions of matrices up to longer x shorter, and the result of the last one. */
struct decomposition {
  double *sigma, *left,
    *right; /* n singular values; with vectors the right ones [n, cols], the left ones [rows, n] */
  double *work;
  long work_size;
  int *integers;
};
struct decomposition *decomposition_new(long longer, long shorter);
void decomposition_free(struct decomposition *);
/* Decompose w [rows, cols] in double, without gaps; w is destroyed. n = min(rows, cols). */
int decompose(struct decomposition *, double *w, long rows, long cols, int vectors, struct error *);
#endif
