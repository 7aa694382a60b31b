/* check_statistics.c - means, medians and intervals against tables and values worked out by hand */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/statistics.h"
#include "analysis/table.h"

static void near(double value, double wanted)
{
  ck_assert_double_le(fabs(value - wanted), 1e-9 * fabs(wanted));
}

START_TEST(mean_and_interval)
{
  /* 1, 2, 3, 6: mean 3, deviation sqrt(14/3), t(0.975, 3) = 3.182446305284263 */
  struct interval i = interval_of((double[]){1, 2, 3, 6}, 4, 0);
  double half = 3.182446305284263 * sqrt(14.0 / 3 / 4);
  ck_assert_int_eq(i.n, 4);
  near(i.mean, 3), near(i.lo, 3 - half), near(i.hi, 3 + half);
  /* 1, 4, 16: logarithms 0, ln 4, 2 ln 4; t(0.975, 2) = 4.302652729911275 */
  i = interval_of((double[]){1, 4, 16}, 3, 1);
  half = 4.302652729911275 * log(4) / sqrt(3);
  near(i.mean, 4), near(i.lo, 4 * exp(-half)), near(i.hi, 4 * exp(half));
  i = interval_of((double[]){5}, 1, 0);
  ck_assert(i.n == 1 && i.mean == 5 && isnan(i.lo) && isnan(i.hi));
  i = interval_of(NULL, 0, 0);
  ck_assert(i.n == 0 && isnan(i.mean) && isnan(i.lo) && isnan(i.hi));
  i = interval_of((double[]){1, NAN}, 2, 0);
  ck_assert(isnan(i.mean) && isnan(i.lo) && isnan(i.hi));
  i = interval_of((double[]){1, 0}, 2, 1);
  ck_assert(isnan(i.mean) && isnan(i.lo) && isnan(i.hi));
}
END_TEST

/* Ranks of the 95 % interval of a median, from 1: W. J. Conover, Practical Nonparametric Statistics, table A3. */
START_TEST(median_and_interval)
{
  static const int known[][3] = {{6, 1, 6},   {8, 1, 8},    {9, 2, 8},   {10, 2, 9},
                                 {20, 6, 15}, {30, 10, 21}, {50, 18, 33}};
  double x[64];
  for (unsigned k = 0; k < sizeof known / sizeof *known; k++) {
    int n = known[k][0];
    for (int i = 0; i < n; i++) x[i] = 1 + (i * 7 + 3) % n; /* 7 divides none: 1..n in disorder */
    struct median m = median_of(x, n);
    near(m.middle, (n + 1) / 2.0), near(m.low, known[k][1]), near(m.high, known[k][2]);
  }
  struct median m = median_of((double[]){4, 1, 2}, 3);
  ck_assert(m.middle == 2 && isnan(m.low) && isnan(m.high));
  m = median_of((double[]){4, NAN, 2}, 3);
  ck_assert(isnan(m.middle));
}
END_TEST

/* --- against SciPy: tests/golden/statistics.txt -------------------------------------------------------- */

struct list {
  double x[64];
  int n;
};

static struct list numbers(char *text)
{
  struct list l = {.n = 0};
  if (strcmp(text, "-") == 0) return l;
  for (char *end; *text && l.n < 64; text = *end == ',' ? end + 1 : end) l.x[l.n++] = strtod(text, &end);
  return l;
}

static void same(const char *line, double value, double wanted, double tolerance)
{
  if (isinf(wanted))
    ck_assert_msg(value == wanted, "%s: %.17g, not %g", line, value, wanted);
  else
    ck_assert_msg(fabs(value - wanted) <= tolerance * fabs(wanted), "%s: %.17g, not %.17g", line, value,
                  wanted);
}

