/* hyperball.c - weights keep the Frobenius norm of their start, and a step has a size relative to it
   (Hyperball: MuonH, AdamH; arXiv 2606.16899, after the code of marin-community)
   With R = |W_0| of a matrix, or of a head's rows, and u the optimizer's update, of any size:
     Y = W - lr R u / |u|,   W <- R Y / |Y|
   R is a run's state: taken anew from W in every step it would drift by rounding. Weight decay before it is, to first
   order, none: it makes of lr lr / (1 - lr weight_decay). */
#include "model/model.h"
#include "training/sphere.h"

struct hyperball {
  long tensors, scope;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct hyperball, tensors, "matrices", sphere_tensors,
             "affected tensors: all hidden matrices, or only query and key projections", 0),
  CHOICE_ROW(struct hyperball, scope, "tensor", sphere_scopes, "whole tensors, or the rows of each head", 0),
  END_ROW};

static const struct series emits[] = {
  {"hyperball/stretch", PER_LAYER, AXIS_STEP, "1", "stretch of a step",
   "largest ratio of a matrix's norm after this step's update to the norm that "
   "it then gets back",
   EVENT_NONE},
  {0}};

static const char radius_name[] = "hyperball.radius";

struct ball_state {
  struct qk_block *block;
  int count;
  struct tensor *radius; /* [1, count]: of this step */
};

static void declare(struct stabilizer_context *c, int layer)
{
  const struct hyperball *o = c->options;
  int count, own = 0;
  const struct qk_block *block = sphere_blocks(c->model, o->tensors, o->scope, &count);
  for (int i = 0; i < count; i++) own += block[i].layer == layer;
  params_add(&c->model->params, PARAM_STATE, layer, 1, own, INIT_CONSTANT, 0, "blocks.%d.%s", layer,
             radius_name);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  const struct hyperball *o = c->options;
  struct ball_state *s = c->state;
  s->block = sphere_blocks(c->model, o->tensors, o->scope, &s->count);
  s->radius = tensor_new(c->model->device, TENSOR_REAL, 1, s->count, "radii");
  return STATUS_OK;
}

static void begin(struct stabilizer_context *c, struct program *p)
{
  struct ball_state *s = c->state;
  sphere_norms(c, p, s->block, s->count, s->radius);
  copy_kept(c->model, p, s->radius, radius_name, 1);
}

static void on_update(struct stabilizer_context *c, struct program *p, const struct update_block *block,
                      int blocks, struct tensor *factor)
{
  (void)block, (void)blocks, (void)factor;
  struct ball_state *s = c->state;
  copy_kept(c->model, p, s->radius, radius_name, 0);
  sphere_size_directions(c, p, s->block, s->count, s->radius);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  struct ball_state *s = c->state;
  struct tensor *norm = program_temporary(p, 1, s->count, "norms"),
                *back = program_temporary(p, 1, s->count, "way back");
  sphere_norms(c, p, s->block, s->count, norm);
  PROGRAM_CALL(p, copy, .y = back, .x = s->radius);
  PROGRAM_CALL(p, divide, .y = back, .x = norm);
  sphere_scale(c, p, s->block, s->count, back);
  PROGRAM_CALL(p, divide, .y = norm, .x = s->radius);
  qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MAX, norm, c->series[0]);
}

static void release(struct stabilizer_context *c)
{
  tensor_free(c->model->device, ((struct ball_state *)c->state)->radius);
}

const struct stabilizer stabilizer_hyperball = {
  .name = "hyperball",
  .help = "weights keep their initial Frobenius norm; step sizes are relative to it",
  .options = rows,
  .options_size = sizeof(struct hyperball),
  .state_size = sizeof(struct ball_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .begin = begin,
  .on_update = on_update,
  .after_step = after_step,
  .free = release,
  .flags = STABILIZER_WHOLE,
};
