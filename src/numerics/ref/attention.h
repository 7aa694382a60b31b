/* attention.h - scores, their weights and the visible keys of a row: for both kinds of attention */
#ifndef MAXLOGIT_NUMERICS_REF_ATTENTION_H
#define MAXLOGIT_NUMERICS_REF_ATTENTION_H
#include <math.h>
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

/* The visible keys of one row of one head: [first, end), each a row of k and v. */
struct score_row {
  long first, end, dim, value_dim, query, key, value; /* columns where the head's q, k, v begin */
};

static inline struct score_row row_of(const struct tensor *q, const struct tensor *v,
                                      const struct tensor *start, const struct tensor *end,
                                      const struct attention_score *x, long n, long h)
{
  long length = q->rows / x->batch, begin = n / length * length, groups = x->groups, heads = x->heads,
       g = h * groups / heads;
  struct score_row r = {.first = begin + INTS(start)[n],
                        .end = end ? begin + INTS(end)[n] : n + 1,
                        .dim = q->cols / heads,
                        .value_dim = v->cols / groups};
  r.query = h * r.dim;
  r.key = g * r.dim;
  r.value = g * r.value_dim;
  return r;
}

/* Compute weights from a row's scores p, then its output o and its contribution to the head's stats. ml (m, l) and
   entropy, which may be NULL, are only set with a softmax. */
typedef void weigh_row(const struct score_row *, double *p, const struct tensor *v,
                       const struct attention_score *, real *o, real *ml, real *entropy, double stats[4]);
/* Recompute the weights w from a row's scores s, rounded as in the forward pass, and replace s by the gradient of
   each score. */
typedef void slope_row(const struct attention_backward_args *, const struct score_row *, long n, long h,
                       double *s, double *w);

/* Everything of each operation but the work on one row. Without a softmax there is no ml. */
void ref_attend(struct device *, const struct attention_forward_args *, weigh_row *);
void ref_attend_cached(struct device *, const struct attention_cached_args *, weigh_row *);
void ref_attend_backward(struct device *, const struct attention_backward_args *, slope_row *);
#endif
