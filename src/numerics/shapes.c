/* shapes.c - the shapes that each operation demands of its arguments
   They are compared once, when a call is recorded: kernels take them for granted, and a wrong one gives wrong numbers
   or reads outside a tensor. An argument that is absent is not compared: op_check demands those that may not be. */
#include "numerics/ops.h"
#include "numerics/tensor.h"
#include <stdio.h>

struct shapes {
  enum op op;
  struct error *error;
};

static long numbers_of(const struct tensor *t) { return t->rows * t->cols; }

static int has_gaps(const struct tensor *t) { return t->rows > 1 && t->ld != t->cols; }

/* A part's size; 0 without parts, so that no argument matches. */
static long each(long whole, long parts) { return parts > 0 ? whole / parts : 0; }

static void wrong(struct shapes *s, const char *name, const struct tensor *t, const char *demand, long a,
                  long b)
{
  char wanted[80], own[120] = "";
  snprintf(wanted, sizeof wanted, demand, a, b);
  if (t->name) snprintf(own, sizeof own, " (%s)", t->name);
  error_set(s->error, STATUS_USAGE, "%s: %s must be %s, got [%ld,%ld]%s%s", op_name(s->op), name, wanted,
            t->rows, t->cols,
            t->type == TENSOR_INT ? " of integers"
            : has_gaps(t)         ? " with gaps"
                                  : "",
            own);
}

static void matrix(struct shapes *s, const char *name, const struct tensor *t, long rows, long cols)
{
  if (t && (t->type != TENSOR_REAL || t->rows != rows || t->cols != cols))
    wrong(s, name, t, "[%ld,%ld]", rows, cols);
}

static void int_matrix(struct shapes *s, const char *name, const struct tensor *t, long rows, long cols)
{
  if (t && (t->type != TENSOR_INT || t->rows != rows || t->cols != cols))
    wrong(s, name, t, "[%ld,%ld] of integers", rows, cols);
}

/* As many numbers, in whatever rows. */
static void many(struct shapes *s, const char *name, const struct tensor *t, long n)
{
  if (t && (t->type != TENSOR_REAL || numbers_of(t) != n))
    wrong(s, name, t, n == 1 ? "%ld number" : "%ld numbers", n, 0);
}

/* ... one behind the other. */
static void vector(struct shapes *s, const char *name, const struct tensor *t, long n)
{
  if (t && (t->type != TENSOR_REAL || numbers_of(t) != n || has_gaps(t)))
    wrong(s, name, t, "%ld numbers without gaps", n, 0);
}

static void int_vector(struct shapes *s, const char *name, const struct tensor *t, long n)
{
  if (t && (t->type != TENSOR_INT || numbers_of(t) != n || has_gaps(t)))
    wrong(s, name, t, "%ld integers without gaps", n, 0);
}

#define CHECK(name) static void check_##name(struct shapes *s, const struct name##_args *x)
#define MATRIX(t, rows, cols) matrix(s, #t, x->t, rows, cols)
#define INT_MATRIX(t, rows, cols) int_matrix(s, #t, x->t, rows, cols)
#define LIKE(t, other) MATRIX(t, x->other->rows, x->other->cols)
#define ANY(t) LIKE(t, t)
#define MANY(t, n) many(s, #t, x->t, n)
#define VECTOR(t, n) vector(s, #t, x->t, n)
#define INT_VECTOR(t, n) int_vector(s, #t, x->t, n)
#define NO_GAPS(t) VECTOR(t, numbers_of(x->t))
#define NO_GAPS_OF_INTS(t) INT_VECTOR(t, numbers_of(x->t))

/* --- dense products --- */

CHECK(matmul)
{
  const long m = x->c->rows, n = x->c->cols, k = x->ta ? x->a->rows : x->a->cols;
  ANY(c);
  MATRIX(a, x->ta ? k : m, x->ta ? m : k);
  MATRIX(b, x->tb ? n : k, x->tb ? k : n);
  MATRIX(d, m, n);
}

CHECK(gram)
{
  const long m = x->ta ? x->a->cols : x->a->rows;
  MATRIX(c, m, m);
  MATRIX(a, x->beta != 0 ? m : x->a->rows, x->beta != 0 ? m : x->a->cols);
}

CHECK(symmetric_product)
{
  MATRIX(c, x->c->rows, x->c->rows);
  LIKE(a, c);
  LIKE(b, c);
}

