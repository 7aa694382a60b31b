#include "training/spectral.h"
#include <math.h>
#include "base/memory.h"
#include "model/model.h"
#include "numerics/svd.h"

/* --- decompositions on the host ------------------------------------------------------------------------ */
int svd_of_host(struct svd *s, const real *w, long rows, long cols)
{
  *s = (struct svd){.rows = rows, .cols = cols, .n = rows < cols ? rows : cols};
  s->u = memory_new((size_t)(s->rows * s->n), sizeof *s->u);
  s->v = memory_new((size_t)(s->cols * s->n), sizeof *s->v);
  s->sigma = memory_new((size_t)s->n, sizeof *s->sigma);
  return svd_factors(w, rows, cols, cols, s->u, s->sigma, s->v, NULL);
}

real *host_copy(struct device *device, const struct tensor *w)
{
  REQUIRE(w->ld == w->cols);
  size_t size = (size_t)(w->rows * w->cols);
  real *host = memory_new(size, sizeof *host);
  device->download(device, host, w->data, size * sizeof *host);
  return host;
}

static void put_back(struct device *device, struct tensor *w, real *host)
{
  device->upload(device, w->data, host, (size_t)(w->rows * w->cols) * sizeof *host);
  memory_free(host);
}

int svd_of(struct svd *s, struct device *device, const struct tensor *w)
{
  real *host = host_copy(device, w);
  int status = svd_of_host(s, host, w->rows, w->cols);
  memory_free(host);
  return status;
}

void svd_put_nan(struct device *device, struct tensor *w)
{
  size_t size = (size_t)(w->rows * w->cols);
  real *host = memory_new(size, sizeof *host);
  for (size_t i = 0; i < size; i++) host[i] = (real)NAN;
  put_back(device, w, host);
}

void exact_polar_factor(struct device *device, struct tensor *x, double scale)
{
  long size = x->rows * x->cols;
  real *host = host_copy(device, x);
  int zero = 1, failed = 0;
  for (long i = 0; i < size; i++) zero &= host[i] == 0;
  if (!zero) failed = polar_factor(host, x->rows, x->cols, x->cols, host, x->cols, NULL);
  for (long i = 0; i < size; i++) host[i] = failed ? (real)NAN : (real)(scale * (double)host[i]);
  put_back(device, x, host);
}

struct spectral_job {
  struct device *device;
  void (*one)(void *context, struct device *, long i);
  void *context;
};

static void each_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct spectral_job *e = context;
  e->one(e->context, e->device, piece);
}

void host_each(struct device *device, long count, void (*one)(void *context, struct device *, long i),
               void *context)
{
  parallel_for(device->pool, count, each_piece, &(struct spectral_job){device, one, context});
}

void svd_free(struct svd *s)
{
  memory_free(s->u);
  memory_free(s->v);
  memory_free(s->sigma);
}

void svd_compose(const struct svd *s, struct device *device, struct tensor *w)
{
  REQUIRE(w->rows == s->rows && w->cols == s->cols && w->ld == w->cols);
  size_t size = (size_t)(w->rows * w->cols);
  real *host = memory_new(size, sizeof *host);
  svd_product(s->u, s->sigma, s->v, s->rows, s->cols, host, s->cols);
  device->upload(device, w->data, host, size * sizeof *host);
  memory_free(host);
}

/* --- the weights behind the logits ---------------------------------------------------------------------- */
static int listed(const struct qk_block *block, int count, const struct logit_block *f, int by_head)
{
  for (int i = 0; i < count; i++)
    if (block[i].weight == f->weight && (!by_head || block[i].row == f->row)) return 1;
  return 0;
}

struct qk_block *qk_blocks(struct model *m, int by_head, int *count)
{
  long most = model_blocks(&m->options) * m->options.heads * MAX_LOGIT_BLOCKS;
  struct qk_block *block = arena_get(m->params.arena, (size_t)most, sizeof *block);
  struct logit_block f[MAX_LOGIT_BLOCKS];
  *count = 0;
  for (int l = 0; l < model_blocks(&m->options); l++)
    for (int h = 0; h < m->options.heads; h++) {
      int factors = m->attention->logit_blocks(m, l, h, f);
      for (int i = 0; i < factors; i++)
        if (!listed(block, *count, &f[i], by_head))
          block[(*count)++] = (struct qk_block){f[i].weight, f[i].bias, l, by_head ? f[i].row : 0,
                                                by_head ? f[i].rows : f[i].weight->value.rows};
    }
  return block;
}

void qk_reduce_layers(const struct model *m, struct program *p, const struct qk_block *block, int count,
                      long kind, struct tensor *x, struct tensor *y)
{
  int layers = (int)model_blocks(&m->options), at = 0,
      *member = program_memory(p, (size_t)count, sizeof *member);
  int *first = program_memory(p, (size_t)layers + 1, sizeof *first);
  for (int l = 0; l < layers; l++) {
    for (int i = 0; i < count; i++)
      if (block[i].layer == l) member[at++] = i;
    first[l + 1] = at;
  }
  PROGRAM_CALL(p, reduce, .y = y, .x = x, .member = program_ints(p, 1, count, member, "blocks"),
               .first = program_ints(p, 1, layers + 1, first, "layers"), .kind = kind);
}

void copy_kept(struct model *m, struct program *p, struct tensor *all, const char *name, int save)
{
  for (int l = 0, at = 0; l < model_blocks(&m->options); l++) {
    struct tensor *own = &model_param(m, l, name)->value, *part = program_view(p, all, at, own->cols);
    PROGRAM_CALL(p, copy, .y = save ? own : part, .x = save ? part : own);
    at += (int)own->cols;
    REQUIRE(at <= all->cols);
  }
}

/* --- power iteration ------------------------------------------------------------------------------------ */
void power_iteration_record(struct program *p, struct tensor *w, struct tensor *u, struct tensor *v,
                            int iterations, struct tensor *sigma)
{
  for (int i = 0; i < iterations; i++) {
    PROGRAM_CALL(p, matmul, .c = v, .a = u, .b = w, .alpha = 1); /* v = u w */
    PROGRAM_CALL(p, normalise, .y = v, .size = sigma);
    PROGRAM_CALL(p, matmul, .c = u, .a = v, .b = w, .tb = 1, .alpha = 1); /* u = v w^T */
    PROGRAM_CALL(p, normalise, .y = u, .size = sigma);
  }
}
