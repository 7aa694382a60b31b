/* product.c - the definitions of dense products, and of Newton-Schulz, which is made of them */
#include "base/elementary.h"
#include "base/number.h"
#include "base/thread.h"
#include "numerics/cut.h"
#include "numerics/number_format.h"
#include "numerics/ref/ref.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

void ref_matmul(struct device *device, const struct matmul_args *x)
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

void ref_gram(struct device *device, const struct gram_args *x)
{
  (void)device;
  const long terms = x->ta ? x->a->rows : x->a->cols;
  for (long i = 0; i < x->c->rows; i++)
    for (long j = 0; j <= i; j++) {
      double sum = 0;
      for (long k = 0; k < terms; k++)
        sum += x->ta ? (double)AT(x->a, k, i) * AT(x->a, k, j) : (double)AT(x->a, i, k) * AT(x->a, j, k);
      sum = x->alpha * sum + (x->beta != 0 ? x->beta * AT(x->a, i, j) : 0);
      AT(x->c, i, j) = AT(x->c, j, i) = (real)sum;
    }
}

void ref_symmetric_product(struct device *device, const struct symmetric_product_args *x)
{
  (void)device;
  for (long i = 0; i < x->c->rows; i++)
    for (long j = 0; j <= i; j++) {
      double sum = 0;
      for (long k = 0; k < x->a->cols; k++) sum += (double)AT(x->a, i, k) * AT(x->b, k, j);
      AT(x->c, i, j) = AT(x->c, j, i) = (real)sum;
    }
}

void ref_heads_product(struct device *device, const struct heads_product_args *x)
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

/* --- Newton-Schulz ------------------------------------------------------------------------------------------ */
/* Composed of the device's own products, one matrix per piece of work, so that its intermediate results stay in a
   core's cache. All [m, m] are polynomials of one symmetric matrix, and symmetric like their products: only one half
   of each is computed. Several steps between two products with X: Gram Newton-Schulz (J. Zhang, N. Amsel, B. Chen, T.
   Dao 2026, github.com/Dao-AILab/gram-newton-schulz; arXiv 2608.11612). It restarts from X as often as rounding
   requires. */

struct flat {
  /* [n, m], m <= n: the transpose of X, so that the factors of its products are read as they lie */
  struct tensor x, next;
  struct tensor r, q;    /* [m, m] */
  struct tensor h, room; /* [m, m], of steps between which X is not multiplied */
  struct tensor ones;    /* [m, 1] */
  struct tensor norm;    /* [1, 1] */
};

static struct flat lay_out(const struct newton_schulz_args *a, real *at)
{
  long m = a->rows < a->cols ? a->rows : a->cols, n = a->rows < a->cols ? a->cols : a->rows;
  struct flat f = {.x = tensor_cut(&at, n, m)};
  f.next = tensor_cut(&at, n, m);
  f.r = tensor_cut(&at, m, m);
  f.q = tensor_cut(&at, m, m);
  if (a->first > 1 || a->then > 1) {
    f.h = tensor_cut(&at, m, m);
    f.room = tensor_cut(&at, m, m);
  }
  f.ones = tensor_cut(&at, m, 1);
  f.norm = tensor_cut(&at, 1, 1);
  return f;
}

struct ref_schulz {
  struct device *device;
  const struct newton_schulz_args *args;
};

/* The initial factor of the matrix: 1 if there is nothing to divide by. Dividing by an infinite norm would hide
   finite entries: NaN exposes them. */
static double first_scale(const struct newton_schulz_args *a, const struct tensor *norm)
{
  double size = number(norm);
  double by = a->norm_scale * size + a->eps;
  return isfinite(size) ? by > 0 ? 1 / by : 1 : NAN;
}

static void swap(struct tensor *a, struct tensor *b)
{
  struct tensor was = *a;
  *a = *b;
  *b = was;
}

/* h = c r r + b r + a, with the numbers of a step */
static void polynomial(const struct ref_schulz *job, struct device *device, const struct flat *f, long step,
                       struct tensor *h)
{
  const struct tensor *all = job->args->coefficients;
  const real *p = &AT(all, step < all->rows ? step : all->rows - 1, 0);
  struct tensor diagonal = tensor_diagonal(h), r = f->r, ones = f->ones;
  device->ops.gram(device, &(struct gram_args){.c = h, .a = &r, .alpha = (double)p[2], .beta = (double)p[1]});
  device->ops.axpby(device,
                    &(struct axpby_args){.y = &diagonal, .x = &ones, .alpha = (double)p[0], .beta = 1});
}

