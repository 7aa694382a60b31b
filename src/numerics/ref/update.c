/* update.c - the definitions of what optimisers and clips do to long rows of numbers */
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
