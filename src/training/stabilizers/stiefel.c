/* stiefel.c - all singular values of a weight stay 1, and a step goes along that manifold
   (Manifold Muon: J. Bernstein, "Modular manifolds", Thinking Machines 2025; with steps=0 SPEL, arXiv 2601.21487)
   With G the optimizer's update over its Frobenius norm, W [out, in] with out >= in (else all of it transposed):
     L = -1/4 (W^T G + G^T W);   `steps` times: A = msign(G + 2 W L), H = W^T A + A^T W, L -= alpha (1 - s/steps) H
     W <- msign(W - lr A);       steps=0: A = msign(G)
   The ascent finds the A of spectral norm 1 that lies in the tangent space and goes down steepest; dividing by |G|
   makes it the same for gradients of any size. The first weights are put on the manifold, too. */
#include "model/model.h"
#include "training/optimizer.h"
#include "training/sphere.h"

struct stiefel {
  long tensors, scope, steps;
  double alpha;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct stiefel, tensors, "matrices", sphere_tensors,
             "affected tensors: all hidden matrices, or only query and key projections", 0),
  CHOICE_ROW(struct stiefel, scope, "head", sphere_scopes,
             "whole tensors, or, in query, key and value projections, the rows of each head", 0),
  INT_ROW(struct stiefel, steps, "20", 0, 1000, "1",
          "steps of dual ascent towards the tangent space; 0: none, the step is msign of the update (SPEL)",
          0),
  REAL_ROW(struct stiefel, alpha, "0.1", 0, 1e3, "1", "rate of the ascent", 0), END_ROW};

static const struct series emits[] = {
  {"stiefel/off_tangent", PER_LAYER, AXIS_STEP, "1", "how far a step leaves the tangent space",
   "largest |W^T A + A^T W| / n of a layer's matrices, n the shorter side: root mean square of the entries",
   EVENT_NONE},
  {0}};

enum {
  MSIGN_STEPS = 12
}; /* of Polar Express: exact to rounding from singular values of 1e-3 of the largest on */

struct stiefel_state {
  struct qk_block *block;
  int count;
};

static int init(struct stabilizer_context *c, struct error *e)
{
  (void)e;
  const struct stiefel *o = c->options;
  struct stiefel_state *s = c->state;
  s->block = sphere_blocks(c->model, o->tensors, o->scope, &s->count);
  return STATUS_OK;
}

/* --- matrices of one shape -------------------------------------------------------------------------------- */

static int same_shape(const struct qk_block *a, const struct qk_block *b)
{
  return a->rows == b->rows && a->weight->value.cols == b->weight->value.cols;
}

static int is_first(const struct stiefel_state *s, int i)
{
  for (int k = 0; k < i; k++)
    if (same_shape(&s->block[k], &s->block[i])) return 0;
  return 1;
}

/* Those of one shape; x and v are theirs, one below the other. */
struct stiefel_group {
  int count, *member; /* numbers of blocks */
  long rows, cols, n; /* n: the shorter side */
  struct tensor *x, *v, *multiplier, *h;
};

static struct stiefel_group group_of(struct program *p, const struct stiefel_state *s, int first)
{
  struct stiefel_group g = {.member = program_memory(p, (size_t)s->count, sizeof *g.member),
                            .rows = s->block[first].rows,
                            .cols = s->block[first].weight->value.cols};
  g.n = g.rows < g.cols ? g.rows : g.cols;
  for (int i = first; i < s->count; i++)
    if (same_shape(&s->block[i], &s->block[first])) g.member[g.count++] = i;
  return g;
}

static void msign(struct program *p, const struct stiefel_group *g, struct tensor *x, const long *place)
{
  newton_schulz_record(p, x, place, g->count, g->rows, g->cols, &ns_sets[NS_POLAR_EXPRESS], NS_AUTO,
                       MSIGN_STEPS, 1e-30, NULL, 1);
}

/* Record W <- msign(W). */
static void retract(struct stabilizer_context *c, struct program *p)
{
  const struct stiefel_state *s = c->state;
  for (int first = 0; first < s->count; first++) {
    if (!is_first(s, first)) continue;
    struct stiefel_group g = group_of(p, s, first);
    long *place = program_memory(p, (size_t)g.count, sizeof *place);
    for (int i = 0, segment[2]; i < g.count; i++) {
      const struct qk_block *b = &s->block[g.member[i]];
      param_segment(b->weight, b->row, b->rows, segment);
      place[i] = segment[0];
    }
    msign(p, &g, &c->model->params.values, place);
  }
}

/* --- the ascent ---------------------------------------------------------------------------------------------- */

static struct tensor *part(struct program *p, const struct stiefel_group *g, struct tensor *t, int i)
{
  long height = t->rows / g->count;
  return program_rows(p, t, i * height, height);
}

static struct tensor *weight_of(struct stabilizer_context *c, struct program *p, int block)
{
  const struct qk_block *b = &((const struct stiefel_state *)c->state)->block[block];
  return program_rows(p, &b->weight->value, b->row, b->rows);
}