CHECK(heads_product)
{
  const long from = each(x->x->cols, x->heads), to = each(x->y->cols, x->heads);
  MATRIX(y, x->x->rows, x->heads * to);
  MATRIX(x, x->x->rows, x->heads * from);
  MATRIX(w, x->heads * (x->transposed ? to : from), x->transposed ? from : to);
  VECTOR(gain, from);
}

/* X and its successor; the Gram matrix and the polynomials of it; ones and a norm: see ops.def. */
CHECK(newton_schulz)
{
  const long m = x->rows < x->cols ? x->rows : x->cols, of_gram = x->first > 1 || x->then > 1 ? 4 : 2;
  const long least = 2 * x->rows * x->cols + of_gram * m * m + m + 1;
  NO_GAPS(x);
  MATRIX(work, x->work->rows, x->work->cols > least ? x->work->cols : least);
  NO_GAPS_OF_INTS(place);
  MATRIX(coefficients, x->coefficients->rows, 3);
}

/* --- rows --- */

CHECK(add_bias) { ANY(y), VECTOR(b, x->y->cols); }
CHECK(sum_rows) { ANY(x), VECTOR(y, x->x->cols); }
CHECK(embed_forward) { ANY(w), MATRIX(y, x->y->rows, x->w->cols), INT_VECTOR(tokens, x->y->rows); }
CHECK(embed_backward) { ANY(dy), MATRIX(dw, x->dw->rows, x->dy->cols), INT_VECTOR(tokens, x->dy->rows); }

CHECK(rmsnorm_forward)
{
  const long groups = each(x->x->cols, x->group);
  MATRIX(x, x->x->rows, groups * x->group);
  LIKE(y, x);
  MATRIX(rstd, x->x->rows, groups);
  VECTOR(gain, x->group);
}

CHECK(rmsnorm_backward)
{
  const long groups = each(x->x->cols, x->group);
  MATRIX(x, x->x->rows, groups * x->group);
  LIKE(dx, x);
  LIKE(dy, x);
  MATRIX(rstd, x->x->rows, groups);
  VECTOR(gain, x->group);
  VECTOR(dgain, x->group);
}

CHECK(swiglu_forward) { ANY(y), MATRIX(x, x->y->rows, 2 * x->y->cols); }

CHECK(swiglu_backward)
{
  ANY(dy);
  MATRIX(x, x->dy->rows, 2 * x->dy->cols);
  LIKE(dx, x);
}

CHECK(rope)
{
  const long heads = each(x->x->cols, x->dim);
  MATRIX(table, x->table->rows, x->dim / 2 * 2);
  MATRIX(x, x->x->rows, heads * x->dim);
  LIKE(y, x);
  INT_VECTOR(position, x->x->rows);
}

CHECK(scale_columns) { ANY(x), LIKE(y, x), MANY(s, 1); }
CHECK(scale_columns_backward) { ANY(x), LIKE(dx, x), LIKE(dy, x), MANY(s, 1), MANY(ds, 1); }

static void joined(struct shapes *s, const struct tensor *y, const char *y_name, const struct tensor *a,
                   const char *a_name, const struct tensor *b, const char *b_name, long heads, long shared)
{
  const long of_a = each(a->cols, heads), of_b = shared ? b->cols : each(b->cols, heads);
  matrix(s, y_name, y, y->rows, heads * (of_a + of_b));
  matrix(s, a_name, a, y->rows, heads * of_a);
  matrix(s, b_name, b, y->rows, shared ? of_b : heads * of_b);
}

CHECK(join_heads) { joined(s, x->y, "y", x->a, "a", x->b, "b", x->heads, x->shared); }
CHECK(join_heads_backward) { joined(s, x->dy, "dy", x->da, "da", x->db, "db", x->heads, x->shared); }

CHECK(cross_entropy)
{
  ANY(logits);
  MATRIX(loss, 1, 2);
  MATRIX(ml, x->logits->rows, 2);
  INT_VECTOR(targets, x->logits->rows);
  VECTOR(weight, x->logits->rows);
}

CHECK(cross_entropy_backward)
{
  ANY(logits);
  LIKE(dlogits, logits);
  MATRIX(ml, x->logits->rows, 2);
  INT_VECTOR(targets, x->logits->rows);
  VECTOR(weight, x->logits->rows);
}

CHECK(token_loss)
{
  ANY(logits);
  MATRIX(y, x->logits->rows, 1);
  MATRIX(ml, x->logits->rows, 2);
  INT_VECTOR(targets, x->logits->rows);
}

CHECK(reparam)
{
  ANY(w), LIKE(y, w);
  VECTOR(u, x->w->rows);
  VECTOR(v, x->w->cols);
  MANY(gain, 1), MANY(sigma, 1);
}

