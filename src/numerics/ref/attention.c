/* attention.c - the definitions of attention and its reverse, whole or over a cache */
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/number_format.h"
#include "numerics/ref/attention.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* p holds the scores of the row's visible keys. With f_j = f(r(s_j)), m = max f, p_j = exp(f_j - m), l = sum p: o =
   sum p v / l, and the entropy of p/l is ln l - sum (p/l) (f - m). Zero weights add 0 to the row's own entropy. */
static void weigh(const struct score_row *r, double *p, const struct tensor *v,
                  const struct attention_score *x, real *o, real *ml, real *entropy, double stats[4])
{
  double m = -INFINITY, l = 0, mean = 0, told = 0;
  const long seen = r->end - r->first;
  for (long j = 0; j < seen; j++) {
    stats[0] = max_keeping_nan(stats[0], p[j]);
    stats[1] = max_keeping_nan(stats[1], fabs(p[j]));
    p[j] =
      cap_forward(number_round(p[j], (enum number_format)x->scores_format), x->cap, number(x->cap_value));
    m = max_keeping_nan(m, p[j]);
  }
  stats[2] = max_keeping_nan(stats[2], m);
  for (long j = 0; j < seen; j++) {
    double below = p[j] - m;
    p[j] = same_exp(below);
    l += p[j];
    mean += p[j] * below;
    if (p[j] != 0) told += p[j] * below;
  }
  if (seen > 0) stats[3] += same_log(l) - mean / l;
  for (long c = 0; c < r->value_dim; c++) {
    double sum = 0;
    for (long j = r->first; j < r->end; j++) sum += p[j - r->first] * AT(v, j, r->value + c);
    o[c] = seen > 0 ? (real)(sum / l) : 0;
  }
  ml[0] = (real)m;
  ml[1] = (real)l;
  if (entropy) *entropy = seen > 0 ? (real)(same_log(l) - told / l) : 0;
}

/* A row of scores. */
size_t forward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct attention_forward_args *x = args;
  return (size_t)(x->q->rows / x->batch) * sizeof(double);
}

static void put_stats(struct tensor *to, long h, const double stats[4], long rows)
{
  for (int i = 0; i < 3; i++) AT(to, h, i) = (real)stats[i];
  AT(to, h, 3) = (real)(stats[3] / (double)rows);
}

void ref_attend(struct device *device, const struct attention_forward_args *x, weigh_row *weighed)
{
  double *p = device_scratch(device, forward_scratch(device, x));
  for (long h = 0; h < x->heads; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long n = 0; n < x->q->rows; n++) {
      struct score_row r = row_of(x->q, x->v, x->start, x->end, &x->score, n, h);
      for (long j = r.first; j < r.end; j++)
        p[j - r.first] = x->scale * dot(&AT(x->q, n, r.query), &AT(x->k, j, r.key), r.dim);
      weighed(&r, p, x->v, &x->score, &AT(x->o, n, h * r.value_dim), x->ml ? &AT(x->ml, n, 2 * h) : NULL,
              x->ml && x->ml->cols > 2 * x->heads ? &AT(x->ml, n, 2 * x->heads + h) : NULL, stats);
    }
    put_stats(x->stats, h, stats, x->q->rows);
  }
}

void ref_attention_forward(struct device *device, const struct attention_forward_args *x)
{
  ref_attend(device, x, weigh);
}

/* Merge one head of the new part with the earlier ones. */
static void merge_head(void *context, long h, int worker)
{
  const struct attention_merge_args *x = context;
  const long heads = x->stats->rows, dim = x->o->cols / heads;
  double entropy = 0;
  (void)worker;
  for (long n = 0; n < x->o->rows; n++) {
    real *to = &AT(x->ml, n, 2 * h), *own = &AT(x->ml, n, 2 * heads + h);
    const real *ml = &AT(x->other_ml, n, 2 * h);
    double m = max_keeping_nan(to[0], ml[0]), l = 0, spread = 0, by[2] = {0, 0};
    const double part_m[] = {to[0], ml[0]}, part_l[] = {to[1], ml[1]},
                 part_entropy[] = {*own, AT(x->other_ml, n, 2 * heads + h)};
    for (int i = 0; i < 2; i++) {
      if (part_l[i] == 0) continue;
      double down = part_m[i] - m;
      by[i] = part_l[i] * same_exp(down);
      l += by[i];
      spread += by[i] * (same_log(part_l[i]) - part_entropy[i] + down);
    }
    for (long c = h * dim; l != 0 && c < (h + 1) * dim; c++)
      AT(x->o, n, c) = (real)((by[0] * AT(x->o, n, c) + by[1] * AT(x->other_o, n, c)) / l);
    to[0] = (real)m;
    to[1] = (real)l;
    *own = l != 0 ? (real)(same_log(l) - spread / l) : 0;
    entropy += *own;
  }
  real *stats = &AT(x->stats, h, 0);
  const real *other = &AT(x->other_stats, h, 0);
  const int none = isnan(stats[3]) || isnan(other[3]);
  for (int i = 0; i < 3; i++) stats[i] = (real)max_keeping_nan(stats[i], other[i]);
  stats[3] = none ? (real)NAN : (real)(entropy / (double)x->o->rows);
}

