/* spectral_decay.c - decay of the largest singular value alone (kexue.fm/archives/10648)
   After the step W <- W - lr strength sigma_1 u_1 v_1^T on the query and key weights, by tensor or by head:
   the pair comes from a power iteration that continues from the previous step. */
#include <stdio.h>
#include "model/model.h"
#include "training/spectral.h"

enum { BY_TENSOR, BY_HEAD };
static const char *const scopes[] = {"tensor", "head", NULL};

struct spectral_decay {
  double strength;
  long scope, iterations;
};

static const struct option_row rows[] = {
  REAL_ROW(struct spectral_decay, strength, "1", 0, 1e6, "1",
           "decay of the largest singular value per step, divided by lr", 0),
  CHOICE_ROW(struct spectral_decay, scope, "tensor", scopes, "whole tensors, or the rows of each head", 0),
  INT_ROW(struct spectral_decay, iterations, "2", 1, 1000, "1", "power iterations per step", 0), END_ROW};

static const struct series emits[] = {{"spectral_decay/largest", PER_LAYER, AXIS_STEP, "1",
                                       "spectral norm of w_q, w_k",
                                       "largest estimated spectral norm among the layer's query and key "
                                       "blocks after this step, before its decay",
                                       EVENT_NONE},
                                      {0}};

struct decay_state {
  struct qk_block *block;
  int count;
};

/* The left vectors of a weight, row by row, as a parameter that does not train. */
static void declare(struct stabilizer_context *c, int layer)
{
  struct model *m = c->model;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  int count = m->attention->logit_blocks(m, layer, 0, f);
  for (int i = 0; i < count; i++)
    params_add(&m->params, PARAM_STATE, layer, 1, f[i].weight->value.rows, INIT_NORMAL, 1,
               "%s.spectral_decay", f[i].weight->name);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct model *m = c->model;
  struct decay_state *s = c->state;
  s->block = qk_blocks(m, ((const struct spectral_decay *)c->options)->scope == BY_HEAD, &s->count);
  return STATUS_OK;
}

static struct tensor *left_of(struct model *m, struct program *p, const struct qk_block *b)
{
  char name[128];
  snprintf(name, sizeof name, "%s.spectral_decay", b->weight->name);
  return program_view(p, &params_find(&m->params, name)->value, b->row, b->rows);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  const struct spectral_decay *o = c->options;
  struct decay_state *s = c->state;
  struct tensor *sigma = program_temporary(p, 1, s->count, "sigma");
  struct tensor *strength = numbers_constant(c->numbers, o->strength);
  for (int i = 0; i < s->count; i++) {
    const struct qk_block *b = &s->block[i];
    struct tensor *w = program_rows(p, &b->weight->value, b->row, b->rows), *u = left_of(c->model, p, b);
    struct tensor *v = program_temporary(p, 1, w->cols, "right vector"), *own = program_view(p, sigma, i, 1);
    power_iteration_record(p, w, u, v, (int)o->iterations, own);
    PROGRAM_CALL(p, scale, .y = v, .by = own, .alpha = 1);
    PROGRAM_CALL(p, scale, .y = v, .by = strength, .alpha = 1);
    PROGRAM_CALL(p, scale, .y = v, .by = c->model->lr, .alpha = 1);
    PROGRAM_CALL(p, matmul, .c = w, .a = u, .b = v, .ta = 1, .add = 1, .alpha = -1);
  }
  qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MAX, sigma, c->series[0]);
}

const struct stabilizer stabilizer_spectral_decay = {
  .name = "spectral_decay",
  .help = "decay of only the largest singular value of query and key weights",
  .options = rows,
  .options_size = sizeof(struct spectral_decay),
  .state_size = sizeof(struct decay_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QK | STABILIZER_WHOLE,
};
