#include "storage/derived.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

/* The number of steps for which the sign (-1, 0 or 1) has been constant, times the sign. It is counted from the last
   row with another sign, or from the first row. A NaN stays NaN, and the row after it counts as a first row. */
static void make_persistence(struct run_series *s)
{
  for (long i = 0; i < s->width; i++) {
    double sign = NAN, since = NAN, before = NAN; /* last row: sign, start of the sign, step */
    for (long row = 0; row < s->rows; row++) {
      double *x = &s->value[row * s->width + i], now = isnan(*x) ? NAN : (*x > 0) - (*x < 0);
      if (isnan(sign))
        since = s->step[row];
      else if (now != sign)
        since = before;
      sign = now;
      before = s->step[row];
      *x = now * (before - since) + 0.0; /* no -0 */
    }
  }
}

/* 1 where the sign (-1, 0 or 1) is that of the row before, else 0. Missing in the first row and beside a NaN. */
static void make_kept(struct run_series *s)
{
  for (long i = 0; i < s->width; i++) {
    double before = NAN;
    for (long row = 0; row < s->rows; row++) {
      double *x = &s->value[row * s->width + i], now = isnan(*x) ? NAN : (*x > 0) - (*x < 0);
      *x = isnan(now) || isnan(before) ? missing_value() : now == before;
      before = now;
    }
  }
}

/* Cumulative sum of values per step, each weighted by the steps since the previous row; a NaN adds nothing. */
static void make_sum(struct run_series *s)
{
  for (long i = 0; i < s->width; i++) {
    double sum = 0;
    for (long row = 0; row < s->rows; row++) {
      double *x = &s->value[row * s->width + i], steps = row ? s->step[row] - s->step[row - 1] : 1;
      if (!isnan(*x)) sum += steps * *x;
      *x = sum;
    }
  }
}

const struct derived derived_series[] = {
  {"update/alignment_persistence", "update/alignment", "step",
   "for how long the sign of u1^T dW v1 has held, times that sign", make_persistence},
  {"drive/sum", "drive/gain", "1", "running sum of what updates add to sigma_1 of w_q^T w_k", make_sum},
  {"drive/sign_kept", "drive/gain", "1", "1 where drive/gain has the sign of the row before, else 0",
   make_kept},
  {NULL, NULL, NULL, NULL, NULL}};

const struct derived *derived_find(const char *name)
{
  for (const struct derived *d = derived_series; d->name; d++)
    if (!strcmp(d->name, name)) return d;
  return NULL;
}
