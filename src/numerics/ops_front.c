/* ops_front.c - the front: each op_NAME records the forward call, whose shapes are then checked (shapes.c), and a
   backward step with its arguments */
#include "numerics/number_format.h"
#include "numerics/ops_front.h"
#include <math.h>

/* y[n,:] = w[token[n],:] */
struct embed_step {
  struct tensor *y, *tokens, *w;
};

static void embed_step(struct program *p, const void *context)
{
  const struct embed_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (dy && program_wants_grad(s->w))
    CALL(p, embed_backward, .dw = grad_to_add(p, s->w), .tokens = s->tokens, .dy = dy);
}

struct tensor *op_embed(struct program *p, struct tensor *tokens, struct tensor *w)
{
  struct tensor *y = program_temporary(p, tokens->rows * tokens->cols, w->cols, "embed");
  CALL(p, embed_forward, .y = y, .tokens = tokens, .w = w);
  program_flows(p, y, w);
  ON_BACKWARD(p, embed_step, y, tokens, w);
  return y;
}

struct norm_step {
  struct tensor *y, *rstd, *x, *gain;
  long group;
};

static void norm_step(struct program *p, const void *context)
{
  const struct norm_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  struct tensor *dx = grad_or_unused(p, s->x, &add);
  int gain = s->gain && program_wants_grad(s->gain);
  CALL(p, rmsnorm_backward, .dx = dx, .dgain = gain ? grad_to_add(p, s->gain) : NULL, .dy = dy, .x = s->x,
       .rstd = s->rstd, .gain = s->gain, .group = s->group, .add = add);
}

struct tensor *op_rmsnorm(struct program *p, struct tensor *x, struct tensor *gain, long group,
                          struct tensor *eps)
{
  REQUIRE(group > 0);
  struct tensor *y = program_temporary(p, x->rows, x->cols, "rmsnorm");
  struct tensor *rstd = program_temporary(p, x->rows, x->cols / group, "rstd");
  CALL(p, rmsnorm_forward, .y = y, .rstd = rstd, .x = x, .gain = gain, .group = group, .eps = eps);
  program_flows(p, y, x);
  if (gain) program_flows(p, y, gain);
  ON_BACKWARD(p, norm_step, y, rstd, x, gain, group);
  return y;
}

/* y = x w^T + bias + residual: dx = dy w, dw = dy^T x, dbias = sum of rows of dy, dresidual = dy */
struct linear_step {
  struct tensor *y, *x, *w, *bias, *residual;
  long full;
};

static void linear_step(struct program *p, const void *context)
{
  const struct linear_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  if (program_wants_grad(s->x)) {
    struct tensor *dx = program_grad(p, s->x, &add);
    CALL(p, matmul, .c = dx, .a = dy, .b = s->w, .add = add, .alpha = 1, .full = s->full);
  }
  if (program_wants_grad(s->w)) {
    struct tensor *dw = program_grad(p, s->w, &add);
    CALL(p, matmul, .c = dw, .a = dy, .b = s->x, .ta = 1, .add = add, .alpha = 1, .full = s->full);
  }
  if (s->bias && program_wants_grad(s->bias)) {
    struct tensor *db = program_grad(p, s->bias, &add);
    CALL(p, sum_rows, .y = db, .x = dy, .add = add);
  }
  if (s->residual && program_wants_grad(s->residual)) program_grad_pass(p, s->y, s->residual);
}

static struct tensor *linear(struct program *p, struct tensor *x, struct tensor *w, struct tensor *bias,
                             struct tensor *residual, long full)
{
  struct tensor *y = program_temporary(p, x->rows, w->rows, "linear");
  if (residual) { program_flows(p, y, residual); }
  CALL(p, matmul, .c = y, .a = x, .b = w, .d = residual, .tb = 1, .alpha = 1, .full = full);
  if (bias) {
    CALL(p, add_bias, .y = y, .b = bias);
    program_flows(p, y, bias);
  }
  program_flows(p, y, x);
  program_flows(p, y, w);
  ON_BACKWARD(p, linear_step, y, x, w, bias, residual, full);
  return y;
}

