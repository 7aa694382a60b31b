/* spectral_decay.c - decay of the largest singular value alone (kexue.fm/archives/10648)
   After the step W <- W - lr strength sigma_1 u_1 v_1^T on the query and key weights, by tensor or by head:
   the pair comes from a power iteration that goes on from the step before. */
#include <math.h>
#include <stdio.h>
#include "training/spectral.h"

enum { BY_TENSOR, BY_HEAD };
static const char *const scopes[] = {"tensor", "head", NULL};

struct spectral_decay {
  double strength;
  long scope, iterations;
};

static const struct option_row rows[] = {
  REAL_ROW(struct spectral_decay, strength, "1", 0, 1e6, "1",
           "decay of the largest singular value a step, over lr", 0),
  CHOICE_ROW(struct spectral_decay, scope, "tensor", scopes, "whole tensors, or every head's rows", 0),
  INT_ROW(struct spectral_decay, iterations, "2", 1, 1000, "1", "power iterations a step", 0), END_ROW};

static const struct series emits[] = {{"spectral_decay/largest", PER_LAYER, AXIS_STEP, "1",
                                       "spectral norm of w_q, w_k",
                                       "largest estimated spectral norm among the layer's query and key "
                                       "blocks after this step, before its decay"},
                                      {0}};

struct decay_state {
  struct qk_block *block;
  int count;
  struct tensor *v, *number;
};

/* The left vectors of a weight, row by row, as a parameter that does not train. */
static void declare(struct stabilizer_context *c, int layer)
{
  struct model *m = c->model;
  struct factor f[MAX_FACTORS];
  int count = m->attention->factors(m, layer, 0, f);
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
  long widest = 1;
  for (int i = 0; i < s->count; i++)
    widest = s->block[i].weight->value.cols > widest ? s->block[i].weight->value.cols : widest;
  s->v = tensor_new(m->device, TENSOR_REAL, 1, widest, "v");
  s->number = tensor_new(m->device, TENSOR_REAL, 1, 1, "number");
  return STATUS_OK;
}

static struct tensor left_of(struct model *m, const struct qk_block *b)
{
  char name[128];
  snprintf(name, sizeof name, "%s.spectral_decay", b->weight->name);
  return tensor_of(REALS(&params_find(&m->params, name)->value) + b->row, 1, b->rows);
}

static void after_step(struct stabilizer_context *c)
{
  const struct spectral_decay *o = c->options;
  struct decay_state *s = c->state;
  struct device *device = c->model->device;
  for (int l = 0; l < c->model->options.layers; l++) c->series[0][l] = 0;
  for (int i = 0; i < s->count; i++) {
    const struct qk_block *b = &s->block[i];
    struct tensor w = qk_rows(b), u = left_of(c->model, b), v = tensor_of(s->v->data, 1, w.cols);
    double sigma = power_iteration(device, &w, &u, &v, (int)o->iterations, s->number);
    device->ops.matmul(
      device, &(struct matmul_args){
                .c = &w, .a = &u, .b = &v, .ta = 1, .add = 1, .alpha = -c->lr * o->strength * sigma});
    real *largest = &c->series[0][b->layer];
    *largest = isnan(*largest) || *largest > sigma ? *largest : (real)sigma;
  }
}

static void release(struct stabilizer_context *c)
{
  struct decay_state *s = c->state;
  tensor_free(c->model->device, s->v);
  tensor_free(c->model->device, s->number);
}

const struct stabilizer stabilizer_spectral_decay = {
  .name = "spectral_decay",
  .help = "decay of the largest singular value of the query and key weights alone",
  .options = rows,
  .options_size = sizeof(struct spectral_decay),
  .state_size = sizeof(struct decay_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .after_step = after_step,
  .free = release,
  .flags = STABILIZER_SCALES_QK,
};
