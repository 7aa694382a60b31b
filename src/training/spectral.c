#include "training/spectral.h"
#include <math.h>
#include "base/memory.h"
#include "numerics/linalg.h"

/* --- decompositions on the host ------------------------------------------------------------------------ */
int svd_of(struct svd *s, struct device *device, const struct tensor *w)
{
  REQUIRE(w->ld == w->cols);
  size_t size = (size_t)(w->rows * w->cols);
  *s = (struct svd){.rows = w->rows, .cols = w->cols, .n = w->rows < w->cols ? w->rows : w->cols};
  s->u = memory_new((size_t)(s->rows * s->n), sizeof *s->u);
  s->v = memory_new((size_t)(s->cols * s->n), sizeof *s->v);
  s->sigma = memory_new((size_t)s->n, sizeof *s->sigma);
  real *host = memory_new(size, sizeof *host);
  device->download(device, host, w->data, size * sizeof *host);
  int status = svd_factors(host, w->rows, w->cols, w->cols, s->u, s->sigma, s->v, NULL);
  memory_free(host);
  return status;
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
static int listed(const struct qk_block *block, int count, const struct factor *f, int by_head)
{
  for (int i = 0; i < count; i++)
    if (block[i].weight == f->weight && (!by_head || block[i].row == f->row)) return 1;
  return 0;
}

struct qk_block *qk_blocks(struct model *m, int by_head, int *count)
{
  long most = m->options.layers * m->options.heads * MAX_FACTORS;
  struct qk_block *block = arena_get(m->params.arena, (size_t)most, sizeof *block);
  struct factor f[MAX_FACTORS];
  *count = 0;
  for (int l = 0; l < m->options.layers; l++)
    for (int h = 0; h < m->options.heads; h++) {
      int factors = m->attention->factors(m, l, h, f);
      for (int i = 0; i < factors; i++)
        if (!listed(block, *count, &f[i], by_head))
          block[(*count)++] = (struct qk_block){f[i].weight, f[i].bias, l, by_head ? f[i].row : 0,
                                                by_head ? f[i].rows : f[i].weight->value.rows};
    }
  return block;
}

struct tensor qk_rows(const struct qk_block *b) { return tensor_rows(&b->weight->value, b->row, b->rows); }

/* --- power iteration ------------------------------------------------------------------------------------ */
double norm_of(struct device *device, struct tensor *x, struct tensor *number)
{
  real norm;
  device->ops.norm(device, &(struct norm_args){.y = number, .x = x});
  device->download(device, &norm, number->data, sizeof norm);
  return (double)norm;
}

static double normalise(struct device *device, struct tensor *x, struct tensor *number)
{
  double norm = norm_of(device, x, number);
  if (norm != 0) device->ops.scale(device, &(struct scale_args){.y = x, .alpha = 1 / norm});
  return norm;
}

double power_iteration(struct device *device, struct tensor *w, struct tensor *u, struct tensor *v,
                       int iterations, struct tensor *number)
{
  const struct ops *ops = &device->ops;
  double sigma = 0;
  for (int i = 0; i < iterations; i++) {
    ops->matmul(device, &(struct matmul_args){.c = v, .a = u, .b = w, .alpha = 1}); /* v = u w */
    normalise(device, v, number);
    ops->matmul(device, &(struct matmul_args){.c = u, .a = v, .b = w, .tb = 1, .alpha = 1}); /* u = v w^T */
    sigma = normalise(device, u, number);
  }
  return sigma;
}
