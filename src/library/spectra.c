/* spectra.c - maxlogit/spectra.h, by the same functions as the recorded spectra */
#include "maxlogit/spectra.h"
#include <math.h>
#include "base/c_locale.h"
#include "base/memory.h"
#include "base/error_export.h"
#include "numerics/linalg.h"
#include "numerics/reach.h"

static int check(long heads, long kv_heads, long size, long cols, struct error *e)
{
  if (heads < 1 || kv_heads < 1 || size < 1 || cols < 1 || heads % kv_heads)
    return error_set(e, STATUS_USAGE, "%ld heads with %ld keys of %ld rows and %ld columns", heads, kv_heads,
                     size, cols);
  return STATUS_OK;
}

static struct maxlogit_spectrum public_of(const struct spectrum *s)
{
  return (struct maxlogit_spectrum){s->spectral_norm,    s->frobenius_norm,   s->svd_entropy,
                                    s->effective_rank_p, s->effective_rank_r, s->stable_rank};
}

int maxlogit_head_spectra(const float *w, long heads, long size, long cols, struct maxlogit_spectrum *out,
                          struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(heads, heads, size, cols, &e);
  if (status) return error_export(error, status, &e);
  struct spectra *work = spectra_new(size, cols);
  for (long h = 0; h < heads && !status; h++) {
    struct spectrum s;
    status = spectrum_of(work, SPECTRA_SVD, w + h * size * cols, size, cols, cols, &s, &e);
    if (!status) out[h] = public_of(&s);
  }
  spectra_free(work);
  return error_export(error, status, &e);
}

int maxlogit_spectrum_of(const float *w, long rows, long cols, struct maxlogit_spectrum *out,
                         struct maxlogit_error *error)
{
  return maxlogit_head_spectra(w, 1, rows, cols, out, error);
}

int maxlogit_singular_values(const float *w, long rows, long cols, double *sigma,
                             struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(1, 1, rows, cols, &e);
  if (status) return error_export(error, status, &e);
  struct spectra *work = spectra_new(rows, cols);
  status = singular_values(work, w, rows, cols, cols, sigma, NULL, NULL, &e);
  spectra_free(work);
  return error_export(error, status, &e);
}

int maxlogit_form_spectra(const float *w_q, long heads, const float *w_k, long kv_heads, long size, long cols,
                          struct maxlogit_spectrum *out, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(heads, kv_heads, size, cols, &e);
  if (status) return error_export(error, status, &e);
  struct spectra *work = spectra_new(size, cols);
  for (long h = 0; h < heads && !status; h++) {
    struct spectrum s;
    status = spectrum_of_form(work, w_q + h * size * cols, cols, w_k + h * kv_heads / heads * size * cols,
                              cols, size, cols, &s, &e);
    if (!status) out[h] = public_of(&s);
  }
  spectra_free(work);
  return error_export(error, status, &e);
}

/* Bounds on the length of the outputs of `count` blocks of rows, for normalized inputs. */
static int reaches(struct spectra *work, const float *w, long count, long size, long cols, const double *gain,
                   double *out, struct error *e)
{
  real *scaled = memory_new((size_t)size * (size_t)cols, sizeof *scaled);
  double *none = memory_new((size_t)size, sizeof *none);
  int status = STATUS_OK;
  for (long i = 0; i < count && !status; i++) {
    struct reach reach = {0};
    struct normed_rows rows = {.w = w + i * size * cols,
                               .rows = size,
                               .cols = cols,
                               .ld = cols,
                               .gain = gain,
                               .length = sqrt((double)cols)};
    status = reach_of(work, SPECTRA_SVD, &rows, scaled, cols, none, &reach, e);
    out[i] = reach.weights;
  }
  memory_free(scaled);
  memory_free(none);
  return status;
}

int maxlogit_form_bounds(const float *w_q, long heads, const float *w_k, long kv_heads, long size, long cols,
                         const double *gain, double scale, double *bound, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check(heads, kv_heads, size, cols, &e);
  if (status) return error_export(error, status, &e);
  struct spectra *work = spectra_new(size, cols);
  double *ones = memory_new((size_t)cols, sizeof *ones), *keys = memory_new((size_t)kv_heads, sizeof *keys);
  for (long i = 0; i < cols; i++) ones[i] = 1;
  status = reaches(work, w_q, heads, size, cols, gain ? gain : ones, bound, &e);
  if (!status) status = reaches(work, w_k, kv_heads, size, cols, gain ? gain : ones, keys, &e);
  for (long h = 0; h < heads && !status; h++) bound[h] *= fabs(scale) * keys[h * kv_heads / heads];
  memory_free(ones);
  memory_free(keys);
  spectra_free(work);
  return error_export(error, status, &e);
}