struct tensor *op_linear(struct program *p, struct tensor *x, struct tensor *w, struct tensor *bias,
                         struct tensor *residual)
{
  return linear(p, x, w, bias, residual, 0);
}

struct tensor *op_linear_full(struct program *p, struct tensor *x, struct tensor *w)
{
  return linear(p, x, w, NULL, NULL, 1);
}

/* y = a + b */
struct add_step {
  struct tensor *y, *a, *b;
};

static void add_step(struct program *p, const void *context)
{
  const struct add_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  if (program_wants_grad(s->a)) {
    struct tensor *da = program_grad(p, s->a, &add);
    if (add)
      CALL(p, axpby, .y = da, .x = dy, .alpha = 1, .beta = 1);
    else
      CALL(p, copy, .y = da, .x = dy);
  }
  if (program_wants_grad(s->b)) program_grad_pass(p, s->y, s->b);
}

struct tensor *op_add(struct program *p, struct tensor *a, struct tensor *b)
{
  struct tensor *y = program_temporary(p, a->rows, a->cols, "sum");
  CALL(p, copy, .y = y, .x = b);
  CALL(p, axpby, .y = y, .x = a, .alpha = 1, .beta = 1);
  program_flows(p, y, a);
  program_flows(p, y, b);
  ON_BACKWARD(p, add_step, y, a, b);
  return y;
}

/* y = R x: dx = R^T dy, a rotation backwards */
struct rope_step {
  struct tensor *y, *x, *position, *table;
  long dim;
};

static void rope_step(struct program *p, const void *context)
{
  const struct rope_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy || !program_wants_grad(s->x)) return;
  long add;
  struct tensor *dx = program_grad(p, s->x, &add);
  CALL(p, rope, .y = dx, .x = dy, .position = s->position, .table = s->table, .dim = s->dim, .sign = -1,
       .add = add);
}

struct tensor *op_rope(struct program *p, struct tensor *x, struct tensor *position, struct tensor *table,
                       long dim)
{
  struct tensor *y = program_temporary(p, x->rows, x->cols, "rope");
  CALL(p, rope, .y = y, .x = x, .position = position, .table = table, .dim = dim, .sign = 1);
  program_flows(p, y, x);
  ON_BACKWARD(p, rope_step, y, x, position, table, dim);
  return y;
}

/* y = x s, s [1] */
struct scale_step {
  struct tensor *y, *x, *s;
};

static void scale_step(struct program *p, const void *context)
{
  const struct scale_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  struct tensor *dx = grad_or_unused(p, s->x, &add);
  struct tensor *ds = program_wants_grad(s->s) ? grad_to_add(p, s->s) : NULL;
  if (!ds) {
    ds = program_temporary(p, 1, 1, "unused gradient");
    CALL(p, fill, .y = ds, .value = 0);
  }
  CALL(p, scale_columns_backward, .dx = dx, .ds = ds, .dy = dy, .x = s->x, .s = s->s, .add = add);
}

struct tensor *op_scale(struct program *p, struct tensor *x, struct tensor *s)
{
  struct tensor *y = program_temporary(p, x->rows, x->cols, "scale");
  CALL(p, scale_columns, .y = y, .x = x, .s = s);
  program_flows(p, y, x);
  program_flows(p, y, s);
  ON_BACKWARD(p, scale_step, y, x, s);
  return y;
}

/* y = per head a | b: da and db are its columns again, db summed over the heads that share b */
struct join_step {
  struct tensor *y, *a, *b;
  long heads, shared;
};

static void join_step(struct program *p, const void *context)
{
  const struct join_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  struct overwrite da = grad_to_overwrite(p, s->a), db = grad_to_overwrite(p, s->b);
  CALL(p, join_heads_backward, .da = da.to, .db = db.to, .dy = dy, .heads = s->heads, .shared = s->shared);
  settle(p, da);
  settle(p, db);
}

struct tensor *op_join_heads(struct program *p, struct tensor *a, struct tensor *b, long heads, int shared)
{
  struct tensor *y = program_temporary(p, a->rows, a->cols + (shared ? heads : 1) * b->cols, "joined heads");
  CALL(p, join_heads, .y = y, .a = a, .b = b, .heads = heads, .shared = shared);
  program_flows(p, y, a);
  program_flows(p, y, b);
  ON_BACKWARD(p, join_step, y, a, b, heads, shared);
  return y;
}

