/* ranks.c - the definitions of operations between ranks, for one rank; and the merge of two parts' statistics */
#include <math.h>
#include <string.h>
#include "base/number.h"
#include "numerics/ref/ref.h"

void ref_all_reduce_sum(struct device *device, const struct all_reduce_sum_args *x) { (void)device, (void)x; }

void ref_all_reduce_max(struct device *device, const struct all_reduce_max_args *x)
{
  (void)device;
  for (long i = 0; i < x->y->rows * x->y->cols; i++)
    if (isnan(*element(x->y, i))) *element(x->y, i) = (real)NAN;
}

static void copy(const struct tensor *y, const struct tensor *x)
{
  memmove(y->data, x->data, (size_t)(y->rows * y->cols) * sizeof(real));
}

void ref_ring_shift(struct device *device, const struct ring_shift_args *x)
{
  (void)device, copy(x->y, x->x);
}
void ref_pairwise_exchange(struct device *device, const struct pairwise_exchange_args *x)
{
  (void)device, copy(x->y, x->x);
}

void ref_all_gather(struct device *device, const struct all_gather_args *x)
{
  (void)device;
  memcpy(x->y->data, REALS(x->x) + x->from, (size_t)x->y->cols * sizeof(real));
}

void ref_reduce_scatter(struct device *device, const struct reduce_scatter_args *x)
{
  (void)device;
  memcpy(REALS(x->y) + x->from, x->x->data, (size_t)x->x->cols * sizeof(real));
}

/* First the elements that follow another one, while y still holds the second part's values. */
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
