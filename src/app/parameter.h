/* parameter.h - the figure of a metric over a parameter: one curve for each value of other keys */
#ifndef MAXLOGIT_PARAMETER_H
#define MAXLOGIT_PARAMETER_H
#include <stdio.h>
#include "analysis/metric.h"

/* What plots/parameter.gp reads. The set's groups are those by "KEYS,x", in any order: those with the same KEYS are a
   curve. STATUS_USAGE where x is no number in a run, or no value can be drawn. */
int parameter_data(FILE *, const struct runset *, const char *x, struct metric *, struct error *);
#endif
