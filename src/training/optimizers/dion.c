/* dion.c - orthonormal updates of low rank, with error feedback (Dion, arXiv 2504.05295 alg. 1)
   For every hidden matrix [m, n] and a rank r, with Q [n, r] of the step before:
     B = M + G;  P = orthonormalize(B Q);  R = B^T P;  M <- B - (1 - momentum) P R^T;  Q <- R with columns of length 1
     update = sqrt(m/n) P Q^T
   The host orthonormalizes, by Gram and Schmidt in double precision. The first Q is Gaussian. Q^T lies in the first r
   rows of a state that has the shape of the matrix. */
#include <math.h>
#include "base/memory.h"
#include "base/random.h"
#include "numerics/svd.h"
#include "training/optimizer.h"
#include "training/spectral.h"

struct dion_options {
  double momentum, rank;
};

static const struct option_row rows[] = {
  REAL_ROW(struct dion_options, momentum, "0.95", 0, 1, "1",
           "share of what the update took from the momentum that stays in it", 0),
  REAL_ROW(struct dion_options, rank, "0.25", 1e-6, 1, "1",
           "rank of the update, as a share of the smaller side of the matrix", OPTION_STRUCTURE),
  END_ROW};

enum { M, Q };
static const char *const states[] = {"m", "q", NULL};

static long rank_of(const struct dion_options *o, long height, long width)
{
  return (long)ceil(o->rank * (double)(height < width ? height : width) - 1e-9); /* 0.07 * 100 is above 7 */
}

/* --- orthonormal columns, by the host ------------------------------------------------------------------ */

/* A matrix: its place in the row of tensors, that of its P, and its first random number. */
struct dion_matrix {
  long rows, cols, rank, place, p_place;
  uint64_t first;
};

struct dion_job {
  struct dion_matrix *matrix;
  int count;
  uint64_t seed;
  struct numbers *numbers;
  struct tensor *b, *p;
};

/* vectors = the columns of B Q for the Gaussian Q of the first step */
static void multiply_by_chance(const struct dion_job *job, struct device *device, const struct dion_matrix *x,
                               double *vectors)
{
  const struct draw draw = {job->seed, STREAM_OPTIMIZER, 0};
  real *b = memory_new((size_t)(x->rows * x->cols), sizeof *b);
  double *q = memory_new((size_t)x->cols, sizeof *q);
  device->download(device, b, REALS(job->b) + x->place, (size_t)(x->rows * x->cols) * sizeof *b);
  for (long k = 0; k < x->rank; k++) {
    for (long j = 0; j < x->cols; j++) q[j] = draw_normal(draw, x->first + (uint64_t)(k * x->cols + j));
    for (long i = 0; i < x->rows; i++) {
      double sum = 0;
      for (long j = 0; j < x->cols; j++) sum += (double)b[i * x->cols + j] * q[j];
      vectors[k * x->rows + i] = sum;
    }
  }
  memory_free(b), memory_free(q);
}

static void orthonormalize(void *context, struct device *device, long which)
{
  const struct dion_job *job = context;
  const struct dion_matrix *x = &job->matrix[which];
  const size_t size = (size_t)(x->rows * x->rank);
  real *p = memory_new(size, sizeof *p);
  double *vectors = memory_new(size, sizeof *vectors);
  int finite = 1;
  device->download(device, p, REALS(job->p) + x->p_place, size * sizeof *p);
  for (long i = 0; i < x->rows; i++)
    for (long k = 0; k < x->rank; k++) vectors[k * x->rows + i] = (double)p[i * x->rank + k];
  if (numbers_scalars(job->numbers)->step == 0) multiply_by_chance(job, device, x, vectors);
  for (size_t i = 0; i < size; i++) finite &= isfinite(vectors[i]) != 0;
  if (finite) orthonormal_vectors(vectors, x->rank, x->rows);
  for (long i = 0; i < x->rows; i++)
    for (long k = 0; k < x->rank; k++)
      p[i * x->rank + k] = finite ? (real)vectors[k * x->rows + i] : (real)NAN;
  device->upload(device, REALS(job->p) + x->p_place, p, size * sizeof *p);
  memory_free(p), memory_free(vectors);
}

