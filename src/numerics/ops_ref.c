/* ops_ref.c - the definition of every operation: plain loops, sums in double and in the order of the indices
   Whatever a loop below does with NaN, infinities and ties is what the operation does; other devices may
   differ by rounding only. */
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/device.h"
#include "numerics/number_format.h"
#include "numerics/ops_ref.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static void put(struct tensor *t, long i, long j, double value, long add)
{
  AT(t, i, j) = (real)(add ? AT(t, i, j) + value : value);
}

/* --- dense products -------------------------------------------------------------------------------- */

static void ref_matmul(struct device *device, const struct matmul_args *x)
{
  (void)device;
  long depth = x->ta ? x->a->rows : x->a->cols;
  for (long i = 0; i < x->c->rows; i++)
    for (long j = 0; j < x->c->cols; j++) {
      double sum = 0;
      for (long k = 0; k < depth; k++)
        sum += (double)(x->ta ? AT(x->a, k, i) : AT(x->a, i, k)) * (x->tb ? AT(x->b, j, k) : AT(x->b, k, j));
      put(x->c, i, j, x->alpha * sum + (x->d ? (double)AT(x->d, i, j) : 0), x->add);
    }
}

static void ref_gram(struct device *device, const struct gram_args *x)
{
  (void)device;
  for (long i = 0; i < x->c->rows; i++)
    for (long j = 0; j <= i; j++) {
      double sum = 0;
      for (long k = 0; k < x->a->cols; k++) sum += (double)AT(x->a, i, k) * AT(x->a, j, k);
      sum = x->alpha * sum + (x->beta != 0 ? x->beta * AT(x->a, i, j) : 0);
      AT(x->c, i, j) = AT(x->c, j, i) = (real)sum;
    }
}

static void ref_add_bias(struct device *device, const struct add_bias_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) += AT(x->b, 0, j);
}

static void ref_sum_rows(struct device *device, const struct sum_rows_args *x)
{
  (void)device;
  for (long j = 0; j < x->x->cols; j++) {
    double sum = 0;
    for (long n = 0; n < x->x->rows; n++) sum += AT(x->x, n, j);
    put(x->y, 0, j, sum, x->add);
  }
}

/* --- embedding, norms, activations ------------------------------------------------------------------- */

static void ref_embed_forward(struct device *device, const struct embed_forward_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->w, INTS(x->tokens)[n], j);
}

static size_t embed_scratch(const struct device *device, const void *args)
{
  (void)device;
  return (size_t)((const struct embed_backward_args *)args)->dw->rows * sizeof(double);
}

static void ref_embed_backward(struct device *device, const struct embed_backward_args *x)
{
  double *sum = device_scratch(device, embed_scratch(device, x));
  for (long j = 0; j < x->dy->cols; j++) {
    for (long v = 0; v < x->dw->rows; v++) sum[v] = AT(x->dw, v, j);
    for (long n = 0; n < x->dy->rows; n++) sum[INTS(x->tokens)[n]] += AT(x->dy, n, j);
    for (long v = 0; v < x->dw->rows; v++) AT(x->dw, v, j) = (real)sum[v];
  }
}

static void ref_rmsnorm_forward(struct device *device, const struct rmsnorm_forward_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long g = 0; g < x->x->cols / x->group; g++) {
      double squares = 0;
      for (long j = 0; j < x->group; j++) {
        double value = AT(x->x, n, g * x->group + j);
        squares += value * value;
      }
      double rstd = 1 / sqrt(squares / (double)x->group + number(x->eps));
      AT(x->rstd, n, g) = (real)rstd;
      for (long j = 0; j < x->group; j++)
        AT(x->y, n, g * x->group + j) =
          (real)(AT(x->x, n, g * x->group + j) * rstd * (x->gain ? AT(x->gain, 0, j) : 1));
    }
}

/* y = x rstd gain, rstd = (mean(x^2) + eps)^-1/2; with e = dy gain:
   dx = rstd (e - x rstd^2 mean(e x)), dgain = sum over rows and groups of dy x rstd */