static int compare(const char *what, struct list x, struct list y, const double *r)
{
  if (!strcmp(what, "interval")) {
    struct interval i = interval_at(x.x, x.n, y.x[0]);
    same(what, i.mean, r[0], 1e-11), same(what, i.lo, r[1], 1e-10), same(what, i.hi, r[2], 1e-10);
  } else if (!strcmp(what, "bootstrap")) { /* resampled edges: of 10000, by a percent or two of the width */
    struct interval i = interval_bootstrap(x.x, x.n, y.x[0], 7),
                    again = interval_bootstrap(x.x, x.n, y.x[0], 7);
    double width = r[2] - r[1];
    same(what, i.mean, r[0], 1e-11);
    ck_assert_double_eq_tol(i.lo, r[1], 0.05 * width);
    ck_assert_double_eq_tol(i.hi, r[2], 0.05 * width);
    ck_assert(again.lo == i.lo && again.hi == i.hi);
    ck_assert(interval_bootstrap(x.x, x.n, y.x[0], 8).lo != i.lo);
  } else if (!strcmp(what, "mad"))
    same(what, mad_of(x.x, x.n), r[0], 1e-11);
  else if (!strcmp(what, "equivalence"))
    same(what, equivalence_p(x.x, x.n, y.x[0]), r[0], 1e-9);
  else if (!strcmp(what, "zero_mean"))
    same(what, zero_mean_p(x.x, x.n), r[0], 1e-9);
  else if (!strcmp(what, "detectable"))
    same(what, detectable_effect(x.x, x.n), r[0], 0.08);
  else if (!strcmp(what, "rank_sum") || !strcmp(what, "signed_rank")) {
    struct rank_test t = *what == 'r' ? rank_sum(x.x, x.n, y.x, y.n) : signed_rank(x.x, x.n);
    same(what, t.statistic, r[0], 1e-12), same(what, t.p, r[1], 1e-9);
  } else if (!strcmp(what, "slope")) {
    struct slope f = slope_of(x.x, y.x, x.n);
    same(what, f.slope, r[0], 1e-10), same(what, f.lo, r[1], 1e-9), same(what, f.hi, r[2], 1e-9);
    same(what, f.at_one, r[3], 1e-9);
  } else if (!strcmp(what, "survival")) {
    int censored[64];
    for (int i = 0; i < x.n; i++) censored[i] = y.x[i] != 0;
    struct survival s = survival_of(x.x, censored, x.n);
    same(what, s.events, r[0], 0), same(what, s.median, r[1], 0), same(what, s.lo, r[2], 0);
    same(what, s.hi, r[3], 0);
  } else if (!strcmp(what, "holm")) {
    holm(x.x, x.n);
    for (int i = 0; i < x.n; i++) same(what, x.x[i], r[i], 1e-12);
  } else if (!strcmp(what, "false_discovery")) {
    false_discovery(x.x, x.n);
    for (int i = 0; i < x.n; i++) same(what, x.x[i], r[i], 1e-12);
  } else if (!strcmp(what, "sign")) {
    int n = (int)x.x[0], k = (int)y.x[0];
    same(what, sign_tail(n, k), r[0], 1e-12);
    ck_assert_int_eq(sign_rank_of(n, r[0] * 1.0000001), k + 1);
    ck_assert_int_eq(sign_rank_of(n, r[0] * 0.9999999), k);
  } else
    return 0;
  return 1;
}

START_TEST(as_scipy_has_it)
{
  char path[1024], line[8192];
  const char *source = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/golden/statistics.txt", source ? source : ".");
  FILE *f = fopen(path, "r");
  int compared = 0;
  ck_assert_msg(f != NULL, "%s", path);
  while (fgets(line, sizeof line, f)) {
    char *part[4], *at = line;
    if (*line == '#') continue;
    line[strcspn(line, "\n")] = 0;
    for (int i = 0; i < 4; i++) {
      part[i] = at;
      at += strcspn(at, "\t");
      if (*at) *at++ = 0;
    }
    struct list results = numbers(part[3]);
    ck_assert_msg(compare(part[0], numbers(part[1]), numbers(part[2]), results.x), "%s is not known",
                  part[0]);
    compared++;
  }
  fclose(f);
  ck_assert_int_ge(compared, 70);
}
END_TEST

