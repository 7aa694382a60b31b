/* spectral_tangent.c - steps that keep a weight's spectral norm, to first order (arXiv 2601.08393 alg. 1)
   With M the optimizer's direction over its Frobenius norm, and T = u v^T of the leading singular pair of W:
     direction <- Phi = msign(M + lambda T), with the norm of the old direction;  lambda: the root of
     h(lambda) = <T, msign(M + lambda T)>, which never falls and beyond 2 |M|_* has the sign of lambda
   So Phi maximizes <M, Phi> subject to |Phi|_2 <= 1 and <T, Phi> = 0. On muon's momentum, followed by
   spectral_sphere, this is SSO; there lambda = 0 is MuonSphere.

   With M = U S V^T and msign(X) = 2/pi int_0^inf (t^2 + X X^T)^-1 X dt, one decomposition gives h at every lambda:
     h = 2/pi int (B (1 + lambda B) + lambda P) / ((1 + lambda B)^2 + lambda^2 P) dt,   a = U^T u,  b = V^T v,
     B = sum a_i b_i s_i / (t^2 + s_i^2),  P = t^-2 (1 - sum a_i^2 s_i^2 / (t^2 + s_i^2)) (the same of b)
   If M + lambda T loses a rank at the root, as square matrices often do, h jumps over 0 and msign has one value on
   each side; Phi then lies between them. */
#include <math.h>
#include "base/memory.h"
#include "training/sphere.h"

struct spectral_tangent {
  long tensors, scope;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct spectral_tangent, tensors, "matrices", sphere_tensors,
             "affected tensors: all hidden matrices, or only query and key projections", 0),
  CHOICE_ROW(struct spectral_tangent, scope, "head", sphere_scopes,
             "whole tensors, or, in query, key and value projections, the rows of each head", 0),
  END_ROW};

enum { LAMBDA, GROWTH, LEFT, TOLD };
static const struct series emits[] = {
  {"spectral_tangent/lambda", PER_LAYER, AXIS_STEP, "1", "multiplier of the tangent",
   "largest |lambda| of a layer's matrices, msign(M + lambda T) being the step", EVENT_NONE},
  {"spectral_tangent/growth", PER_LAYER, AXIS_STEP, "1", "growth that is taken away",
   "largest -<T, msign(M)> of a layer's matrices: what their spectral norms would "
   "grow by in a step of spectral norm 1",
   EVENT_NONE},
  {"spectral_tangent/left", PER_LAYER, AXIS_STEP, "1", "growth that is left",
   "largest |<T, Phi>| of a layer's matrices: 0 but for rounding", EVENT_NONE},
  {0}};

struct tangent_state {
  struct qk_block *block;
  int count;
};

/* --- the root ------------------------------------------------------------------------------------------- */

/* a = U^T u and b = V^T v, [n]: the vectors of x against the leading pair of w. A weight of zeros has none: 0. */
static void project(const struct svd *x, const struct svd *w, double *a, double *b)
{
  for (long k = 0; k < x->n; k++) {
    a[k] = b[k] = 0;
    if (!(w->sigma[0] > 0)) continue;
    for (long i = 0; i < x->rows; i++) a[k] += x->u[i * x->n + k] * w->u[i * w->n];
    for (long i = 0; i < x->cols; i++) b[k] += x->v[i * x->n + k] * w->v[i * w->n];
  }
}

/* The trapezoidal rule in log t at t = sqrt(2^k): its error falls like exp(-pi^2 / log sqrt 2), 4e-13. Beyond both ends
   its terms are geometric series. */
enum { LOWEST = -80, HIGHEST = 40, NODES = HIGHEST - LOWEST + 1, HALVINGS = 60 };
static const double spacing = 0.22063560015265157; /* 2/pi log sqrt 2 */
struct tangent_slope {
  double weight[NODES], b[NODES], p[NODES];
};

static void slope_init(struct tangent_slope *h, const struct svd *m, const double *a, const double *b)
{
  double beside_u = m->rows > m->n, beside_v = m->cols > m->n; /* the pair's share where M has no vectors */
  for (long k = 0; k < m->n; k++) {
    if (m->rows > m->n) beside_u = fmax(0, beside_u - a[k] * a[k]);
    if (m->cols > m->n) beside_v = fmax(0, beside_v - b[k] * b[k]);
  }
  for (int i = 0; i < NODES; i++) {
    const double square = ldexp(1, LOWEST + i);
    double across = 0, left = beside_u, right = beside_v;
    for (long k = 0; k < m->n; k++) {
      const double g = 1 / (square + m->sigma[k] * m->sigma[k]);
      across += a[k] * b[k] * m->sigma[k] * g;
      left += a[k] * a[k] * square * g;
      right += b[k] * b[k] * square * g;
    }
    h->weight[i] = spacing * sqrt(square), h->b[i] = across, h->p[i] = left * right / square;
  }
  h->weight[0] /= 1 - sqrt(0.5), h->weight[NODES - 1] /= 1 - sqrt(0.5);
}

static double slope_at(const struct tangent_slope *h, double lambda)
{
  double sum = 0;
  for (int i = 0; i < NODES; i++) {
    const double c = 1 + lambda * h->b[i], p = lambda * h->p[i];
    sum += h->weight[i] * (h->b[i] * c + p) / (c * c + lambda * p);
  }
  return sum;
}

