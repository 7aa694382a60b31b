/* ops_front_cures.c - the checked front of operations around the scores, and of attention without a softmax */
#include "numerics/ops_front.h"

/* --- a sink ------------------------------------------------------------------------------------------------ */

struct sink_step {
  struct tensor *o, *ml, *b;
};

static void sink_step(struct program *p, const void *context)
{
  const struct sink_step *s = context;
  struct tensor *do_ = program_grad_of(p, s->o);
  if (do_ && program_wants_grad(s->b))
    CALL(p, sink_backward, .db = grad_to_add(p, s->b), .do_ = do_, .o = s->o, .ml = s->ml, .b = s->b);
}

void op_sink(struct program *p, struct tensor *o, struct tensor *ml, struct tensor *b)
{
  REQUIRE(ml->cols == 2 * b->cols);
  CALL(p, sink, .o = o, .ml = ml, .b = b);
  program_flows(p, o, b);
  ON_BACKWARD(p, sink_step, o, ml, b);
}

/* --- a gate ------------------------------------------------------------------------------------------------ */

struct gate_step {
  struct tensor *y, *x, *g;
};

static void gate_step(struct program *p, const void *context)
{
  const struct gate_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  struct overwrite dx = grad_to_overwrite(p, s->x), dg = grad_to_overwrite(p, s->g);
  CALL(p, gate_backward, .dx = dx.to, .dg = dg.to, .dy = dy, .x = s->x, .g = s->g);
  settle(p, dx);
  settle(p, dg);
}

struct tensor *op_gate(struct program *p, struct tensor *x, struct tensor *g)
{
  struct tensor *y = program_temporary(p, x->rows, x->cols, "gated");
  CALL(p, gate, .y = y, .x = x, .g = g);
  program_flows(p, y, x);
  program_flows(p, y, g);
  ON_BACKWARD(p, gate_step, y, x, g);
  return y;
}

/* --- a factor by the number of keys ------------------------------------------------------------------------ */

struct ssmax_scale_step {
  struct tensor *y, *x, *s, *start, *end, *slot;
  long batch;
};

static void ssmax_scale_step(struct program *p, const void *context)
{
  const struct ssmax_scale_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  struct tensor *dx = grad_or_unused(p, s->x, &add);
  CALL(p, ssmax_scale_backward, .dx = dx, .ds = grad_to_add(p, s->s), .dy = dy, .x = s->x, .s = s->s,
       .start = s->start, .end = s->end, .slot = s->slot, .batch = s->batch, .add = add);
}

struct tensor *op_ssmax_scale(struct program *p, struct tensor *x, struct tensor *s, struct tensor *start,
                              struct tensor *end, struct tensor *slot, long batch)
{
  REQUIRE(program_wants_grad(s));
  struct tensor *y = program_temporary(p, x->rows, x->cols, "scaled by keys");
  CALL(p, ssmax_scale, .y = y, .x = x, .s = s, .start = start, .end = end, .slot = slot, .batch = batch);
  program_flows(p, y, x);
  program_flows(p, y, s);
  ON_BACKWARD(p, ssmax_scale_step, y, x, s, start, end, slot, batch);
  return y;
}

/* --- attention without a softmax --------------------------------------------------------------------------- */

struct pointwise_step {
  struct tensor *o, *q, *k, *v, *start, *end;
  long kind;
  struct attention_score score;
};

static void pointwise_step(struct program *p, const void *context)
{
  const struct pointwise_step *s = context;
  struct tensor *do_ = program_grad_of(p, s->o);
  if (!do_) return;
  struct overwrite dq = grad_to_overwrite(p, s->q), dk = grad_to_overwrite(p, s->k);
  struct overwrite dv = grad_to_overwrite(p, s->v);
  CALL(p, pointwise_backward, .dq = dq.to, .dk = dk.to, .dv = dv.to, .do_ = do_,
       .o = s->kind == POINTWISE_SOFTPICK ? s->o : NULL, .q = s->q, .k = s->k, .v = s->v, .start = s->start,
       .end = s->end, .kind = s->kind, .score = s->score);
  settle(p, dq);
  settle(p, dk);
  settle(p, dv);
}

void op_pointwise(struct program *p, struct tensor *o, struct tensor *stats, struct tensor *q,
                  struct tensor *k, struct tensor *v, struct tensor *start, struct tensor *end,
                  const struct attention_spec *spec)
{
  CALL(p, pointwise_forward, .o = o, .stats = stats, .q = q, .k = k, .v = v, .start = start, .end = end,
       .kind = spec->pointwise, .score = spec->score);
  program_flows(p, o, q);
  program_flows(p, o, k);
  program_flows(p, o, v);
  ON_BACKWARD(p, pointwise_step, o, q, k, v, start, end, spec->pointwise, spec->score);
}
