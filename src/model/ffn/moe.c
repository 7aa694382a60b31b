/* moe.c - a mixture of experts after DeepSeek-V3 (arXiv 2412.19437 sec. 2.1.2) and Kimi K2: a router chooses `active`
   of E experts for every token by biased scores, weighs them by unbiased ones, and `shared` experts take every token.
   No token is dropped: a product by experts has room for whatever is chosen. */
#include <math.h>
#include "model/ffn/swiglu.h"
#include "model/model.h"

enum { SCORE_SIGMOID, SCORE_SOFTMAX };
enum { BALANCE_BIAS, BALANCE_AUX, BALANCE_BOTH, BALANCE_NONE };
enum { RULE_SIGN, RULE_CENTRED, RULE_RMS };

struct moe_options {
  long experts, active, shared, hidden, dense_layers, score, balance;
  double bias_rate;
  long bias_rule;
  double aux;
  long groups, groups_kept;
  double route_scale;
};

static const char *const score_names[] = {"sigmoid", "softmax", NULL};
static const char *const balance_names[] = {"bias", "aux", "both", "none", NULL};
static const char *const rule_names[] = {"sign", "centred", "rms", NULL};

#define O struct moe_options
static const struct option_row rows[] = {
  INT_ROW(O, experts, "8", 1, 4096, "1", "experts that the router chooses from", 0),
  INT_ROW(O, active, "2", 1, 4096, "1", "experts per token", 0),
  INT_ROW(O, shared, "1", 0, 64, "1", "shared experts, used by every token", 0),
  INT_ROW(O, hidden, "0", 0, 1048576, "1",
          "hidden size of an expert; 0: model.ffn_width / (active + shared), rounded to a multiple of 8", 0),
  INT_ROW(O, dense_layers, "0", 0, 1000, "1", "number of first layers with a dense block of model.ffn_width",
          0),
  CHOICE_ROW(O, score, "sigmoid", score_names, "function from router logits to scores", 0),
  CHOICE_ROW(O, balance, "bias", balance_names,
             "load balancing: a bias on the choice that follows the loads (loss-free, arXiv 2408.15664), an "
             "auxiliary loss per sequence (arXiv 2412.19437 eq. 17), both, or none",
             0),
  REAL_ROW(O, bias_rate, "0.001", 0, 1e6, "1", "step of the bias, after each update", 0),
  CHOICE_ROW(O, bias_rule, "sign", rule_names,
             "the bias's step from its error e = mean load - load: sign e; sign e less its mean over experts "
             "(Moonlight, arXiv "
             "2502.16982); e over its root mean square",
             0),
  REAL_ROW(O, aux, "0.0001", 0, 1e6, "1", "factor of the auxiliary loss per sequence", 0),
  INT_ROW(O, groups, "1", 1, 4096, "1", "groups of consecutive experts", 0),
  INT_ROW(O, groups_kept, "1", 1, 4096, "1",
          "groups a token may choose from, by the sum of their active / groups_kept largest scores", 0),
  REAL_ROW(O, route_scale, "1", 0, 1e6, "1", "factor on the gates, which sum to 1 before it", 0),
  END_ROW};
#undef O

static int resolve(struct model_options *model, void *options, struct error *e)
{
  struct moe_options *o = options;
  if (o->active > o->experts)
    return error_set(e, STATUS_USAGE, "moe.active: %ld of moe.experts = %ld; allowed: 1 to %ld", o->active,
                     o->experts, o->experts);
  if (o->experts % o->groups)
    return error_set(e, STATUS_USAGE, "moe.groups: %ld does not divide moe.experts = %ld", o->groups,
                     o->experts);
  if (o->groups_kept > o->groups)
    return error_set(e, STATUS_USAGE, "moe.groups_kept: %ld of moe.groups = %ld; allowed: 1 to %ld",
                     o->groups_kept, o->groups, o->groups);
  if (o->active % o->groups_kept || o->active / o->groups_kept > o->experts / o->groups)
    return error_set(
      e, STATUS_USAGE,
      "moe.groups_kept: %ld; wanted: a divisor of moe.active = %ld whose quotient is at most the "
      "%ld experts of a group",
      o->groups_kept, o->active, o->experts / o->groups);
  if (o->dense_layers > model->layers)
    return error_set(e, STATUS_USAGE, "moe.dense_layers: %ld of model.layers = %ld; allowed: 0 to %ld",
                     o->dense_layers, model->layers, model->layers);
  if (o->hidden == 0) {
    o->hidden = 8 * lround((double)model->ffn_width / (8.0 * (double)(o->active + o->shared)));
    if (o->hidden == 0) o->hidden = 8;
  }
  return STATUS_OK;
}

