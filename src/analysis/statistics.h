/* statistics.h - means, medians, slopes and tests of several numbers, with intervals
   A NaN among the values makes the result NaN, unless stated otherwise. */
#ifndef MAXLOGIT_ANALYSIS_STATISTICS_H
#define MAXLOGIT_ANALYSIS_STATISTICS_H
#include <stdint.h>

/* 95 % interval of the mean by Student's t with n-1 degrees of freedom; n < 2 gives NaN edges.
   Geometric: the same on logarithms (every value must be positive, else all three are NaN). */
struct interval {
  int n;
  double mean, lo, hi;
};
struct interval interval_of(const double *values, int n, int geometric);
/* The same of another level, 0.9 for 90 %. */
struct interval interval_at(const double *values, int n, double level);

/* Bias-corrected and accelerated bootstrap interval of the mean (Efron 1987, "Better bootstrap confidence
   intervals"), from 10000 resamples that are a function of `seed` alone. n < 2 gives NaN edges; below 8 the
   edges are rough, those of few different means. */
struct interval interval_bootstrap(const double *values, int n, double level, uint64_t seed);

/* The median and its 95 % interval between order statistics: ranks by the binomial distribution, whatever
   the values' own. Fewer than 6 values have none: NaN edges. Sorts the values. */
struct median {
  double middle, low, high;
};
struct median median_of(double *values, int n);
/* Signs alone, for any continuous distribution: the chance that of n values at most k lie on one side of their median;
   and the rank, from 1, of the order statistic that lies beyond the median with a chance of at most `error`. 0: n are
   too few for one. */
double sign_tail(int n, int k);
int sign_rank_of(int n, double error);
/* The median distance from the median, times 1.4826: of normal values their deviation. */
double mad_of(const double *values, int n);

/* Two-sided rank tests. rank_sum: Wilcoxon, Mann and Whitney of two samples; the statistic is U of x.
   signed_rank: Wilcoxon of differences, zeros left out; the statistic is the sum of the ranks above zero.
   Up to 50 values (rank_sum: without ties) by the exact distribution, else by the normal one with correction
   for ties and continuity. */
struct rank_test {
  double statistic, p;
};
struct rank_test rank_sum(const double *x, int n, const double *y, int m);
struct rank_test signed_rank(const double *differences, int n);

/* Least squares of log y on log x with the 95 % interval of the slope (t with n-2 degrees of freedom): y ~
   x^slope. NaN where a value is not positive or n < 3 (the interval), n < 2 (all). */
struct slope {
  int n;
  double slope, lo, hi, at_one; /* at_one: y at x = 1 */
};
struct slope slope_of(const double *x, const double *y, int n);

/* Times of which some ended without the event (censored[i] != 0): Kaplan and Meier's median, and its 95 %
   interval where the log-log band of their curve crosses one half (Brookmeyer and Crowley 1982). INFINITY:
   not reached by half. Where the last that was seen had the event curve and band end at zero, as lifelines has it (R's
   survfit leaves the band NA there): of fewer than six runs that is less than 95 %. */
struct survival {
  int n, events;
  double median, lo, hi;
};
struct survival survival_of(const double *time, const int *censored, int n);

/* Holm's correction: each p of n tests so that the chance of any false finding among them is below it. In
   place. A NaN is no test; returns how many are. */
int holm(double *p, int n);

/* Benjamini and Hochberg's: among the tests whose corrected p is below q at most a share q is false, in the mean (J. R.
   Stat. Soc. B 57, 1995). As holm else. */
int false_discovery(double *p, int n);

/* Two-sided p of the mean being zero, by Student's t. */
double zero_mean_p(const double *differences, int n);
/* Two one-sided t tests: is the mean of the differences within +-margin? p: of the less certain side. */
double equivalence_p(const double *differences, int n, double margin);

/* The mean that n such differences would find with a chance of 80 % (two-sided, 5 %): their standard error
   times the sum of the two quantiles of t. */
double detectable_effect(const double *differences, int n);
#endif
