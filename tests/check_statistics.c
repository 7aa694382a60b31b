/* check_statistics.c - means, medians and intervals against tables and values worked out by hand */
#include <check.h>
#include <math.h>
#include "analysis/statistics.h"

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

int main(void)
{
  Suite *suite = suite_create("statistics");
  TCase *k = tcase_create("by hand");
  tcase_add_test(k, mean_and_interval);
  tcase_add_test(k, median_and_interval);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
