/* small.c - the definitions of operations on small tensors, for stabilizers and optimizers: per head, layer or tensor
   The CPU uses them as well: the tensors are a few hundred numbers long. */
#include <math.h>
#include "base/elementary.h"
#include "base/error.h"
#include "base/number.h"
#include "numerics/ref/ref.h"

/* y[i] = of(y[i], x[i], c) for every i */
#define EACH(y, x, expression) \
  (void)device; \
  for (long i = 0; i < (y)->rows * (y)->cols; i++) { \
    double to = (double)*element(y, i), from = (double)*element(x, i); \
    (void)to, (void)from; \
    *element(y, i) = (real)(expression); \
  }

void ref_multiply(struct device *device, const struct multiply_args *x) { EACH(x->y, x->x, to * from) }

void ref_divide(struct device *device, const struct divide_args *x)
{
  EACH(x->y, x->x, from == 0 ? 1 : to / from) }

void ref_power(struct device *device, const struct power_args *x)
{
  double exponent = x->exponent * number(x->by);
  EACH(x->y, x->y, same_pow(to, exponent)) }

void ref_sign(struct device *device, const struct sign_args *x)
{
  EACH(x->y, x->x, from > 0 ? 1 : from < 0 ? -1 : from) }

void ref_maximum(struct device *device, const struct maximum_args *x)
{
  EACH(x->y, x->x, max_keeping_nan(to, from)) }

void ref_clip_factor(struct device *device, const struct clip_factor_args *x)
{
  double limit = number(x->limit);
  EACH(x->y, x->x, isfinite(from) && from > limit ? limit / from : 1) }

void ref_greater_than(struct device *device, const struct greater_than_args *x)
{
  double limit = number(x->limit);
  EACH(x->y, x->x, from > limit ? 1 : 0) }

void ref_one_unless_finite(struct device *device, const struct one_unless_finite_args *x)
{
  EACH(x->y, x->x, isfinite(from) ? to : 1) }

void ref_all_finite(struct device *device, const struct all_finite_args *x)
{
  (void)device;
  for (long i = 0; i < x->x->rows * x->x->cols; i++)
    if (!isfinite(*element(x->x, i))) AT(x->y, 0, 0) = 0;
}

void ref_gather(struct device *device, const struct gather_args *x)
{
  (void)device;
  for (long i = 0; i < x->y->rows * x->y->cols; i++) {
    int from = INTS(x->index)[i];
    *element(x->y, i) = from < 0 ? 1 : *element(x->x, from);
  }
}

static double joined(long kind, double a, double b)
{
  switch ((enum reduce_kind)kind) {
  case REDUCE_MIN: return a < b || isnan(a) ? a : b;
  case REDUCE_MAX: return max_keeping_nan(a, b);
  case REDUCE_SUM: return a + b;
  case REDUCE_PRODUCT: return a * b;
  }
  BUG("no reduction %ld", kind);
}

void ref_reduce(struct device *device, const struct reduce_args *x)
{
  static const double none[] = {INFINITY, -INFINITY, 0, 1};
  (void)device;
  for (long i = 0; i < x->y->rows * x->y->cols; i++) {
    double all = none[x->kind];
    for (int j = INTS(x->first)[i]; j < INTS(x->first)[i + 1]; j++)
      all = joined(x->kind, all, (double)*element(x->x, INTS(x->member)[j]));
    *element(x->y, i) = (real)all;
  }
}

void ref_accumulate_stats(struct device *device, const struct accumulate_stats_args *x)
{
  (void)device;
  for (long n = 0; n < x->seen->rows; n++) {
    for (long j = 0; j < 3; j++)
      AT(x->seen, n, j) = (real)max_keeping_nan((double)AT(x->seen, n, j), (double)AT(x->stats, n, j));
    AT(x->seen, n, 3) += (real)(x->share * (double)AT(x->stats, n, 3));
  }
}

void ref_accumulate_pairs(struct device *device, const struct accumulate_pairs_args *x)
{
  (void)device;
  for (long n = 0; n < x->seen->rows; n++) {
    real *seen = &AT(x->seen, n, 0);
    const real *look = &AT(x->look, n, 0);
    if (look[1] > 0) seen[0] += (real)((double)look[0] * (double)look[1]);
    seen[1] += look[1];
    double now = (double)AT(x->stats, n, 0), before = (double)AT(x->largest, n, 0);
    if (!(isnan(now) ? !isnan(before) : now > before)) continue;
    for (long j = 2; j < 5; j++) seen[j] = look[j];
  }
}