void ref_attention_merge(struct device *device, const struct attention_merge_args *x)
{
  parallel_for(device->pool, x->stats->rows, merge_head, (void *)(uintptr_t)x);
}

static long cache_length(const struct attention_cached_args *x) { return x->keys->rows / x->batch; }

/* The row of the cache at which the sequence of row n begins. */
static long cache_begin(const struct attention_cached_args *x, long n)
{
  return n / (x->q->rows / x->batch) * cache_length(x);
}

size_t cached_scratch(const struct device *device, const void *args)
{
  return (size_t)(pool_threads(device->pool) * cache_length(args)) * sizeof(double);
}

struct cached_job {
  const struct attention_cached_args *x;
  weigh_row *weighed;
  double *rows; /* of scores, one per worker */
};

static void attend_head(void *context, long h, int worker)
{
  const struct cached_job *job = context;
  const struct attention_cached_args *x = job->x;
  const long dim = x->q->cols / x->heads, scaled = x->factors ? x->scaled : 0, g = h * x->groups / x->heads;
  double *p = job->rows + worker * cache_length(x), stats[4] = {-INFINITY, 0, -INFINITY, 0};
  for (long n = 0; n < x->q->rows; n++) {
    const long begin = cache_begin(x, n);
    struct score_row r = {.first = begin + INTS(x->start)[n],
                          .end = begin + INTS(x->slot)[n] + 1,
                          .value_dim = x->values->cols / x->groups};
    r.value = g * r.value_dim;
    for (long j = r.first; j < r.end; j++) {
      const real *q = &AT(x->q, n, h * dim), *k = &AT(x->keys, j, g * dim);
      double s = dot(q + scaled, k + scaled, dim - scaled);
      if (x->factors) s += AT(x->factors, j, h) * dot(q, k, scaled);
      p[j - r.first] = x->scale * s;
    }
    job->weighed(&r, p, x->values, &x->score, &AT(x->o, n, h * r.value_dim),
                 x->ml ? &AT(x->ml, n, 2 * h) : NULL, NULL, stats);
  }
  put_stats(x->stats, h, stats, x->q->rows);
}

static void put_row(struct tensor *to, long row, const struct tensor *from, long n)
{
  memmove(&AT(to, row, 0), &AT(from, n, 0), (size_t)from->cols * sizeof(real));
}

void ref_attend_cached(struct device *device, const struct attention_cached_args *x, weigh_row *weighed)
{
  struct cached_job job = {x, weighed, device_scratch(device, cached_scratch(device, x))};
  for (long n = 0; n < x->q->rows; n++) {
    long to = cache_begin(x, n) + INTS(x->slot)[n];
    put_row(x->keys, to, x->k, n);
    put_row(x->values, to, x->v, n);
    if (x->factors) put_row(x->factors, to, x->factor, n);
  }
  parallel_for(device->pool, x->heads, attend_head, &job);
}

void ref_attention_cached(struct device *device, const struct attention_cached_args *x)
{
  ref_attend_cached(device, x, weigh);
}

/* p_j = exp(f_j - m) / l; ds_j = f'(s_j) p_j (do.v_j - do.o) */
static void slope(const struct attention_backward_args *x, const struct score_row *r, long n, long h,
                  double *s, double *w)
{
  const real *do_ = &AT(x->do_, n, h * r->value_dim), *ml = &AT(x->ml, n, 2 * h);
  const double through = dot(do_, &AT(x->o, n, h * r->value_dim), r->value_dim), limit = number(x->cap_value);
  for (long j = 0; j < r->end - r->first; j++) {
    w[j] = same_exp(cap_forward(s[j], x->cap, limit) - ml[0]) / ml[1];
    s[j] = cap_slope(s[j], x->cap, limit) * w[j] *
           (dot(do_, &AT(x->v, r->first + j, r->value), r->value_dim) - through);
  }
}

