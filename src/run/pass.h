/* pass.h - what a run steers by of the step's passes, as its report tells it */
#ifndef MAXLOGIT_PASS_H
#define MAXLOGIT_PASS_H
#include "base/memory.h"
#include "model/model.h"

struct pass {
  double loss;
  real *max_logit, *max_abs_logit; /* [layers*heads] */
};

/* Where in [n] the largest is; the first NaN is larger than any number. */
long pass_largest(const real *, long n);
void pass_init(struct pass *, struct arena *, const struct model *);
/* From the report that was read last. */
void pass_read(struct pass *, const struct model *);
#endif
