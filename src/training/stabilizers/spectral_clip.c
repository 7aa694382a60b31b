/* spectral_clip.c - singular values of query and key weights held below a bound
   After the step W <- U min(S, bound) V^T, by tensor or by head:
   method = svd    by the decomposition, in double
   method = msign  with M = W / bound and msign the polar factor by Newton-Schulz, for rows <= columns
                     mclip(M) = (M + s + msign(M M^T - I) (s - M)) / 2,   s = msign(M)
                   (kexue.fm/archives/11059, the form that does not nest); transposed for tall M */
#include <math.h>
#include "numerics/cut.h"
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
  CHOICE_ROW(struct spectral_clip, scope, "head", scopes, "every head's rows by themselves, or whole tensors",
             0),
  CHOICE_ROW(struct spectral_clip, method, "svd", methods, "how: a decomposition, or Newton-Schulz", 0),
  INT_ROW(struct spectral_clip, every, "1", 1, 1e9, "steps", "steps between clips", 0), END_ROW};

static const struct series emits[] = {{"spectral_clip/kept", PER_LAYER, AXIS_STEP, "1",
                                       "norm kept by the spectral clip",
                                       "smallest ratio of Frobenius norms after and before this step's clip, "
                                       "over the layer's query and key blocks"},
                                      {0}};

struct clip_state {
  struct qk_block *block;
  int count;
  struct tensor *work, *number;
};

/* --- the msign formula ---------------------------------------------------------------------------------- */
/* All of them lie flat, [n, wide] with n <= wide; square is [n, n], `work` is for newton_schulz. */
struct parts {
  struct tensor m, s, result, square, ones, diagonal;
  void *work;
};

static size_t parts_size(long height, long cols)
{
  long n = height < cols ? height : cols;
  return newton_schulz_work(height, cols) /* no less than that of the square */
         + sizeof(real) * (size_t)(3 * height * cols + n * n + n);
}

static struct parts lay_out(void *memory, long height, long cols)
{
  long n = height < cols ? height : cols, wide = height < cols ? cols : height;
  real *at = memory;
  struct parts p;
  p.m = tensor_cut(&at, n, wide);
  p.s = tensor_cut(&at, n, wide);
  p.result = tensor_cut(&at, n, wide);
  p.square = tensor_cut(&at, n, n);
  p.ones = tensor_cut(&at, n, 1);
  p.diagonal = tensor_diagonal(&p.square);
  p.work = at;
  return p;
}

static void msign(struct device *device, struct tensor *x, void *work)
{
  newton_schulz(device, x, &ns_sets[NS_POLAR_EXPRESS], 12, 1e-30, work);
}

/* w <- bound mclip(w / bound) */
static void clip_by_msign(struct device *device, struct tensor *w, double bound, void *memory)
{
  const struct ops *ops = &device->ops;
  struct parts p = lay_out(memory, w->rows, w->cols);
  int tall = w->rows > w->cols;
  if (tall)
    ops->transpose(device, &(struct transpose_args){.y = &p.m, .x = w});
  else
    ops->copy(device, &(struct copy_args){.y = &p.m, .x = w});
  ops->scale(device, &(struct scale_args){.y = &p.m, .alpha = 1 / bound});
  ops->copy(device, &(struct copy_args){.y = &p.s, .x = &p.m});
  msign(device, &p.s, p.work);
  ops->fill(device, &(struct fill_args){.y = &p.ones, .value = 1});
  ops->gram(device, &(struct gram_args){.c = &p.square, .a = &p.m, .alpha = 1});
  ops->axpby(device, &(struct axpby_args){.y = &p.diagonal, .x = &p.ones, .alpha = -1, .beta = 1});
  msign(device, &p.square, p.work);
  ops->copy(device, &(struct copy_args){.y = &p.result, .x = &p.m});
  ops->axpby(device, &(struct axpby_args){.y = &p.result, .x = &p.s, .alpha = 1, .beta = 1}); /* m + s */
  ops->axpby(device, &(struct axpby_args){.y = &p.s, .x = &p.m, .alpha = -1, .beta = 1});     /* s - m */
  ops->matmul(device, &(struct matmul_args){.c = &p.result, .a = &p.square, .b = &p.s, .add = 1, .alpha = 1});
  ops->scale(device, &(struct scale_args){.y = &p.result, .alpha = bound / 2});
  if (tall)
    ops->transpose(device, &(struct transpose_args){.y = w, .x = &p.result});
  else
    ops->copy(device, &(struct copy_args){.y = w, .x = &p.result});
}

/* --- the decomposition ---------------------------------------------------------------------------------- */
/* A matrix that cannot be decomposed (it is not finite) is left as it is: the run sees it. */
static void clip_by_svd(struct device *device, struct tensor *w, double bound)
{
  struct svd s;
  if (!svd_of(&s, device, w) && s.sigma[0] > bound) {
    for (long k = 0; k < s.n; k++) s.sigma[k] = fmin(s.sigma[k], bound);
    svd_compose(&s, device, w);
  }
  svd_free(&s);
}

/* --- hooks ---------------------------------------------------------------------------------------------- */
static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  const struct spectral_clip *o = c->options;
  struct clip_state *s = c->state;
  struct device *device = c->model->device;
  s->block = qk_blocks(c->model, o->scope == BY_HEAD, &s->count);
  size_t most = 0;
  for (int i = 0; i < s->count; i++) {
    size_t size = parts_size(s->block[i].rows, s->block[i].weight->value.cols);
    most = size > most ? size : most;
  }
  s->work =
    tensor_new(device, TENSOR_REAL, 1, o->method == BY_MSIGN ? (long)(most / sizeof(real)) : 1, "work");
  s->number = tensor_new(device, TENSOR_REAL, 1, 1, "number");
  return STATUS_OK;
}

/* Returns the share of the norm that is left. A norm below the bound needs no look at the spectrum. */
static double clip(struct stabilizer_context *c, const struct qk_block *b)
{
  const struct spectral_clip *o = c->options;
  struct clip_state *s = c->state;
  struct device *device = c->model->device;
  struct tensor w = qk_rows(b);
  double norm = norm_of(device, &w, s->number);
  if (norm <= o->bound) return 1;
  if (o->method == BY_MSIGN)
    clip_by_msign(device, &w, o->bound, s->work->data);
  else
    clip_by_svd(device, &w, o->bound);
  return norm_of(device, &w, s->number) / norm;
}

static void after_step(struct stabilizer_context *c)
{
  const struct spectral_clip *o = c->options;
  struct clip_state *s = c->state;
  if ((c->step + 1) % o->every) return;
  for (int l = 0; l < c->model->options.layers; l++) c->series[0][l] = 1;
  for (int i = 0; i < s->count; i++) {
    double kept = clip(c, &s->block[i]);
    real *least = &c->series[0][s->block[i].layer];
    *least = isnan(*least) || *least < kept ? *least : (real)kept;
  }
}

static void release(struct stabilizer_context *c)
{
  struct clip_state *s = c->state;
  tensor_free(c->model->device, s->work);
  tensor_free(c->model->device, s->number);
}

const struct stabilizer stabilizer_spectral_clip = {
  .name = "spectral_clip",
  .help = "singular values of the query and key weights held below a bound",
  .options = rows,
  .options_size = sizeof(struct spectral_clip),
  .state_size = sizeof(struct clip_state),
  .emits = emits,
  .init = init,
  .after_step = after_step,
  .free = release,
  .flags = STABILIZER_SCALES_QK,
};
