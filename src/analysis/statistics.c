#include "analysis/statistics.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* --- means --------------------------------------------------------------------------------------------- */

/* GSL's makes NaN of infinite values, or keeps them, as their order has it. */
static double mean_of(const double *x, int n)
{
  double m = gsl_stats_mean(x, 1, (size_t)n);
  if (isfinite(m)) return m;
  m = 0;
  for (int i = 0; i < n; i++) m += x[i];
  return m;
}

struct interval interval_at(const double *x, int n, double level)
{
  if (n < 1) return (struct interval){0, NAN, NAN, NAN};
  double m = mean_of(x, n), half = NAN;
  if (n > 1) half = gsl_cdf_tdist_Pinv((1 + level) / 2, n - 1) * gsl_stats_sd_m(x, 1, (size_t)n, m) / sqrt(n);
  return (struct interval){n, m, m - half, m + half};
}

struct interval interval_of(const double *values, int n, int geometric)
{
  double *x = memory_new((size_t)n + 1, sizeof *x);
  for (int i = 0; i < n; i++) x[i] = !geometric ? values[i] : values[i] > 0 ? log(values[i]) : NAN;
  struct interval i = interval_at(x, n, 0.95);
  memory_free(x);
  if (geometric) i.mean = exp(i.mean), i.lo = exp(i.lo), i.hi = exp(i.hi);
  return i;
}

/* Skewness of the mean's influence, from leaving out one value at a time. */
static double acceleration(const double *x, int n)
{
  double mean = gsl_stats_mean(x, 1, (size_t)n), cubes = 0, squares = 0;
  for (int i = 0; i < n; i++) {
    double d = (x[i] - mean) / (n - 1); /* all others' mean lies so much below the mean of these means */
    cubes += d * d * d;
    squares += d * d;
  }
  double skewness = cubes / (6 * pow(squares, 1.5));
  return isfinite(skewness) ? skewness : 0; /* beyond 1e100, or below 1e-100, it is unknown */
}

struct interval interval_bootstrap(const double *x, int n, double level, uint64_t seed)
{
  enum { DRAWS = 10000 };
  struct interval out = interval_at(x, n, level);
  if (n < 2 || !isfinite(out.mean)) return out;
  if (gsl_stats_max(x, 1, (size_t)n) == gsl_stats_min(x, 1, (size_t)n)) {
    out.lo = out.hi = out.mean;
    return out;
  }
  double *means = memory_new(DRAWS, sizeof *means), below = 0;
  for (uint64_t d = 0; d < DRAWS; d++) {
    struct draw draw = {seed, STREAM_BOOTSTRAP, d};
    for (int i = 0; i < n; i++) means[d] += x[draw_below(draw, (uint64_t)i, (uint64_t)n)];
    means[d] /= n;
    below += means[d] < out.mean ? 1 : means[d] == out.mean ? 0.5 : 0;
  }
  gsl_sort(means, 1, DRAWS);
  below = fmin(fmax(below, 0.5), DRAWS - 0.5); /* by rounding all may lie on one side: no infinite bias */
  double bias = gsl_cdf_ugaussian_Pinv(below / DRAWS), a = acceleration(x, n), edge[2];
  for (int side = 0; side < 2; side++) {
    double z = bias + gsl_cdf_ugaussian_Pinv(side ? (1 + level) / 2 : (1 - level) / 2);
    double share = gsl_cdf_ugaussian_P(bias + z / (1 - a * z));
    edge[side] = gsl_stats_quantile_from_sorted_data(means, 1, DRAWS, share);
  }
  memory_free(means);
  out.lo = edge[0], out.hi = edge[1];
  return out;
}

/* --- medians ------------------------------------------------------------------------------------------- */

static int has_nan(const double *x, int n)
{
  for (int i = 0; i < n; i++)
    if (isnan(x[i])) return 1;
  return 0;
}

struct median median_of(double *values, int n)
{
  if (n < 1 || has_nan(values, n)) return (struct median){NAN, NAN, NAN};
  gsl_sort(values, 1, (size_t)n);
  struct median m = {gsl_stats_median_from_sorted_data(values, 1, (size_t)n), NAN, NAN};
  unsigned below = 0; /* values that may be left out on either side: P(so many or fewer) stays under 2.5 % */
  while (gsl_cdf_binomial_P(below, 0.5, (unsigned)n) <= 0.025) below++;
  if (below) m.low = values[below - 1], m.high = values[n - (int)below];
  return m;
}

double mad_of(const double *values, int n)
{
  double *x = memory_new((size_t)n + 1, sizeof *x);
  for (int i = 0; i < n; i++) x[i] = values[i];
  double middle = median_of(x, n).middle;
  for (int i = 0; i < n; i++) x[i] = fabs(values[i] - middle);
  double mad = 1.482602218505602 * median_of(x, n).middle; /* 1 / Phi^-1(3/4) */
  memory_free(x);
  return mad;
}

