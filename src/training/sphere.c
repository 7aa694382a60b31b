#include "training/sphere.h"
#include "base/memory.h"
#include "model/model.h"
#include "training/optimizer.h"

const char *const sphere_tensors[] = {"matrices", "qk", NULL};
const char *const sphere_scopes[] = {"tensor", "head", NULL};

static long block_rows(const struct param *p, long scope)
{
  return scope == SPHERE_BY_HEAD && p->head_rows ? p->head_rows : param_block_rows(p);
}

/* The blocks of a layer's hidden matrices; out may be NULL. Returns how many. */
static int blocks_of_layer(const struct model *m, int layer, long scope, struct qk_block *out)
{
  int n = 0;
  for (int i = 0; i < m->params.count; i++) {
    struct param *p = m->params.list[i];
    if (p->kind != PARAM_MATRIX || p->layer != layer) continue;
    for (long row = 0, rows = block_rows(p, scope); row < p->value.rows; row += rows, n++)
      if (out) out[n] = (struct qk_block){p, NULL, layer, row, rows};
  }
  return n;
}

struct qk_block *sphere_blocks(struct model *m, long tensors, long scope, int *count)
{
  if (tensors == SPHERE_QK) return qk_blocks(m, scope == SPHERE_BY_HEAD, count);
  int layers = (int)model_blocks(&m->options);
  *count = 0;
  for (int l = 0; l < layers; l++) *count += blocks_of_layer(m, l, scope, NULL);
  struct qk_block *block = arena_get(m->params.arena, (size_t)*count, sizeof *block);
  for (int l = 0, n = 0; l < layers; l++) n += blocks_of_layer(m, l, scope, block + n);
  return block;
}

static struct tensor *segments(struct program *p, const struct qk_block *block, int count)
{
  int *segment = program_memory(p, 2 * (size_t)count, sizeof *segment);
  for (int i = 0; i < count; i++)
    param_segment(block[i].weight, block[i].row, block[i].rows, segment + 2 * i);
  return program_ints(p, count, 2, segment, "blocks");
}

void sphere_size_directions(struct stabilizer_context *c, struct program *p, const struct qk_block *block,
                            int count, struct tensor *size)
{
  struct tensor *all = &c->model->params.update_values;
  struct tensor *own = segments(p, block, count);
  struct tensor *norm = program_temporary(p, 1, count, "norms of updates"),
                *factor = program_temporary(p, 1, count, "factors of updates");
  PROGRAM_CALL(p, norm_segments, .y = norm, .x = all, .segment = own);
  PROGRAM_CALL(p, copy, .y = factor, .x = size);
  PROGRAM_CALL(p, divide, .y = factor, .x = norm);
  PROGRAM_CALL(p, scale_segments, .x = all, .segment = own, .factor = factor);
}

void sphere_norms(struct stabilizer_context *c, struct program *p, const struct qk_block *block, int count,
                  struct tensor *y)
{
  PROGRAM_CALL(p, norm_segments, .y = y, .x = &c->model->params.values, .segment = segments(p, block, count));
}

void sphere_scale(struct stabilizer_context *c, struct program *p, const struct qk_block *block, int count,
                  struct tensor *factor)
{
  PROGRAM_CALL(p, scale_segments, .x = &c->model->params.values, .segment = segments(p, block, count),
               .factor = factor);
}
