/* pass.h - what the passes over one batch saw, as the step's report tells it */
#ifndef MAXLOGIT_PASS_H
#define MAXLOGIT_PASS_H
#include "base/memory.h"
#include "model/model.h"

/* Arrays are [layers*heads]. */
struct pass {
  double loss;
  real *max_logit, *max_abs_logit, *max_logit_capped, *entropy;
  real *share_above, *pairs, *q_norm, *k_norm, *cosine; /* NaN where the program does not look */
  /* of routers, NaN in layers without: [layers*experts], [layers] */
  real *load, *router_bias, *max_vio, *router_entropy, *router_max, *moved, *balance_loss;
  real *ahead; /* [layers]: losses of modules that look ahead, NaN in layers of the stack */
};

/* Where in [n] the largest is; the first NaN is larger than any number. */
long pass_largest(const real *, long n);
void pass_init(struct pass *, struct arena *, const struct model *);
/* From the report that was read last; `looks`: the program has looked at pairs. */
void pass_read(struct pass *, const struct report *, const struct seen *, int looks);
/* What it says of routers, where there are some. */
void pass_read_routes(struct pass *, const struct report *, const struct seen *, const struct model *);
/* The losses of modules, means of `batches` batches. */
void pass_read_ahead(struct pass *, const struct report *, const struct seen *, const struct model *,
                     long batches);
#endif
