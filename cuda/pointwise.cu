/* pointwise.cu - attention without a softmax; definitions: ops.def, ref/pointwise.c
   A thread has a row of a head (of queries, or in reverse of keys) and goes through the other side one by one. In single
   precision whatever device.math says: it is for studies. */
#include "cuda/score.h"

/* The divisor of a row's weights; softpick: times e^-m, m = max(0, largest f), and do.o */
struct of_row {
  float n, most, mean;
};

struct pointwise {
  view q, k, v, o, do_, dq, dk, dv, factors, limit, seen; /* seen [N H, 4]: for the statistics; in reverse a struct of_row */
  ints start, end, slot;                                  /* slot: over a cache */
  long heads, groups, length, news, dim, value_dim, scaled; /* news: new positions of a sequence */
  int cap, kind;
  float scale;
  enum number_format format;

  /* Keys [first, last) of row n, counted within its sequence, which begins at row `at` of k and v. */
  __device__ void range(long n, long *at, long *first, long *last) const
  {
    *at = slot.data ? n / news * length : n - n % length;
    *first = start.base()[n];
    *last = slot.data ? slot.base()[n] + 1 : end.data ? end.base()[n] : n % length + 1;
  }
  __device__ float score(long n, long h, long row) const
  {
    const float *a = q.row(n) + h * dim, *b = k.row(row) + h * groups / heads * dim;
    double s = 0, part = 0;
    for (long c = 0; c < dim; c++) *(c < scaled ? &part : &s) += (double)a[c] * (double)b[c];
    if (factors.data) s += (double)factors.at(row, h) * part;
    return (float)((double)scale * s);
  }
  /* n w and its derivative by f while the row stays; softpick: w D e^-m and its */
  __device__ struct adjusted times_n(float f, struct of_row r) const
  {
    if (kind == POINTWISE_SOFTPICK) {
      const float e = expf(f - r.most);
      return (struct adjusted){f <= 0 ? 0 : tanhf(f / 2) * (e + expf(-r.most)), e};
    }
    if (kind == POINTWISE_SIGMOID) {
      const float e = expf(-f), w = 1 / (1 / r.n + e);
      return (struct adjusted){w, isinf(e) ? 0 : e * w * w};
    }
    const float a = f < 0 ? 0 : f;
    return (struct adjusted){a * a, 2 * a};
  }
  __device__ float entered(long n, long h, long row) const
  {
    return capped(cap, (float)number(limit), rounded(score(n, h, row), format));
  }
  __device__ struct of_row scale_of(long n, long h, long at, long first, long last) const
  {
    struct of_row r = {(float)(last - first), 0, 0};
    if (kind != POINTWISE_SOFTPICK) return r;
    for (long j = first; j < last; j++) r.most = max_nan(r.most, entered(n, h, at + j));
    double sum = SOFTPICK_EPS * exp(-(double)r.most);
    for (long j = first; j < last; j++) {
      const float f = entered(n, h, at + j);
      sum += (double)(fabsf(tanhf(f / 2)) * (expf(f - r.most) + expf(-r.most)));
    }
    r.n = (float)sum;
    return r;
  }
  /* n w and its derivative by s */
  __device__ struct adjusted enter(float s, struct of_row r) const
  {
    const struct adjusted a = adjust(cap, (float)number(limit), format, s);
    struct adjusted w = times_n(a.f, r);
    w.slope *= a.slope;
    return w;
  }
  __device__ float through(long n, long h, long row) const
  {
    const float *a = do_.row(n) + h * value_dim, *b = v.row(row) + h * groups / heads * value_dim;
    double sum = 0;
    for (long c = 0; c < value_dim; c++) sum += (double)a[c] * (double)b[c];
    return (float)sum;
  }
  /* The gradient of a weight with n w = w; softpick: of its numerator */
  __device__ float back(long n, long h, long row, float w, float mean) const
  {
    const float direct = through(n, h, row);
    if (kind != POINTWISE_SOFTPICK) return direct;
    return w > 0 ? direct - mean : mean;
  }
};