/* `steps` steps from `step` on, and one product with X. */
static void steps_on_gram(const struct ref_schulz *job, struct device *device, struct flat *f, long step,
                          long steps)
{
  const struct ops *ops = &device->ops;
  ops->gram(device, &(struct gram_args){.c = &f->r, .a = &f->x, .ta = 1, .alpha = 1});
  for (long i = 0; i < steps; i++) {
    struct tensor *h = i ? &f->h : &f->q;
    polynomial(job, device, f, step + i, h);
    if (i + 1 < steps) {
      ops->symmetric_product(device, &(struct symmetric_product_args){.c = &f->room, .a = &f->r, .b = h});
      ops->symmetric_product(device, &(struct symmetric_product_args){.c = &f->r, .a = &f->room, .b = h});
    }
    if (i == 0) continue;
    ops->symmetric_product(device, &(struct symmetric_product_args){.c = &f->room, .a = &f->q, .b = h});
    swap(&f->q, &f->room);
  }
  ops->matmul(device, &(struct matmul_args){.c = &f->next, .a = &f->x, .b = &f->q, .alpha = 1});
  swap(&f->x, &f->next);
}

static void orthogonalise(void *context, long piece, int worker)
{
  const struct ref_schulz *job = context;
  const struct newton_schulz_args *a = job->args;
  struct device *device = job->device;
  int lane = 0;
  if (!device->is_worker) device = device_worker(device, worker), lane = worker; /* else it has one already */
  const struct ops *ops = &device->ops;
  struct tensor x = tensor_of(REALS(a->x) + INTS(a->place)[piece], a->rows, a->cols);
  struct flat f = lay_out(a, &AT(a->work, lane, 0));
  const int wide = a->rows <= a->cols;
  ops->norm(device, &(struct norm_args){.y = &f.norm, .x = &x});
  const double by = first_scale(a, &f.norm);
  if (wide) {
    ops->transpose(device, &(struct transpose_args){.y = &f.x, .x = &x});
    ops->scale(device, &(struct scale_args){.y = &f.x, .alpha = by});
  } else {
    ops->axpby(device, &(struct axpby_args){.y = &f.x, .x = &x, .alpha = by});
  }
  ops->fill(device, &(struct fill_args){.y = &f.ones, .value = 1});
  for (long step = 0, more; step < a->steps; step += more) {
    more = newton_schulz_run(a, step);
    steps_on_gram(job, device, &f, step, more);
  }
  if (wide) {
    ops->scale(device, &(struct scale_args){.y = &f.x, .by = a->by, .alpha = a->scale});
    ops->transpose(device, &(struct transpose_args){.y = &x, .x = &f.x});
  } else {
    ops->axpby(device, &(struct axpby_args){.y = &x, .x = &f.x, .a = a->by, .alpha = a->scale});
  }
}

size_t newton_schulz_scratch(const struct device *device, const void *args)
{
  const struct newton_schulz_args *a = args;
  struct flat f = lay_out(a, REALS(a->work));
  struct tensor x = tensor_of(NULL, a->rows, a->cols);
  const struct {
    enum op op;
    union op_args args;
  } calls[] = {
    {OP_norm, {.norm = {.y = &f.norm, .x = &x}}},
    {OP_gram, {.gram = {.c = &f.r, .a = &f.x, .ta = 1, .alpha = 1}}},
    {OP_gram, {.gram = {.c = &f.q, .a = &f.r, .alpha = 1, .beta = 1}}},
    {OP_symmetric_product, {.symmetric_product = {.c = &f.r, .a = &f.q, .b = &f.q}}},
    {OP_matmul, {.matmul = {.c = &f.next, .a = &f.x, .b = &f.q, .alpha = 1}}},
  };
  size_t most = 0;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    size_t bytes = op_scratch_bytes(device, calls[i].op, &calls[i].args);
    if (bytes > most) most = bytes;
  }
  return most;
}

void ref_newton_schulz(struct device *device, const struct newton_schulz_args *x)
{
  struct ref_schulz job = {device, x};
  long places = x->place->rows * x->place->cols;
  if (x->work->rows >= pool_threads(device->pool) || places == 1) {
    parallel_for(device->pool, places, orthogonalise, &job);
    return;
  }
  for (long i = 0; i < places; i++) orthogonalise(&job, i, 0);
}
