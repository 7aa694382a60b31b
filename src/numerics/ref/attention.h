/* attention.h - scores on their way into weights, and what a row sees: for both kinds of attention */
#ifndef MAXLOGIT_REF_ATTENTION_H
#define MAXLOGIT_REF_ATTENTION_H
#include <math.h>
#include <string.h>
#include "base/elementary.h"
#include "numerics/ref/ref.h"

static inline double dot(const real *a, const real *b, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)a[i] * b[i];
  return sum;
}

static inline double cap_forward(double s, long cap, double value)
{
  if (cap == 1) return value * same_tanh(s / value);
  return cap == 2 && s > value ? value : s;
}

/* df/ds */
static inline double cap_slope(double s, long cap, double value)
{
  if (cap == 1) { /* 1 - tanh^2 without its cancellation: 1 / cosh^2 */
    double e = same_exp(fabs(s / value)), c = (e + 1 / e) / 2;
    return 1 / (c * c);
  }
  return cap == 2 && s > value ? 0 : 1;
}

/* What one row of one head sees: keys [first, end), each a row of k and v. */
struct row {
  long first, end, dim, value_dim, query, key, value; /* columns where the head's q, k, v begin */
};

static inline struct row row_of(const struct tensor *q, const struct tensor *v, const struct tensor *start,
                                const struct tensor *end, const struct attention_score *x, long n, long h)
{
  long length = q->rows / x->batch, begin = n / length * length, groups = x->groups, heads = x->heads,
       g = h * groups / heads;
  struct row r = {.first = begin + INTS(start)[n],
                  .end = end ? begin + INTS(end)[n] : n + 1,
                  .dim = q->cols / heads,
                  .value_dim = v->cols / groups};
  r.query = h * r.dim;
  r.key = g * r.dim;
  r.value = g * r.value_dim;
  return r;
}

static inline void put_row(struct tensor *to, long row, const struct tensor *from, long n)
{
  memmove(&AT(to, row, 0), &AT(from, n, 0), (size_t)from->cols * sizeof(real));
}
#endif
