/* svd.h - the singular value decomposition inside a step: the same bits on every processor
   A step cannot use OpenBLAS, whose last digits depend on the processor (linalg.h is for records only). In double, on
   the host, by one-sided Jacobi rotations: small singular values keep their digits. */
#ifndef MAXLOGIT_NUMERICS_SVD_H
#define MAXLOGIT_NUMERICS_SVD_H
#include "base/error.h"
#include "numerics/real.h"

/* w [rows, cols] = u diag(sigma) v^T, all of it: u [rows, n], v [cols, n] with orthonormal columns also where sigma
   is 0, n = min(rows, cols), sigma_1 >= ... >= sigma_n. STATUS_FAIL where an entry is not finite or rotations do not
   end. */
int svd_factors(const real *w, long rows, long cols, long ld, double *u, double *sigma, double *v,
                struct error *);
/* out [rows, cols] = u diag(sigma) v^T, summed in double from the first pair on */
void svd_product(const double *u, const double *sigma, const double *v, long rows, long cols, real *out,
                 long ldo);
/* Polar factor U V^T of w: the truth for Newton-Schulz. out may be w. Directions of singular value zero are completed
   to an isometry; a non-finite entry gives NaN everywhere. */
int polar_factor(const real *w, long rows, long cols, long ld, real *out, long ldo, struct error *);
/* x [count, n], count <= n vectors one after another, of numbers that are finite: made orthonormal from the first on
   (QR); one that depends on those before it becomes a direction that none of them has. */
void orthonormal_vectors(double *x, long count, long n);
#endif
