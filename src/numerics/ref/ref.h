/* ref.h - the definitions of all operations, for their table; each lies in the file that ops.def names */
#ifndef MAXLOGIT_NUMERICS_REF_REF_H
#define MAXLOGIT_NUMERICS_REF_REF_H
#include "numerics/device.h"

#define OP(name, what, fields) void ref_##name(struct device *, const struct name##_args *);
#include "numerics/ops.def"
#undef OP

/* A row of dw. */
size_t embed_scratch(const struct device *, const void *args);
/* A row of weights; in reverse the gradients of a head's keys and values. */
size_t forward_scratch(const struct device *, const void *args);
size_t cached_scratch(const struct device *, const void *args);
size_t backward_scratch(const struct device *, const void *args);
size_t pointwise_scratch(const struct device *, const void *args);
size_t pointwise_cached_scratch(const struct device *, const void *args);
size_t pointwise_backward_scratch(const struct device *, const void *args);
/* Scratch of its products and norms, each on its worker. */
size_t newton_schulz_scratch(const struct device *, const void *args);
/* Memory for one row per worker. */
size_t route_scratch(const struct device *, const void *args);
size_t route_backward_scratch(const struct device *, const void *args);
size_t balance_loss_scratch(const struct device *, const void *args);

#define AT(t, i, j) (REALS(t)[(i) * (t)->ld + (j)])
/* A NUMBER: 1 if it is absent. */
static inline double number(const struct tensor *t) { return t ? (double)REALS(t)[0] : 1; }
/* Element i of a tensor taken as a vector, row by row. */
static inline real *element(const struct tensor *t, long i)
{
  return &REALS(t)[i / t->cols * t->ld + i % t->cols];
}
static inline void put(struct tensor *t, long i, long j, double value, long add)
{
  AT(t, i, j) = (real)(add ? AT(t, i, j) + value : value);
}
#endif
