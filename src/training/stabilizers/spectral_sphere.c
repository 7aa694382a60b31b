/* spectral_sphere.c - weights keep one spectral norm, and a step has a size relative to it (arXiv 2601.08393 alg. 1)
   With R = c sqrt(rows/cols) of a matrix, or of a head's rows, and u the optimizer's update, of any size:
     Y = W - lr R sqrt(min(rows, cols)) u / |u|,   W <- R Y / sigma_1(Y)
   All singular values of Muon's u = msign are 1, so its step is lr R u: MuonSphere. Initial weights are put on the
   sphere, too. sigma_1 comes from a power iteration that continues from the previous step. */
#include <math.h>
#include <stdio.h>
#include "model/model.h"
#include "training/sphere.h"

struct spectral_sphere {
  double radius;
  long tensors, scope, iterations;
};

static const struct option_row rows[] = {
  REAL_ROW(struct spectral_sphere, radius, "1", 1e-6, 1e6, "1", "spectral norm, over sqrt(rows/columns)", 0),
  CHOICE_ROW(struct spectral_sphere, tensors, "matrices", sphere_tensors,
             "affected tensors: all hidden matrices, or only query and key projections", 0),
  CHOICE_ROW(struct spectral_sphere, scope, "head", sphere_scopes,
             "whole tensors, or, in query, key and value projections, the rows of each head", 0),
  INT_ROW(struct spectral_sphere, iterations, "2", 1, 1000, "1", "power iterations per step", 0), END_ROW};

static const struct series emits[] = {
  {"spectral_sphere/stretch", PER_LAYER, AXIS_STEP, "1", "stretch of a step",
   "largest ratio of a matrix's spectral norm after this step's update to the one "
   "that it then gets back",
   EVENT_NONE},
  {0}};

struct sphere_state {
  struct qk_block *block;
  int count;
};

static struct qk_block *blocks_of(struct stabilizer_context *c, int *count)
{
  const struct spectral_sphere *o = c->options;
  return sphere_blocks(c->model, o->tensors, o->scope, count);
}

/* The left vectors of a weight, row by row, as a parameter that does not train. */
static void declare(struct stabilizer_context *c, int layer)
{
  int count;
  const struct qk_block *block = blocks_of(c, &count);
  for (int i = 0; i < count; i++)
    if (block[i].layer == layer && block[i].row == 0)
      params_add(&c->model->params, PARAM_STATE, layer, 1, block[i].weight->value.rows, INIT_NORMAL, 1,
                 "%s.spectral_sphere", block[i].weight->name);
}

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  struct sphere_state *s = c->state;
  s->block = blocks_of(c, &s->count);
  return STATUS_OK;
}

/* Record every block's radius or, with `of_norm`, the Frobenius norm of a matrix with all singular values equal to
   it. */
static struct tensor *radii(struct stabilizer_context *c, struct program *p, int of_norm)
{
  const struct sphere_state *s = c->state;
  double *size = program_memory(p, (size_t)s->count, sizeof *size);
  for (int i = 0; i < s->count; i++) {
    double height = (double)s->block[i].rows, width = (double)s->block[i].weight->value.cols;
    size[i] = sqrt(height / width * (of_norm ? fmin(height, width) : 1));
  }
  struct tensor *radius = program_temporary(p, 1, s->count, "radii");
  PROGRAM_CALL(p, copy, .y = radius, .x = program_reals(p, 1, s->count, size, "radii"));
  PROGRAM_CALL(p, scale, .y = radius,
               .by = numbers_constant(c->numbers, ((const struct spectral_sphere *)c->options)->radius),
               .alpha = 1);
  return radius;
}

/* Record the retraction to the sphere; returns each block's spectral norm before it, over the radius, [1, count]. */
static struct tensor *retract(struct stabilizer_context *c, struct program *p)
{
  const struct sphere_state *s = c->state;
  struct tensor *sigma = program_temporary(p, 1, s->count, "sigma"), *radius = radii(c, p, 0),
                *back = program_temporary(p, 1, s->count, "way back");
  for (int i = 0; i < s->count; i++) {
    const struct qk_block *b = &s->block[i];
    char name[128];
    snprintf(name, sizeof name, "%s.spectral_sphere", b->weight->name);
    struct tensor *w = program_rows(p, &b->weight->value, b->row, b->rows);
    struct tensor *u = program_view(p, &params_find(&c->model->params, name)->value, b->row, b->rows);
    power_iteration_record(p, w, u, program_temporary(p, 1, w->cols, "right vector"),
                           (int)((const struct spectral_sphere *)c->options)->iterations,
                           program_view(p, sigma, i, 1));
  }
  PROGRAM_CALL(p, copy, .y = back, .x = radius);
  PROGRAM_CALL(p, divide, .y = back, .x = sigma);
  sphere_scale(c, p, s->block, s->count, back);
  PROGRAM_CALL(p, divide, .y = sigma, .x = radius);
  return sigma;
}

static void begin(struct stabilizer_context *c, struct program *p) { retract(c, p); }

static void on_update(struct stabilizer_context *c, struct program *p, const struct update_block *block,
                      int blocks, struct tensor *factor)
{
  (void)block, (void)blocks, (void)factor;
  const struct sphere_state *s = c->state;
  sphere_size_directions(c, p, s->block, s->count, radii(c, p, 1));
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  const struct sphere_state *s = c->state;
  qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MAX, retract(c, p), c->series[0]);
}

const struct stabilizer stabilizer_spectral_sphere = {
  .name = "spectral_sphere",
  .help = "weights with a fixed spectral norm; step sizes are relative to it (with muon: MuonSphere)",
  .options = rows,
  .options_size = sizeof(struct spectral_sphere),
  .state_size = sizeof(struct sphere_state),
  .emits = emits,
  .declare = declare,
  .init = init,
  .begin = begin,
  .begin_times = 50,
  .on_update = on_update,
  .after_step = after_step,
  .flags = STABILIZER_WHOLE,
};