double sign_tail(int n, int k)
{
  return n > 0 && k >= 0 ? gsl_cdf_binomial_P((unsigned)k, 0.5, (unsigned)n) : 0;
}

int sign_rank_of(int n, double error)
{
  int k = 0;
  while (n > 0 && sign_tail(n, k) <= error) k++;
  return k;
}

/* --- ranks --------------------------------------------------------------------------------------------- */

enum { MOST_EXACT = 50 };

/* Ranks from 1, equal values sharing theirs; returns the sum of t^3 - t over ties of t values. */
static double rank(const double *x, int n, double *ranks)
{
  size_t *order = memory_new((size_t)n + 1, sizeof *order);
  double ties = 0;
  gsl_sort_index(order, x, 1, (size_t)n);
  for (int first = 0, end; first < n; first = end) {
    for (end = first + 1; end < n && x[order[end]] == x[order[first]];) end++;
    for (int i = first; i < end; i++) ranks[order[i]] = (first + 1 + end) / 2.0;
    double t = end - first;
    ties += t * t * t - t;
  }
  memory_free(order);
  return ties;
}

/* Two-sided p of a whole number under counts[0..most], symmetric about their middle. */
static double exact_p(const double *counts, int most, double statistic)
{
  double all = 0, tail = 0, low = fmin(statistic, most - statistic);
  for (int i = 0; i <= most; i++) {
    all += counts[i];
    if (i <= low) tail += counts[i];
  }
  return fmin(1, 2 * tail / all);
}

static double normal_p(double statistic, double mean, double variance)
{
  double away = fmax(0, fabs(statistic - mean) - 0.5);
  return variance > 0 ? fmin(1, 2 * gsl_cdf_ugaussian_Q(away / sqrt(variance))) : 1;
}

/* counts[k][s]: the number of subsets of {1, ..., ranks} with k elements and the sum s, for k <= of and s <= most. */
static double *count_sums(int ranks, int of, int most)
{
  double *counts = memory_new((size_t)(of + 1) * (size_t)(most + 1), sizeof *counts);
  counts[0] = 1;
  for (int r = 1; r <= ranks; r++)
    for (int k = r < of ? r : of; k >= 1; k--)
      for (int sum = most; sum >= r; sum--)
        counts[k * (most + 1) + sum] += counts[(k - 1) * (most + 1) + sum - r];
  return counts;
}

struct rank_test rank_sum(const double *x, int n, const double *y, int m)
{
  struct rank_test out = {NAN, NAN};
  if (n < 1 || m < 1 || has_nan(x, n) || has_nan(y, m)) return out;
  double *all = memory_new(2 * (size_t)(n + m), sizeof *all), *ranks = all + n + m, sum = 0;
  memcpy(all, x, (size_t)n * sizeof *x);
  memcpy(all + n, y, (size_t)m * sizeof *y);
  double ties = rank(all, n + m, ranks), total = n + m;
  for (int i = 0; i < n; i++) sum += ranks[i];
  memory_free(all);
  out.statistic = sum - n * (n + 1) / 2.0;
  if (ties == 0 && n + m <= MOST_EXACT) {
    int least = n * (n + 1) / 2, most = least + n * m;
    double *counts = count_sums(n + m, n, most);
    out.p = exact_p(counts + n * (most + 1) + least, n * m, out.statistic);
    memory_free(counts);
  } else
    out.p = normal_p(out.statistic, n * m / 2.0, n * m / 12.0 * (total + 1 - ties / (total * (total - 1))));
  return out;
}

struct rank_test signed_rank(const double *differences, int n)
{
  struct rank_test out = {NAN, NAN};
  if (n < 1 || has_nan(differences, n)) return out;
  double *size = memory_new(2 * (size_t)n, sizeof *size), *ranks = size + n;
  int *above = memory_new((size_t)n, sizeof *above), count = 0;
  for (int i = 0; i < n; i++)
    if (differences[i] != 0) {
      above[count] = differences[i] > 0;
      size[count++] = fabs(differences[i]);
    }
  double ties = rank(size, count, ranks);
  out.statistic = 0;
  for (int i = 0; i < count; i++) out.statistic += above[i] ? ranks[i] : 0;
  int twice = count * (count + 1); /* the sum of all ranks, doubled: shared ones are whole then */
  if (count <= MOST_EXACT) {
    double *counts = memory_new((size_t)twice + 1, sizeof *counts);
    counts[0] = 1;
    for (int i = 0; i < count; i++) {
      int r = (int)(2 * ranks[i]);
      for (int sum = twice; sum >= r; sum--) counts[sum] += counts[sum - r];
    }
    out.p = exact_p(counts, twice, 2 * out.statistic);
    memory_free(counts);
  } else
    out.p = normal_p(out.statistic, twice / 4.0, twice * (2.0 * count + 1) / 24 - ties / 48);
  memory_free(size);
  memory_free(above);
  return out;
}