/* 0.1 + 0.1 + 0.1 is not 3 * 0.1: means of equal values may all lie beside their mean. */
START_TEST(values_that_are_equal_have_edges)
{
  double x[24];
  for (int n = 2; n <= 24; n++)
    for (int k = 1; k <= 7; k++) {
      for (int i = 0; i < n; i++) x[i] = -0.1 * k;
      struct interval i = interval_bootstrap(x, n, 0.95, 1);
      ck_assert_msg(i.lo == i.mean && i.hi == i.mean, "%d of %g: [%g, %g]", n, x[0], i.lo, i.hi);
      if (n > 4) continue; /* takes time */
      x[0] = nextafter(x[0], 0);
      i = interval_bootstrap(x, n, 0.95, 1);
      ck_assert_msg(i.lo <= i.hi && i.hi <= x[0] + 1e-15 && i.lo >= x[1] - 1e-15,
                    "%d near %g: [%.17g, %.17g]", n, x[1], i.lo, i.hi);
    }
}
END_TEST

START_TEST(nothing_is_made_of_nan_or_too_few)
{
  double x[] = {1, NAN, 3};
  int none[3] = {0};
  ck_assert(isnan(interval_bootstrap(x, 3, 0.95, 1).lo) && isnan(interval_bootstrap(x, 1, 0.95, 1).lo));
  ck_assert(isnan(mad_of(x, 3)) && isnan(rank_sum(x, 3, x, 1).p) && isnan(rank_sum(x, 1, x, 3).p));
  ck_assert(isnan(signed_rank(x, 3).p) && isnan(survival_of(x, none, 3).median));
  ck_assert_double_eq(survival_of((double[]){1, 2}, none, 2).median, 1); /* one of two has ended: a half */
  ck_assert_double_eq(zero_mean_p((double[]){0, 0, 0}, 3), 1);
  ck_assert(isnan(slope_of((double[]){1, 2, 3}, (double[]){1, -2, 3}, 3).slope));
  ck_assert(isnan(slope_of((double[]){1, 2}, (double[]){1, 2}, 2).lo));
  ck_assert(isnan(equivalence_p(x, 3, 1)) && isnan(equivalence_p(x, 1, 1)) && isnan(detectable_effect(x, 3)));
  double p[][4] = {{NAN, 0.01, 0.02, 0.3}, {0.01, NAN, 0.02, 0.3}, {0.3, 0.02, NAN, 0.01}};
  for (int k = 0; k < 3; k++) {
    ck_assert_int_eq(holm(p[k], 4), 3); /* a NaN is no test, wherever it stands */
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += isnan(p[k][i]) ? 0 : p[k][i];
    ck_assert_msg(fabs(sum - (0.03 + 0.04 + 0.3)) < 1e-12, "%d: %g", k, sum);
  }
  for (int k = 0; k < 3; k++) ck_assert_int_eq(false_discovery(p[k], 4), 3);
  ck_assert(sign_rank_of(0, 0.5) == 0 && sign_rank_of(5, 1.0 / 64) == 0 && sign_tail(3, -1) == 0);
  double infinite[][3] = {{INFINITY, 1, 2}, {1, INFINITY, 2}, {1, 2, INFINITY}, {INFINITY, INFINITY, 1}};
  for (int k = 0; k < 4; k++) { /* whatever their order */
    struct interval i = interval_of(infinite[k], 3, 0);
    ck_assert_msg(isinf(i.mean) && isnan(i.lo) && isnan(i.hi), "%d: %g [%g, %g]", k, i.mean, i.lo, i.hi);
  }
  ck_assert(isnan(interval_of((double[]){INFINITY, -INFINITY}, 2, 0).mean));
}
END_TEST