static void ref_rmsnorm_backward(struct device *device, const struct rmsnorm_backward_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long g = 0; g < x->x->cols / x->group; g++) {
      long from = g * x->group;
      double rstd = AT(x->rstd, n, g), mean = 0;
      for (long j = 0; j < x->group; j++)
        mean += (double)AT(x->dy, n, from + j) * (x->gain ? AT(x->gain, 0, j) : 1) * AT(x->x, n, from + j);
      mean /= (double)x->group;
      for (long j = 0; j < x->group; j++) {
        double dy = AT(x->dy, n, from + j), value = AT(x->x, n, from + j);
        double e = dy * (x->gain ? AT(x->gain, 0, j) : 1);
        put(x->dx, n, from + j, rstd * (e - value * rstd * rstd * mean), x->add);
      }
    }
  for (long j = 0; x->dgain && j < x->group; j++) {
    double sum = 0;
    for (long n = 0; n < x->x->rows; n++)
      for (long g = 0; g < x->x->cols / x->group; g++)
        sum += (double)AT(x->dy, n, g * x->group + j) * AT(x->x, n, g * x->group + j) * AT(x->rstd, n, g);
    put(x->dgain, 0, j, sum, 1);
  }
}

static double sigmoid(double x) { return 1 / (1 + same_exp(-x)); }

static void ref_swiglu_forward(struct device *device, const struct swiglu_forward_args *x)
{
  (void)device;
  long width = x->y->cols;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < width; j++) {
      double gate = AT(x->x, n, j), up = AT(x->x, n, width + j);
      AT(x->y, n, j) = (real)(gate * sigmoid(gate) * up);
    }
}

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g) */
static void ref_swiglu_backward(struct device *device, const struct swiglu_backward_args *x)
{
  (void)device;
  long width = x->dy->cols;
  for (long n = 0; n < x->dy->rows; n++)
    for (long j = 0; j < width; j++) {
      double gate = AT(x->x, n, j), up = AT(x->x, n, width + j), dy = AT(x->dy, n, j), s = sigmoid(gate);
      AT(x->dx, n, j) = (real)(dy * up * s * (1 + gate * (1 - s)));
      AT(x->dx, n, width + j) = (real)(dy * gate * s);
    }
}

static void ref_rope(struct device *device, const struct rope_args *x)
{
  (void)device;
  long half = x->dim / 2;
  for (long n = 0; n < x->x->rows; n++)
    for (long head = 0; head < x->x->cols / x->dim; head++)
      for (long i = 0; i < half; i++) {
        long p = INTS(x->position)[n], j = head * x->dim + i;
        double c = AT(x->table, p, i), s = (double)x->sign * AT(x->table, p, half + i);
        double first = AT(x->x, n, j), second = AT(x->x, n, j + half);
        put(x->y, n, j, first * c - second * s, x->add);
        put(x->y, n, j + half, second * c + first * s, x->add);
      }
}

static void ref_scale_columns(struct device *device, const struct scale_columns_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->x, n, j) * AT(x->s, 0, 0);
}

static void ref_scale_columns_backward(struct device *device, const struct scale_columns_backward_args *x)
{
  (void)device;
  double sum = 0;
  for (long n = 0; n < x->dy->rows; n++)
    for (long j = 0; j < x->dy->cols; j++) {
      double dy = AT(x->dy, n, j);
      sum += dy * AT(x->x, n, j);
      put(x->dx, n, j, dy * AT(x->s, 0, 0), x->add);
    }
  put(x->ds, 0, 0, sum, 1);
}

static void ref_join_heads(struct device *device, const struct join_heads_args *x)
{
  (void)device;
  long da = x->a->cols / x->heads, db = x->shared ? x->b->cols : x->b->cols / x->heads;
  for (long n = 0; n < x->y->rows; n++)
    for (long h = 0; h < x->heads; h++) {
      real *y = &AT(x->y, n, h * (da + db));
      memcpy(y, &AT(x->a, n, h * da), (size_t)da * sizeof *y);
      memcpy(y + da, &AT(x->b, n, x->shared ? 0 : h * db), (size_t)db * sizeof *y);
    }
}

