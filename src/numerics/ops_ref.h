/* ops_ref.h - the definitions that lie outside ops_ref.c, for its table */
#ifndef MAXLOGIT_OPS_REF_H
#define MAXLOGIT_OPS_REF_H
#include "numerics/device.h"

/* ops_ref_small.c */
#define SMALL_OPS \
  REF(multiply) \
  REF(divide) \
  REF(power) \
  REF(sign) \
  REF(larger) \
  REF(clip_factor) \
  REF(above) REF(one_unless_finite) REF(all_finite) REF(take) REF(reduce) REF(see) REF(see_pairs)
/* ops_ref_update.c */
#define UPDATE_OPS \
  REF(adam) \
  REF(momentum) \
  REF(newton_schulz) REF(apply_segments) REF(scale_segments) REF(norm_segments) REF(norm) REF(normalise)

/* ops_ref_experts.c */
#define EXPERT_OPS \
  REF(route) \
  REF(route_backward) \
  REF(sort_choices) \
  REF(spread_rows) \
  REF(gather_rows) \
  REF(dot_rows) REF(expert_matmul) REF(expert_outer) REF(balance_loss) REF(balance_loss_backward)

#define REF(name) void ref_##name(struct device *, const struct name##_args *);
SMALL_OPS
UPDATE_OPS
EXPERT_OPS
#undef REF

/* What its products and norms take, each on its worker. */
size_t newton_schulz_scratch(const struct device *, const void *args);
/* A row's room for every worker. */
size_t route_scratch(const struct device *, const void *args);
size_t route_backward_scratch(const struct device *, const void *args);
size_t balance_loss_scratch(const struct device *, const void *args);

#define AT(t, i, j) (REALS(t)[(i) * (t)->ld + (j)])
/* A NUMBER: 1 where it is absent. */
static inline double number(const struct tensor *t) { return t ? (double)REALS(t)[0] : 1; }
/* Element i of a tensor taken as a vector, row by row. */
static inline real *element(const struct tensor *t, long i)
{
  return &REALS(t)[i / t->cols * t->ld + i % t->cols];
}
#endif
