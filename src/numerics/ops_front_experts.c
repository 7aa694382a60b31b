/* ops_front_experts.c - the checked front of operations on experts, and their reverse */
#include "numerics/ops_front.h"

struct route_step {
  struct routing r;
  struct tensor *logits, *scale;
  long softmax;
};

static void route_step(struct program *p, const void *context)
{
  const struct route_step *s = context;
  if (!program_wants_grad(s->logits)) return;
  struct tensor *dgate = program_grad_of(p, s->r.gate), *dscore = program_grad_of(p, s->r.score);
  if (!dgate) {
    dgate = program_temporary(p, s->r.gate->rows, s->r.gate->cols, "no gradient of gates");
    CALL(p, fill, .y = dgate, .value = 0);
  }
  struct overwrite d = grad_to_overwrite(p, s->logits);
  CALL(p, route_backward, .dlogits = d.to, .dgate = dgate, .dscore = dscore, .score = s->r.score,
       .chosen = s->r.chosen, .scale = s->scale, .softmax = s->softmax);
  settle(p, d);
}

struct routing op_route(struct program *p, struct tensor *logits, const struct routing_spec *spec)
{
  long n = logits->rows, experts = logits->cols, chosen = spec->active;
  REQUIRE(chosen > 0 && chosen <= experts && spec->groups > 0 && experts % spec->groups == 0);
  REQUIRE(spec->kept > 0 && spec->kept <= spec->groups && chosen <= experts / spec->groups * spec->kept);
  struct routing r = {program_temporary(p, n, experts, "scores"),
                      program_temporary(p, n, chosen, "gates"),
                      program_temporary_ints(p, n, chosen, "chosen"),
                      program_temporary(p, n, experts + 2, "told by the router"),
                      program_temporary_ints(p, 1, experts + 1, "begins of experts"),
                      program_temporary_ints(p, 1, n * chosen, "choices by expert"),
                      program_temporary_ints(p, n, chosen, "places of choices")};
  CALL(p, route, .score = r.score, .gate = r.gate, .chosen = r.chosen, .stats = r.stats, .logits = logits,
       .bias = spec->bias, .scale = spec->scale, .softmax = spec->softmax, .groups = spec->groups,
       .kept = spec->kept);
  CALL(p, sort_choices, .first = r.first, .order = r.order, .place = r.place, .chosen = r.chosen);
  program_flows(p, r.score, logits);
  program_flows(p, r.gate, logits);
  ON_BACKWARD(p, route_step, r, logits, spec->scale, spec->softmax);
  return r;
}

/* y[p] = x[token of p]: dx = sum of a token's choices */
struct spread_step {
  struct tensor *y, *x, *place;
};

static void spread_step(struct program *p, const void *context)
{
  const struct spread_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy || !program_wants_grad(s->x)) return;
  long add;
  struct tensor *dx = program_grad(p, s->x, &add);
  CALL(p, combine_tokens, .y = dx, .x = dy, .place = s->place, .add = add);
}

struct tensor *op_spread(struct program *p, struct tensor *x, const struct routing *r)
{
  struct tensor *y = program_temporary(p, x->rows * r->place->cols, x->cols, "rows by expert");
  CALL(p, dispatch_tokens, .y = y, .x = x, .order = r->order);
  program_flows(p, y, x);
  ON_BACKWARD(p, spread_step, y, x, r->place);
  return y;
}

/* y_e = x_e w_e^T: dx_e = dy_e w_e, dw_e = dy_e^T x_e */
struct expert_step {
  struct tensor *y, *x, *w, *first;
  long from; /* column of y */
};

static void expert_step(struct program *p, const void *context)
{
  const struct expert_step *s = context;
  struct tensor *all = program_grad_of(p, s->y);
  if (!all) return;
  long add, cols = s->w->rows / (s->first->cols - 1);
  struct tensor *dy = program_view(p, all, s->from, cols);
  if (program_wants_grad(s->x)) {
    struct tensor *dx = program_grad(p, s->x, &add);
    CALL(p, expert_matmul, .y = dx, .x = dy, .w = s->w, .first = s->first, .add = add);
  }
  if (program_wants_grad(s->w)) {
    struct tensor *dw = program_grad(p, s->w, &add);
    CALL(p, expert_outer, .dw = dw, .dy = dy, .x = s->x, .first = s->first, .add = add);
  }
}

struct tensor *op_expert_linear(struct program *p, struct tensor *x, struct tensor *const *w, int parts,
                                const struct routing *r)
{
  long experts = r->first->cols - 1, cols = w[0]->rows / experts;
  struct tensor *y = program_temporary(p, x->rows, parts * cols, "of experts");
  for (int i = 0; i < parts; i++) {
    CALL(p, expert_matmul, .y = program_view(p, y, i * cols, cols), .x = x, .w = w[i], .first = r->first,
         .tb = 1);
    program_flows(p, y, x);
    program_flows(p, y, w[i]);
    ON_BACKWARD(p, expert_step, y, x, w[i], r->first, i * cols);
  }
  return y;
}

/* y = residual + sum of a token's choices by gates: dx[p] = gate dy[token], dgate = dy . x */
struct combine_step {
  struct tensor *y, *x, *residual;
  struct routing r;
};

static void combine_step(struct program *p, const void *context)
{
  const struct combine_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  if (program_wants_grad(s->x)) {
    struct overwrite dx = grad_to_overwrite(p, s->x);
    CALL(p, dispatch_tokens, .y = dx.to, .x = dy, .gate = s->r.gate, .order = s->r.order);
    settle(p, dx);
  }
  if (program_wants_grad(s->r.gate)) {
    struct overwrite dgate = grad_to_overwrite(p, s->r.gate);
    CALL(p, dot_rows, .y = dgate.to, .x = dy, .z = s->x, .place = s->r.place);
    settle(p, dgate);
  }
  if (program_wants_grad(s->residual)) program_grad_pass(p, s->y, s->residual);
}

struct tensor *op_combine(struct program *p, struct tensor *x, const struct routing *r,
                          struct tensor *residual)
{
  struct tensor *y = program_temporary(p, residual->rows, x->cols, "combined");
  CALL(p, copy, .y = y, .x = residual);
  CALL(p, combine_tokens, .y = y, .x = x, .gate = r->gate, .place = r->place, .add = 1);
  program_flows(p, y, x);
  program_flows(p, y, r->gate);
  program_flows(p, y, residual);
  ON_BACKWARD(p, combine_step, y, x, residual, *r);
  return y;
}

/* Its gradient is 1 in every reverse: the reverse of a program computes the gradient of the sum of losses. */
struct balance_step {
  struct tensor *share, *score, *alpha;
  double weight;
};

static void balance_step(struct program *p, const void *context)
{
  const struct balance_step *s = context;
  if (!program_wants_grad(s->score)) return;
  struct overwrite d = grad_to_overwrite(p, s->score);
  CALL(p, balance_loss_backward, .dscore = d.to, .share = s->share, .score = s->score, .alpha = s->alpha,
       .weight = s->weight);
  settle(p, d);
}

struct tensor *op_balance(struct program *p, const struct routing *r, long batch, struct tensor *alpha,
                          double weight)
{
  struct tensor *loss = program_temporary(p, 1, 1, "balance");
  struct tensor *share = program_temporary(p, batch, r->score->cols, "shares of experts");
  CALL(p, balance_loss, .loss = loss, .share = share, .score = r->score, .alpha = alpha,
       .active = r->gate->cols, .weight = weight);
  ON_BACKWARD(p, balance_step, share, r->score, alpha, weight);
  return loss;
}
