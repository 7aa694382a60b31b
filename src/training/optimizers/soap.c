/* soap.c - Adam in the eigenbases of Shampoo's preconditioners (SOAP, arXiv 2409.11321 alg. 3 and 4)
   For every hidden matrix, with M <- b1 M + (1-b1) G:
     G' = Q_L^T G Q_R,  M' = Q_L^T M Q_R,  V <- b2 V + (1-b2) G'^2,  update = Q_L (M'/c1) / (sqrt(V/c2) + eps) Q_R^T
     L <- b L + (1-b) G G^T,  R <- b R + (1-b) G^T G
   The bases are those of L and R before the step. At the first step they are unit matrices, which makes it Adam's;
   at the second the eigenvectors; then, every so many steps, Q <- QR(L Q), a step of the power method. The authors'
   code skips the first step instead, and sorts the columns of Q anew. */
#include <math.h>
#include "base/memory.h"
#include "numerics/svd.h"
#include "training/optimizer.h"
#include "training/spectral.h"

struct soap_options {
  double beta1, beta2, eps, basis_beta;
  long every;
};

static const struct option_row rows[] = {
  REAL_ROW(struct soap_options, beta1, "0.95", 0, 0.999999, "1", "decay of the first moment", 0),
  REAL_ROW(struct soap_options, beta2, "0.95", 0, 0.999999, "1", "decay of the second moment", 0),
  REAL_ROW(struct soap_options, eps, "1e-8", 0, 1, "1", "added to the root of the second moment", 0),
  REAL_ROW(struct soap_options, basis_beta, "0.95", 0, 1, "1", "decay of the preconditioners L and R", 0),
  INT_ROW(struct soap_options, every, "10", 0, 1e12, "steps",
          "steps between renewals of the eigenbases; 0: none, which makes it adam", 0),
  END_ROW};

enum { M, V, L, R, QL, QR };
static const char *const states[] = {"m", "v", "l", "r", "ql", "qr", NULL};

/* Of every matrix (expert) of a tensor, one below the other. */
static void state_shape(const struct param *p, int k, long *height, long *width)
{
  const long block = param_block_rows(p);
  *height = p->value.rows, *width = p->value.cols;
  if (k == L || k == QL) *width = block;
  if (k == R || k == QR) *height = p->value.rows / block * p->value.cols, *width = p->value.cols;
}

/* --- bases, by the host -------------------------------------------------------------------------------- */

/* One basis: a square matrix of this side in a row of states, and its preconditioner's place. */
struct basis {
  struct tensor *of, *basis;
  long of_place, place, side;
};

struct renewal {
  struct basis *basis;
  int count;
  long every;
  struct numbers *numbers;
};

static long step_of(const struct renewal *job) { return numbers_scalars(job->numbers)->step; }

/* Rows of `vectors` to the columns of the basis. */
static void put_basis(struct device *device, const struct basis *b, const double *vectors, real *host)
{
  for (long i = 0; i < b->side; i++)
    for (long j = 0; j < b->side; j++) host[i * b->side + j] = (real)vectors[j * b->side + i];
  device->upload(device, REALS(b->basis) + b->place, host, (size_t)(b->side * b->side) * sizeof *host);
}

static void put_unit(struct device *device, const struct basis *b, double *vectors, real *host)
{
  for (long i = 0; i < b->side * b->side; i++) vectors[i] = i % (b->side + 1) == 0;
  put_basis(device, b, vectors, host);
}

/* Of a positive semidefinite matrix, eigenvectors are singular vectors. */
static int eigenvectors(const real *of, long side, double *vectors)
{
  double *u = memory_new((size_t)(side * side), sizeof *u), *v = memory_new((size_t)(side * side), sizeof *v);
  double *sigma = memory_new((size_t)side, sizeof *sigma);
  int status = svd_factors(of, side, side, side, u, sigma, v, NULL);
  for (long i = 0; i < side; i++)
    for (long j = 0; j < side; j++) vectors[j * side + i] = u[i * side + j];
  memory_free(u), memory_free(v), memory_free(sigma);
  return status;
}

/* vectors = the columns of P Q, P symmetric, summed in order. */
static int multiply(const real *p, const real *q, long side, double *vectors)
{
  int finite = 1;
  for (long j = 0; j < side; j++)
    for (long i = 0; i < side; i++) {
      double sum = 0;
      for (long k = 0; k < side; k++) sum += (double)p[i * side + k] * (double)q[k * side + j];
      vectors[j * side + i] = sum;
      finite &= isfinite(sum) != 0;
    }
  return finite ? STATUS_OK : STATUS_FAIL;
}

static void renew(void *context, struct device *device, long i)
{
  const struct renewal *job = context;
  const struct basis *b = &job->basis[i];
  const size_t size = (size_t)(b->side * b->side);
  real *of = memory_new(size, sizeof *of), *now = memory_new(size, sizeof *now);
  double *vectors = memory_new(size, sizeof *vectors);
  if (step_of(job) == 0) {
    put_unit(device, b, vectors, now);
  } else {
    device->download(device, of, REALS(b->of) + b->of_place, size * sizeof *of);
    device->download(device, now, REALS(b->basis) + b->place, size * sizeof *now);
    int failed = step_of(job) == 1 ? eigenvectors(of, b->side, vectors) : multiply(of, now, b->side, vectors);
    if (failed)
      for (size_t k = 0; k < size; k++) vectors[k] = NAN;
    else if (step_of(job) > 1)
      orthonormal_vectors(vectors, b->side);
    put_basis(device, b, vectors, now);
  }
  memory_free(of), memory_free(now), memory_free(vectors);
}

