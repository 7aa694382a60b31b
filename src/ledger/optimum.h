/* optimum.h - the best rate between the rates of a grid, with its uncertainty
   A parabola in the logarithm of the rate passes through the mean losses at the best rate of a grid and at its two
   neighbors. Its lowest point is the optimum, and a metric of the runs at these three rates is interpolated there in
   the same way. The seeds that choose the rate are resampled. With so few seeds a bootstrap is too narrow, so its
   quantile is moved outward (T. C. Hesterberg, The American Statistician 69, 2015, section 5.1: the expanded
   percentile). The error of the parabola itself is not included: a loss that is steeper above its optimum than below it
   shifts the lowest point. */
#ifndef MAXLOGIT_LEDGER_OPTIMUM_H
#define MAXLOGIT_LEDGER_OPTIMUM_H
#include "analysis/statistics.h"

enum { OPTIMUM_RATES = 3, OPTIMUM_RESAMPLES = 2000, OPTIMUM_SEEDS = 6 };

/* The optimum in steps of the grid, from -1 (the rate below the best) to 1 (the rate above): of losses
   [OPTIMUM_RATES][seeds], then of each resample of the seeds. Returns 0, and writes nothing, if a loss is not finite.
   */
int optimum_resample(const double *loss, int seeds, double at[1 + OPTIMUM_RESAMPLES]);
/* The same as a rate with a 95 % interval; `factor`: a step of the grid. Sorts the resamples. Below OPTIMUM_SEEDS the
   edges are NaN: resamples of three seeds contain the optimum in three of four cases only. */
struct interval optimum_rate(double at[1 + OPTIMUM_RESAMPLES], int seeds, double best, double factor);
/* The weights of the values at the three rates, for the value at a point between them. */
void optimum_weights(double at, double weight[OPTIMUM_RATES]);
/* The share of resamples beyond either edge of a 95 % interval. */
double optimum_tail(int seeds);
#endif
