/* real.h - the library is compiled twice: float to run, double (-DMAXLOGIT_DOUBLE) to check gradients */
#ifndef MAXLOGIT_NUMERICS_REAL_H
#define MAXLOGIT_NUMERICS_REAL_H
#ifdef MAXLOGIT_DOUBLE
typedef double real;
#define REAL_NAME "float64"
#define REAL_EPS 2.220446049250313e-16
#define BLAS(name) cblas_d##name     /* BLAS(gemm) */
#define LAPACK(name) LAPACKE_d##name /* LAPACK(gesdd) */
#else
typedef float real;
#define REAL_NAME "float32"
#define REAL_EPS 1.1920928955078125e-07
#define BLAS(name) cblas_s##name
#define LAPACK(name) LAPACKE_s##name
#endif
#endif