/* y = gain/sigma w, sigma = u^T w v */
struct reparam_step {
  struct tensor *y, *sigma, *w, *u, *v, *gain;
};

static void reparam_step(struct program *p, const void *context)
{
  const struct reparam_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy) return;
  long add;
  struct tensor *dw = grad_or_unused(p, s->w, &add);
  CALL(p, reparam_backward, .dw = dw, .dgain = grad_to_add(p, s->gain), .dy = dy, .w = s->w, .u = s->u,
       .v = s->v, .gain = s->gain, .sigma = s->sigma, .add = add);
}

struct tensor *op_reparam(struct program *p, struct tensor *w, struct tensor *u, struct tensor *v,
                          struct tensor *gain)
{
  REQUIRE(program_wants_grad(gain));
  struct tensor *y = program_temporary(p, w->rows, w->cols, "reparametrised");
  struct tensor *sigma = program_temporary(p, 1, 1, "sigma");
  CALL(p, reparam, .y = y, .sigma = sigma, .w = w, .u = u, .v = v, .gain = gain);
  program_flows(p, y, gain);
  ON_BACKWARD(p, reparam_step, y, sigma, w, u, v, gain);
  return y;
}

/* y = x: dx = dy, where y is a part of the rows of `whole` */
struct part_step {
  struct tensor *whole, *x;
  long row;
};

static void part_step(struct program *p, const void *context)
{
  const struct part_step *s = context;
  struct tensor *dwhole = program_grad_of(p, s->whole);
  if (!dwhole || !program_wants_grad(s->x)) return;
  struct tensor *dy = program_rows(p, dwhole, s->row, s->x->rows);
  long add;
  struct tensor *dx = program_grad(p, s->x, &add);
  if (add)
    CALL(p, axpby, .y = dx, .x = dy, .alpha = 1, .beta = 1);
  else
    CALL(p, copy, .y = dx, .x = dy);
}

struct tensor *op_join_rows(struct program *p, struct tensor *const *part, int parts)
{
  long rows = 0, row = 0;
  for (int i = 0; i < parts; i++) { rows += part[i]->rows; }
  struct tensor *whole = program_temporary(p, rows, part[0]->cols, "joined rows");
  for (int i = 0; i < parts; row += part[i++]->rows) {
    CALL(p, copy, .y = program_rows(p, whole, row, part[i]->rows), .x = part[i]);
    program_flows(p, whole, part[i]);
    ON_BACKWARD(p, part_step, whole, part[i], row);
  }
  return whole;
}

struct swiglu_step {
  struct tensor *y, *x;
};

static void swiglu_step(struct program *p, const void *context)
{
  const struct swiglu_step *s = context;
  struct tensor *dy = program_grad_of(p, s->y);
  if (!dy || !program_wants_grad(s->x)) return;
  struct overwrite dx = grad_to_overwrite(p, s->x);
  CALL(p, swiglu_backward, .dx = dx.to, .dy = dy, .x = s->x);
  settle(p, dx);
}

struct tensor *op_swiglu(struct program *p, struct tensor *gate_up)
{
  struct tensor *y = program_temporary(p, gate_up->rows, gate_up->cols / 2, "swiglu");
  CALL(p, swiglu_forward, .y = y, .x = gate_up);
  program_flows(p, y, gate_up);
  ON_BACKWARD(p, swiglu_step, y, gate_up);
  return y;
}

struct tensor *op_columns(struct program *p, struct tensor *x, long from, long cols)
{
  return program_view(p, x, from, cols);
}

struct round_step {
  struct tensor *y, *x;
};

static void round_step(struct program *p, const void *context)
{
  const struct round_step *s = context;
  if (program_grad_of(p, s->y) && program_wants_grad(s->x)) program_grad_pass(p, s->y, s->x);
}