struct pointwise_row {
  struct pointwise x;
  __device__ void operator()(long n, long h) const
  {
    long at, first, last;
    x.range(n, &at, &first, &last);
    float *o = x.o.row(n) + h * x.value_dim, most = -INFINITY, most_abs = 0, high = -INFINITY;
    double top = 0, all = 0, mean = 0; /* sums over the largest weight so far */
    const struct of_row r = x.scale_of(n, h, at, first, last);
    for (long c = 0; c < x.value_dim; c++) o[c] = 0;
    for (long j = first; j < last; j++) {
      const float s = x.score(n, h, at + j), f = capped(x.cap, (float)number(x.limit), rounded(s, x.format)),
                  w = x.times_n(f, r).f;
      most = max_nan(most, s), most_abs = max_nan(most_abs, fabsf(s)), high = max_nan(high, f);
      if (w > top || w != w) {
        const double by = top / (double)w;
        mean = by > 0 ? (mean + all * log(by)) * by : 0, all = w != w ? (double)w : all * by, top = w;
      }
      if (w > 0) all += (double)w / top, mean += (double)w / top * log((double)w / top);
      const float *value = x.v.row(at + j) + h * x.groups / x.heads * x.value_dim;
      for (long c = 0; c < x.value_dim; c++) o[c] = fmaf(w, value[c], o[c]);
    }
    for (long c = 0; c < x.value_dim && last > first; c++) o[c] /= r.n;
    float *seen = x.seen.row(n * x.heads + h);
    seen[0] = most, seen[1] = most_abs, seen[2] = high;
    seen[3] = !(top <= POINTWISE_NONE) ? (float)(log(all) - mean / all) : 0;
  }
};

struct pointwise_stats {
  view stats, seen;
  long rows, heads;
  __device__ void operator()(long, long h) const
  {
    float top[3] = {-INFINITY, 0, -INFINITY};
    double entropy = 0;
    for (long n = 0; n < rows; n++) {
      const float *from = seen.row(n * heads + h);
      for (int j = 0; j < 3; j++) top[j] = max_nan(top[j], from[j]);
      entropy += (double)from[3];
    }
    for (int j = 0; j < 3; j++) stats.at(h, j) = top[j];
    stats.at(h, 3) = (float)(entropy / (double)rows);
  }
};

#define POINTWISE(x, keys, vals, a) \
  struct pointwise x = {}; \
  (x).q = VIEW((a)->q), (x).k = VIEW(keys), (x).v = VIEW(vals), (x).start = INTS_VIEW((a)->start); \
  (x).heads = (a)->heads, (x).groups = (a)->groups, (x).dim = (a)->q->cols / (a)->heads; \
  (x).kind = (int)(a)->kind, (x).value_dim = (vals)->cols / (a)->groups, (x).cap = (int)(a)->cap, (x).scale = (float)(a)->scale; \
  (x).limit = VIEW((a)->cap_value), (x).format = (enum number_format)(a)->scores_format

static view rows_seen(struct device *device, long rows)
{
  view seen = scratch<float>(device, rows * 4);
  seen.rows = rows, seen.cols = seen.ld = 4;
  return seen;
}

static void pointwise_rows(struct device *device, struct pointwise x, const struct tensor *q,
                           struct tensor *stats)
{
  x.seen = rows_seen(device, q->rows * x.heads);
  each(device, q->rows, x.heads, pointwise_row{x});
  each(device, 1, x.heads, pointwise_stats{VIEW(stats), x.seen, q->rows, x.heads});
}

/* "o = sum_j w(f(r(scale q k^T))) v" */
SCRATCH(pointwise_forward, 16 * x->q->rows * x->heads)
static void pointwise_forward(struct device *device, const struct pointwise_forward_args *a)
{
  POINTWISE(x, a->k, a->v, a);
  x.end = INTS_VIEW(a->end), x.o = VIEW(a->o), x.length = a->q->rows / a->batch;
  pointwise_rows(device, x, a->q, a->stats);
}

/* "the same over a cache" */
SCRATCH(pointwise_cached, 16 * x->q->rows * x->heads)
static void pointwise_cached(struct device *device, const struct pointwise_cached_args *a)
{
  POINTWISE(x, a->keys, a->values, a);
  x.slot = INTS_VIEW(a->slot), x.o = VIEW(a->o), x.length = a->keys->rows / a->batch;
  x.news = a->q->rows / a->batch;
  x.factors = VIEW(a->factors), x.scaled = a->factors ? a->scaled : 0;
  each(device, a->q->rows, a->k->cols, put_rows{x.k, VIEW(a->k), x.slot, x.length, x.news});
  each(device, a->q->rows, a->v->cols, put_rows{x.v, VIEW(a->v), x.slot, x.length, x.news});
  if (a->factors)
    each(device, a->q->rows, a->heads, put_rows{x.factors, VIEW(a->factor), x.slot, x.length, x.news});
  pointwise_rows(device, x, a->q, a->stats);
}

