/* ops_ref_update.c - the definitions of what optimisers and clips do to long rows of numbers */
#include <math.h>
#include "base/number.h"
#include "base/thread.h"
#include "numerics/cut.h"
#include "numerics/ops_ref.h"

void ref_adam(struct device *device, const struct adam_args *x)
{
  (void)device;
  double b1 = number(x->b1), b2 = number(x->b2), c1 = number(x->c1), c2 = number(x->c2), eps = number(x->eps);
  for (long n = 0; n < x->g->rows; n++)
    for (long j = 0; j < x->g->cols; j++) {
      double g = (double)AT(x->g, n, j);
      double m = AT(x->m, n, j) = (real)(b1 * (double)AT(x->m, n, j) + (1 - b1) * g);
      double v = AT(x->v, n, j) = (real)(b2 * (double)AT(x->v, n, j) + (1 - b2) * g * g);
      AT(x->direction, n, j) = (real)(isinf(v) ? NAN : m / (sqrt(v) / sqrt(c2) + eps) / c1);
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
      AT(x->direction, n, j) = (real)(x->nesterov ? g + mu * m : m);
    }
}

/* --- norms ------------------------------------------------------------------------------------------------ */

/* |t|: squares of x / 2^e, where 2^e is above the largest, neither overflow nor vanish in the sum. */
static double norm_of(const struct tensor *t)
{
  double top = 0, sum = 0;
  int e;
  for (long n = 0; n < t->rows; n++)
    for (long j = 0; j < t->cols; j++) top = max_keeping_nan(top, fabs((double)AT(t, n, j)));
  if (top == 0 || !isfinite(top)) return top;
  frexp(top, &e);
  for (long n = 0; n < t->rows; n++)
    for (long j = 0; j < t->cols; j++) {
      double value = ldexp((double)AT(t, n, j), -e);
      sum += value * value;
    }
  return ldexp(sqrt(sum), e);
}

void ref_norm(struct device *device, const struct norm_args *x)
{
  (void)device;
  AT(x->y, 0, 0) = (real)norm_of(x->x);
}

void ref_normalise(struct device *device, const struct normalise_args *x)
{
  (void)device;
  double size = norm_of(x->y);
  AT(x->size, 0, 0) = (real)size;
  for (long n = 0; n < x->y->rows && size != 0; n++)
    for (long j = 0; j < x->y->cols; j++) AT(x->y, n, j) = (real)((double)AT(x->y, n, j) / size);
}

/* --- segments --------------------------------------------------------------------------------------------- */

struct piece {
  long place, length;
};

static struct piece piece_at(const struct tensor *segment, long i)
{
  return (struct piece){INTS(segment)[2 * i], INTS(segment)[2 * i + 1]};
}

void ref_apply_segments(struct device *device, const struct apply_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct piece p = piece_at(x->segment, i);
    double keep = (double)*element(x->keep, i), rate = (double)*element(x->rate, i);
    real *w = REALS(x->w) + p.place;
    const real *direction = REALS(x->direction) + p.place;
    for (long j = 0; j < p.length; j++) w[j] = (real)((double)w[j] * keep - rate * (double)direction[j]);
  }
}

void ref_scale_segments(struct device *device, const struct scale_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct piece p = piece_at(x->segment, i);
    double factor = (double)*element(x->factor, i);
    for (long j = 0; j < p.length && factor != 1; j++)
      REALS(x->x)[p.place + j] = (real)(factor * (double)REALS(x->x)[p.place + j]);
  }
}

void ref_norm_segments(struct device *device, const struct norm_segments_args *x)
{
  (void)device;
  for (long i = 0; i < x->segment->rows; i++) {
    struct piece p = piece_at(x->segment, i);
    struct tensor own = tensor_of(REALS(x->x) + p.place, 1, p.length);
    *element(x->y, i) = (real)norm_of(&own);
  }
}

/* --- Newton-Schulz ------------------------------------------------------------------------------------------ */
/* Composed of the device's own products, one matrix a piece of work: what a matrix goes through stays in a
   core's cache. A and B = b A + c A A + a I are symmetric: gram computes one half of each. Per step
   2 m^2 n + m^3 + m^2 n operations. */

struct flat {
  struct tensor x, next;  /* [m, n], m <= n */
  struct tensor a, b;     /* [m, m] */
  struct tensor diagonal; /* of b, as a column */
  struct tensor ones;     /* [m, 1] */
  struct tensor norm;     /* [1, 1] */
};