struct tensor *op_round(struct program *p, struct tensor *x, long format)
{
  REQUIRE(format >= 0 && format < FORMAT_COUNT);
  if (format == FORMAT_F32) return x;
  struct tensor *y = program_temporary(p, x->rows, x->cols, "rounded");
  CALL(p, round_to, .y = y, .x = x, .format = format);
  program_flows(p, y, x);
  ON_BACKWARD(p, round_step, y, x);
  return y;
}

struct attention_step {
  struct tensor *o, *ml, *q, *k, *v, *start, *end;
  struct attention_score score;
};

static void attention_step(struct program *p, const void *context)
{
  const struct attention_step *s = context;
  struct tensor *do_ = program_grad_of(p, s->o);
  if (!do_) return;
  struct overwrite dq = grad_to_overwrite(p, s->q), dk = grad_to_overwrite(p, s->k);
  struct overwrite dv = grad_to_overwrite(p, s->v);
  CALL(p, attention_backward, .dq = dq.to, .dk = dk.to, .dv = dv.to, .do_ = do_, .o = s->o, .q = s->q,
       .k = s->k, .v = s->v, .ml = s->ml, .start = s->start, .end = s->end, .score = s->score);
  settle(p, dq);
  settle(p, dk);
  settle(p, dv);
}

void require_score(const struct attention_score *s)
{
  REQUIRE(s->batch > 0 && s->groups > 0 && s->heads % s->groups == 0);
  REQUIRE(s->cap >= 0 && s->cap <= 2 && (s->cap == 0) == !s->cap_value);
  REQUIRE(s->scores_format >= 0 && s->scores_format < FORMAT_COUNT);
}

struct tensor *statistics_of(struct program *p, const struct attention_spec *spec)
{
  struct tensor *own = spec->stats;
  if (!own) own = program_temporary(p, spec->score.heads, 4, "attention statistics");
  program_keep(p, own);
  return own;
}

struct tensor *op_attention(struct program *p, struct tensor *q, struct tensor *k, struct tensor *v,
                            struct tensor *start, struct tensor *end, const struct attention_spec *spec,
                            struct tensor **stats)
{
  const struct attention_score *s = &spec->score;
  require_score(s);
  q = op_round(p, q, spec->qk_format);
  k = op_round(p, k, spec->qk_format);
  struct tensor *o = program_temporary(p, q->rows, s->heads * (v->cols / s->groups), "attention");
  struct tensor *statistics = statistics_of(p, spec);
  if (stats) *stats = statistics;
  if (spec->pointwise) {
    op_pointwise(p, o, statistics, q, k, v, start, end, spec);
    return o;
  }
  struct tensor *ml = program_temporary(p, q->rows, 2 * s->heads, "softmax");
  CALL(p, attention_forward, .o = o, .ml = ml, .stats = statistics, .q = q, .k = k, .v = v, .start = start,
       .end = end, .score = *s);
  program_flows(p, o, q);
  program_flows(p, o, k);
  program_flows(p, o, v);
  ON_BACKWARD(p, attention_step, o, ml, q, k, v, start, end, *s);
  if (spec->sink) op_sink(p, o, ml, spec->sink);
  return o;
}

void op_attention_again(struct program *p, struct tensor *o, struct tensor *q, struct tensor *k,
                        struct tensor *v, struct tensor *start, struct tensor *end,
                        const struct attention_spec *spec)
{
  const struct attention_score *s = &spec->score;
  struct tensor *stats = program_temporary(p, s->heads, 4, "statistics");
  if (spec->pointwise) {
    CALL(p, pointwise_forward, .o = o, .stats = stats, .q = q, .k = k, .v = v, .start = start, .end = end,
         .kind = spec->pointwise, .score = *s);
    return;
  }
  struct tensor *ml = program_temporary(p, q->rows, 2 * s->heads, "softmax");
  CALL(p, attention_forward, .o = o, .ml = ml, .stats = stats, .q = q, .k = k, .v = v, .start = start,
       .end = end, .score = *s);
  if (spec->sink) CALL(p, sink, .o = o, .ml = ml, .b = spec->sink);
}

/* --- decoding: no gradient flows ----------------------------------------------------------------------- */

