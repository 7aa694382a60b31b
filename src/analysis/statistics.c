#include "analysis/statistics.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

#include "base/memory.h"

struct interval interval_of(const double *values, int n, int geometric)
{
  if (n < 1) return (struct interval){0, NAN, NAN, NAN};
  double *x = memory_new((size_t)n, sizeof *x);
  for (int i = 0; i < n; i++) x[i] = !geometric ? values[i] : values[i] > 0 ? log(values[i]) : NAN;
  double m = gsl_stats_mean(x, 1, (size_t)n), half = NAN;
  if (n > 1) half = gsl_cdf_tdist_Pinv(0.975, n - 1) * gsl_stats_sd_m(x, 1, (size_t)n, m) / sqrt(n);
  memory_free(x);
  struct interval i = {n, m, m - half, m + half};
  if (geometric) i.mean = exp(i.mean), i.lo = exp(i.lo), i.hi = exp(i.hi);
  return i;
}

struct median median_of(double *values, int n)
{
  for (int i = 0; i < n; i++)
    if (isnan(values[i])) return (struct median){NAN, NAN, NAN};
  if (n < 1) return (struct median){NAN, NAN, NAN};
  gsl_sort(values, 1, (size_t)n);
  struct median m = {gsl_stats_median_from_sorted_data(values, 1, (size_t)n), NAN, NAN};
  unsigned below = 0; /* values that may be left out on either side: P(so many or fewer) stays under 2.5 % */
  while (gsl_cdf_binomial_P(below, 0.5, (unsigned)n) <= 0.025) below++;
  if (below) m.low = values[below - 1], m.high = values[n - (int)below];
  return m;
}