/* Exact up to 50 values, then normal: p of the least sum of all, worked out by hand on either side. */
START_TEST(ranks_of_fifty_and_one)
{
  double x[51];
  for (int i = 0; i < 51; i++) x[i] = i;
  near(rank_sum(x, 1, x + 1, 49).p, 2 / 50.0); /* one order of 50, and its mirror image */
  near(rank_sum(x, 3, x + 3, 1).p, 2 / 4.0);
  /* U = 0, mean 25, variance 50 * 52 / 12 */
  near(rank_sum(x, 1, x + 1, 50).p, erfc((25 - 0.5) / sqrt(50 * 52 / 12.0) / M_SQRT2));
  for (int i = 0; i < 51; i++) x[i] = i + 1;
  near(signed_rank(x, 50).p, ldexp(1, -49));
  near(signed_rank(x, 51).p, erfc((51 * 52 / 4.0 - 0.5) / sqrt(51 * 52 * 103 / 24.0) / M_SQRT2));
  struct rank_test none = signed_rank((double[]){0, 0, 0}, 3); /* no difference is one */
  ck_assert(none.statistic == 0 && none.p == 1);
  near(rank_sum((double[]){1, 1, 1}, 3, (double[]){1, 1}, 2).p, 1); /* all alike: no variance */
  ck_assert(isnan(signed_rank(NULL, 0).p) && isnan(rank_sum(x, 1, NULL, 0).p) &&
            isnan(rank_sum(NULL, 0, x, 1).p));
}
END_TEST

/* Lines through two points have a slope, and no interval; differences that are all alike are no chance. */
START_TEST(of_two_or_without_a_spread)
{
  struct slope f = slope_of((double[]){1, 4}, (double[]){3, 6}, 2);
  near(f.slope, 0.5), near(f.at_one, 3);
  ck_assert(f.n == 2 && isnan(f.lo) && isnan(f.hi) && isnan(slope_of((double[]){1}, (double[]){1}, 1).slope));
  ck_assert(isnan(slope_of((double[]){0, 1, 2}, (double[]){1, 2, 3}, 3).slope)); /* no logarithm */
  ck_assert(zero_mean_p((double[]){2, 2, 2}, 3) == 0 && isnan(zero_mean_p((double[]){2}, 1)));
  ck_assert(isnan(equivalence_p((double[]){1, 2}, 2, 0)) && isnan(equivalence_p((double[]){1, 2}, 2, NAN)));
  ck_assert(isnan(detectable_effect((double[]){1}, 1)) && detectable_effect((double[]){1, 1}, 2) == 0);
  struct survival s = survival_of((double[]){3, 1, 2, 4}, (int[]){1, 1, 1, 1}, 4); /* nothing has happened */
  ck_assert(s.n == 4 && s.events == 0 && isinf(s.median) && isinf(s.lo) && isinf(s.hi));
  near(mad_of((double[]){1, 1, 1, 9}, 4) + 1, 1);
}
END_TEST

/* First and last rows as they are, of every bin both extremes in their order; a gap stays one. */
START_TEST(thinned_rows)
{
  enum {
    ROWS = 62,
    BINS = 3,
    GAP = 30,
    COLUMNS = 40
  }; /* wide: a row too many is far behind the end of its memory */
  struct table t;
  table_new(&t, ROWS, COLUMNS);
  for (int r = 0; r < ROWS; r++) {
    t.step[r] = 10 * r;
    for (int c = 0; c < COLUMNS; c++)
      t.value[r * COLUMNS + c] = r == 5 ? 100 : r == 9 ? -100 : r == GAP ? NAN : r;
  }
  table_bins(&t, BINS);
  ck_assert_int_eq(t.rows, 2 + 2 * BINS);
  static const double steps[] = {0, 10, 200, 210, 400, 410, 600, 610},
                      values[] = {0, 100, -100, NAN, NAN, 41, 60, 61};
  for (int r = 0; r < 2 + 2 * BINS; r++) {
    ck_assert(t.step[r] == steps[r]);
    for (int c = 0; c < COLUMNS; c++) {
      double x = t.value[r * COLUMNS + c];
      ck_assert(x == values[r] || (isnan(x) && isnan(values[r])));
    }
  }
  table_free(&t);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("statistics");
  TCase *k = tcase_create("by hand");
  tcase_add_test(k, thinned_rows);
  tcase_add_test(k, mean_and_interval);
  tcase_add_test(k, median_and_interval);
  tcase_add_test(k, as_scipy_has_it);
  tcase_add_test(k, values_that_are_equal_have_edges);
  tcase_add_test(k, nothing_is_made_of_nan_or_too_few);
  tcase_add_test(k, ranks_of_fifty_and_one);
  tcase_add_test(k, of_two_or_without_a_spread);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
