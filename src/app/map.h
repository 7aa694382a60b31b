/* map.h - the figure of a metric over two parameters: a cell for each pair of values, a panel for each kind */
#ifndef MAXLOGIT_MAP_H
#define MAXLOGIT_MAP_H
#include <stdio.h>
#include "analysis/metric.h"

/* What plots/map.gp reads. The set's groups are those by "KEYS,y,x": those with the same KEYS are a panel.
   STATUS_USAGE where no value can be drawn, or there are more panels or values than a figure takes. */
int map_data(FILE *, const struct runset *, const char *x, const char *y, struct metric *, struct error *);
#endif