static struct flat lay_out(real *at, long rows, long cols)
{
  long m = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
  struct flat f;
  f.x = tensor_cut(&at, m, n);
  f.next = tensor_cut(&at, m, n);
  f.a = tensor_cut(&at, m, m);
  f.b = tensor_cut(&at, m, m);
  f.ones = tensor_cut(&at, m, 1);
  f.norm = tensor_cut(&at, 1, 1);
  f.diagonal = tensor_diagonal(&f.b);
  return f;
}

struct schulz {
  struct device *device;
  const struct newton_schulz_args *args;
};

/* What the matrix is multiplied by at first: 1 where there is nothing to divide by. An infinite norm would hide
   finite entries: NaN shows them. */
static double first_scale(const struct newton_schulz_args *a, const struct tensor *norm)
{
  double size = number(norm);
  double by = a->norm_scale * size + a->eps;
  return isfinite(size) ? by > 0 ? 1 / by : 1 : NAN;
}

static void orthogonalise(void *context, long piece, int worker)
{
  const struct schulz *job = context;
  const struct newton_schulz_args *a = job->args;
  struct device *device = device_worker(job->device, worker);
  const struct ops *ops = &device->ops;
  struct tensor x = tensor_of(REALS(a->x) + INTS(a->place)[piece], a->rows, a->cols);
  struct flat f = lay_out(&AT(a->work, a->work->rows == 1 ? 0 : worker, 0), a->rows, a->cols);
  int tall = a->rows > a->cols;
  ops->norm(device, &(struct norm_args){.y = &f.norm, .x = &x});
  if (tall)
    ops->transpose(device, &(struct transpose_args){.y = &f.x, .x = &x});
  else
    ops->copy(device, &(struct copy_args){.y = &f.x, .x = &x});
  ops->scale(device, &(struct scale_args){.y = &f.x, .alpha = first_scale(a, &f.norm)});
  ops->fill(device, &(struct fill_args){.y = &f.ones, .value = 1});
  for (long i = 0; i < a->steps; i++) {
    const real *p = &AT(a->coefficients, i < a->coefficients->rows ? i : a->coefficients->rows - 1, 0);
    ops->gram(device, &(struct gram_args){.c = &f.a, .a = &f.x, .alpha = 1});
    ops->gram(device, &(struct gram_args){.c = &f.b, .a = &f.a, .alpha = (double)p[2], .beta = (double)p[1]});
    ops->axpby(device,
               &(struct axpby_args){.y = &f.diagonal, .x = &f.ones, .alpha = (double)p[0], .beta = 1});
    ops->matmul(device, &(struct matmul_args){.c = &f.next, .a = &f.b, .b = &f.x, .alpha = 1});
    struct tensor swap = f.x;
    f.x = f.next;
    f.next = swap;
  }
  ops->scale(device, &(struct scale_args){.y = &f.x, .by = a->by, .alpha = a->scale});
  if (tall)
    ops->transpose(device, &(struct transpose_args){.y = &x, .x = &f.x});
  else
    ops->copy(device, &(struct copy_args){.y = &x, .x = &f.x});
}

size_t newton_schulz_scratch(const struct device *device, const void *args)
{
  const struct newton_schulz_args *a = args;
  struct flat f = lay_out(REALS(a->work), a->rows, a->cols);
  struct tensor x = tensor_of(NULL, a->rows, a->cols);
  const struct {
    enum op op;
    union op_args args;
  } calls[] = {
    {OP_norm, {.norm = {.y = &f.norm, .x = &x}}},
    {OP_gram, {.gram = {.c = &f.a, .a = &f.x, .alpha = 1}}},
    {OP_gram, {.gram = {.c = &f.b, .a = &f.a, .alpha = 1, .beta = 1}}},
    {OP_matmul, {.matmul = {.c = &f.next, .a = &f.b, .b = &f.x, .alpha = 1}}},
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
  struct schulz job = {device, x};
  long places = x->place->rows * x->place->cols;
  if (x->work->rows >= pool_threads(device->pool) || places == 1) {
    parallel_for(device->pool, places, orthogonalise, &job);
    return;
  }
  for (long i = 0; i < places; i++) orthogonalise(&job, i, 0);
}