static void ref_join_heads_backward(struct device *device, const struct join_heads_backward_args *x)
{
  (void)device;
  long da = x->da->cols / x->heads, db = x->shared ? x->db->cols : x->db->cols / x->heads;
  for (long n = 0; n < x->dy->rows; n++) {
    for (long h = 0; h < x->heads; h++)
      memcpy(&AT(x->da, n, h * da), &AT(x->dy, n, h * (da + db)), (size_t)da * sizeof(real));
    for (long j = 0; j < x->db->cols; j++) {
      double sum = 0;
      for (long h = 0; x->shared && h < x->heads; h++) sum += AT(x->dy, n, h * (da + db) + da + j);
      AT(x->db, n, j) = x->shared ? (real)sum : AT(x->dy, n, j / db * (da + db) + da + j % db);
    }
  }
}

static void ref_reparam(struct device *device, const struct reparam_args *x)
{
  (void)device;
  double sigma = 0;
  for (long i = 0; i < x->w->rows; i++)
    for (long j = 0; j < x->w->cols; j++) sigma += (double)AT(x->u, 0, i) * AT(x->w, i, j) * AT(x->v, 0, j);
  AT(x->sigma, 0, 0) = (real)sigma;
  double factor = AT(x->gain, 0, 0) / (double)AT(x->sigma, 0, 0);
  for (long i = 0; i < x->w->rows; i++)
    for (long j = 0; j < x->w->cols; j++) AT(x->y, i, j) = (real)(factor * AT(x->w, i, j));
}

static void ref_reparam_backward(struct device *device, const struct reparam_backward_args *x)
{
  (void)device;
  double sigma = AT(x->sigma, 0, 0), factor = AT(x->gain, 0, 0) / sigma, e = 0;
  for (long i = 0; i < x->w->rows; i++)
    for (long j = 0; j < x->w->cols; j++) e += (double)AT(x->dy, i, j) * AT(x->w, i, j);
  put(x->dgain, 0, 0, e / sigma, 1);
  for (long i = 0; i < x->w->rows; i++)
    for (long j = 0; j < x->w->cols; j++) {
      double away = e / sigma * AT(x->u, 0, i) * AT(x->v, 0, j);
      put(x->dw, i, j, factor * (AT(x->dy, i, j) - away), x->add);
    }
}

/* --- attention ---------------------------------------------------------------------------------------- */

static double dot(const real *a, const real *b, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)a[i] * b[i];
  return sum;
}

static double cap_forward(double s, long cap, double value)
{
  if (cap == 1) return value * same_tanh(s / value);
  return cap == 2 && s > value ? value : s;
}

/* df/ds */
static double cap_slope(double s, long cap, double value)
{
  if (cap == 1) { /* 1 - tanh^2 without its cancellation: 1 / cosh^2 */
    double e = same_exp(fabs(s / value)), c = (e + 1 / e) / 2;
    return 1 / (c * c);
  }
  return cap == 2 && s > value ? 0 : 1;
}

/* What one row of one head sees: keys first..n of `sequence`, each a row of k and v. */
struct row {
  long n, first, dim, value_dim, query, key, value; /* columns where the head's q, k, v begin */
};

static struct row row_of(const struct tensor *q, const struct tensor *v, const struct tensor *start,
                         long batch, long heads, long groups, long n, long h)
{
  long length = q->rows / batch, g = h * groups / heads;
  struct row r = {.n = n,
                  .first = n / length * length + INTS(start)[n],
                  .dim = q->cols / heads,
                  .value_dim = v->cols / groups};
  r.query = h * r.dim;
  r.key = g * r.dim;
  r.value = g * r.value_dim;
  return r;
}

/* p holds the scores of what the row sees. With f_j = f(r(s_j)), m = max f, p_j = exp(f_j - m), l = sum p:
   o = sum p v / l, and the entropy of p/l is ln l - sum (p/l) (f - m). */
static void weigh(const struct row *r, double *p, const struct tensor *v, const struct attention_score *x,
                  real *o, real ml[2], double stats[4])
{
  double m = -INFINITY, l = 0, mean = 0;
  for (long j = 0; j <= r->n - r->first; j++) {
    stats[0] = max_keeping_nan(stats[0], p[j]);
    stats[1] = max_keeping_nan(stats[1], fabs(p[j]));
    p[j] =
      cap_forward(number_round(p[j], (enum number_format)x->scores_format), x->cap, number(x->cap_value));
    m = max_keeping_nan(m, p[j]);
  }
  stats[2] = max_keeping_nan(stats[2], m);
  for (long j = 0; j <= r->n - r->first; j++) {
    double below = p[j] - m;
    p[j] = same_exp(below);
    l += p[j];
    mean += p[j] * below;
  }
  stats[3] += same_log(l) - mean / l;
  for (long c = 0; c < r->value_dim; c++) {
    double sum = 0;
    for (long j = r->first; j <= r->n; j++) sum += p[j - r->first] * AT(v, j, r->value + c);
    o[c] = (real)(sum / l);
  }
  ml[0] = (real)m;
  ml[1] = (real)l;
}

