/* outcome.h - what a run steers by of the step's passes, as its report tells it */
#ifndef MAXLOGIT_RUN_OUTCOME_H
#define MAXLOGIT_RUN_OUTCOME_H
#include "base/memory.h"
#include "model/pass.h"

struct outcome {
  double loss;
  real *max_logit, *max_abs_logit; /* [layers*heads] */
};

/* Where in [n] the largest is; the first NaN is larger than any number. */
long outcome_largest(const real *, long n);
void outcome_init(struct outcome *, struct arena *, const struct model *);
/* From the report that was read last. */
void outcome_read(struct outcome *, const struct model *);
#endif
