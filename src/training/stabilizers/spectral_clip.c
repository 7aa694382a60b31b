/* spectral_clip.c - singular values of query and key weights held below a bound
   After the step W <- U min(S, bound) V^T, by tensor or by head:
   method = svd    by the decomposition, in double
   method = msign  with M = W / bound and msign the polar factor by Newton-Schulz, for rows <= columns
                     mclip(M) = (M + s + msign(M M^T - I) (s - M)) / 2,   s = msign(M)
                   (kexue.fm/archives/11059, the form that does not nest); transposed for tall M */
#include <math.h>
#include "numerics/cut.h"
#include "training/clip.h"
#include "training/optimizer.h"
#include "training/spectral.h"

enum { BY_TENSOR, BY_HEAD };
static const char *const scopes[] = {"tensor", "head", NULL};
enum { BY_SVD, BY_MSIGN };
static const char *const methods[] = {"svd", "msign", NULL};

struct spectral_clip {
  double bound;
  long scope, method, every;
};

static const struct option_row rows[] = {
  REAL_ROW(struct spectral_clip, bound, "4", 1e-6, 1e30, "1", "largest singular value allowed", 0),
  CHOICE_ROW(struct spectral_clip, scope, "head", scopes,
             "whole tensors, or the rows of each head separately", 0),
  CHOICE_ROW(struct spectral_clip, method, "svd", methods,
             "algorithm: singular value decomposition, or Newton-Schulz", 0),
  INT_ROW(struct spectral_clip, every, "1", 1, 1e9, "steps", "steps between clips", 0), END_ROW};

static const struct series emits[] = {{"spectral_clip/kept", PER_LAYER, AXIS_STEP, "1",
                                       "norm kept by the spectral clip",
                                       "smallest ratio of Frobenius norms after and before this step's clip, "
                                       "over the layer's query and key blocks",
                                       EVENT_NONE},
                                      {0}};

struct clip_state {
  struct qk_block *block;
  int count;
};

/* --- the msign formula ---------------------------------------------------------------------------------- */

/* Record x <- msign(x), x [n, wide] with n <= wide. */
static void msign(struct program *p, struct tensor *x)
{
  long place = 0;
  newton_schulz_record(p, x, &place, 1, x->rows, x->cols, &ns_sets[NS_POLAR_EXPRESS], NS_AUTO, 12, 1e-30,
                       NULL, 1);
}

/* Record w <- bound mclip(w / bound); all that it works on lies flat, [n, wide] with n <= wide. */
static void clip_by_msign(struct program *p, struct tensor *w, struct tensor *inverse, struct tensor *half)
{
  int tall = w->rows > w->cols;
  long n = tall ? w->cols : w->rows, wide = tall ? w->rows : w->cols;
  struct tensor *m = program_temporary(p, n, wide, "m"), *s = program_temporary(p, n, wide, "msign of m");
  struct tensor *result = program_temporary(p, n, wide, "clipped"),
                *square = program_temporary(p, n, n, "square");
  if (tall)
    PROGRAM_CALL(p, transpose, .y = m, .x = w);
  else
    PROGRAM_CALL(p, copy, .y = m, .x = w);
  PROGRAM_CALL(p, scale, .y = m, .by = inverse, .alpha = 1);
  PROGRAM_CALL(p, copy, .y = s, .x = m);
  msign(p, s);
  double *identity = program_memory(p, (size_t)(n * n), sizeof *identity);
  for (long i = 0; i < n; i++) identity[i * n + i] = 1;
  PROGRAM_CALL(p, gram, .c = square, .a = m, .alpha = 1);
  PROGRAM_CALL(p, axpby, .y = square, .x = program_reals(p, n, n, identity, "identity"), .alpha = -1,
               .beta = 1);
  msign(p, square);
  PROGRAM_CALL(p, copy, .y = result, .x = m);
  PROGRAM_CALL(p, axpby, .y = result, .x = s, .alpha = 1, .beta = 1); /* m + s */
  PROGRAM_CALL(p, axpby, .y = s, .x = m, .alpha = -1, .beta = 1);     /* s - m */
  PROGRAM_CALL(p, matmul, .c = result, .a = square, .b = s, .add = 1, .alpha = 1);
  PROGRAM_CALL(p, scale, .y = result, .by = half, .alpha = 1);
  if (tall)
    PROGRAM_CALL(p, transpose, .y = w, .x = result);
  else
    PROGRAM_CALL(p, copy, .y = w, .x = result);
}

/* --- the decomposition ---------------------------------------------------------------------------------- */

struct by_svd {
  struct stabilizer_context *context;
  struct tensor *norm, *kept; /* [1, count]: Frobenius norms before, and the share of them that is left */
  real *host;                 /* [count]: the norms */
};

