#include "training/eigenbases.h"
#include <math.h>
#include "base/memory.h"
#include "numerics/svd.h"
#include "training/spectral.h"

/* --- shapes and places --------------------------------------------------------------------------------- */

long eigen_matrices(const struct update *u, int i)
{
  return u->param[i]->value.rows / param_block_rows(u->param[i]);
}

void eigenbases_shape(const struct param *p, int left, int values, int k, long *rows, long *cols)
{
  const long block = param_block_rows(p), length[] = {block, p->value.cols};
  const int square = k >= left && k < left + 4, side = square ? (k - left) % 2 : k - values;
  if (!square && (!values || k < values)) return;
  *rows = p->value.rows / block * length[side];
  *cols = square ? length[side] : 1;
}

struct eigen_matrix eigen_matrix_of(const struct update *u, const struct eigenbases *e, int i, long k)
{
  const struct tensor *w = &u->param[i]->value;
  struct eigen_matrix m = {.rows = param_block_rows(u->param[i]), .cols = w->cols};
  m.place = u->place[i] + k * m.rows * m.cols;
  for (int s = 0; s < MAX_STATES && u->state[s]; s++) {
    long rows, cols;
    e->state_shape(u->param[i], s, &rows, &cols);
    m.at[s] = u->state_place[s][i] + k * (rows / eigen_matrices(u, i)) * cols;
  }
  return m;
}

/* --- renewal by the host ------------------------------------------------------------------------------- */

/* One basis: a square matrix of this side, its preconditioner, its eigenvalues or NULL, and the matrix's gradient. */
struct basis {
  struct tensor *of, *basis, *values, *grad;
  long of_place, place, values_place, grad_place, grad_size, side;
};

struct renewal {
  struct basis *basis;
  int count;
  long every;
  struct numbers *numbers;
};

static long step_of(const struct renewal *job) { return numbers_scalars(job->numbers)->step; }

static void put(struct device *device, struct tensor *row, long place, const real *host, long n)
{
  device->upload(device, REALS(row) + place, host, (size_t)n * sizeof *host);
}

/* Rows of `vectors` to the columns of the basis. */
static void put_basis(struct device *device, const struct basis *b, const double *vectors, real *host)
{
  for (long i = 0; i < b->side; i++)
    for (long j = 0; j < b->side; j++) host[i * b->side + j] = (real)vectors[j * b->side + i];
  put(device, b->basis, b->place, host, b->side * b->side);
}

static void put_values(struct device *device, const struct basis *b, const double *values)
{
  real *host = memory_new((size_t)b->side, sizeof *host);
  for (long i = 0; i < b->side; i++) host[i] = (real)values[i];
  put(device, b->values, b->values_place, host, b->side);
  memory_free(host);
}

static double gradient_rms(struct device *device, const struct basis *b)
{
  real *host = memory_new((size_t)b->grad_size, sizeof *host);
  double sum = 0;
  device->download(device, host, REALS(b->grad) + b->grad_place, (size_t)b->grad_size * sizeof *host);
  for (long i = 0; i < b->grad_size; i++) sum += (double)host[i] * (double)host[i];
  memory_free(host);
  return sqrt(sum / (double)b->grad_size);
}

/* Eigenvalues are 0 until the first gradient that is not: an expert may get no tokens at first. */
static int is_before_start(struct device *device, const struct basis *b, long step)
{
  if (!b->values) return step == 0;
  real *host = memory_new((size_t)b->side, sizeof *host);
  int zero = 1;
  device->download(device, host, REALS(b->values) + b->values_place, (size_t)b->side * sizeof *host);
  for (long i = 0; i < b->side; i++) zero &= host[i] == 0;
  memory_free(host);
  return zero;
}

static void start(struct device *device, const struct basis *b, double *vectors, real *host)
{
  const long n = b->side;
  const double size = b->values ? gradient_rms(device, b) : 1;
  if (size == 0) return;
  for (long i = 0; i < n * n; i++) vectors[i] = i % (n + 1) == 0;
  put_basis(device, b, vectors, host);
  if (!b->values) return;
  for (long i = 0; i < n * n; i++) host[i] = i % (n + 1) == 0 ? (real)size : 0;
  put(device, b->of, b->of_place, host, n * n);
  for (long i = 0; i < n; i++) vectors[i] = size;
  put_values(device, b, vectors);
}

