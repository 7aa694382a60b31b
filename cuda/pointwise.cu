/* pointwise.cu - attention without a softmax; definitions: ops.def, ref/pointwise.c
   A thread has a row of a head (of queries, or in reverse of keys) and goes through the other side one by one. In single
   precision whatever device.math says: it is for studies. */
#include "cuda/score.h"

struct pointwise {
  view q, k, v, o, do_, dq, dk, dv, factors, limit, seen; /* seen [N H, 4]: what the statistics get from a row */
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
  /* n w and its derivative by f */
  __device__ struct adjusted times_n(float f, float n) const
  {
    if (kind == POINTWISE_SIGMOID) {
      const float e = expf(-f), w = 1 / (1 / n + e);
      return (struct adjusted){w, isinf(e) ? 0 : e * w * w};
    }
    const float a = f < 0 ? 0 : f;
    return (struct adjusted){a * a, 2 * a};
  }
  /* n w and its derivative by s */
  __device__ struct adjusted enter(float s, float n) const
  {
    const struct adjusted a = adjust(cap, (float)number(limit), format, s);
    struct adjusted w = times_n(a.f, n);
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
};

struct pointwise_row {
  struct pointwise x;
  __device__ void operator()(long n, long h) const
  {
    long at, first, last;
    x.range(n, &at, &first, &last);
    float *o = x.o.row(n) + h * x.value_dim, most = -INFINITY, most_abs = 0, high = -INFINITY;
    double top = 0, all = 0, mean = 0; /* sums over the largest weight so far */
    for (long c = 0; c < x.value_dim; c++) o[c] = 0;
    for (long j = first; j < last; j++) {
      const float s = x.score(n, h, at + j), f = capped(x.cap, (float)number(x.limit), rounded(s, x.format)),
                  w = x.times_n(f, (float)(last - first)).f;
      most = max_nan(most, s), most_abs = max_nan(most_abs, fabsf(s)), high = max_nan(high, f);
      if (w > top || w != w) {
        const double r = top / (double)w;
        mean = r > 0 ? (mean + all * log(r)) * r : 0, all = w != w ? (double)w : all * r, top = w;
      }
      if (w > 0) all += (double)w / top, mean += (double)w / top * log((double)w / top);
      const float *value = x.v.row(at + j) + h * x.groups / x.heads * x.value_dim;
      for (long c = 0; c < x.value_dim; c++) o[c] = fmaf(w, value[c], o[c]);
    }
    for (long c = 0; c < x.value_dim && last > first; c++) o[c] /= (float)(last - first);
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

static void pointwise_rows(struct device *device, struct pointwise x, const struct tensor *q,
                           struct tensor *stats)
{
  x.seen = scratch<float>(device, q->rows * x.heads * 4);
  x.seen.rows = q->rows * x.heads, x.seen.cols = x.seen.ld = 4;
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
    for (long j = first; j < last; j++) {
      const struct adjusted w = x.enter(x.score(n, h, at + j), (float)(last - first));
      const float ds = x.scale * (w.slope * x.through(n, h, at + j) / (float)(last - first));
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
        const float keys = (float)(last - first);
        const struct adjusted entered = x.enter(x.score(n, h, row), keys);
        const float w = entered.f / keys, ds = x.scale * (entered.slope * x.through(n, h, row) / keys);
        const float *q = x.q.row(n) + h * x.dim, *d = x.do_.row(n) + h * x.value_dim;
        for (long c = 0; c < x.dim; c++) dk[c] = fmaf(ds, q[c], dk[c]);
        for (long c = 0; c < x.value_dim; c++) dv[c] = fmaf(w, d[c], dv[c]);
      }
  }
};

/* "dq, dk, dv from do; ds = w' f' do.v" */
static void pointwise_backward(struct device *device, const struct pointwise_backward_args *a)
{
  POINTWISE(x, a->k, a->v, a);
  x.end = INTS_VIEW(a->end), x.do_ = VIEW(a->do_), x.length = a->q->rows / a->batch;
  x.dq = VIEW(a->dq), x.dk = VIEW(a->dk), x.dv = VIEW(a->dv);
  each(device, a->q->rows, a->heads, pointwise_to_q{x});
  each(device, a->q->rows, a->groups, pointwise_to_kv{x});
}

extern "C" void ops_cuda_pointwise(struct ops *ops)
{
  ops->pointwise_forward = pointwise_forward;
  ops->pointwise_backward = pointwise_backward;
  ops->pointwise_cached = pointwise_cached;
  ops->scratch[OP_pointwise_forward] = pointwise_forward_scratch;
  ops->scratch[OP_pointwise_cached] = pointwise_cached_scratch;
}