/* Record y [+]= alpha (W^T x + x^T W), or of the transposed ones where W is wide. */
static void add_symmetric(struct program *p, struct tensor *y, struct tensor *w, struct tensor *x,
                          double alpha, int add)
{
  int wide = w->rows < w->cols;
  PROGRAM_CALL(p, matmul, .c = y, .a = w, .b = x, .ta = !wide, .tb = wide, .add = add, .alpha = alpha);
  PROGRAM_CALL(p, matmul, .c = y, .a = x, .b = w, .ta = !wide, .tb = wide, .add = 1, .alpha = alpha);
}

/* Record x = msign(G + 2 W L) for all of a group; v holds the G. */
static void step_of(struct stabilizer_context *c, struct program *p, const struct stiefel_group *g,
                    const long *place)
{
  PROGRAM_CALL(p, copy, .y = g->x, .x = g->v);
  for (int i = 0; i < g->count; i++) {
    struct tensor *w = weight_of(c, p, g->member[i]), *x = part(p, g, g->x, i),
                  *l = part(p, g, g->multiplier, i);
    int wide = g->rows < g->cols;
    PROGRAM_CALL(p, matmul, .c = x, .a = wide ? l : w, .b = wide ? w : l, .add = 1, .alpha = 2);
  }
  msign(p, g, g->x, place);
}

/* Record the group's steps, from the updates and into them; off[block] is how far each is off the tangent space. */
static void ascend(struct stabilizer_context *c, struct program *p, struct stiefel_group *g,
                   struct tensor *off)
{
  const struct stiefel *o = c->options;
  const struct stiefel_state *s = c->state;
  struct tensor *alpha = numbers_constant(c->numbers, o->alpha),
                *size = program_temporary(p, 1, g->count, "sizes");
  long *place = program_memory(p, (size_t)g->count, sizeof *place);
  g->x = program_temporary(p, g->count * g->rows, g->cols, "steps along the manifold");
  g->v = program_temporary(p, g->count * g->rows, g->cols, "updates, of length 1");
  g->multiplier = program_temporary(p, g->count * g->n, g->n, "multipliers");
  g->h = program_temporary(p, g->count * g->n, g->n, "off the tangent space");
  for (int i = 0; i < g->count; i++) {
    const struct qk_block *b = &s->block[g->member[i]];
    struct tensor *update = &b->weight->update, *v = part(p, g, g->v, i);
    place[i] = i * g->rows * g->cols;
    PROGRAM_CALL(p, copy, .y = v, .x = program_rows(p, update, b->row, b->rows));
    PROGRAM_CALL(p, normalise, .y = v, .size = program_view(p, size, i, 1));
    add_symmetric(p, part(p, g, g->multiplier, i), weight_of(c, p, g->member[i]), v, o->steps ? -0.25 : 0, 0);
  }
  for (long step = 0; step < o->steps; step++) {
    step_of(c, p, g, place);
    if (step + 1 == o->steps) break;
    for (int i = 0; i < g->count; i++)
      add_symmetric(p, part(p, g, g->h, i), weight_of(c, p, g->member[i]), part(p, g, g->x, i), 1, 0);
    PROGRAM_CALL(p, axpby, .y = g->multiplier, .x = g->h, .a = alpha,
                 .alpha = -(1 - (double)step / (double)o->steps), .beta = 1);
  }
  if (!o->steps) step_of(c, p, g, place);
  for (int i = 0; i < g->count; i++) {
    const struct qk_block *b = &s->block[g->member[i]];
    struct tensor *x = part(p, g, g->x, i), *h = part(p, g, g->h, i);
    add_symmetric(p, h, weight_of(c, p, g->member[i]), x, 1 / (double)g->n, 0);
    PROGRAM_CALL(p, norm, .y = program_view(p, off, g->member[i], 1), .x = h);
    PROGRAM_CALL(p, copy, .y = program_rows(p, &b->weight->update, b->row, b->rows), .x = x);
  }
}

static void on_update(struct stabilizer_context *c, struct program *p, const struct update_block *block,
                      int blocks, struct tensor *factor)
{
  (void)block, (void)blocks, (void)factor;
  const struct stiefel_state *s = c->state;
  struct tensor *off = program_temporary(p, 1, s->count, "off the tangent space, by block");
  for (int first = 0; first < s->count; first++) {
    if (!is_first(s, first)) continue;
    struct stiefel_group g = group_of(p, s, first);
    ascend(c, p, &g, off);
  }
  qk_reduce_layers(c->model, p, s->block, s->count, REDUCE_MAX, off, c->series[0]);
}

const struct stabilizer stabilizer_stiefel = {
  .name = "stiefel",
  .help = "weights whose singular values are all 1; steps along that manifold (Manifold Muon, SPEL)",
  .options = rows,
  .options_size = sizeof(struct stiefel),
  .state_size = sizeof(struct stiefel_state),
  .emits = emits,
  .init = init,
  .begin = retract,
  .on_update = on_update,
  .after_step = retract,
  .flags = STABILIZER_WHOLE,
};
