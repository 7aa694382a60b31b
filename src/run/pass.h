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
};

void pass_init(struct pass *, struct arena *, const struct model *);
/* From the report that was read last; `looks`: the program has looked at pairs. */
void pass_read(struct pass *, const struct report *, const struct seen *, int looks);
#endif
