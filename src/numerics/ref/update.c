/* update.c - the definitions of optimizers and clips on long rows of numbers */
#include <math.h>
#include "base/number.h"
#include "base/thread.h"
#include "numerics/cut.h"
#include "numerics/ref/ref.h"

void ref_adam(struct device *device, const struct adam_args *x)
{
  (void)device;
  double b1 = number(x->b1), b2 = number(x->b2), c1 = number(x->c1), c2 = number(x->c2), eps = number(x->eps);
  for (long n = 0; n < x->g->rows; n++)
    for (long j = 0; j < x->g->cols; j++) {
      double g = (double)AT(x->g, n, j);
      double m = AT(x->m, n, j) = (real)(b1 * (double)AT(x->m, n, j) + (1 - b1) * g);
      double v = AT(x->v, n, j) = (real)(b2 * (double)AT(x->v, n, j) + (1 - b2) * g * g);
      AT(x->update, n, j) = (real)(isinf(v) ? NAN : m / (sqrt(v) / sqrt(c2) + eps) / c1);
    }
}

void ref_momentum(struct device *device, const struct momentum_args *x)
{
  (void)device;
  double mu = number(x->mu);
  for (long n = 0; n < x->g->rows; n++)
    for (long j = 0; j < x->g->cols; j++) {
      double g = (double)AT(x->g, n, j), m = mu * (double)AT(x->m, n, j) + g;
      AT(x->m, n, j) = (real)m;
      AT(x->update, n, j) = (real)(x->nesterov ? g + mu * m : m);
    }
}

void ref_row_moment(struct device *device, const struct row_moment_args *x)
{
  (void)device;
  double b2 = number(x->b2), eps = number(x->eps);
  for (long n = 0; n < x->x->rows; n++) {
    double sum = 0;
    for (long j = 0; j < x->x->cols; j++) sum += (double)AT(x->x, n, j) * (double)AT(x->x, n, j);
    double v = AT(x->v, n, 0) = (real)(b2 * (double)AT(x->v, n, 0) + (1 - b2) * sum / (double)x->x->cols);
    for (long j = 0; j < x->x->cols; j++)
      AT(x->x, n, j) = (real)(isinf(v) ? NAN : (double)AT(x->x, n, j) / (sqrt(v) + eps));
  }
}