struct tensor *op_attention_cached(struct program *p, const struct attention_cache *cache, struct tensor *q,
                                   struct tensor *k, struct tensor *v, struct tensor *factor, long scaled,
                                   struct tensor *start, const struct attention_spec *spec,
                                   struct tensor **stats)
{
  const struct attention_score *s = &spec->score;
  require_score(s);
  REQUIRE(!factor == !cache->factors && scaled <= q->cols / s->heads);
  q = op_round(p, q, spec->qk_format);
  k = op_round(p, k, spec->qk_format);
  struct tensor *o = program_temporary(p, q->rows, s->heads * (v->cols / s->groups), "cached attention");
  struct tensor *statistics = statistics_of(p, spec);
  if (stats) *stats = statistics;
  if (spec->pointwise) {
    CALL(p, pointwise_cached, .o = o, .stats = statistics, .keys = cache->keys, .values = cache->values,
         .factors = cache->factors, .q = q, .k = k, .v = v, .factor = factor, .slot = cache->slot,
         .start = start, .scaled = scaled, .kind = spec->pointwise, .score = *s);
    return o;
  }
  struct tensor *ml = program_temporary(p, q->rows, 2 * s->heads, "softmax");
  CALL(p, attention_cached, .o = o, .ml = ml, .stats = statistics, .keys = cache->keys,
       .values = cache->values, .factors = cache->factors, .q = q, .k = k, .v = v, .factor = factor,
       .slot = cache->slot, .start = start, .scaled = scaled, .score = *s);
  if (spec->sink) CALL(p, sink, .o = o, .ml = ml, .b = spec->sink);
  return o;
}

struct tensor *op_heads_product(struct program *p, struct tensor *x, struct tensor *w, struct tensor *gain,
                                long heads, int transposed)
{
  REQUIRE(heads > 0 && x->cols % heads == 0 && w->rows % heads == 0);
  struct tensor *y =
    program_temporary(p, x->rows, transposed ? w->rows : heads * w->cols, "product by heads");
  CALL(p, heads_product, .y = y, .x = x, .w = w, .gain = gain, .heads = heads, .transposed = transposed);
  return y;
}

struct tensor *op_inverse_rms(struct program *p, struct tensor *x, long group, struct tensor *eps)
{
  REQUIRE(group > 0);
  struct tensor *y = program_temporary(p, x->rows, x->cols, "rmsnorm");
  struct tensor *rstd = program_temporary(p, x->rows, x->cols / group, "rstd");
  CALL(p, rmsnorm_forward, .y = y, .rstd = rstd, .x = x, .group = group, .eps = eps);
  return rstd;
}

/* --- the loss ----------------------------------------------------------------------------------------- */

/* by NULL: the program's own loss. Else its gradient is `by` in every reverse, regardless of the loss that starts
   it. */
struct loss_step {
  struct tensor *loss, *logits, *ml, *targets, *weight, *z, *by;
};

static void loss_step(struct program *p, const void *context)
{
  const struct loss_step *s = context;
  if ((!s->by && !program_grad_of(p, s->loss)) || !program_wants_grad(s->logits)) return;
  REQUIRE(s->by || program_starts(p, s->loss)); /* the kernel only supports 1 as the gradient of the loss */
  struct overwrite d = grad_to_overwrite(p, s->logits);
  CALL(p, cross_entropy_backward, .dlogits = d.to, .logits = s->logits, .ml = s->ml, .targets = s->targets,
       .weight = s->weight, .z = s->z);
  if (s->by) CALL(p, scale, .y = d.to, .by = s->by, .alpha = 1);
  settle(p, d);
}

static struct loss_step forward_loss(struct program *p, struct tensor *logits, struct tensor *targets,
                                     struct tensor *weight, struct tensor *z, const char *name,
                                     const char *softmax)
{
  struct tensor *loss = program_temporary(p, 1, 2, name);
  struct tensor *each = program_temporary(p, logits->rows, 2, softmax);
  program_keep(p, loss);
  CALL(p, cross_entropy, .loss = loss, .ml = each, .logits = logits, .targets = targets, .weight = weight,
       .z = z);
  return (struct loss_step){loss, logits, each, targets, weight, z, NULL};
}