CHECK(reparam_backward)
{
  ANY(w), LIKE(dw, w), LIKE(dy, w);
  VECTOR(u, x->w->rows);
  VECTOR(v, x->w->cols);
  MANY(gain, 1), MANY(dgain, 1), MANY(sigma, 1);
}

/* --- attention --- */

/* Queries, keys and values of N rows, and the ranges of these. */
struct operands {
  const struct tensor *q, *k, *v, *start, *end;
};

static void operands(struct shapes *s, const struct attention_score *score, const struct operands *x)
{
  const long n = score->batch * each(x->q->rows, score->batch), dim = each(x->q->cols, score->heads);
  const long query_heads = score->groups * each(score->heads, score->groups);
  matrix(s, "q", x->q, n, query_heads * dim);
  matrix(s, "k", x->k, n, score->groups * dim);
  if (x->v) matrix(s, "v", x->v, n, score->groups * each(x->v->cols, score->groups));
  int_vector(s, "start", x->start, n);
  int_vector(s, "end", x->end, n);
}

/* Maximum and sum of a row's softmax by head, and its entropy if there is room for it. */
static void softmax(struct shapes *s, const struct tensor *ml, long n, long heads)
{
  if (ml) matrix(s, "ml", ml, n, ml->cols == 3 * heads ? 3 * heads : 2 * heads);
}

/* ... and the results beside them: o and its gradient, a row's softmax. */
static void outputs(struct shapes *s, const struct attention_score *score, const struct operands *x,
                    const struct tensor *o, const struct tensor *do_, const struct tensor *ml)
{
  const long n = x->q->rows, heads = score->heads;
  matrix(s, "o", o, n, heads * each(x->v->cols, score->groups));
  matrix(s, "do_", do_, n, heads * each(x->v->cols, score->groups));
  softmax(s, ml, n, heads);
}

#define OPERANDS(...) const struct operands all = {__VA_ARGS__}

CHECK(attention_forward)
{
  OPERANDS(x->q, x->k, x->v, x->start, x->end);
  operands(s, &x->score, &all);
  outputs(s, &x->score, &all, x->o, NULL, x->ml);
  MATRIX(stats, x->heads, 4);
}

CHECK(attention_backward)
{
  OPERANDS(x->q, x->k, x->v, x->start, x->end);
  operands(s, &x->score, &all);
  outputs(s, &x->score, &all, x->o, x->do_, x->ml);
  LIKE(dq, q), LIKE(dk, k), LIKE(dv, v);
}

CHECK(pointwise_forward)
{
  OPERANDS(x->q, x->k, x->v, x->start, x->end);
  operands(s, &x->score, &all);
  outputs(s, &x->score, &all, x->o, NULL, NULL);
  MATRIX(stats, x->heads, 4);
}

CHECK(pointwise_backward)
{
  OPERANDS(x->q, x->k, x->v, x->start, x->end);
  operands(s, &x->score, &all);
  outputs(s, &x->score, &all, x->o, x->do_, NULL);
  LIKE(dq, q), LIKE(dk, k), LIKE(dv, v);
}

CHECK(attention_look)
{
  OPERANDS(x->q, x->k, NULL, x->start, x->end);
  operands(s, &x->score, &all);
  MATRIX(look, x->heads, 5);
}

CHECK(attention_merge)
{
  const long heads = x->stats->rows;
  MATRIX(stats, heads, 4), LIKE(other_stats, stats);
  MATRIX(o, x->o->rows, heads * each(x->o->cols, heads)), LIKE(other_o, o);
  MATRIX(ml, x->o->rows, 3 * heads), LIKE(other_ml, ml);
}

/* A cache has room for a batch of sequences of one length. */
#define CACHED() \
  OPERANDS(x->q, x->k, x->v, x->start, x->slot); \
  const long cached = x->batch * each(x->keys->rows, x->batch); \
  operands(s, &x->score, &all); \
  MATRIX(keys, cached, x->k->cols); \
  MATRIX(values, cached, x->v->cols); \
  MATRIX(factors, cached, x->heads); \
  MATRIX(factor, x->q->rows, x->heads); \
  MATRIX(stats, x->heads, 4)

CHECK(attention_cached)
{
  CACHED();
  outputs(s, &x->score, &all, x->o, NULL, NULL);
  MATRIX(ml, x->q->rows, 2 * x->heads);
}

CHECK(pointwise_cached)
{
  CACHED();
  outputs(s, &x->score, &all, x->o, NULL, NULL);
}

/* --- cures inside attention --- */

