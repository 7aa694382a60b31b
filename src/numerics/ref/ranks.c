/* ranks.c - the definitions of what ranks send each other, of one rank; and of what two parts have seen, as one */
#include <math.h>
#include <string.h>
#include "base/number.h"
#include "numerics/ref/ref.h"

void ref_all_sum(struct device *device, const struct all_sum_args *x) { (void)device, (void)x; }

void ref_all_max(struct device *device, const struct all_max_args *x)
{
  (void)device;
  for (long i = 0; i < x->y->rows * x->y->cols; i++)
    if (isnan(*element(x->y, i))) *element(x->y, i) = (real)NAN;
}

static void copy(const struct tensor *y, const struct tensor *x)
{
  memmove(y->data, x->data, (size_t)(y->rows * y->cols) * sizeof(real));
}

void ref_pass_on(struct device *device, const struct pass_on_args *x) { (void)device, copy(x->y, x->x); }
void ref_trade(struct device *device, const struct trade_args *x) { (void)device, copy(x->y, x->x); }

void ref_gather_parts(struct device *device, const struct gather_parts_args *x)
{
  (void)device;
  memcpy(x->y->data, REALS(x->x) + x->from, (size_t)x->y->cols * sizeof(real));
}

void ref_scatter_sum(struct device *device, const struct scatter_sum_args *x)
{
  (void)device;
  memcpy(REALS(x->y) + x->from, x->x->data, (size_t)x->x->cols * sizeof(real));
}

/* Those that follow another number first, while it is what came. */
void ref_merge(struct device *device, const struct merge_args *x)
{
  const int *kind = INTS(x->kind);
  real *y = REALS(x->y);
  const real *from = REALS(x->x);
  (void)device;
  for (long i = 0; i < x->y->cols; i++) {
    if (kind[i] < 0) continue;
    real first = from[kind[i]], second = y[kind[i]];
    if (isnan(first) || (!isnan(second) && first >= second)) y[i] = from[i];
  }
  for (long i = 0; i < x->y->cols; i++) {
    if (kind[i] == MERGE_SUM) y[i] = from[i] + y[i];
    if (kind[i] == MERGE_MAX) y[i] = (real)max_keeping_nan((double)from[i], (double)y[i]);
    if (kind[i] == MERGE_FIRST) y[i] = from[i];
  }
}
