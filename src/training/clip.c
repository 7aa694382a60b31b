/* clip.c - what every clip does to the weights */
#include "training/clip.h"

/* The rows of these blocks in a tensor that lies as w does, each by its own number. */
static void scale_rows(const struct model *m, struct program *p, const struct param *w,
                       const struct tensor *x, const struct logit_block *f, int count, struct tensor *scale)
{
  int *segment = program_memory(p, 2 * (size_t)count, sizeof *segment);
  int *owner = program_memory(p, (size_t)count, sizeof *owner), n = 0;
  for (int i = 0; i < count; i++) {
    if (f[i].weight != w && f[i].bias != w) continue;
    model_segment(m, w, f[i].row, f[i].rows, segment + 2 * n);
    segment[2 * n] -= (int)(REALS(&w->value) - REALS(&m->params.values));
    owner[n++] = i;
  }
  if (!n) return;
  struct tensor *own = program_temporary(p, 1, n, "factors"), *row = program_memory(p, 1, sizeof *row);
  *row = tensor_of(x->data, 1, x->rows * x->cols);
  PROGRAM_CALL(p, take, .y = own, .x = scale, .index = program_ints(p, 1, n, owner, "factors"));
  PROGRAM_CALL(p, scale_segments, .x = row, .segment = program_ints(p, n, 2, segment, "rows"), .factor = own);
}

static void scale_momentum(const struct model *m, struct program *p, const struct logit_block *f, int count,
                           struct tensor *scale)
{
  for (int k = 0; k < m->params.count; k++)
    for (struct tensor *const *x = m->params.list[k]->momentum; *x; x++)
      scale_rows(m, p, m->params.list[k], *x, f, count, scale);
}

void clip_record(struct stabilizer_context *c, struct program *p, const struct logit_block *f, int count,
                 struct tensor *scale, int momentum)
{
  int *segment = program_memory(p, 4 * (size_t)count, sizeof *segment), n = 0;
  int *owner = program_memory(p, 2 * (size_t)count, sizeof *owner);
  for (int i = 0; i < count; i++) {
    model_segment(c->model, f[i].weight, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
    if (!f[i].bias) continue;
    model_segment(c->model, f[i].bias, f[i].row, f[i].rows, segment + 2 * n);
    owner[n++] = i;
  }
  struct tensor *factor = program_temporary(p, 1, n, "clip factors");
  PROGRAM_CALL(p, take, .y = factor, .x = scale, .index = program_ints(p, 1, n, owner, "clipped"));
  PROGRAM_CALL(p, scale_segments, .x = &c->model->params.values,
               .segment = program_ints(p, n, 2, segment, "clipped"), .factor = factor);
  if (momentum) scale_momentum(c->model, p, f, count, scale);
}
