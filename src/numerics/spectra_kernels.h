/* spectra_kernels.h - kernels for spectra of small matrices, in double
   The same bits at every level but base (cpu/cpu.h). Rows are `stride` apart, a multiple of SPECTRA_LANES, zeros
   behind their last number. */
#ifndef MAXLOGIT_NUMERICS_SPECTRA_KERNELS_H
#define MAXLOGIT_NUMERICS_SPECTRA_KERNELS_H
#include "numerics/linalg.h"

/* Of rows of n numbers. */
static inline long spectra_stride(long n) { return (n + SPECTRA_LANES - 1) / SPECTRA_LANES * SPECTRA_LANES; }

/* Row j of a [n, stride] is column j of the matrix that is decomposed by one-sided Jacobi, of v [n, stride_v] that of
   the right factor; square [n]: squared lengths. */
struct rotated {
  long n, stride, stride_v;
  double *a, *v, *square;
  double nothing, orthogonal; /* a squared length that counts as 0; a cosine that does */
};

struct spectra_kernels {
  /* Largest |number| of w [rows, cols]; NaN where one is not finite. */
  double (*largest)(const real *w, long rows, long cols, long ld);
  /* out [rows, stride] = factor w, zeros behind its rows; turned: [cols, stride], w^T */
  void (*copy)(const real *w, long rows, long cols, long ld, double factor, int turned, long stride,
               double *out);
  /* out [na, nb] = a^T b for a [rows, na], b [rows, nb], summed over rows in order; a == b: only half of the
     symmetric product is computed. */
  void (*product)(const double *a, long na, const double *b, long nb, long rows, double *out);
  /* The symmetric g [n, n] = Q T Q^T by Householder reflections. T has diagonal d and off-diagonal e, whose numbers
     are SPECTRA_LANES apart. Row k of g keeps the reflection's vector, tau[k] its factor. room [2 stride]. (Golub and
     Van Loan, Matrix Computations, 8.3.1) */
  void (*tridiagonal)(double *g, long n, long stride, double *d, double *e, double *tau, double *room);
  /* z = Q z */
  void (*turn_back)(const double *g, long n, long stride, const double *tau, double *z);
  /* a^T [d, rows] = Q R by Householder's reflections: row j of a is column j of R, [min(rows, d)], zeros behind.
     room [stride]. */
  void (*triangle)(double *a, long rows, long d, long stride, double *room);
  /* out[i] = row i of a [rows, stride] times z [stride] */
  void (*times)(const double *a, long rows, long stride, const double *z, double *out);
  /* Of SPECTRA_LANES positive semidefinite tridiagonal matrices of n rows at once, number i of matrix l at
     [i * SPECTRA_LANES + l]: d, and squares f of off-diagonals, f of the last row 0. Eigenvalues take the place of d,
     in no order, to a few eps times the largest number on the diagonal. f is destroyed. The rational QL iteration of
     Pal, Walker and Kahan (Parlett, The Symmetric Eigenvalue Problem, 8.15). 0: iterations did not end. */
  int (*eigenvalues)(double *d, double *f, long n);
  /* A sweep over all pairs of columns, each rotated until it is orthogonal; 0: all were. The same bits at base,
     too. */
  int (*rotations)(const struct rotated *);
};
/* Of the level that this process uses. */
extern const struct spectra_kernels cpu_spectra_v4, cpu_spectra_v3, cpu_spectra_neon, cpu_spectra_wasm,
  cpu_spectra_base;
const struct spectra_kernels *cpu_spectra(void);
#endif
