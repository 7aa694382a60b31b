/* vectors.c - the definitions of plain vectors, norms, segments */
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/cut.h"
#include "numerics/number_format.h"
#include "numerics/ref/ref.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

void ref_fill(struct device *device, const struct fill_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)x->value;
}

void ref_copy(struct device *device, const struct copy_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->x, n, j);
}

void ref_round_to(struct device *device, const struct round_to_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++)
      AT(x->y, n, j) = (real)number_round((double)AT(x->x, n, j), (enum number_format)x->format);
}

void ref_transpose(struct device *device, const struct transpose_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++) AT(x->y, j, n) = AT(x->x, n, j);
}

void ref_axpby(struct device *device, const struct axpby_args *x)
{
  double alpha = x->alpha * number(x->a), beta = x->beta != 0 ? x->beta * number(x->b) : 0;
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) {
      double old = beta != 0 ? beta * (double)AT(x->y, n, j) : 0;
      AT(x->y, n, j) = (real)(alpha * (double)AT(x->x, n, j) + old);
    }
}

void ref_scale(struct device *device, const struct scale_args *x)
{
  (void)device;
  double alpha = x->alpha * number(x->by);
  if (alpha == 1) return;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)(alpha * AT(x->y, n, j));
}

void ref_max_abs(struct device *device, const struct max_abs_args *x)
{
  (void)device;
  double top = 0;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++) top = max_keeping_nan(top, fabs((double)AT(x->x, n, j)));
  AT(x->y, 0, 0) = (real)top;
}

/* --- norms ------------------------------------------------------------------------------------------------ */

/* |t|: squares of x / 2^e, where 2^e is above the largest, neither overflow nor vanish in the sum. */
static double norm_of(const struct tensor *t)
{
  double top = 0, sum = 0;
  int e;
  for (long n = 0; n < t->rows; n++)
    for (long j = 0; j < t->cols; j++) top = max_keeping_nan(top, fabs((double)AT(t, n, j)));
  if (top == 0 || !isfinite(top)) return top;
  frexp(top, &e);
  for (long n = 0; n < t->rows; n++)
    for (long j = 0; j < t->cols; j++) {
      double value = ldexp((double)AT(t, n, j), -e);
      sum += value * value;
    }
  return ldexp(sqrt(sum), e);
}

void ref_norm(struct device *device, const struct norm_args *x)
{
  (void)device;
  AT(x->y, 0, 0) = (real)norm_of(x->x);
}

void ref_normalise(struct device *device, const struct normalise_args *x)
{
  (void)device;
  double size = norm_of(x->y);
  AT(x->size, 0, 0) = (real)size;
  for (long n = 0; n < x->y->rows && size != 0; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)((double)AT(x->y, n, j) / size);
}

/* --- segments --------------------------------------------------------------------------------------------- */

struct ref_segment {
  long place, length;
};

static struct ref_segment piece_at(const struct tensor *segment, long i)
{
  return (struct ref_segment){INTS(segment)[2 * i], INTS(segment)[2 * i + 1]};
}

void ref_apply_segments(struct device *device, const struct apply_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct ref_segment p = piece_at(x->segment, i);
    double keep = (double)*element(x->keep, i), rate = (double)*element(x->rate, i);
    real *w = REALS(x->w) + p.place;
    const real *update = REALS(x->update) + p.place;
    for (long j = 0; j < p.length; j++) {
      const int opposed = (w[j] > 0 && update[j] < 0) || (w[j] < 0 && update[j] > 0);
      w[j] = (real)((double)w[j] * (x->cautious && opposed ? 1 : keep) - rate * (double)update[j]);
    }
  }
}

void ref_scale_segments(struct device *device, const struct scale_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct ref_segment p = piece_at(x->segment, i);
    double factor = (double)*element(x->factor, i);
    for (long j = 0; j < p.length && factor != 1; j++)
      REALS(x->x)[p.place + j] = (real)(factor * (double)REALS(x->x)[p.place + j]);
  }
}

void ref_norm_segments(struct device *device, const struct norm_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct ref_segment p = piece_at(x->segment, i);
    struct tensor own = tensor_of(REALS(x->x) + p.place, 1, p.length);
    *element(x->y, i) = (real)norm_of(&own);
  }
}