/* `p` is room for one row. */
static void attend(const struct attention_forward_args *x, long n, long h, double *p, double stats[4])
{
  struct row r = row_of(x->q, x->v, x->start, x->batch, x->heads, x->groups, n, h);
  for (long j = r.first; j <= n; j++)
    p[j - r.first] = x->scale * dot(&AT(x->q, n, r.query), &AT(x->k, j, r.key), r.dim);
  real *o = &AT(x->o, n, h * r.value_dim);
  weigh(&r, p, x->v, &x->score, o, &AT(x->ml, n, 2 * h), stats);
}

/* A row of scores. */
static size_t forward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct attention_forward_args *x = args;
  return (size_t)(x->q->rows / x->batch) * sizeof(double);
}

static void ref_attention_forward(struct device *device, const struct attention_forward_args *x)
{
  double *row = device_scratch(device, forward_scratch(device, x));
  for (long h = 0; h < x->heads; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long n = 0; n < x->q->rows; n++) attend(x, n, h, row, stats);
    stats[3] /= (double)x->q->rows;
    for (int i = 0; i < 4; i++) AT(x->stats, h, i) = (real)stats[i];
  }
}

static void put_row(struct tensor *to, long row, const struct tensor *from, long n)
{
  memmove(&AT(to, row, 0), &AT(from, n, 0), (size_t)from->cols * sizeof(real));
}

static void attend_cached(const struct attention_cached_args *x, long n, long h, double *p, double stats[4])
{
  long length = x->keys->rows / x->q->rows, g = h * x->groups / x->heads;
  long dim = x->q->cols / x->heads, scaled = x->factors ? x->scaled : 0;
  struct row r = {.n = n * length + INTS(x->slot)[n],
                  .first = n * length + INTS(x->start)[n],
                  .value_dim = x->values->cols / x->groups};
  r.value = g * r.value_dim;
  for (long j = r.first; j <= r.n; j++) {
    const real *q = &AT(x->q, n, h * dim), *k = &AT(x->keys, j, g * dim);
    double s = dot(q + scaled, k + scaled, dim - scaled);
    if (x->factors) s += AT(x->factors, j, h) * dot(q, k, scaled);
    p[j - r.first] = x->scale * s;
  }
  real *o = &AT(x->o, n, h * r.value_dim);
  weigh(&r, p, x->values, &x->score, o, &AT(x->ml, n, 2 * h), stats);
}

static size_t cached_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct attention_cached_args *x = args;
  return (size_t)(x->keys->rows / x->q->rows) * sizeof(double);
}

static void ref_attention_cached(struct device *device, const struct attention_cached_args *x)
{
  long length = x->keys->rows / x->q->rows;
  double *row = device_scratch(device, cached_scratch(device, x));
  for (long n = 0; n < x->q->rows; n++) {
    long to = n * length + INTS(x->slot)[n];
    put_row(x->keys, to, x->k, n);
    put_row(x->values, to, x->v, n);
    if (x->factors) put_row(x->factors, to, x->factor, n);
  }
  for (long h = 0; h < x->heads; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long n = 0; n < x->q->rows; n++) attend_cached(x, n, h, row, stats);
    stats[3] /= (double)x->q->rows;
    for (int i = 0; i < 4; i++) AT(x->stats, h, i) = (real)stats[i];
  }
}

static void ref_heads_product(struct device *device, const struct heads_product_args *x)
{
  (void)device;
  long from = x->x->cols / x->heads, to = x->y->cols / x->heads;
  for (long n = 0; n < x->y->rows; n++)
    for (long c = 0; c < x->y->cols; c++) {
      long h = c / to, i = c % to;
      double sum = 0;
      for (long j = 0; j < from; j++)
        sum += (double)AT(x->x, n, h * from + j) * (x->gain ? AT(x->gain, 0, j) : 1) *
               (x->transposed ? AT(x->w, c, j) : AT(x->w, h * from + j, i));
      AT(x->y, n, c) = (real)sum;
    }
}