static void orthonormalize_all(struct device *device, void *context)
{
  struct dion_job *job = context;
  host_each(device, job->count, orthonormalize, job);
}

/* --- the step ------------------------------------------------------------------------------------------ */

static void list_matrices(struct program *p, const struct dion_options *o, const struct update *u,
                          struct dion_job *job)
{
  long most = 0, length = 0;
  for (int i = 0; i < u->count; i++) most += u->param[i]->value.rows / param_block_rows(u->param[i]);
  job->matrix = program_memory(p, (size_t)most, sizeof *job->matrix);
  for (int i = 0; i < u->count; i++) {
    const struct param *w = u->param[i];
    const long height = param_block_rows(w), width = w->value.cols, rank = rank_of(o, height, width);
    for (long at = 0; at < w->value.rows; at += height, length += height * rank)
      job->matrix[job->count++] =
        (struct dion_matrix){height, width,
                             rank,   u->place[i] + at * width,
                             length, (uint64_t)w->order << 32 | (uint64_t)(at / height * rank * width)};
  }
  job->p = program_temporary(p, 1, length, "orthonormal columns");
  program_keep(p, job->p);
}

static struct tensor *q_of(struct program *p, const struct update *u, const struct dion_matrix *x)
{
  return program_matrix(p, u->state[Q], x->place, x->rank, x->cols);
}

static void record_matrix(struct program *p, const struct dion_job *job, const struct update *u,
                          const struct dion_matrix *x, struct tensor *lost, struct tensor *eps)
{
  struct tensor *b = program_matrix(p, u->state[M], x->place, x->rows, x->cols), *q = q_of(p, u, x);
  struct tensor *columns = program_matrix(p, job->p, x->p_place, x->rows, x->rank);
  struct tensor *r = program_temporary(p, x->rank, x->cols, "R transposed"),
                *taken = program_temporary(p, x->rows, x->cols, "part of the momentum"),
                *rstd = program_temporary(p, x->rank, 1, "sizes of R");
  PROGRAM_CALL(p, matmul, .c = r, .a = columns, .b = b, .ta = 1, .alpha = 1, .full = 1);
  PROGRAM_CALL(p, matmul, .c = taken, .a = columns, .b = r, .alpha = 1, .full = 1);
  PROGRAM_CALL(p, axpby, .y = b, .x = taken, .a = lost, .alpha = -1, .beta = 1);
  PROGRAM_CALL(p, rmsnorm_forward, .y = q, .rstd = rstd, .x = r, .group = x->cols, .eps = eps);
  PROGRAM_CALL(p, scale, .y = q, .alpha = 1 / sqrt((double)x->cols));
  PROGRAM_CALL(p, matmul, .c = program_matrix(p, u->update, x->place, x->rows, x->cols), .a = columns, .b = q,
               .alpha = sqrt((double)x->rows / (double)x->cols), .full = 1);
}

static void record(const void *options, struct program *p, struct numbers *n, const struct update *u)
{
  const struct dion_options *o = options;
  struct tensor *lost = numbers_constant(n, 1 - o->momentum), *eps = numbers_constant(n, 1e-30);
  struct dion_job job = {.seed = u->seed, .numbers = n, .b = u->state[M]};
  list_matrices(p, o, u, &job);
  PROGRAM_CALL(p, axpby, .y = u->state[M], .x = u->grad, .alpha = 1, .beta = 1);
  for (int i = 0; i < job.count; i++) {
    const struct dion_matrix *x = &job.matrix[i];
    PROGRAM_CALL(p, matmul, .c = program_matrix(p, job.p, x->p_place, x->rows, x->rank),
                 .a = program_matrix(p, u->state[M], x->place, x->rows, x->cols), .b = q_of(p, u, x), .tb = 1,
                 .alpha = 1, .full = 1);
  }
  program_host(p, orthonormalize_all, &job, sizeof job);
  for (int i = 0; i < job.count; i++) record_matrix(p, &job, u, &job.matrix[i], lost, eps);
}

const struct optimizer optimizer_dion = {
  .name = "dion",
  .help = "orthonormal updates of low rank with error feedback; other tensors use adam",
  .options = rows,
  .options_size = sizeof(struct dion_options),
  .state_names = states,
  .takes = takes_matrices,
  .record = record,
};