static double size_of(const struct svd *s)
{
  double squares = 0;
  for (long k = 0; k < s->n; k++) squares += s->sigma[k] * s->sigma[k];
  return sqrt(squares);
}

/* A Frobenius norm within the bound needs no decomposition. A matrix that cannot be decomposed (it is not finite)
   stays as it is; the run's finite test detects it. */
static void clip_block(void *context, struct device *device, long i)
{
  const struct by_svd *job = context;
  const struct clip_state *s = job->context->state;
  const struct qk_block *b = &s->block[i];
  double bound = ((const struct spectral_clip *)job->context->options)->bound;
  struct tensor w = tensor_rows(&b->weight->value, b->row, b->rows);
  struct svd svd;
  real kept = 1;
  if ((double)job->host[i] <= bound) return;
  if (!svd_of(&svd, device, &w) && svd.sigma[0] > bound) {
    double before = size_of(&svd);
    for (long k = 0; k < svd.n; k++) svd.sigma[k] = fmin(svd.sigma[k], bound);
    kept = (real)(size_of(&svd) / before);
    svd_compose(&svd, device, &w);
  }
  svd_free(&svd);
  device->upload(device, REALS(job->kept) + i, &kept, sizeof kept);
}

static void clip_by_svd(struct device *device, void *context)
{
  struct by_svd *job = context;
  long count = ((const struct clip_state *)job->context->state)->count;
  device->download(device, job->host, job->norm->data, (size_t)count * sizeof *job->host);
  host_each(device, count, clip_block, job);
}

/* --- hooks ---------------------------------------------------------------------------------------------- */

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct clip_state *s = c->state;
  s->block = qk_blocks(c->model, ((const struct spectral_clip *)c->options)->scope == BY_HEAD, &s->count);
  return STATUS_OK;
}

/* Record the clip of one block, done only where its norm is above the bound (below, its spectrum is). */
static void record_block(struct program *p, const struct qk_block *b, struct tensor *norm,
                         struct tensor *kept, struct tensor *numbers[3])
{
  struct tensor *due = program_guard_of(p), *w = program_rows(p, &b->weight->value, b->row, b->rows);
  struct tensor *above = program_temporary(p, 1, 1, "above the bound");
  program_guard(p, NULL); /* the inputs of a guard are computed in any case */
  PROGRAM_CALL(p, norm, .y = norm, .x = w);
  PROGRAM_CALL(p, greater_than, .y = above, .x = norm, .limit = numbers[0]);
  PROGRAM_CALL(p, multiply, .y = above, .x = due);
  program_guard(p, above);
  clip_by_msign(p, w, numbers[1], numbers[2]);
  PROGRAM_CALL(p, norm, .y = kept, .x = w);
  PROGRAM_CALL(p, divide, .y = kept, .x = norm);
  program_guard(p, due);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  const struct spectral_clip *o = c->options;
  struct clip_state *s = c->state;
  struct tensor *finite = clip_every(c, p, o->every);
  struct tensor *kept = program_temporary(p, 1, s->count, "kept"),
                *norm = program_temporary(p, 1, s->count, "norms");
  PROGRAM_CALL(p, fill, .y = kept, .value = 1);
  if (o->method == BY_MSIGN) {
    struct tensor *numbers[] = {numbers_constant(c->numbers, o->bound),
                                numbers_constant(c->numbers, 1 / o->bound),
                                numbers_constant(c->numbers, o->bound / 2)};
    for (int i = 0; i < s->count; i++)
      record_block(p, &s->block[i], program_view(p, norm, i, 1), program_view(p, kept, i, 1), numbers);
  } else {
    real *host = program_memory(p, (size_t)s->count, sizeof *host);
    for (int i = 0; i < s->count; i++)
      PROGRAM_CALL(p, norm, .y = program_view(p, norm, i, 1),
                   .x = program_rows(p, &s->block[i].weight->value, s->block[i].row, s->block[i].rows));
    program_keep(p, norm);
    program_keep(p, kept);
    program_host(p, clip_by_svd, &(struct by_svd){c, norm, kept, host}, sizeof(struct by_svd));
  }
  qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MIN, kept, c->series[0]);
  program_guard(p, finite);
}

const struct stabilizer stabilizer_spectral_clip = {
  .name = "spectral_clip",
  .help = "singular values of query and key weights clipped to a bound",
  .options = rows,
  .options_size = sizeof(struct spectral_clip),
  .state_size = sizeof(struct clip_state),
  .emits = emits,
  .init = init,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QK | STABILIZER_WHOLE,
};
