/* pointwise.c - the definitions of attention without a softmax, whole or over a cache, and of its reverse */
#include "base/number.h"
#include "numerics/number_format.h"
#include "numerics/ref/attention.h"

static double relu(double x) { return isnan(x) || x > 0 ? x : 0; }

/* p holds the scores of what the row sees, and then their weights. */
static void weigh(const struct row *r, double *p, const struct tensor *v, const struct attention_score *x,
                  real *o, double stats[4])
{
  double top = 0, sum = 0, mean = 0; /* sums over the largest weight: the entropy of one key alone is 0 */
  const long seen = r->end - r->first;
  for (long j = 0; j < seen; j++) {
    stats[0] = max_keeping_nan(stats[0], p[j]);
    stats[1] = max_keeping_nan(stats[1], fabs(p[j]));
    const double f =
      cap_forward(number_round(p[j], (enum number_format)x->scores_format), x->cap, number(x->cap_value));
    stats[2] = max_keeping_nan(stats[2], f);
    p[j] = relu(f) * relu(f);
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

size_t pointwise_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct pointwise_forward_args *x = args;
  return (size_t)(x->q->rows / x->batch) * sizeof(double);
}

void ref_pointwise_forward(struct device *device, const struct pointwise_forward_args *x)
{
  double *p = device_scratch(device, pointwise_scratch(device, x));
  for (long h = 0; h < x->heads; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long n = 0; n < x->q->rows; n++) {
      struct row r = row_of(x->q, x->v, x->start, x->end, &x->score, n, h);
      for (long j = r.first; j < r.end; j++)
        p[j - r.first] = x->scale * dot(&AT(x->q, n, r.query), &AT(x->k, j, r.key), r.dim);
      weigh(&r, p, x->v, &x->score, &AT(x->o, n, h * r.value_dim), stats);
    }
    stats[3] /= (double)x->q->rows;
    for (int i = 0; i < 4; i++) AT(x->stats, h, i) = (real)stats[i];
  }
}

size_t pointwise_cached_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct pointwise_cached_args *x = args;
  return (size_t)(x->keys->rows / x->batch) * sizeof(double);
}

void ref_pointwise_cached(struct device *device, const struct pointwise_cached_args *x)
{
  const long length = x->keys->rows / x->batch, news = x->q->rows / x->batch, dim = x->q->cols / x->heads,
             scaled = x->factors ? x->scaled : 0;
  double *p = device_scratch(device, pointwise_cached_scratch(device, x));
  for (long n = 0; n < x->q->rows; n++) {
    const long to = n / news * length + INTS(x->slot)[n];
    put_row(x->keys, to, x->k, n);
    put_row(x->values, to, x->v, n);
    if (x->factors) put_row(x->factors, to, x->factor, n);
  }
  for (long h = 0; h < x->heads; h++) {
    const long g = h * x->groups / x->heads;
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long n = 0; n < x->q->rows; n++) {
      struct row r = {.first = n / news * length + INTS(x->start)[n],
                      .end = n / news * length + INTS(x->slot)[n] + 1,
                      .value_dim = x->values->cols / x->groups};
      r.value = g * r.value_dim;
      for (long j = r.first; j < r.end; j++) {
        const real *q = &AT(x->q, n, h * dim), *k = &AT(x->keys, j, g * dim);
        double s = dot(q + scaled, k + scaled, dim - scaled);
        if (x->factors) s += AT(x->factors, j, h) * dot(q, k, scaled);
        p[j - r.first] = x->scale * s;
      }
      weigh(&r, p, x->values, &x->score, &AT(x->o, n, h * r.value_dim), stats);
    }
    stats[3] /= (double)x->q->rows;
    for (int i = 0; i < 4; i++) AT(x->stats, h, i) = (real)stats[i];
  }
}

/* dv_j += w_j do; ds_j = 2 relu(f) f' do.v_j / n; dq += scale ds_j k_j; dk_j += scale ds_j q */
static void backward_row(const struct pointwise_backward_args *x, long n, long h, double *dk, double *dv)
{
  struct row r = row_of(x->q, x->v, x->start, x->end, &x->score, n, h);
  const long length = x->q->rows / x->batch, from = n - n % length;
  const real *q = &AT(x->q, n, r.query), *do_ = &AT(x->do_, n, h * r.value_dim);
  const double limit = number(x->cap_value), keys = (double)(r.end - r.first);
  double *dq = dk + length * r.dim;
  for (long c = 0; c < r.dim; c++) dq[c] = 0;
  for (long j = r.first; j < r.end; j++) {
    double s = x->scale * dot(q, &AT(x->k, j, r.key), r.dim);
    s = number_round(s, (enum number_format)x->scores_format);
    const double f = relu(cap_forward(s, x->cap, limit));
    const double ds =
      2 * f * cap_slope(s, x->cap, limit) * dot(do_, &AT(x->v, j, r.value), r.value_dim) / keys;
    for (long c = 0; c < r.dim; c++) {
      dq[c] += x->scale * ds * AT(x->k, j, r.key + c);
      dk[(j - from) * r.dim + c] += x->scale * ds * q[c];
    }
    for (long c = 0; c < r.value_dim; c++) dv[(j - from) * r.value_dim + c] += f * f / keys * do_[c];
  }
  for (long c = 0; c < r.dim; c++) AT(x->dq, n, r.query + c) = (real)dq[c];
}

/* dk [T,dim], dq [dim], dv [T,value_dim] of one group. */
size_t pointwise_backward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct pointwise_backward_args *x = args;
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  return (size_t)((length + 1) * dim + length * value_dim) * sizeof(double);
}

void ref_pointwise_backward(struct device *device, const struct pointwise_backward_args *x)
{
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  long shared = x->heads / x->groups;
  size_t bytes = pointwise_backward_scratch(device, x);
  double *dk = device_scratch(device, bytes), *dv = dk + (length + 1) * dim;
  for (long b = 0; b < x->batch; b++)
    for (long g = 0; g < x->groups; g++) {
      memset(dk, 0, bytes);
      for (long h = g * shared; h < (g + 1) * shared; h++)
        for (long t = 0; t < length; t++) backward_row(x, b * length + t, h, dk, dv);
      for (long t = 0; t < length; t++) {
        for (long c = 0; c < dim; c++) AT(x->dk, b * length + t, g * dim + c) = (real)dk[t * dim + c];
        for (long c = 0; c < value_dim; c++)
          AT(x->dv, b * length + t, g * value_dim + c) = (real)dv[t * value_dim + c];
      }
    }
}
