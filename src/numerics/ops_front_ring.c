/* ops_front_ring.c - attention whose keys and values circulate among the ranks of the context
   Blocks circulate in a ring, as in Ring Attention (Liu et al., arXiv 2310.01889). A rank merges the result of each
   block with its earlier ones (attention_merge). In the reverse pass keys and values circulate once more, followed by
   their gradients, which finally return to their owners: R-1 messages of each from each rank, the minimum of a ring.
   Ranks whose rows attend to no key of a stage take part all the same. */
#include "numerics/ops_front.h"
#include "numerics/ranks.h"

/* Messages must not have gaps. */
static struct tensor *packed(struct program *p, struct tensor *t)
{
  if (t->ld == t->cols) return t;
  struct tensor *y = program_temporary(p, t->rows, t->cols, t->name);
  CALL(p, copy, .y = y, .x = t);
  return y;
}

struct ring_step {
  struct tensor *o, *ml, *q, *k, *v;
  const struct ring_stage *stage;
  int stages;
  struct attention_score score;
};

/* Add the returned gradient to the one computed here. */
static void add_home(struct program *p, struct tensor *x, struct tensor *here, struct tensor *from)
{
  struct tensor *home = op_ring_shift(p, from, RANKS_CONTEXT);
  struct overwrite grad = grad_to_overwrite(p, x);
  CALL(p, copy, .y = grad.to, .x = here);
  CALL(p, axpby, .y = grad.to, .x = home, .alpha = 1, .beta = 1);
  settle(p, grad);
}

static void ring_step(struct program *p, const void *context)
{
  const struct ring_step *s = context;
  struct tensor *do_ = program_grad_of(p, s->o);
  if (!do_) return;
  struct tensor *k = packed(p, s->k), *v = packed(p, s->v);
  struct tensor *here[3] = {0}, *away[3] = {0}; /* dq, dk, dv; and gradients that circulate */
  for (int i = 0; i < s->stages; i++) {
    struct tensor *own[3] = {program_temporary(p, s->q->rows, s->q->cols, "gradient of a stage"),
                             program_temporary(p, k->rows, k->cols, "gradient of keys"),
                             program_temporary(p, v->rows, v->cols, "gradient of values")};
    if (i) k = op_ring_shift(p, k, RANKS_CONTEXT), v = op_ring_shift(p, v, RANKS_CONTEXT);
    for (int j = 1; i > 1 && j < 3; j++) away[j] = op_ring_shift(p, away[j], RANKS_CONTEXT);
    CALL(p, attention_backward, .dq = own[0], .dk = own[1], .dv = own[2], .do_ = do_, .o = s->o, .q = s->q,
         .k = k, .v = v, .ml = s->ml, .start = s->stage[i].start, .end = s->stage[i].end, .score = s->score);
    for (int j = 0; j < 3; j++) {
      struct tensor **to = i && j ? &away[j] : &here[j];
      if (*to)
        CALL(p, axpby, .y = *to, .x = own[j], .alpha = 1, .beta = 1);
      else
        *to = own[j];
    }
  }
  struct overwrite dq = grad_to_overwrite(p, s->q);
  CALL(p, copy, .y = dq.to, .x = here[0]);
  settle(p, dq);
  add_home(p, s->k, here[1], away[1]);
  add_home(p, s->v, here[2], away[2]);
}

struct tensor *op_attention_ring(struct program *p, struct tensor *q, struct tensor *k, struct tensor *v,
                                 const struct ring_stage *stage, const struct attention_spec *spec,
                                 struct tensor **stats, ring_seen *seen, void *context)
{
  const struct attention_score *score = &spec->score;
  const int stages = device_ranks(program_device(p), RANKS_CONTEXT);
  struct ring_stage *all = program_memory(p, (size_t)stages, sizeof *all);
  struct tensor *o[2], *ml[2], *own[2] = {0}; /* of all so far; of a stage */
  require_score(score);
  q = op_round(p, q, spec->qk_format);
  k = op_round(p, k, spec->qk_format);
  struct tensor *keys = packed(p, k), *values = packed(p, v);
  for (int i = 0; i < stages; i++) {
    const int at = i > 0;
    all[i] = stage[i];
    o[at] = program_temporary(p, q->rows, score->heads * (v->cols / score->groups), "attention");
    ml[at] = program_temporary(p, q->rows, 3 * score->heads, "softmax");
    own[at] = at ? program_temporary(p, score->heads, 4, "statistics of a stage") : statistics_of(p, spec);
    if (at) keys = op_ring_shift(p, keys, RANKS_CONTEXT), values = op_ring_shift(p, values, RANKS_CONTEXT);
    CALL(p, attention_forward, .o = o[at], .ml = ml[at], .stats = own[at], .q = q, .k = keys, .v = values,
         .start = stage[i].start, .end = stage[i].end, .score = *score);
    if (seen) seen(context, i, q, keys, values, own[at]);
    if (at)
      CALL(p, attention_merge, .o = o[0], .ml = ml[0], .stats = own[0], .other_o = o[1], .other_ml = ml[1],
           .other_stats = own[1]);
  }
  program_flows(p, o[0], q);
  program_flows(p, o[0], k);
  program_flows(p, o[0], v);
  ON_BACKWARD(p, ring_step, o[0], ml[0], q, k, v, all, stages, *score);
  if (stats) *stats = own[0];
  return o[0];
}