/* Each pair of gate and up one after the other in memory. */
struct moe_weights {
  struct param *w_router, *bias, *w_gate, *w_up, *w_down;
  struct param *shared_gate, *shared_up, *shared_down; /* NULL where nothing is shared */
};

struct moe_state { /* numbers [1] */
  struct tensor *scale, *alpha, *rate;
};

static const struct moe_options *options_of(const struct model *m) { return m->options.ffn_options; }
static int is_dense(const struct model *m, int layer) { return layer < options_of(m)->dense_layers; }
static int has_bias(const struct moe_options *o)
{
  return o->balance == BALANCE_BIAS || o->balance == BALANCE_BOTH;
}
static int has_loss(const struct moe_options *o)
{
  return o->balance == BALANCE_AUX || o->balance == BALANCE_BOTH;
}

static struct param *add_stack(struct model *m, int layer, long count, long height, long cols,
                               const char *name)
{
  struct param *p = model_add_matrix(m, layer, count * height, cols, 0, name);
  p->block_rows = height;
  return p;
}

static void declare(struct model *m, int layer)
{
  const struct moe_options *o = options_of(m);
  long d = m->options.width, f = o->hidden;
  if (is_dense(m, layer)) {
    swiglu_declare(m, layer);
    return;
  }
  struct moe_weights *w = m->layer[layer].ffn = arena_get(m->params.arena, 1, sizeof *w);
  w->w_router = model_add_matrix(m, layer, o->experts, d, 0, "ffn.w_router");
  w->bias = params_add(&m->params, PARAM_STATE, layer, 1, o->experts, INIT_CONSTANT, 0,
                       "blocks.%d.ffn.router_bias", layer);
  w->w_gate = add_stack(m, layer, o->experts, f, d, "ffn.experts.w_gate");
  w->w_up = add_stack(m, layer, o->experts, f, d, "ffn.experts.w_up");
  w->w_down = add_stack(m, layer, o->experts, d, f, "ffn.experts.w_down");
  if (o->shared == 0) return;
  w->shared_gate = model_add_matrix(m, layer, o->shared * f, d, 0, "ffn.shared.w_gate");
  w->shared_up = model_add_matrix(m, layer, o->shared * f, d, 0, "ffn.shared.w_up");
  w->shared_down = model_add_matrix(m, layer, d, o->shared * f, 0, "ffn.shared.w_down");
}

static void init(struct model *m)
{
  const struct moe_options *o = options_of(m);
  struct moe_state *s = m->ffn_state;
  s->scale = numbers_constant(m->numbers, o->route_scale);
  s->alpha = numbers_constant(m->numbers, o->aux);
  s->rate = numbers_constant(m->numbers, o->bias_rate);
}

static struct router router_of(const struct model *m, int layer)
{
  const struct moe_options *o = options_of(m);
  if (is_dense(m, layer)) return (struct router){0};
  return (struct router){.experts = o->experts,
                         .active = o->active,
                         .bias = ((const struct moe_weights *)m->layer[layer].ffn)->bias,
                         .has_bias = has_bias(o),
                         .has_loss = has_loss(o)};
}

/* Record the router's statistics in its row of the program's `routes`. */
static void record_route_stats(struct model *m, struct program *p, const struct layer_inputs *in,
                               struct tensor *logits, const struct routing *r)
{
  const struct moe_options *o = options_of(m);
  const struct moe_state *s = m->ffn_state;
  struct tensor *loss = program_view(p, m->routes_at, o->experts + 2, 1);
  PROGRAM_CALL(p, sum_rows, .y = program_view(p, m->routes_at, 0, o->experts + 2), .x = r->stats);
  if (has_loss(o) && !in->decoding)
    PROGRAM_CALL(p, copy, .y = loss, .x = op_balance(p, r, in->batch, s->alpha, in->share));
  else
    PROGRAM_CALL(p, fill, .y = loss, .value = 0);
  PROGRAM_CALL(p, max_abs, .y = program_view(p, m->routes_at, o->experts + 3, 1), .x = logits);
}