static void renew_all(struct device *device, void *context)
{
  struct renewal *job = context;
  const long step = step_of(job);
  if (step == 0 || (job->every && (step == 1 || step % job->every == 0)))
    host_each(device, job->count, renew, job);
}

/* --- the step ------------------------------------------------------------------------------------------ */

/* A matrix of u, its states and bases. */
struct soap_matrix {
  long rows, cols, place; /* in the row of tensors */
  long at[QR + 1];        /* in the rows of states */
};

static struct soap_matrix matrix_of(const struct update *u, int i, long k)
{
  const struct tensor *w = &u->param[i]->value;
  struct soap_matrix m = {.rows = param_block_rows(u->param[i]), .cols = w->cols};
  const long size[] = {m.rows * m.cols, m.rows * m.cols, m.rows * m.rows,
                       m.cols * m.cols, m.rows * m.rows, m.cols * m.cols};
  m.place = u->place[i] + k * m.rows * m.cols;
  for (int s = 0; s <= QR; s++) m.at[s] = u->state_place[s][i] + k * size[s];
  return m;
}

static long matrices_in(const struct update *u, int i)
{
  return u->param[i]->value.rows / param_block_rows(u->param[i]);
}

static void record_renewal(struct program *p, struct numbers *n, const struct update *u, long every)
{
  long most = 0;
  for (int i = 0; i < u->count; i++) most += 2 * matrices_in(u, i);
  struct renewal job = {
    .basis = program_memory(p, (size_t)most, sizeof *job.basis), .every = every, .numbers = n};
  for (int i = 0; i < u->count; i++)
    for (long k = 0; k < matrices_in(u, i); k++) {
      const struct soap_matrix m = matrix_of(u, i, k);
      job.basis[job.count++] = (struct basis){u->state[L], u->state[QL], m.at[L], m.at[QL], m.rows};
      job.basis[job.count++] = (struct basis){u->state[R], u->state[QR], m.at[R], m.at[QR], m.cols};
    }
  program_host(p, renew_all, &job, sizeof job);
}

/* y = Q_L^T x Q_R, or, back, Q_L x Q_R^T */
static void rotate(struct program *p, struct tensor *y, struct tensor *x, struct tensor *ql,
                   struct tensor *qr, int back)
{
  struct tensor *half = program_temporary(p, x->rows, x->cols, "half rotated");
  PROGRAM_CALL(p, matmul, .c = half, .a = x, .b = qr, .tb = back, .alpha = 1, .full = 1);
  PROGRAM_CALL(p, matmul, .c = y, .a = ql, .b = half, .ta = !back, .alpha = 1, .full = 1);
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct soap_options *o = options;
  struct tensor *c1 = numbers_varying(n, adam_correction, &o->beta1, sizeof o->beta1),
                *c2 = numbers_varying(n, adam_correction, &o->beta2, sizeof o->beta2);
  struct tensor *b2 = numbers_constant(n, o->beta2), *eps = numbers_constant(n, o->eps);
  struct tensor *one = numbers_constant(n, 1), *keep = numbers_constant(n, o->basis_beta),
                *add = numbers_constant(n, 1 - o->basis_beta);
  record_renewal(p, n, u, o->every);
  average_record(p, n, u->state[M], u->grad, o->beta1);
  for (int i = 0; i < u->count; i++)
    for (long k = 0; k < matrices_in(u, i); k++) {
      const struct soap_matrix s = matrix_of(u, i, k);
      struct tensor *g = program_matrix(p, u->grad, s.place, s.rows, s.cols);
      struct tensor *m = program_matrix(p, u->state[M], s.at[M], s.rows, s.cols);
      struct tensor *v = program_matrix(p, u->state[V], s.at[V], s.rows, s.cols);
      struct tensor *ql = program_matrix(p, u->state[QL], s.at[QL], s.rows, s.rows);
      struct tensor *qr = program_matrix(p, u->state[QR], s.at[QR], s.cols, s.cols);
      struct tensor *g_turned = program_temporary(p, s.rows, s.cols, "gradient in the bases"),
                    *m_turned = program_temporary(p, s.rows, s.cols, "momentum in the bases"),
                    *x = program_temporary(p, s.rows, s.cols, "update in the bases");
      rotate(p, g_turned, g, ql, qr, 0);
      rotate(p, m_turned, m, ql, qr, 0);
      PROGRAM_CALL(p, adam, .update = x, .m = m_turned, .v = v, .g = g_turned, .b1 = one, .b2 = b2, .c1 = c1,
                   .c2 = c2, .eps = eps); /* with b1 = 1 the moment stays as it is */
      rotate(p, program_matrix(p, u->update, s.place, s.rows, s.cols), x, ql, qr, 1);
      for (int side = 0; side < 2; side++) {
        const long length = side ? s.cols : s.rows;
        struct tensor *now = program_temporary(p, length, length, "products of the gradient");
        PROGRAM_CALL(p, gram, .c = now, .a = g, .ta = side, .alpha = 1);
        PROGRAM_CALL(p, axpby, .y = program_matrix(p, u->state[L + side], s.at[L + side], length, length),
                     .x = now, .a = add, .b = keep, .alpha = 1, .beta = 1);
      }
    }
}

const struct optimizer optimizer_soap = {
  .name = "soap",
  .help = "adam in the eigenbases of shampoo's preconditioners; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct soap_options),
  .state_names = states,
  .state_shape = state_shape,
  .takes = takes_matrices,
  .record = record,
};