/* p_j = exp(f_j - m) / l; dv_j += p_j do; ds_j = f'(s_j) p_j (do.v_j - do.o); dq += scale ds_j k_j;
   dk_j += scale ds_j q. dk [T,dim] and dv [T,value_dim] of one group and sequence gather in double. */
static void attend_backward(const struct attention_backward_args *x, long n, long h, double *dk, double *dv)
{
  struct row r = row_of(x->q, x->v, x->start, x->batch, x->heads, x->groups, n, h);
  long from = n - n % (x->q->rows / x->batch);
  const real *q = &AT(x->q, n, r.query), *do_ = &AT(x->do_, n, h * r.value_dim);
  const real *ml = &AT(x->ml, n, 2 * h);
  double through = dot(do_, &AT(x->o, n, h * r.value_dim), r.value_dim);
  double *dq = dk + (x->q->rows / x->batch) * r.dim, limit = number(x->cap_value);
  for (long c = 0; c < r.dim; c++) dq[c] = 0;
  for (long j = r.first; j <= n; j++) {
    double s = x->scale * dot(q, &AT(x->k, j, r.key), r.dim);
    s = number_round(s, (enum number_format)x->scores_format);
    double p = same_exp(cap_forward(s, x->cap, limit) - ml[0]) / ml[1];
    double ds = cap_slope(s, x->cap, limit) * p * (dot(do_, &AT(x->v, j, r.value), r.value_dim) - through);
    for (long c = 0; c < r.dim; c++) {
      dq[c] += x->scale * ds * AT(x->k, j, r.key + c);
      dk[(j - from) * r.dim + c] += x->scale * ds * q[c];
    }
    for (long c = 0; c < r.value_dim; c++) dv[(j - from) * r.value_dim + c] += p * do_[c];
  }
  for (long c = 0; c < r.dim; c++) AT(x->dq, n, r.query + c) = (real)dq[c];
}

/* dk [T,dim], dq [dim], dv [T,value_dim] of one group. */
static size_t backward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct attention_backward_args *x = args;
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  return (size_t)((length + 1) * dim + length * value_dim) * sizeof(double);
}

static void ref_attention_backward(struct device *device, const struct attention_backward_args *x)
{
  long length = x->q->rows / x->batch, dim = x->k->cols / x->groups, value_dim = x->v->cols / x->groups;
  long shared = x->heads / x->groups;
  size_t bytes = backward_scratch(device, x);
  double *dk = device_scratch(device, bytes), *dv = dk + (length + 1) * dim;
  for (long b = 0; b < x->batch; b++)
    for (long g = 0; g < x->groups; g++) {
      memset(dk, 0, bytes);
      for (long h = g * shared; h < (g + 1) * shared; h++)
        for (long t = 0; t < length; t++) attend_backward(x, b * length + t, h, dk, dv);
      for (long t = 0; t < length; t++) {
        for (long c = 0; c < dim; c++) AT(x->dk, b * length + t, g * dim + c) = (real)dk[t * dim + c];
        for (long c = 0; c < value_dim; c++)
          AT(x->dv, b * length + t, g * value_dim + c) = (real)dv[t * value_dim + c];
      }
    }
}

