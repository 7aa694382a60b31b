/* pass.h - what one pass over a batch saw, collected over its micro-batches */
#ifndef MAXLOGIT_PASS_H
#define MAXLOGIT_PASS_H
#include "base/memory.h"
#include "model/model.h"

/* Arrays are [layers*heads], `watched` is [stabilisers*layers]. */
struct pass {
  double loss;
  real *max_logit, *max_abs_logit, *max_logit_capped, *entropy, *watched;
  real *share_above, *pairs, *q_norm, *k_norm, *cosine; /* NaN where the program does not look */
  struct model *model;
  long parts;         /* micro-batches of a batch */
  real *stats, *look; /* [H,4], [H,5] on their way from the device */
};

void pass_init(struct pass *, struct arena *, struct model *, long parts);
/* Merge what a program has just seen of micro-batch `part` (0 begins anew): losses are added, entropies
   averaged, maxima keep a NaN. */
void pass_collect(struct pass *, const struct model_program *, long part);
#endif