static struct tensor *forward(struct model *m, struct program *p, int layer, const struct layer_inputs *in,
                              struct tensor *x, struct tensor *residual)
{
  const struct moe_options *o = options_of(m);
  const struct moe_state *s = m->ffn_state;
  const struct moe_weights *w = m->layer[layer].ffn;
  if (is_dense(m, layer)) {
    if (m->routes_at) PROGRAM_CALL(p, fill, .y = m->routes_at, .value = 0); /* NULL: all are dense */
    return swiglu_forward(m, p, layer, in, x, residual);
  }
  struct routing_spec spec = {.active = o->active,
                              .softmax = o->score == SCORE_SOFTMAX,
                              .groups = o->groups,
                              .kept = o->groups_kept,
                              .bias = &w->bias->value,
                              .scale = s->scale};
  struct tensor *logits = op_linear_full(p, x, model_weight(m, p, w->w_router, 1));
  struct routing r = op_route(p, logits, &spec);
  record_route_stats(m, p, in, logits, &r);
  model_tap(m, p, POINT_ROUTES, layer, &(struct flow){.x = logits});
  struct tensor *up[] = {model_weight(m, p, w->w_gate, 1), model_weight(m, p, w->w_up, 1)};
  struct tensor *down = model_weight(m, p, w->w_down, 1);
  struct tensor *h = op_swiglu(p, op_expert_linear(p, op_spread(p, x, &r), up, 2, &r));
  struct tensor *y = op_expert_linear(p, h, &down, 1, &r);
  if (o->shared) {
    struct tensor *all = op_swiglu(p, op_linear(p, x, model_weight(m, p, w->shared_gate, 2), NULL, NULL));
    residual = op_linear(p, all, model_weight(m, p, w->shared_down, 1), NULL, residual);
  }
  return op_combine(p, y, &r, residual);
}

/* --- the bias, after the step --------------------------------------------------------------------------- */

static struct tensor *sum_of(struct program *p, struct tensor *x, struct tensor *member, struct tensor *first)
{
  struct tensor *y = program_temporary(p, 1, 1, "sum over experts");
  PROGRAM_CALL(p, reduce, .y = y, .x = x, .member = member, .first = first, .kind = REDUCE_SUM);
  return y;
}

/* b += rate f(mean load - load): a higher load makes an expert less likely to be chosen. */
static void move_bias(struct model *m, struct program *p, int layer, struct tensor *member,
                      struct tensor *first)
{
  const struct moe_options *o = options_of(m);
  const struct moe_state *s = m->ffn_state;
  const struct moe_weights *w = m->layer[layer].ffn;
  double by = 1 / (double)o->experts, size = 1;
  struct tensor *load = program_view(p, program_rows(p, m->step.routes, layer, 1), 0, o->experts);
  struct tensor *error = program_temporary(p, 1, o->experts, "error of loads");
  struct tensor *ones = program_temporary(p, 1, o->experts, "ones");
  PROGRAM_CALL(p, fill, .y = ones, .value = 1);
  PROGRAM_CALL(p, fill, .y = error, .value = 0);
  PROGRAM_CALL(p, axpby, .y = error, .x = ones, .a = sum_of(p, load, member, first), .alpha = by, .beta = 1);
  PROGRAM_CALL(p, axpby, .y = error, .x = load, .alpha = -1, .beta = 1);
  if (o->bias_rule == RULE_RMS) {
    PROGRAM_CALL(p, normalise, .y = error, .size = program_temporary(p, 1, 1, "size of the error"));
    size = sqrt((double)o->experts);
  } else {
    PROGRAM_CALL(p, sign, .y = error, .x = error);
  }
  if (o->bias_rule == RULE_CENTRED)
    PROGRAM_CALL(p, axpby, .y = error, .x = ones, .a = sum_of(p, error, member, first), .alpha = -by,
                 .beta = 1);
  PROGRAM_CALL(p, axpby, .y = &w->bias->value, .x = error, .a = s->rate, .alpha = size, .beta = 1);
}

static void after_step(struct model *m, struct program *p)
{
  const struct moe_options *o = options_of(m);
  if (!has_bias(o) || o->dense_layers == model_blocks(&m->options)) return;
  int *member = program_memory(p, (size_t)o->experts, sizeof *member), ends[] = {0, (int)o->experts};
  for (long e = 0; e < o->experts; e++) member[e] = (int)e;
  struct tensor *members = program_ints(p, 1, o->experts, member, "experts");
  struct tensor *first = program_ints(p, 1, 2, ends, "all experts");
  for (int l = (int)o->dense_layers; l < model_blocks(&m->options); l++) move_bias(m, p, l, members, first);
}

const struct ffn ffn_moe = {
  .name = "moe",
  .help =
    "mixture of experts: a router chooses a few SwiGLU blocks per token; shared experts process all tokens",
  .options = rows,
  .options_size = sizeof(struct moe_options),
  .state_size = sizeof(struct moe_state),
  .resolve = resolve,
  .declare = declare,
  .init = init,
  .router = router_of,
  .forward = forward,
  .after_step = after_step,
};
