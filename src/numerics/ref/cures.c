/* cures.c - the definitions of additions to attention: a sink, a gate, a factor by the number of keys */
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/ref/ref.h"
#include <math.h>

void ref_sink(struct device *device, const struct sink_args *x)
{
  (void)device;
  const long heads = x->b->cols, dim = x->o->cols / heads;
  for (long n = 0; n < x->o->rows; n++)
    for (long h = 0; h < heads; h++) {
      real *ml = &AT(x->ml, n, 2 * h);
      const double m = ml[0], b = AT(x->b, 0, h), top = max_keeping_nan(m, b);
      const double keys = ml[1] * same_exp(m - top), all = keys + same_exp(b - top);
      for (long c = 0; c < dim; c++)
        AT(x->o, n, h * dim + c) = (real)(AT(x->o, n, h * dim + c) * (keys / all));
      ml[0] = (real)top;
      ml[1] = (real)all;
    }
}

void ref_sink_backward(struct device *device, const struct sink_backward_args *x)
{
  (void)device;
  const long heads = x->b->cols, dim = x->o->cols / heads;
  for (long h = 0; h < heads; h++) {
    double sum = 0;
    for (long n = 0; n < x->o->rows; n++) {
      const real *ml = &AT(x->ml, n, 2 * h);
      double through = 0;
      for (long c = h * dim; c < (h + 1) * dim; c++) through += (double)AT(x->do_, n, c) * AT(x->o, n, c);
      sum -= same_exp(AT(x->b, 0, h) - (double)ml[0]) / ml[1] * through;
    }
    put(x->db, 0, h, sum, 1);
  }
}

static double sigmoid(double x) { return 1 / (1 + same_exp(-x)); }

void ref_gate(struct device *device, const struct gate_args *x)
{
  (void)device;
  const long each = x->x->cols / x->g->cols;
  for (long n = 0; n < x->x->rows; n++)
    for (long j = 0; j < x->x->cols; j++)
      AT(x->y, n, j) = (real)(AT(x->x, n, j) * sigmoid(AT(x->g, n, j / each)));
}

void ref_gate_backward(struct device *device, const struct gate_backward_args *x)
{
  (void)device;
  const long each = x->x->cols / x->g->cols;
  for (long n = 0; n < x->x->rows; n++)
    for (long g = 0; g < x->g->cols; g++) {
      const double s = sigmoid(AT(x->g, n, g)), rest = sigmoid(-(double)AT(x->g, n, g));
      double sum = 0;
      for (long j = g * each; j < (g + 1) * each; j++) {
        sum += (double)AT(x->dy, n, j) * AT(x->x, n, j);
        AT(x->dx, n, j) = (real)(AT(x->dy, n, j) * s);
      }
      AT(x->dg, n, g) = (real)(sum * s * rest);
    }
}

/* ln of the number of keys that row n attends to */
static double log_keys(long n, long length, const struct tensor *start, const struct tensor *end,
                       const struct tensor *slot)
{
  const long to = end ? INTS(end)[n] : slot ? INTS(slot)[n] + 1 : n % length + 1, keys = to - INTS(start)[n];
  return same_log((double)(keys > 1 ? keys : 1));
}

void ref_ssmax_scale(struct device *device, const struct ssmax_scale_args *x)
{
  (void)device;
  const long heads = x->s->cols, dim = x->x->cols / heads, length = x->x->rows / x->batch;
  for (long n = 0; n < x->x->rows; n++) {
    const double log_n = log_keys(n, length, x->start, x->end, x->slot);
    for (long j = 0; j < x->x->cols; j++)
      AT(x->y, n, j) = (real)(AT(x->x, n, j) * (AT(x->s, 0, j / dim) * log_n));
  }
}

void ref_ssmax_scale_backward(struct device *device, const struct ssmax_scale_backward_args *x)
{
  (void)device;
  const long heads = x->s->cols, dim = x->x->cols / heads, length = x->x->rows / x->batch;
  for (long h = 0; h < heads; h++) {
    double sum = 0;
    for (long n = 0; n < x->x->rows; n++) {
      const double log_n = log_keys(n, length, x->start, x->end, x->slot);
      for (long j = h * dim; j < (h + 1) * dim; j++) {
        sum += (double)AT(x->dy, n, j) * AT(x->x, n, j) * log_n;
        put(x->dx, n, j, AT(x->dy, n, j) * (AT(x->s, 0, h) * log_n), x->add);
      }
    }
    put(x->ds, 0, h, sum, 1);
  }
}
