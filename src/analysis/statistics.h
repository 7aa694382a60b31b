/* statistics.h - what is said of several numbers: means, medians, and how far they may be off */
#ifndef MAXLOGIT_STATISTICS_H
#define MAXLOGIT_STATISTICS_H

/* 95 % interval of the mean by Student's t with n-1 degrees of freedom; n < 2 gives NaN edges.
   Geometric: the same on logarithms (every value must be positive, else all three are NaN). */
struct interval {
  int n;
  double mean, lo, hi;
};
struct interval interval_of(const double *values, int n, int geometric);

/* The median and its 95 % interval between order statistics: ranks by the binomial distribution, whatever
   the values' own. Fewer than 6 values have none: NaN edges. Sorts the values. */
struct median {
  double middle, low, high;
};
struct median median_of(double *values, int n);
#endif
