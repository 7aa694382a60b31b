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

/* softpick: |e^f - 1| e^-m. e^f - 1 = tanh(f/2) (e^f + 1) does not cancel near 0. */
static double pick(double f, double m) { return fabs(same_tanh(f / 2)) * (same_exp(f - m) + same_exp(-m)); }

/* p holds f of a row's keys, and then their weights times a divisor, which is returned. m >= 0 keeps e^-m finite
   where all scores are negative. */
static double make_weights(enum pointwise_kind kind, double *p, long seen)
{
  double m = 0, sum = 0, unused;
  if (kind != POINTWISE_SOFTPICK) {
    for (long j = 0; j < seen; j++) p[j] = times_n(kind, p[j], (double)seen, &unused);
    return (double)seen;
  }
  for (long j = 0; j < seen; j++) m = max_keeping_nan(m, p[j]);
  for (long j = 0; j < seen; j++) {
    const double size = pick(p[j], m);
    sum += size;
    p[j] = p[j] <= 0 ? 0 : size;
  }
  return sum + SOFTPICK_EPS * same_exp(-m);
}

/* p holds the scores of the row's visible keys, and then their weights times a divisor. */
static void weigh(enum pointwise_kind kind, const struct score_row *r, double *p, const struct tensor *v,
                  const struct attention_score *x, real *o, double stats[4])
{
  double top = 0, sum = 0, mean = 0; /* relative to the largest weight: the entropy of one key is 0 */
  const long seen = r->end - r->first;
  for (long j = 0; j < seen; j++) {
    stats[0] = max_keeping_nan(stats[0], p[j]);
    stats[1] = max_keeping_nan(stats[1], fabs(p[j]));
    const double f =
      cap_forward(number_round(p[j], (enum number_format)x->scores_format), x->cap, number(x->cap_value));
    stats[2] = max_keeping_nan(stats[2], f);
    p[j] = f;
  }
  const double divisor = make_weights(kind, p, seen);
  for (long j = 0; j < seen; j++) top = max_keeping_nan(top, p[j]);
  for (long j = 0; j < seen; j++) {
    const double share = p[j] / top;
    sum += share;
    if (share > 0) mean += share * same_log(share);
  }
  if (!(top <= POINTWISE_NONE)) stats[3] += same_log(sum) - mean / sum;
  for (long c = 0; c < r->value_dim; c++) {
    double weighed = 0;
    for (long j = 0; j < seen; j++) weighed += p[j] * AT(v, r->first + j, r->value + c);
    o[c] = seen > 0 ? (real)(weighed / divisor) : 0;
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

static void weigh_picks(const struct score_row *r, double *p, const struct tensor *v,
                        const struct attention_score *x, real *o, real *ml, real *entropy, double stats[4])
{
  (void)ml, (void)entropy;
  weigh(POINTWISE_SOFTPICK, r, p, v, x, o, stats);
}

static weigh_row *const weigh_of[] = {[POINTWISE_SQUARE] = weigh_squares,
                                      [POINTWISE_SIGMOID] = weigh_sigmoids,
                                      [POINTWISE_SOFTPICK] = weigh_picks};

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
  ref_attend(device, &x, weigh_of[args->kind]);
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
  ref_attend_cached(device, &x, weigh_of[args->kind]);
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

/* ds_j = f' e^f / D (do.v_j - do.o where f > 0, else do.o), since D, too, moves with f: as the backward kernels of
   zaydzuhri/softpick-attention (flash_softpick_attn.py @c7fc3843) have it. At f = 0 that is a choice. */
static void slope_of_picks(const struct attention_backward_args *x, const struct score_row *r, long n, long h,
                           double *s, double *w)
{
  const real *do_ = &AT(x->do_, n, h * r->value_dim);
  const double limit = number(x->cap_value), through = dot(do_, &AT(x->o, n, h * r->value_dim), r->value_dim);
  const long seen = r->end - r->first;
  double m = 0;
  for (long j = 0; j < seen; j++) w[j] = cap_forward(s[j], x->cap, limit), m = max_keeping_nan(m, w[j]);
  const double divisor = make_weights(POINTWISE_SOFTPICK, w, seen);
  for (long j = 0; j < seen; j++) {
    w[j] /= divisor;
    const double f = cap_forward(s[j], x->cap, limit);
    const double back = f > 0 ? dot(do_, &AT(x->v, r->first + j, r->value), r->value_dim) - through : through;
    s[j] = cap_slope(s[j], x->cap, limit) * same_exp(f - m) / divisor * back;
  }
}

static slope_row *const slope_of[] = {[POINTWISE_SQUARE] = slope_of_squares,
                                      [POINTWISE_SIGMOID] = slope_of_sigmoids,
                                      [POINTWISE_SOFTPICK] = slope_of_picks};

static struct attention_backward_args backward_of(const struct pointwise_backward_args *x)
{
  return (struct attention_backward_args){.dq = x->dq,
                                          .dk = x->dk,
                                          .dv = x->dv,
                                          .do_ = x->do_,
                                          .o = x->o,
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
  ref_attend_backward(device, &x, slope_of[args->kind]);
}
