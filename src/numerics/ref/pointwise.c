/* pointwise.c - the definitions of attention without a softmax, whole or over a cache, and of its reverse: the work
   on one row; attention.c does the rest */
#include "base/number.h"
#include "numerics/number_format.h"
#include "numerics/ref/attention.h"

static double relu(double x) { return isnan(x) || x > 0 ? x : 0; }

/* n w, and its slope by f; sigmoid(f - ln n) = 1 / (1 + n exp(-f)) */
static double times_n(enum pointwise_kind kind, double f, double n, double *by_f)
{
  if (kind == POINTWISE_SIGMOID) {
    const double e = same_exp(-f), w = 1 / (1 / n + e);
    *by_f = isinf(e) ? 0 : e * w * w;
    return w;
  }
  *by_f = 2 * relu(f);
  return relu(f) * relu(f);
}

/* p holds the scores of the row's visible keys, and then their weights times n. */
static void weigh(enum pointwise_kind kind, const struct score_row *r, double *p, const struct tensor *v,
                  const struct attention_score *x, real *o, double stats[4])
{
  double top = 0, sum = 0, mean = 0, by_f; /* relative to the largest weight: the entropy of one key is 0 */
  const long seen = r->end - r->first;
  for (long j = 0; j < seen; j++) {
    stats[0] = max_keeping_nan(stats[0], p[j]);
    stats[1] = max_keeping_nan(stats[1], fabs(p[j]));
    const double f =
      cap_forward(number_round(p[j], (enum number_format)x->scores_format), x->cap, number(x->cap_value));
    stats[2] = max_keeping_nan(stats[2], f);
    p[j] = times_n(kind, f, (double)seen, &by_f);
    top = max_keeping_nan(top, p[j]);
  }
  for (long j = 0; j < seen; j++) {
    const double share = p[j] / top;
    sum += share;
    if (share > 0) mean += share * same_log(share);
  }
  if (!(top <= POINTWISE_NONE)) stats[3] += same_log(sum) - mean / sum;
  for (long c = 0; c < r->value_dim; c++) {
    double weighed = 0;
    for (long j = 0; j < seen; j++) weighed += p[j] * AT(v, r->first + j, r->value + c);
    o[c] = seen > 0 ? (real)(weighed / (double)seen) : 0;
  }
}

static void weigh_squares(const struct score_row *r, double *p, const struct tensor *v,
                          const struct attention_score *x, real *o, real *ml, real *entropy, double stats[4])
{
  (void)ml, (void)entropy;
  weigh(POINTWISE_SQUARE, r, p, v, x, o, stats);
}

static void weigh_sigmoids(const struct score_row *r, double *p, const struct tensor *v,
                           const struct attention_score *x, real *o, real *ml, real *entropy, double stats[4])
{
  (void)ml, (void)entropy;
  weigh(POINTWISE_SIGMOID, r, p, v, x, o, stats);
}

static struct attention_forward_args forward_of(const struct pointwise_forward_args *x)
{
  return (struct attention_forward_args){.o = x->o,
                                         .stats = x->stats,
                                         .q = x->q,
                                         .k = x->k,
                                         .v = x->v,
                                         .start = x->start,
                                         .end = x->end,
                                         .score = x->score};
}

size_t pointwise_scratch(const struct device *device, const void *args)
{
  struct attention_forward_args x = forward_of(args);
  return forward_scratch(device, &x);
}

void ref_pointwise_forward(struct device *device, const struct pointwise_forward_args *args)
{
  struct attention_forward_args x = forward_of(args);
  ref_attend(device, &x, args->kind == POINTWISE_SIGMOID ? weigh_sigmoids : weigh_squares);
}

static struct attention_cached_args cached_of(const struct pointwise_cached_args *x)
{
  return (struct attention_cached_args){.o = x->o,
                                        .stats = x->stats,
                                        .keys = x->keys,
                                        .values = x->values,
                                        .factors = x->factors,
                                        .q = x->q,
                                        .k = x->k,
                                        .v = x->v,
                                        .factor = x->factor,
                                        .slot = x->slot,
                                        .start = x->start,
                                        .scaled = x->scaled,
                                        .score = x->score};
}

size_t pointwise_cached_scratch(const struct device *device, const void *args)
{
  struct attention_cached_args x = cached_of(args);
  return cached_scratch(device, &x);
}

void ref_pointwise_cached(struct device *device, const struct pointwise_cached_args *args)
{
  struct attention_cached_args x = cached_of(args);
  ref_attend_cached(device, &x, args->kind == POINTWISE_SIGMOID ? weigh_sigmoids : weigh_squares);
}

/* ds_j = w' f' do.v_j */
static void slope(enum pointwise_kind kind, const struct attention_backward_args *x,
                  const struct score_row *r, long n, long h, double *s, double *w)
{
  const real *do_ = &AT(x->do_, n, h * r->value_dim);
  const double limit = number(x->cap_value), keys = (double)(r->end - r->first);
  for (long j = 0; j < r->end - r->first; j++) {
    double by_f;
    w[j] = times_n(kind, cap_forward(s[j], x->cap, limit), keys, &by_f) / keys;
    s[j] = by_f * cap_slope(s[j], x->cap, limit) * dot(do_, &AT(x->v, r->first + j, r->value), r->value_dim) /
           keys;
  }
}

static void slope_of_squares(const struct attention_backward_args *x, const struct score_row *r, long n,
                             long h, double *s, double *w)
{
  slope(POINTWISE_SQUARE, x, r, n, h, s, w);
}

static void slope_of_sigmoids(const struct attention_backward_args *x, const struct score_row *r, long n,
                              long h, double *s, double *w)
{
  slope(POINTWISE_SIGMOID, x, r, n, h, s, w);
}

static struct attention_backward_args backward_of(const struct pointwise_backward_args *x)
{
  return (struct attention_backward_args){.dq = x->dq,
                                          .dk = x->dk,
                                          .dv = x->dv,
                                          .do_ = x->do_,
                                          .q = x->q,
                                          .k = x->k,
                                          .v = x->v,
                                          .start = x->start,
                                          .end = x->end,
                                          .score = x->score};
}

size_t pointwise_backward_scratch(const struct device *device, const void *args)
{
  struct attention_backward_args x = backward_of(args);
  return backward_scratch(device, &x);
}

void ref_pointwise_backward(struct device *device, const struct pointwise_backward_args *args)
{
  struct attention_backward_args x = backward_of(args);
  ref_attend_backward(device, &x, args->kind == POINTWISE_SIGMOID ? slope_of_sigmoids : slope_of_squares);
}
