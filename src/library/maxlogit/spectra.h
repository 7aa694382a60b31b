/* spectra.h - singular values of weights: norms, entropies, ranks, of a matrix, of heads, of the forms W_q^T W_k that
   make logits, and bounds on these
   Matrices are float32, row-major, weights as [out, in] (y = x W^T), so that a head is a block of rows. In double
   inside; the last digits are those of the LAPACK that is there. Something that is not finite gives NaN in every
   number. MAXLOGIT_USAGE: a size that cannot be; MAXLOGIT_FAIL: LAPACK did not converge. Any number of threads may
   call at once. */
#ifndef MAXLOGIT_SPECTRA_H
#define MAXLOGIT_SPECTRA_H
#include "maxlogit/error.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Of sigma_1 >= ... >= sigma_n, n = min(rows, cols) or a head's size; p = sigma^2 / sum sigma^2, r = sigma / sum sigma.
   NaN where it is not defined: all but the norms of the zero matrix, the entropy of n = 1. */
struct maxlogit_spectrum {
  double spectral_norm, frobenius_norm;
  double svd_entropy;      /* -(1/ln n) sum p ln p, 0 to 1 (Moonlight, arXiv 2502.16982 sec. 3.4) */
  double effective_rank_p; /* exp(-sum p ln p) (arXiv 2509.26030) */
  double effective_rank_r; /* exp(-sum r ln r) (Roy and Vetterli) */
  double stable_rank;      /* frobenius^2 / spectral^2 */
};

/* w [rows, cols]. */
MAXLOGIT_API int maxlogit_spectrum_of(const float *w, long rows, long cols,
                                      struct maxlogit_spectrum *spectrum, struct maxlogit_error *error);
/* sigma [min(rows, cols)], falling. */
MAXLOGIT_API int maxlogit_singular_values(const float *w, long rows, long cols, double *sigma,
                                          struct maxlogit_error *error);
/* w [heads * size, cols]: spectrum [heads] of each block of rows. */
MAXLOGIT_API int maxlogit_head_spectra(const float *w, long heads, long size, long cols,
                                       struct maxlogit_spectrum *spectrum, struct maxlogit_error *error);
/* w_q [heads * size, cols], w_k [kv_heads * size, cols]: spectrum [heads] of each head's form w_q^T w_k [cols, cols] of
   rank <= size (n = size), from triangular factors. Head h uses key h kv_heads / heads. */
MAXLOGIT_API int maxlogit_form_spectra(const float *w_q, long heads, const float *w_k, long kv_heads,
                                       long size, long cols, struct maxlogit_spectrum *spectrum,
                                       struct maxlogit_error *error);
/* bound [heads]: the largest |logit| that any two inputs behind an RMS norm can have, at any positions and under any
   rotation: scale (sqrt(cols) |w_q diag(gain)|) (sqrt(cols) |w_k diag(gain)|), | | the spectral norm (Su,
   kexue.fm/archives/11126). gain [cols], NULL: ones. */
MAXLOGIT_API int maxlogit_form_bounds(const float *w_q, long heads, const float *w_k, long kv_heads,
                                      long size, long cols, const double *gain, double scale, double *bound,
                                      struct maxlogit_error *error);

#ifdef __cplusplus
}
#endif
#endif
