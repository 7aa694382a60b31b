/* outcome.h - results of a step's passes that control the run, from its report */
#ifndef MAXLOGIT_RUN_OUTCOME_H
#define MAXLOGIT_RUN_OUTCOME_H
#include "base/memory.h"
#include "model/pass.h"

struct outcome {
  double loss;
  real *max_logit, *max_abs_logit; /* [layers*heads] */
};

/* The index of the maximum of [n]; the first NaN counts as largest. */
long outcome_largest(const real *, long n);
void outcome_init(struct outcome *, struct arena *, const struct model *);
/* Read the values from the last report read. */
void outcome_read(struct outcome *, const struct model *);
#endif