/* Room for one group: dk [T,dim], dq [dim], dv [T,value_dim]; and for a row's s [T] and w [T]. */
size_t backward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct attention_backward_args *x = args;
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  return (size_t)((length + 1) * dim + length * (value_dim + 2)) * sizeof(double);
}

/* dv_j += w_j do; dq += scale ds_j k_j; dk_j += scale ds_j q. dk and dv of one group and sequence gather in double. */
static void backward_row(const struct attention_backward_args *x, slope_row *sloped, long n, long h,
                         double *dk, double *dv)
{
  struct score_row r = row_of(x->q, x->v, x->start, x->end, &x->score, n, h);
  const long length = x->q->rows / x->batch, from = n - n % length;
  const real *q = &AT(x->q, n, r.query), *do_ = &AT(x->do_, n, h * r.value_dim);
  double *dq = dk + length * r.dim, *s = dv + length * r.value_dim, *w = s + length;
  for (long c = 0; c < r.dim; c++) dq[c] = 0;
  for (long j = r.first; j < r.end; j++)
    s[j - r.first] =
      number_round(x->scale * dot(q, &AT(x->k, j, r.key), r.dim), (enum number_format)x->scores_format);
  sloped(x, &r, n, h, s, w);
  for (long j = r.first; j < r.end; j++) {
    const double ds = x->scale * s[j - r.first];
    for (long c = 0; c < r.dim; c++) {
      dq[c] += ds * AT(x->k, j, r.key + c);
      dk[(j - from) * r.dim + c] += ds * q[c];
    }
    for (long c = 0; c < r.value_dim; c++) dv[(j - from) * r.value_dim + c] += w[j - r.first] * do_[c];
  }
  for (long c = 0; c < r.dim; c++) AT(x->dq, n, r.query + c) = (real)dq[c];
}

void ref_attend_backward(struct device *device, const struct attention_backward_args *x, slope_row *sloped)
{
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  long shared = x->heads / x->groups;
  size_t bytes = backward_scratch(device, x);
  double *dk = device_scratch(device, bytes), *dv = dk + (length + 1) * dim;
  for (long b = 0; b < x->batch; b++)
    for (long g = 0; g < x->groups; g++) {
      memset(dk, 0, bytes);
      for (long h = g * shared; h < (g + 1) * shared; h++)
        for (long t = 0; t < length; t++) backward_row(x, sloped, b * length + t, h, dk, dv);
      for (long t = 0; t < length; t++) {
        for (long c = 0; c < dim; c++) AT(x->dk, b * length + t, g * dim + c) = (real)dk[t * dim + c];
        for (long c = 0; c < value_dim; c++)
          AT(x->dv, b * length + t, g * value_dim + c) = (real)dv[t * value_dim + c];
      }
    }
}

void ref_attention_backward(struct device *device, const struct attention_backward_args *x)
{
  ref_attend_backward(device, x, slope);
}

static void look_at_head(void *context, long h, int worker)
{
  const struct attention_look_args *x = context;
  double best = -INFINITY, above = 0, pairs = 0, level = number(x->level);
  const real *q = &AT(x->q, 0, 0), *k = &AT(x->k, 0, 0);
  long dim = x->q->cols / x->heads;
  (void)worker;
  for (long n = 0; n < x->q->rows; n++) {
    struct score_row r = row_of(x->q, x->k, x->start, x->end, &x->score, n, h);
    for (long j = r.first; j < r.end; j++, pairs++) {
      double s = x->scale * dot(&AT(x->q, n, r.query), &AT(x->k, j, r.key), dim);
      above += isnan(s) ? s : s > level;
      if (pairs > 0 && !(s > best) && !(isnan(s) && !isnan(best))) continue;
      best = s;
      q = &AT(x->q, n, r.query);
      k = &AT(x->k, j, r.key);
    }
  }
  double q_norm = sqrt(dot(q, q, dim)), k_norm = sqrt(dot(k, k, dim));
  const double look[] = {above / pairs, pairs, q_norm, k_norm, dot(q, k, dim) / (q_norm * k_norm)};
  for (int i = 0; i < 5; i++) AT(x->look, h, i) = pairs > 0 ? (real)look[i] : 0;
}

void ref_attention_look(struct device *device, const struct attention_look_args *x)
{
  parallel_for(device->pool, x->heads, look_at_head, (void *)(uintptr_t)x);
}