/* --- slopes and times ---------------------------------------------------------------------------------- */

struct slope slope_of(const double *x, const double *y, int n)
{
  struct slope out = {n, NAN, NAN, NAN, NAN};
  if (n < 2) return out;
  double *u = memory_new(2 * (size_t)n, sizeof *u), *v = u + n, intercept, c00, c01, c11, squares;
  for (int i = 0; i < n; i++) u[i] = x[i] > 0 ? log(x[i]) : NAN, v[i] = y[i] > 0 ? log(y[i]) : NAN;
  gsl_fit_linear(u, 1, v, 1, (size_t)n, &intercept, &out.slope, &c00, &c01, &c11, &squares);
  double half = n > 2 ? gsl_cdf_tdist_Pinv(0.975, n - 2) * sqrt(c11) : NAN;
  out.at_one = exp(intercept);
  out.lo = out.slope - half, out.hi = out.slope + half;
  memory_free(u);
  return out;
}

struct survival survival_of(const double *time, const int *censored, int n)
{
  struct survival out = {.n = n, .median = INFINITY, .lo = INFINITY, .hi = INFINITY};
  if (has_nan(time, n)) return (struct survival){n, 0, NAN, NAN, NAN};
  size_t *order = memory_new((size_t)n + 1, sizeof *order);
  double share = 1, variance = 0; /* Greenwood's sum */
  gsl_sort_index(order, time, 1, (size_t)n);
  for (int first = 0, end; first < n; first = end) {
    double events = 0, at_risk = n - first, t = time[order[first]];
    for (end = first; end < n && time[order[end]] == t; end++) events += !censored[order[end]];
    if (events == 0) continue;
    out.events += (int)events;
    share *= 1 - events / at_risk;
    variance += events / (at_risk * (at_risk - events));
    /* edges of the band: share^exp(+-1.96 sqrt(variance) / ln share) */
    if (share <= 0.5) out.median = fmin(out.median, t);
    if (share <= 0) { /* no run is left: the band ends at zero as the curve does */
      out.lo = fmin(out.lo, t), out.hi = fmin(out.hi, t);
      continue;
    }
    double spread = 1.959963984540054 * sqrt(variance) / fabs(log(share));
    if (pow(share, exp(spread)) <= 0.5) out.lo = fmin(out.lo, t);
    if (pow(share, exp(-spread)) <= 0.5) out.hi = fmin(out.hi, t);
  }
  memory_free(order);
  return out;
}

/* --- several tests, equivalence, power ----------------------------------------------------------------- */

static void step_down(double *p, const size_t *order, int tests)
{
  double least = 0;
  for (int i = 0; i < tests; i++) p[order[i]] = least = fmax(least, fmin(1, (tests - i) * p[order[i]]));
}

static void step_up(double *p, const size_t *order, int tests)
{
  double least = 1;
  for (int i = tests; i-- > 0;) p[order[i]] = least = fmin(least, tests * p[order[i]] / (i + 1));
}

/* Of those that are known, in their order. */
static int correct(double *p, int n, void (*step)(double *p, const size_t *order, int tests))
{
  size_t *order = memory_new((size_t)n + 1, sizeof *order);
  double *known = memory_new((size_t)n + 1, sizeof *known);
  int tests = 0, next = 0;
  for (int i = 0; i < n; i++)
    if (!isnan(p[i])) known[tests++] = p[i];
  gsl_sort_index(order, known, 1, (size_t)tests);
  step(known, order, tests);
  for (int i = 0; i < n; i++)
    if (!isnan(p[i])) p[i] = known[next++];
  memory_free(order);
  memory_free(known);
  return tests;
}

int holm(double *p, int n) { return correct(p, n, step_down); }
int false_discovery(double *p, int n) { return correct(p, n, step_up); }

double zero_mean_p(const double *differences, int n)
{
  if (n < 2) return NAN;
  double mean = gsl_stats_mean(differences, 1, (size_t)n);
  double error = gsl_stats_sd_m(differences, 1, (size_t)n, mean) / sqrt(n);
  return mean == 0 ? 1 : 2 * gsl_cdf_tdist_Q(fabs(mean) / error, n - 1);
}

double equivalence_p(const double *differences, int n, double margin)
{
  if (n < 2 || !(margin > 0)) return NAN;
  double mean = gsl_stats_mean(differences, 1, (size_t)n);
  double error = gsl_stats_sd_m(differences, 1, (size_t)n, mean) / sqrt(n);
  return gsl_cdf_tdist_Q((margin - fabs(mean)) / error, n - 1);
}

double detectable_effect(const double *differences, int n)
{
  if (n < 2) return NAN;
  double error = gsl_stats_sd(differences, 1, (size_t)n) / sqrt(n);
  return error * (gsl_cdf_tdist_Pinv(0.975, n - 1) + gsl_cdf_tdist_Pinv(0.8, n - 1));
}
