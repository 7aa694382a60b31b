/* ops_front.h - shared by the functions of the checked front: destinations for gradients */
#ifndef MAXLOGIT_NUMERICS_OPS_FRONT_H
#define MAXLOGIT_NUMERICS_OPS_FRONT_H
#include "numerics/program.h"

#define CALL(p, op, ...) program_call(p, OP_##op, &(struct op##_args){__VA_ARGS__})
#define ON_BACKWARD(p, step, ...) \
  program_on_backward(p, step, &(struct step){__VA_ARGS__}, sizeof(struct step))

/* For attention: valid scores, and the destination of its statistics. */
void require_score(const struct attention_score *);
struct tensor *statistics_of(struct program *, const struct attention_spec *);

/* t's gradient for an operation that only adds: zeroed first if nothing was written. */
static inline struct tensor *grad_to_add(struct program *p, struct tensor *t)
{
  long add;
  struct tensor *grad = program_grad(p, t, &add);
  if (!add) CALL(p, fill, .y = grad, .value = 0);
  return grad;
}

/* For an operation that writes a gradient whether one is wanted or not. */
static inline struct tensor *grad_or_unused(struct program *p, struct tensor *t, long *add)
{
  *add = 0;
  return program_wants_grad(t) ? program_grad(p, t, add)
                               : program_temporary(p, t->rows, t->cols, "unused gradient");
}

/* For an operation that only overwrites: the place where it may write t's gradient. If that is a temporary, `settle`
   adds it to the gradient. */
struct overwrite {
  struct tensor *to, *target;
};

static inline struct overwrite grad_to_overwrite(struct program *p, struct tensor *t)
{
  long add = 1;
  struct tensor *grad = program_wants_grad(t) ? program_grad(p, t, &add) : NULL;
  if (!add) return (struct overwrite){grad, NULL};
  return (struct overwrite){program_temporary(p, t->rows, t->cols, "gradient to add"), grad};
}

/* Parts of op_attention (ops_front_cures.c): a sink in a finished softmax; attention without a softmax, for checked
   operands. */
void op_sink(struct program *, struct tensor *o, struct tensor *ml, struct tensor *b);
void op_pointwise(struct program *, struct tensor *o, struct tensor *stats, struct tensor *q,
                  struct tensor *k, struct tensor *v, struct tensor *start, struct tensor *end,
                  const struct attention_spec *);

static inline void settle(struct program *p, struct overwrite w)
{
  if (w.target) CALL(p, axpby, .y = w.target, .x = w.to, .alpha = 1, .beta = 1);
}
#endif
