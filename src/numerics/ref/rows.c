/* rows.c - the definitions of biases, embedding, norms, activations, RoPE, heads joined, the loss */
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/number_format.h"
#include "numerics/ref/ref.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

void ref_add_bias(struct device *device, const struct add_bias_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) += AT(x->b, 0, j);
}

void ref_sum_rows(struct device *device, const struct sum_rows_args *x)
{
  (void)device;
  for (long j = 0; j < x->x->cols; j++) {
    double sum = 0;
    for (long n = 0; n < x->x->rows; n++) sum += AT(x->x, n, j);
    put(x->y, 0, j, sum, x->add);
  }
}

/* --- embedding, norms, activations ------------------------------------------------------------------- */

void ref_embed_forward(struct device *device, const struct embed_forward_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->w, INTS(x->tokens)[n], j);
}

size_t embed_scratch(const struct device *device, const void *args)
{
  (void)device;
  return (size_t)((const struct embed_backward_args *)args)->dw->rows * sizeof(double);
}

void ref_embed_backward(struct device *device, const struct embed_backward_args *x)
{
  double *sum = device_scratch(device, embed_scratch(device, x));
  for (long j = 0; j < x->dy->cols; j++) {
    for (long v = 0; v < x->dw->rows; v++) sum[v] = AT(x->dw, v, j);
    for (long n = 0; n < x->dy->rows; n++) sum[INTS(x->tokens)[n]] += AT(x->dy, n, j);
    for (long v = 0; v < x->dw->rows; v++) AT(x->dw, v, j) = (real)sum[v];
  }
}

void ref_rmsnorm_forward(struct device *device, const struct rmsnorm_forward_args *x)
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
void ref_rmsnorm_backward(struct device *device, const struct rmsnorm_backward_args *x)
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

void ref_swiglu_forward(struct device *device, const struct swiglu_forward_args *x)
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
void ref_swiglu_backward(struct device *device, const struct swiglu_backward_args *x)
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

void ref_rope(struct device *device, const struct rope_args *x)
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

void ref_scale_columns(struct device *device, const struct scale_columns_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = AT(x->x, n, j) * AT(x->s, 0, 0);
}

void ref_scale_columns_backward(struct device *device, const struct scale_columns_backward_args *x)
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

void ref_join_heads(struct device *device, const struct join_heads_args *x)
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

void ref_join_heads_backward(struct device *device, const struct join_heads_backward_args *x)
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

void ref_reparam(struct device *device, const struct reparam_args *x)
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

void ref_reparam_backward(struct device *device, const struct reparam_backward_args *x)
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

void ref_cross_entropy(struct device *device, const struct cross_entropy_args *x)
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

void ref_cross_entropy_backward(struct device *device, const struct cross_entropy_backward_args *x)
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

void ref_token_loss(struct device *device, const struct token_loss_args *x)
{
  (void)device;
  for (long n = 0; n < x->y->rows; n++)
    AT(x->y, n, 0) = (real)loss_of(&AT(x->ml, n, 0), AT(x->logits, n, INTS(x->targets)[n]));
}