struct tensor *op_side_loss(struct program *p, struct tensor *logits, struct tensor *targets,
                            struct tensor *weight, struct tensor *z, struct tensor *by)
{
  struct loss_step s = forward_loss(p, logits, targets, weight, z, "side loss", "side loss softmax");
  s.by = by;
  program_on_backward(p, loss_step, &s, sizeof s);
  return s.loss;
}

struct tensor *op_cross_entropy(struct program *p, struct tensor *logits, struct tensor *targets,
                                struct tensor *weight, struct tensor *z, struct tensor **ml)
{
  struct loss_step s = forward_loss(p, logits, targets, weight, z, "loss", "loss softmax");
  program_flows(p, s.loss, logits);
  program_on_backward(p, loss_step, &s, sizeof s);
  if (ml) *ml = s.ml;
  return s.loss;
}

/* --- the loss of logits that are never whole ------------------------------------------------------------ */

struct split_loss {
  struct tensor *loss, *x, *w, *targets, *weight, *z;
  long rows; /* at once */
};

/* Some rows: their inputs and logits. */
struct loss_rows {
  struct tensor *x, *logits, *ml, *targets, *weight;
};

/* The loss of the rows from `row` on is added to that of the rows before. */
static struct loss_rows loss_of_rows(struct program *p, const struct split_loss *s, long row)
{
  const long n = s->rows < s->x->rows - row ? s->rows : s->x->rows - row;
  const struct loss_rows r = {.x = program_rows(p, s->x, row, n),
                              .logits = program_temporary(p, n, s->w->rows, "some logits"),
                              .ml = program_temporary(p, n, 2, "some loss softmax"),
                              .targets = program_rows(p, s->targets, row, n),
                              .weight = program_rows(p, s->weight, row, n)};
  struct tensor *loss = row ? program_temporary(p, 1, 2, "some loss") : s->loss;
  CALL(p, matmul, .c = r.logits, .a = r.x, .b = s->w, .tb = 1, .alpha = 1);
  CALL(p, cross_entropy, .loss = loss, .ml = r.ml, .logits = r.logits, .targets = r.targets,
       .weight = r.weight, .z = s->z);
  if (row) CALL(p, axpby, .y = s->loss, .x = loss, .alpha = 1, .beta = 1);
  return r;
}

static void split_loss_step(struct program *p, const void *context)
{
  const struct split_loss *s = context;
  REQUIRE(program_starts(p, s->loss));
  long add_dx, add_dw;
  struct tensor *dx = program_grad(p, s->x, &add_dx), *dw = program_grad(p, s->w, &add_dw);
  for (long row = 0; row < s->x->rows; row += s->rows) {
    const struct loss_rows r = loss_of_rows(p, s, row);
    struct tensor *d = program_temporary(p, r.logits->rows, r.logits->cols, "gradient of some logits");
    CALL(p, cross_entropy_backward, .dlogits = d, .logits = r.logits, .ml = r.ml, .targets = r.targets,
         .weight = r.weight, .z = s->z);
    CALL(p, matmul, .c = program_rows(p, dx, row, r.x->rows), .a = d, .b = s->w, .add = add_dx, .alpha = 1);
    CALL(p, matmul, .c = dw, .a = d, .b = r.x, .ta = 1, .add = add_dw || row, .alpha = 1);
  }
}

struct tensor *op_split_loss(struct program *p, struct tensor *x, struct tensor *w, struct tensor *targets,
                             struct tensor *weight, struct tensor *z, long rows, struct tensor *token_loss)
{
  const struct split_loss s = {program_temporary(p, 1, 2, "loss"), x, w, targets, weight, z, rows};
  program_keep(p, s.loss);
  program_flows(p, s.loss, x), program_flows(p, s.loss, w);
  if (!token_loss) {
    program_on_backward(p, split_loss_step, &s, sizeof s);
    return s.loss;
  }
  for (long row = 0; row < x->rows; row += rows) {
    const struct loss_rows r = loss_of_rows(p, &s, row);
    CALL(p, token_loss, .y = program_rows(p, token_loss, row, r.x->rows), .logits = r.logits, .ml = r.ml,
         .targets = r.targets);
  }
  return s.loss;
}