/* Of a positive semidefinite matrix, eigenvectors are singular vectors. */
static int eigenvectors(const real *of, long side, double *vectors, double *sigma)
{
  double *u = memory_new((size_t)(side * side), sizeof *u), *v = memory_new((size_t)(side * side), sizeof *v);
  int status = svd_factors(of, side, side, side, u, sigma, v, NULL);
  for (long i = 0; i < side; i++)
    for (long j = 0; j < side; j++) vectors[j * side + i] = u[i * side + j];
  memory_free(u), memory_free(v);
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

static int is_unit(const real *q, long n)
{
  for (long i = 0; i < n * n; i++)
    if (q[i] != (i % (n + 1) == 0)) return 0;
  return 1;
}

static void renew(void *context, struct device *device, long i)
{
  const struct renewal *job = context;
  const struct basis *b = &job->basis[i];
  const long step = step_of(job);
  const size_t size = (size_t)(b->side * b->side);
  const int starts = is_before_start(device, b, step);
  if (!starts && !(job->every && (step == 1 || step % job->every == 0))) return;
  real *of = memory_new(size, sizeof *of), *now = memory_new(size, sizeof *now);
  double *vectors = memory_new(size, sizeof *vectors), *sigma = memory_new((size_t)b->side, sizeof *sigma);
  if (starts) {
    start(device, b, vectors, now);
  } else {
    device->download(device, of, REALS(b->of) + b->of_place, size * sizeof *of);
    device->download(device, now, REALS(b->basis) + b->place, size * sizeof *now);
    const int first = step == 1 || (b->values && is_unit(now, b->side));
    int failed = first ? eigenvectors(of, b->side, vectors, sigma) : multiply(of, now, b->side, vectors);
    if (failed) {
      for (size_t k = 0; k < size; k++) vectors[k] = NAN;
      for (long k = 0; k < b->side; k++) sigma[k] = NAN;
    } else if (!first) {
      orthonormal_vectors(vectors, b->side, b->side);
    }
    put_basis(device, b, vectors, now);
    if (first && b->values) put_values(device, b, sigma);
  }
  memory_free(of), memory_free(now), memory_free(vectors), memory_free(sigma);
}

static void renew_all(struct device *device, void *context)
{
  struct renewal *job = context;
  host_each(device, job->count, renew, job);
}

void eigenbases_record(struct program *p, struct numbers *n, const struct update *u,
                       const struct eigenbases *e)
{
  long most = 0;
  for (int i = 0; i < u->count; i++) most += 2 * eigen_matrices(u, i);
  struct renewal job = {
    .basis = program_memory(p, (size_t)most, sizeof *job.basis), .every = e->every, .numbers = n};
  for (int i = 0; i < u->count; i++)
    for (long k = 0; k < eigen_matrices(u, i); k++) {
      const struct eigen_matrix m = eigen_matrix_of(u, e, i, k);
      for (int side = 0; side < 2; side++) {
        const int of = e->left + side, basis = of + 2, values = e->values + side;
        job.basis[job.count++] = (struct basis){.of = u->state[of],
                                                .basis = u->state[basis],
                                                .values = e->values ? u->state[values] : NULL,
                                                .grad = u->grad,
                                                .of_place = m.at[of],
                                                .place = m.at[basis],
                                                .values_place = m.at[values],
                                                .grad_place = m.place,
                                                .grad_size = m.rows * m.cols,
                                                .side = side ? m.cols : m.rows};
      }
    }
  program_host(p, renew_all, &job, sizeof job);
}

/* --- records ------------------------------------------------------------------------------------------- */

void rotate_record(struct program *p, struct tensor *y, struct tensor *x, struct tensor *ql,
                   struct tensor *qr, int back)
{
  struct tensor *half = program_temporary(p, x->rows, x->cols, "half rotated");
  PROGRAM_CALL(p, matmul, .c = half, .a = x, .b = qr, .tb = back, .alpha = 1, .full = 1);
  PROGRAM_CALL(p, matmul, .c = y, .a = ql, .b = half, .ta = !back, .alpha = 1, .full = 1);
}

void factor_record(struct program *p, struct tensor *s, struct tensor *x, int ta, struct tensor *keep,
                   struct tensor *add, double scale)
{
  struct tensor *now = program_temporary(p, s->rows, s->cols, "products of the gradient");
  PROGRAM_CALL(p, gram, .c = now, .a = x, .ta = ta, .alpha = 1);
  PROGRAM_CALL(p, axpby, .y = s, .x = now, .a = add, .b = keep, .alpha = scale, .beta = 1);
}