static double root_of(const struct tangent_slope *h, double low, double high)
{
  for (int i = 0; i < HALVINGS; i++) {
    const double middle = (low + high) / 2;
    if (slope_at(h, middle) < 0)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}

/* --- the step ------------------------------------------------------------------------------------------- */

/* Turn the spectrum of M + lambda T into that of Phi: 1, and for a lost rank (singular values at rounding level) the
   value that brings <T, Phi> nearest to 0. Returns <T, Phi>. */
static double flatten(struct svd *x, const double *a, const double *b)
{
  const double none = 0x1p-20 * x->sigma[0];
  double kept = 0, lost = 0, share = 0;
  for (long k = 0; k < x->n; k++) *(x->sigma[k] > none ? &kept : &lost) += a[k] * b[k];
  if (lost != 0) share = fmax(-1, fmin(-kept / lost, 1));
  for (long k = 0; k < x->n; k++) x->sigma[k] = x->sigma[k] > none ? 1 : share;
  return kept + share * lost;
}

static double scale_to(struct svd *x, double size)
{
  double squares = 0;
  for (long k = 0; k < x->n; k++) squares += x->sigma[k] * x->sigma[k];
  for (long k = 0; squares > 0 && k < x->n; k++) x->sigma[k] *= size / sqrt(squares);
  return sqrt(squares);
}

/* The direction d [rows, cols], on the host, becomes x; w is the weight's decomposition. */
static int turn(struct svd *x, real *d, const struct svd *w, double told[TOLD])
{
  double *a = memory_new((size_t)w->n, sizeof *a), *b = memory_new((size_t)w->n, sizeof *b);
  int status = svd_of_host(x, d, w->rows, w->cols);
  const double size = status ? 0 : scale_to(x, 1);
  if (size > 0) {
    double lambda = 0, nuclear = 0;
    struct tangent_slope h;
    project(x, w, a, b);
    slope_init(&h, x, a, b);
    for (long k = 0; k < x->n; k++) nuclear += x->sigma[k];
    if (w->sigma[0] > 0) lambda = root_of(&h, -2 * nuclear, 2 * nuclear);
    for (long i = 0; i < w->rows * w->cols; i++)
      d[i] = (real)((double)d[i] / size + lambda * w->u[i / w->cols * w->n] * w->v[i % w->cols * w->n]);
    svd_free(x);
    status = svd_of_host(x, d, w->rows, w->cols);
    if (!status) {
      project(x, w, a, b);
      told[LAMBDA] = fabs(lambda), told[GROWTH] = -slope_at(&h, 0), told[LEFT] = fabs(flatten(x, a, b));
      scale_to(x, size);
    }
  }
  memory_free(a);
  memory_free(b);
  return status;
}

struct tangent_job {
  const struct stabilizer_context *context;
  struct tensor *told[TOLD]; /* [1, count] */
};

static void turn_block(void *context, struct device *device, long i)
{
  const struct tangent_job *job = context;
  const struct qk_block *block = &((const struct tangent_state *)job->context->state)->block[i];
  struct tensor d = tensor_rows(&block->weight->update, block->row, block->rows),
                value = tensor_rows(&block->weight->value, block->row, block->rows);
  struct svd w, x = {0};
  double told[TOLD] = {0};
  const size_t size = (size_t)(d.rows * d.cols);
  real *host = memory_new(size, sizeof *host);
  device->download(device, host, d.data, size * sizeof *host);
  int status = svd_of(&w, device, &value);
  if (!status) status = turn(&x, host, &w, told);
  if (status) {
    svd_put_nan(device, &d);
    for (int k = 0; k < TOLD; k++) told[k] = NAN;
  } else
    svd_compose(&x, device, &d);
  for (int k = 0; k < TOLD; k++) {
    real number = (real)told[k];
    device->upload(device, REALS(job->told[k]) + i, &number, sizeof number);
  }
  svd_free(&w);
  svd_free(&x);
  memory_free(host);
}

static void turn_all(struct device *device, void *context)
{
  struct tangent_job *job = context;
  host_each(device, ((const struct tangent_state *)job->context->state)->count, turn_block, job);
}

/* --- hooks ---------------------------------------------------------------------------------------------- */

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  const struct spectral_tangent *o = c->options;
  struct tangent_state *s = c->state;
  s->block = sphere_blocks(c->model, o->tensors, o->scope, &s->count);
  return STATUS_OK;
}

static void on_update(struct stabilizer_context *c, struct program *p, const struct update_block *block,
                      int blocks, struct tensor *factor)
{
  (void)block, (void)blocks, (void)factor;
  const struct tangent_state *s = c->state;
  struct tangent_job job = {.context = c};
  for (int k = 0; k < TOLD; k++) {
    job.told[k] = program_temporary(p, 1, s->count, emits[k].name);
    PROGRAM_CALL(p, fill, .y = job.told[k], .value = 0);
    program_keep(p, job.told[k]);
  }
  program_host(p, turn_all, &job, sizeof job);
  for (int k = 0; k < TOLD; k++)
    qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MAX, job.told[k], c->series[k]);
}

const struct stabilizer stabilizer_spectral_tangent = {
  .name = "spectral_tangent",
  .help = "updates tangential to the spectral sphere: spectral norms stay constant to first order (with muon "
          "and spectral_sphere: SSO)",
  .options = rows,
  .options_size = sizeof(struct spectral_tangent),
  .state_size = sizeof(struct tangent_state),
  .emits = emits,
  .init = init,
  .on_update = on_update,
  .flags = STABILIZER_WHOLE,
};
