/* linalg.h - spectra of small matrices for the record, on the host (svd.h: inside a step)
   By the Gram matrix several at a time, the same bits on every processor; whole singular values through LAPACKE. */
#ifndef MAXLOGIT_NUMERICS_LINALG_H
#define MAXLOGIT_NUMERICS_LINALG_H
#include <stddef.h>
#include "base/error.h"
#include "numerics/real.h"

enum { SPECTRA_LANES = 8 }; /* matrices whose eigenvalues are computed together */

/* Summary of singular values sigma_1 >= ... >= sigma_n, n = min(rows, cols). p_i = sigma_i^2 / sum sigma^2, r_i =
   sigma_i / sum sigma. Undefined fields are NaN: for the zero matrix all but the norms; for n = 1 the entropy. */
struct spectrum {
  double spectral_norm; /* sigma_1 */
  double frobenius_norm;
  double svd_entropy;      /* -(1/ln n) sum p ln p, in [0,1] (Moonlight, arXiv 2502.16982 sec. 3.4) */
  double effective_rank_p; /* exp(-sum p ln p) (arXiv 2509.26030) */
  double effective_rank_r; /* exp(-sum r ln r) (Roy and Vetterli) */
  double stable_rank;      /* ||W||_F^2 / ||W||_2^2 */
};

/* The same fields by index, with their descriptions; all are dimensionless. */
enum { SPECTRUM_FIELDS = 6 };
extern const struct spectrum_field {
  const char *name, *title, *long_name, *definition;
  size_t offset;
} spectrum_fields[SPECTRUM_FIELDS];
double spectrum_number(const struct spectrum *, int field);

/* Workspace for matrices up to rows x cols; no allocation afterwards. */
struct spectra;
struct spectra *spectra_new(long rows, long cols);
void spectra_free(struct spectra *);

/* One matrix: w [rows, cols]; or, with b, the bilinear form w^T b of w, b [dh, d] (w_q^h and w_k^h): [d, d] of rank
   <= dh, computed from the two triangular factors, never [d, d]; n in the entropy is dh. */
struct spectra_job {
  const real *w, *b;
  long rows, cols, ld, ldb;
  double *u1, *v1; /* [rows], [cols]: where not NULL the leading pair of w; NaN of the zero matrix */
  double *sigma;   /* [n]: where not NULL all of them, in no order */
  struct spectrum spectrum;
};
/* Computes eigenvalues of the smaller Gram matrix in double. For float data, sigma below 1e-8 sigma_1 lose digits,
   which does not affect the summaries. Fastest for SPECTRA_LANES matrices of similar sizes; the result of a matrix
   does not depend on the others. A non-finite entry gives NaN in every field; an iteration that does not converge
   gives STATUS_FAIL. */
int spectra_of(struct spectra *, struct spectra_job *, long count, struct error *);

enum spectra_method {
  SPECTRA_SVD, /* full singular values (gesdd): exact to eps * sigma_1 */
  SPECTRA_GRAM /* spectra_of */
};
/* w [rows, cols] with ld. As spectra_of. */
int spectrum_of(struct spectra *, enum spectra_method, const real *w, long rows, long cols, long ld,
                struct spectrum *, struct error *);
/* All singular values (and, where not NULL, u1 [rows], v1 [cols] of the leading pair). */
int singular_values(struct spectra *, const real *w, long rows, long cols, long ld, double *sigma, double *u1,
                    double *v1, struct error *);
void spectrum_from(const double *sigma, long n, struct spectrum *);
/* The largest singular value of all forms a^T R^i b, i < count, of a, b [dh, d]: R turns rows j and j + dh/2 of b by an
   angle whose cosine is turn[j] and whose sine is turn[j + dh/2]. NaN where something is not finite. */
int largest_of_turned_forms(struct spectra *, const real *a, long lda, const real *b, long ldb, long dh,
                            long d, const double *turn, long count, double *sigma, struct error *);
/* The least largest singular value of the forms x / sqrt(w) + y / sqrt(1 - w) over w in (0, 1): x is the form of the
   first `first` rows of a, b [dh, d], y that of the others. It is convex in w: golden-section search, and the w on
   entry is tried, too; *w becomes the best one tried. NaN where something is not finite. */
int least_of_weighted_forms(struct spectra *, const real *a, long lda, const real *b, long ldb, long dh,
                            long d, long first, double *w, double *sigma, struct error *);
/* A form alone, with n = dh in the entropy. */
int spectrum_of_form(struct spectra *, const real *a, long lda, const real *b, long ldb, long dh, long d,
                     struct spectrum *, struct error *);
/* The leading triple of a form a^T b of a, b [dh, d]: a^T b v1 = sigma u1, with u1 and v1 [d]; NaN where
   something is not finite or the form is 0. */
int leading_of_form(struct spectra *, const real *a, long lda, const real *b, long ldb, long dh, long d,
                    double *sigma, double *u1, double *v1, struct error *);
#endif
