#include "numerics/reach.h"

#include <math.h>

int reach_of(struct spectra *s, enum spectra_method method, const struct normed_rows *in, real *a, long lda,
             double *c, struct reach *out, struct error *e)
{
  double squares = 0;
  for (long i = 0; i < in->rows; i++) {
    const real *row = in->w + i * in->ld;
    double mean = 0;
    for (long j = 0; j < in->cols; j++) {
      mean += (double)row[j] * in->gain[j] / (double)in->cols;
      if (in->shift) c[i] += (double)row[j] * in->shift[j];
    }
    for (long j = 0; j < lda; j++)
      a[i * lda + j] = j < in->cols ? (real)((double)row[j] * in->gain[j] - (in->centred ? mean : 0)) : 0;
    squares += c[i] * c[i];
  }
  struct spectrum x;
  int status = spectrum_of(s, method, a, in->rows, in->cols, lda, &x, e);
  if (!status) *out = (struct reach){in->length * x.spectral_norm, sqrt(squares)};
  return status;
}