struct pointwise_to_q {
  struct pointwise x;
  __device__ void operator()(long n, long h) const
  {
    long at, first, last;
    x.range(n, &at, &first, &last);
    float *dq = x.dq.row(n) + h * x.dim;
    for (long c = 0; c < x.dim; c++) dq[c] = 0;
    struct of_row r = x.scale_of(n, h, at, first, last);
    double mean = 0;
    for (long c = h * x.value_dim; x.o.data && c < (h + 1) * x.value_dim; c++)
      mean += (double)x.do_.at(n, c) * (double)x.o.at(n, c);
    r.mean = (float)mean;
    float *seen = x.seen.row(n * x.heads + h);
    seen[0] = r.n, seen[1] = r.most, seen[2] = r.mean;
    for (long j = first; j < last; j++) {
      const struct adjusted w = x.enter(x.score(n, h, at + j), r);
      const float ds = x.scale * (w.slope * x.back(n, h, at + j, w.f, r.mean) / r.n);
      const float *key = x.k.row(at + j) + h * x.groups / x.heads * x.dim;
      for (long c = 0; c < x.dim; c++) dq[c] = fmaf(ds, key[c], dq[c]);
    }
  }
};

/* A row of keys of a group, from all queries that see it. */
struct pointwise_to_kv {
  struct pointwise x;
  __device__ void operator()(long row, long g) const
  {
    const long at = row - row % x.length, each = x.heads / x.groups;
    float *dk = x.dk.row(row) + g * x.dim, *dv = x.dv.row(row) + g * x.value_dim;
    for (long c = 0; c < x.dim; c++) dk[c] = 0;
    for (long c = 0; c < x.value_dim; c++) dv[c] = 0;
    for (long h = g * each; h < (g + 1) * each; h++)
      for (long n = at; n < at + x.length; n++) {
        long from, first, last;
        x.range(n, &from, &first, &last);
        if (row - at < first || row - at >= last) continue;
        const float *seen = x.seen.row(n * x.heads + h);
        const struct of_row r = {seen[0], seen[1], seen[2]};
        const struct adjusted entered = x.enter(x.score(n, h, row), r);
        const float w = entered.f / r.n, ds = x.scale * (entered.slope * x.back(n, h, row, entered.f, r.mean) / r.n);
        const float *q = x.q.row(n) + h * x.dim, *d = x.do_.row(n) + h * x.value_dim;
        for (long c = 0; c < x.dim; c++) dk[c] = fmaf(ds, q[c], dk[c]);
        for (long c = 0; c < x.value_dim; c++) dv[c] = fmaf(w, d[c], dv[c]);
      }
  }
};

/* "dq, dk, dv from do; ds_j = f' sum_i dw_i/df_j do.v_i" */
SCRATCH(pointwise_backward, 16 * x->q->rows * x->heads)
static void pointwise_backward(struct device *device, const struct pointwise_backward_args *a)
{
  POINTWISE(x, a->k, a->v, a);
  x.end = INTS_VIEW(a->end), x.do_ = VIEW(a->do_), x.o = VIEW(a->o), x.length = a->q->rows / a->batch;
  x.dq = VIEW(a->dq), x.dk = VIEW(a->dk), x.dv = VIEW(a->dv), x.seen = rows_seen(device, a->q->rows * x.heads);
  each(device, a->q->rows, a->heads, pointwise_to_q{x});
  each(device, a->q->rows, a->groups, pointwise_to_kv{x});
}

extern "C" void ops_cuda_pointwise(struct ops *ops)
{
  ops->pointwise_forward = pointwise_forward;
  ops->pointwise_backward = pointwise_backward;
  ops->pointwise_cached = pointwise_cached;
  ops->scratch[OP_pointwise_forward] = pointwise_forward_scratch;
  ops->scratch[OP_pointwise_backward] = pointwise_backward_scratch;
  ops->scratch[OP_pointwise_cached] = pointwise_cached_scratch;
}