CHECK(sink)
{
  const long heads = x->b->cols;
  VECTOR(b, heads);
  MATRIX(o, x->o->rows, heads * each(x->o->cols, heads));
  softmax(s, x->ml, x->o->rows, heads);
}

CHECK(sink_backward)
{
  const long heads = x->b->cols;
  VECTOR(b, heads), LIKE(db, b);
  MATRIX(o, x->o->rows, heads * each(x->o->cols, heads)), LIKE(do_, o);
  softmax(s, x->ml, x->o->rows, heads);
}

CHECK(gate)
{
  MATRIX(g, x->x->rows, x->g->cols);
  MATRIX(x, x->x->rows, x->g->cols * each(x->x->cols, x->g->cols)), LIKE(y, x);
}

CHECK(gate_backward)
{
  MATRIX(g, x->x->rows, x->g->cols), LIKE(dg, g);
  MATRIX(x, x->x->rows, x->g->cols * each(x->x->cols, x->g->cols)), LIKE(dx, x), LIKE(dy, x);
}

CHECK(ssmax_scale)
{
  const long heads = x->s->cols, n = x->batch * each(x->x->rows, x->batch);
  VECTOR(s, heads);
  MATRIX(x, n, heads * each(x->x->cols, heads)), LIKE(y, x);
  INT_VECTOR(start, n), INT_VECTOR(end, n), INT_VECTOR(slot, n);
}

CHECK(ssmax_scale_backward)
{
  const long heads = x->s->cols, n = x->batch * each(x->x->rows, x->batch);
  VECTOR(s, heads), LIKE(ds, s);
  MATRIX(x, n, heads * each(x->x->cols, heads)), LIKE(dx, x), LIKE(dy, x);
  INT_VECTOR(start, n), INT_VECTOR(end, n), INT_VECTOR(slot, n);
}

/* --- experts: N tokens, E experts, K choices of each token --- */

CHECK(route)
{
  const long n = x->logits->rows, experts = x->groups * each(x->logits->cols, x->groups), k = x->gate->cols;
  MATRIX(logits, n, experts), LIKE(score, logits);
  MATRIX(gate, n, k);
  INT_MATRIX(chosen, n, k);
  MATRIX(stats, n, experts + 2);
  MANY(bias, experts);
}

CHECK(route_backward)
{
  const long n = x->score->rows, k = x->dgate->cols;
  ANY(score), LIKE(dlogits, score), LIKE(dscore, score);
  MATRIX(dgate, n, k);
  INT_MATRIX(chosen, n, k);
}

CHECK(sort_choices)
{
  INT_MATRIX(chosen, x->place->rows, x->place->cols);
  INT_MATRIX(place, x->chosen->rows, x->chosen->cols);
  INT_VECTOR(order, numbers_of(x->chosen));
  INT_MATRIX(first, 1, x->first->cols);
}

CHECK(dispatch_tokens)
{
  const long n = x->x->rows, k = each(x->y->rows, n);
  MATRIX(x, n, x->y->cols);
  MATRIX(y, n * k, x->y->cols);
  MATRIX(gate, n, k);
  INT_VECTOR(order, n * k);
}

CHECK(combine_tokens)
{
  const long n = x->y->rows, k = x->place->cols;
  MATRIX(x, n * k, x->y->cols);
  MATRIX(gate, n, k);
  INT_MATRIX(place, n, k);
  ANY(y);
}

CHECK(dot_rows)
{
  const long n = x->y->rows, k = x->y->cols;
  ANY(y);
  MATRIX(x, n, x->x->cols);
  MATRIX(z, n * k, x->x->cols);
  INT_MATRIX(place, n, k);
}

CHECK(expert_matmul)
{
  const long experts = x->first->cols - 1, in = x->x->cols, out = x->y->cols;
  INT_MATRIX(first, 1, experts + 1);
  MATRIX(x, x->y->rows, in);
  MATRIX(w, experts * (x->tb ? out : in), x->tb ? in : out);
  ANY(y);
}

CHECK(expert_outer)
{
  const long experts = x->first->cols - 1;
  INT_MATRIX(first, 1, experts + 1);
  MATRIX(x, x->dy->rows, x->x->cols);
  MATRIX(dw, experts * x->dy->cols, x->x->cols);
  ANY(dy);
}

CHECK(balance_loss)
{
  const long batch = x->share->rows;
  MANY(loss, 1);
  MATRIX(score, batch * each(x->score->rows, batch), x->score->cols);
  MATRIX(share, batch, x->score->cols);
}

