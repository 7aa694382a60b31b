/* difference.h - the figure of two arms over the steps: mean of the pairs' differences, or of their log ratios */
#ifndef MAXLOGIT_DIFFERENCE_H
#define MAXLOGIT_DIFFERENCE_H
#include <stdio.h>
#include "analysis/pairs.h"

struct difference {
  const char *name[2]; /* of the arms */
  struct runset set[2];
  const char *series;
  int ratio;      /* B / A by logarithms */
  const char *by; /* a curve for each of their values; NULL: one */
};
/* What plots/difference.gp reads. Of a series per head the largest of each step counts. Pairs of which a run diverged
   are left out. STATUS_USAGE where there is no pair or nothing to draw. */
int difference_data(FILE *, const struct difference *, struct error *);
#endif