static void look_at_head(void *context, long h, int worker)
{
  const struct attention_look_args *x = context;
  double best = -INFINITY, above = 0, pairs = 0, level = number(x->level);
  const real *q = &AT(x->q, 0, 0), *k = &AT(x->k, 0, 0);
  long dim = x->q->cols / x->heads;
  (void)worker;
  for (long n = 0; n < x->q->rows; n++) {
    struct row r = row_of(x->q, x->k, x->start, x->batch, x->heads, x->groups, n, h);
    for (long j = r.first; j <= n; j++, pairs++) {
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
  for (int i = 0; i < 5; i++) AT(x->look, h, i) = (real)look[i];
}

static void ref_attention_look(struct device *device, const struct attention_look_args *x)
{
  parallel_for(device->pool, x->heads, look_at_head, (void *)(uintptr_t)x);
}

/* --- loss ------------------------------------------------------------------------------------------- */

static void max_and_sum(const real *row, long n, real ml[2])
{
  double m = -INFINITY, sum = 0;
  for (long j = 0; j < n; j++) m = max_keeping_nan(m, row[j]);
  for (long j = 0; j < n; j++) sum += same_exp(row[j] - m);
  ml[0] = (real)m;
  ml[1] = (real)sum;
}

/* m + ln l less the target's logit: the large numbers first */
static double loss_of(const real ml[2], double logit)
{
  return (double)ml[0] - logit + same_log((double)ml[1]);
}

static void ref_cross_entropy(struct device *device, const struct cross_entropy_args *x)
{
  (void)device;
  double loss = 0, squares = 0, z = number(x->z);
  for (long n = 0; n < x->logits->rows; n++) {
    double weight = REALS(x->weight)[n];
    real *ml = &AT(x->ml, n, 0);
    max_and_sum(&AT(x->logits, n, 0), x->logits->cols, ml);
    if (weight == 0) continue;
    loss += weight * loss_of(ml, AT(x->logits, n, INTS(x->targets)[n]));
    double lse = loss_of(ml, 0);
    squares += weight * lse * lse;
  }
  AT(x->loss, 0, 0) = (real)loss;
  AT(x->loss, 0, 1) = (real)(z != 0 ? z * squares : 0);
}

static void ref_cross_entropy_backward(struct device *device, const struct cross_entropy_backward_args *x)
{
  (void)device;
  double z = number(x->z);
  for (long n = 0; n < x->logits->rows; n++) {
    const real *ml = &AT(x->ml, n, 0);
    double weight = REALS(x->weight)[n], lse = loss_of(ml, 0);
    for (long j = 0; j < x->logits->cols; j++) {
      double p = same_exp(AT(x->logits, n, j) - ml[0]) / ml[1];
      double d = p * (1 + 2 * z * lse) - (j == INTS(x->targets)[n]);
      AT(x->dlogits, n, j) = weight == 0 ? 0 : (real)(weight * d);
    }
  }
}

static void ref_token_loss(struct device *device, const struct token_loss_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    AT(x->y, n, 0) = (real)loss_of(&AT(x->ml, n, 0), AT(x->logits, n, INTS(x->targets)[n]));
}

/* --- plain vectors ------------------------------------------------------------------------------------ */

static void ref_fill(struct device *device, const struct fill_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)x->value;
}

static void ref_copy(struct device *device, const struct copy_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->x, n, j);
}

static void ref_round_to(struct device *device, const struct round_to_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++)
      AT(x->y, n, j) = (real)number_round((double)AT(x->x, n, j), (enum number_format)x->format);
}

static void ref_transpose(struct device *device, const struct transpose_args *x)
{
  (void)device;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++) AT(x->y, j, n) = AT(x->x, n, j);
}

static void ref_axpby(struct device *device, const struct axpby_args *x)
{
  double alpha = x->alpha * number(x->a), beta = x->beta != 0 ? x->beta * number(x->b) : 0;
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) {
      double old = beta != 0 ? beta * (double)AT(x->y, n, j) : 0;
      AT(x->y, n, j) = (real)(alpha * (double)AT(x->x, n, j) + old);
    }
}

static void ref_scale(struct device *device, const struct scale_args *x)
{
  (void)device;
  double alpha = x->alpha * number(x->by);
  if (alpha == 1) return;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)(alpha * AT(x->y, n, j));
}

static void ref_max_abs(struct device *device, const struct max_abs_args *x)
{
  (void)device;
  double top = 0;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++) top = max_keeping_nan(top, fabs((double)AT(x->x, n, j)));
  AT(x->y, 0, 0) = (real)top;
}

const struct ops ops_ref = {
#define OP(name, what, fields) .name = ref_##name,
#include "numerics/ops.def"
#undef OP
  .scratch = {[OP_embed_backward] = embed_scratch,
              [OP_attention_forward] = forward_scratch,
              [OP_attention_cached] = cached_scratch,
              [OP_attention_backward] = backward_scratch,
              [OP_route] = route_scratch,
              [OP_route_backward] = route_backward_scratch,
              [OP_balance_loss] = balance_loss_scratch,
              [OP_newton_schulz] = newton_schulz_scratch},
};