CHECK(balance_loss_backward)
{
  const long batch = x->share->rows;
  MATRIX(score, batch * each(x->score->rows, batch), x->score->cols), LIKE(dscore, score);
  MATRIX(share, batch, x->score->cols);
}

/* --- vectors --- */

CHECK(fill) { ANY(y); }
CHECK(copy) { ANY(y), LIKE(x, y); }
CHECK(round_to) { ANY(y), LIKE(x, y); }
CHECK(transpose) { ANY(y), MATRIX(x, x->y->cols, x->y->rows); }
CHECK(axpby) { ANY(y), LIKE(x, y); }
CHECK(scale) { ANY(y); }
CHECK(norm) { ANY(x), MANY(y, 1); }
CHECK(normalise) { ANY(y), MANY(size, 1); }
CHECK(max_abs) { ANY(x), MANY(y, 1); }

/* --- optimizers --- */

CHECK(adam) { ANY(g), LIKE(update, g), LIKE(m, g), LIKE(v, g); }
CHECK(momentum) { ANY(g), LIKE(update, g), LIKE(m, g); }
CHECK(row_moment) { ANY(x), MATRIX(v, x->x->rows, 1); }

/* --- small tensors --- */

CHECK(multiply) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(divide) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(power) { ANY(y); }
CHECK(sign) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(maximum) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(clip_factor) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(greater_than) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(one_unless_finite) { ANY(y), MANY(x, numbers_of(x->y)); }
CHECK(all_finite) { ANY(x), MANY(y, 1); }
CHECK(gather) { ANY(y), ANY(x), INT_VECTOR(index, numbers_of(x->y)); }

CHECK(reduce)
{
  ANY(y), ANY(x);
  INT_VECTOR(first, numbers_of(x->y) + 1);
  NO_GAPS_OF_INTS(member);
}

CHECK(accumulate_stats) { MATRIX(seen, x->seen->rows, 4), LIKE(stats, seen); }

CHECK(accumulate_pairs)
{
  const long n = x->seen->rows;
  MATRIX(seen, n, 5), LIKE(look, seen);
  MATRIX(stats, n, 4), MATRIX(largest, n, x->largest->cols);
}

/* --- segments of rows --- */

CHECK(apply_segments)
{
  NO_GAPS(w), VECTOR(update, numbers_of(x->w));
  INT_MATRIX(segment, x->segment->rows, 2);
  MANY(keep, x->segment->rows), MANY(rate, x->segment->rows);
}

CHECK(scale_segments)
{
  NO_GAPS(x), MANY(factor, x->segment->rows);
  INT_MATRIX(segment, x->segment->rows, 2);
}

CHECK(norm_segments)
{
  NO_GAPS(x), MANY(y, x->segment->rows);
  INT_MATRIX(segment, x->segment->rows, 2);
}

/* --- ranks --- */

CHECK(all_reduce_sum) { NO_GAPS(y); }
CHECK(all_reduce_max) { NO_GAPS(y); }
CHECK(ring_shift) { NO_GAPS(x), VECTOR(y, numbers_of(x->x)); }
CHECK(pairwise_exchange) { NO_GAPS(x), VECTOR(y, numbers_of(x->x)); }
CHECK(all_gather) { NO_GAPS(x), MATRIX(y, 1, x->y->cols); }
CHECK(reduce_scatter) { NO_GAPS(y), MATRIX(x, 1, x->x->cols); }
CHECK(merge) { NO_GAPS(y), VECTOR(x, numbers_of(x->y)), INT_VECTOR(kind, numbers_of(x->y)); }

/* --- all ---------------------------------------------------------------------------------------------------- */

static int may_be_absent(enum op_field_kind kind)
{
  return kind == FIELD_MAY || kind == FIELD_MAYADD || kind == FIELD_NUMBER;
}

int op_check(enum op op, const union op_args *args, struct error *error)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  struct shapes shapes = {op, error};
  for (int i = 0; i < count && field[i].kind < FIELD_SIZE; i++) {
    const struct tensor *t = *op_tensor(args, i);
    if (!t && !may_be_absent(field[i].kind))
      return error_set(error, STATUS_USAGE, "%s: %s is missing", op_name(op), field[i].name);
    if (field[i].kind == FIELD_NUMBER) many(&shapes, field[i].name, t, 1);
  }
  switch (op) {
#define OP(name, what, fields) \
  case OP_##name: \
    check_##name(&shapes, &args->name); \
    break;
#include "numerics/ops.def"
#undef OP
  case OP_COUNT: break;
  }
  return error->status;
}
