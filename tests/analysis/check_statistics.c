/* check_statistics.c - means, medians and intervals against tables and values worked out by hand; tables of all shapes,
   with NaN, infinities and missing values, against what their header says */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/statistics.h"
#include "analysis/table.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"

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

START_TEST(numbers_of_any_size)
{
  static const double unit[] = {1e103, 1e307, 1e-120, 5e-324};
  for (int k = 0; k < 4; k++) {
    double x[] = {unit[k], -unit[k], 3 * unit[k]};
    struct interval i = interval_bootstrap(x, 3, 0.95, 1);
    ck_assert_msg(i.lo <= i.mean && i.mean <= i.hi, "%g: [%g, %g]", unit[k], i.lo, i.hi);
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

/* --- tables of any shape ---------------------------------------------------------------------------------- */

enum { ROUNDS = 400, MOST_ROWS = 23 };

/* Rows of none to many, steps that increase, few different values: many are equal, some are not finite, or missing. */
static struct table random_table(uint64_t round, uint64_t which, long rows, int columns)
{
  const struct draw d = {21 + which, STREAM_TEST, round};
  const double values[] = {missing_value(), NAN, INFINITY, -INFINITY, -2, 0, 1, 1, 3.5, 4, 5, 0.25};
  const uint64_t from = draw_below(d, 0, 6), kinds = 12 - from;
  struct table t;
  double step = (double)draw_below(d, 1, 3) - 1;
  table_new(&t, rows, columns);
  for (long r = 0; r < rows; r++) {
    t.step[r] = step += 1 + (double)draw_below(d, 100 + (uint64_t)r, 4);
    for (int c = 0; c < columns; c++)
      t.value[r * columns + c] = values[from + draw_below(d, 1000 + (uint64_t)(r * columns + c), kinds)];
  }
  for (int c = 0; c < columns; c++) {
    snprintf(t.column[c].name, sizeof t.column[c].name, "t%dc%d", (int)which, c);
    t.column[c].kind = (enum column_kind)draw_below(d, 50 + (uint64_t)c, 3);
  }
  return t;
}

static struct table any_table(uint64_t round, uint64_t which, int columns)
{
  return random_table(round, which, (long)draw_below((struct draw){9, STREAM_TEST, round}, which, MOST_ROWS),
                      columns);
}

static int is_same(double a, double b)
{
  return is_missing(a) == is_missing(b) && isnan(a) == isnan(b) && (isnan(a) || a == b);
}

static void has(const struct table *t, long row, int column, double wanted, const char *what, uint64_t round)
{
  const double x = t->value[row * t->columns + column];
  ck_assert_msg(is_same(x, wanted), "%s %d: row %ld of %ld, column %d: %g%s, not %g%s", what, (int)round, row,
                t->rows, column, x, is_missing(x) ? " (missing)" : "", wanted,
                is_missing(wanted) ? " (missing)" : "");
}

/* The row of a step; -1: none. */
static long row_at(const struct table *t, double step)
{
  for (long r = 0; r < t->rows; r++)
    if (t->step[r] == step) return r;
  return -1;
}

START_TEST(joined_tables)
{
  for (uint64_t round = 0; round < ROUNDS; round++) {
    struct table a = any_table(round, 0, 1 + (int)(round % 3)), b = any_table(round, 1, 1 + (int)(round % 2)),
                 out = any_table(round, 0, a.columns);
    table_join(&out, &b);
    long row = 0;
    ck_assert_int_eq(out.columns, a.columns + b.columns);
    for (double step = -1; step < 200; step++) {
      const long i = row_at(&a, step), k = row_at(&b, step);
      if (i < 0 && k < 0) continue;
      ck_assert(row < out.rows && out.step[row] == step);
      for (int c = 0; c < out.columns; c++) {
        const struct table *of = c < a.columns ? &a : &b;
        const int at = c < a.columns ? c : c - a.columns;
        const long from = of == &a ? i : k;
        has(&out, row, c, from < 0 ? missing_value() : of->value[from * of->columns + at], "joined", round);
        ck_assert(!strcmp(out.column[c].name, of->column[at].name) &&
                  out.column[c].kind == of->column[at].kind);
      }
      row++;
    }
    ck_assert_int_eq(row, out.rows);
    table_free(&a), table_free(&b), table_free(&out);
  }
}
END_TEST

/* Of values: how many are known, and what is made of them. */
struct known {
  int n, nan;
  double sum, least, most;
  int first_least, first_most; /* of all, which is the first of them */
};

static struct known known_of(const double *x, int n)
{
  struct known k = {.least = INFINITY, .most = -INFINITY};
  for (int i = 0; i < n; i++)
    if (!is_missing(x[i])) k.n++, k.nan += isnan(x[i]), k.sum += x[i];
  for (int i = 0; i < n; i++)
    if (!isnan(x[i])) k.least = fmin(k.least, x[i]), k.most = fmax(k.most, x[i]);
  for (int i = n; i-- > 0;) {
    if (x[i] == k.least) k.first_least = i;
    if (x[i] == k.most) k.first_most = i;
  }
  if (k.nan) k.least = k.most = NAN;
  if (!k.n) k.least = k.most = missing_value();
  return k;
}

static double mean_of_known(const struct known *k) { return k->n ? k->sum / k->n : missing_value(); }

START_TEST(reduced_tables)
{
  for (uint64_t round = 0; round < ROUNDS; round++) {
    const int columns = (int)(round % 5);
    struct table t = any_table(round, 2, columns), most = any_table(round, 2, columns),
                 mean = any_table(round, 2, columns);
    table_reduce_max(&most, "largest");
    table_reduce_mean(&mean, "mean");
    ck_assert(most.columns == 1 && mean.columns == 1 && most.rows == t.rows && mean.rows == t.rows);
    ck_assert_str_eq(most.column->name, "largest");
    ck_assert_str_eq(mean.column->name, "mean");
    for (long r = 0; r < t.rows; r++) {
      const struct known k = known_of(t.value + r * columns, columns);
      ck_assert(most.step[r] == t.step[r] && mean.step[r] == t.step[r]);
      has(&most, r, 0, k.most, "largest", round);
      has(&mean, r, 0, mean_of_known(&k), "mean", round);
    }
    table_free(&t), table_free(&most), table_free(&mean);
  }
}
END_TEST

START_TEST(fewer_rows)
{
  for (uint64_t round = 0; round < ROUNDS; round++) {
    const int columns = 1 + (int)(round % 3);
    const long n = 1 + (long)(round % 4), bins = (long)(round % 7);
    struct table t = any_table(round, 3, columns), every = any_table(round, 3, columns),
                 means = any_table(round, 3, columns);
    table_keep_steps(&every, n, 0, INFINITY);
    long row = 0;
    for (long r = 0; r < t.rows; r++) {
      if (lround(t.step[r]) % n) continue;
      ck_assert(row < every.rows && every.step[row] == t.step[r]);
      for (int c = 0; c < columns; c++) has(&every, row, c, t.value[r * columns + c], "every", round);
      row++;
    }
    ck_assert_int_eq(row, every.rows);
    table_means(&means, bins);
    const int stays = bins < 1 || t.rows <= bins;
    ck_assert_int_eq(means.rows, stays ? t.rows : bins);
    for (long b = 0; b < means.rows; b++) {
      const long first = stays ? b : b * t.rows / bins, end = stays ? b + 1 : (b + 1) * t.rows / bins;
      double column[MOST_ROWS], steps = 0;
      for (long r = first; r < end; r++) steps += t.step[r];
      ck_assert_double_eq_tol(means.step[b], steps / (double)(end - first), 1e-12);
      for (int c = 0; c < columns; c++) {
        for (long r = first; r < end; r++) column[r - first] = t.value[r * columns + c];
        const struct known k = known_of(column, (int)(end - first));
        has(&means, b, c, mean_of_known(&k), "means", round);
      }
    }
    table_free(&t), table_free(&every), table_free(&means);
  }
}
END_TEST

/* Two values for an interval of steps: both extremes as they come, or one of them; of nothing nothing, of a NaN NaN. */
static void pair_of(const struct table *t, long first, long end, int column, double pair[2])
{
  double x[MOST_ROWS];
  for (long r = first; r < end; r++) x[r - first] = t->value[r * t->columns + column];
  const struct known k = known_of(x, (int)(end - first));
  const enum column_kind kind = t->column[column].kind;
  const int falls = k.first_most <= k.first_least;
  pair[0] = kind == COLUMN_LOW ? k.least : kind == COLUMN_HIGH ? k.most : falls ? k.most : k.least;
  pair[1] = kind == COLUMN_LOW ? k.least : kind == COLUMN_HIGH ? k.most : falls ? k.least : k.most;
}

START_TEST(extremes_of_intervals)
{
  int thinned = 0;
  for (uint64_t round = 0; round < 3 * ROUNDS; round++) {
    const int columns = 1 + (int)(round % 3);
    const long bins = (long)(round % 9);
    struct table t = any_table(round, 4, columns), out = any_table(round, 4, columns);
    table_bins(&out, bins);
    if (bins < 1 || t.rows <= 2 * bins + 2) {
      ck_assert_int_eq(out.rows, t.rows);
      for (long i = 0; i < t.rows * columns; i++) ck_assert(is_same(out.value[i], t.value[i]));
    } else {
      long row = 0;
      const double begin = t.step[1], width = (t.step[t.rows - 2] - begin + 1) / (double)bins;
      thinned++;
      for (long first = 0, end; first < t.rows; first = end) {
        const int edge = first == 0 || first == t.rows - 1;
        for (end = first + 1; !edge && end < t.rows - 1 &&
                              floor((t.step[end] - begin) / width) == floor((t.step[first] - begin) / width);)
          end++;
        for (int side = 0; side < (end - first > 1 ? 2 : 1); side++, row++) {
          ck_assert(row < out.rows && out.step[row] == t.step[side ? end - 1 : first]);
          for (int c = 0; c < columns; c++) {
            double pair[2];
            pair_of(&t, first, end, c, pair);
            has(&out, row, c, pair[side], "thinned", round);
          }
        }
      }
      ck_assert_int_eq(row, out.rows);
    }
    for (int c = 0; c < columns; c++)
      ck_assert(!strcmp(out.column[c].name, t.column[c].name) && out.column[c].kind == t.column[c].kind);
    table_free(&t), table_free(&out);
  }
  ck_assert_int_gt(thinned, 200);
}
END_TEST

/* The value that a run has at a step, or would have on a line between two rows. */
static double value_on_line(const struct table *t, double step, int c)
{
  long before = -1, after = -1;
  for (double s = step; s >= -1 && before < 0; s--)
    if (row_at(t, s) >= 0 && !is_missing(t->value[row_at(t, s) * t->columns + c])) before = row_at(t, s);
  for (double s = step; s < 200 && after < 0; s++)
    if (row_at(t, s) >= 0 && !is_missing(t->value[row_at(t, s) * t->columns + c])) after = row_at(t, s);
  if (before < 0 || after < 0) return missing_value();
  const double from = t->value[before * t->columns + c], to = t->value[after * t->columns + c];
  if (before == after) return from;
  if (!isfinite(from) || !isfinite(to)) return missing_value();
  return from + (to - from) * ((step - t->step[before]) / (t->step[after] - t->step[before]));
}

/* Over runs: at each step that one has, the mean and interval of the values that are known. */
START_TEST(bands_of_tables)
{
  for (uint64_t round = 0; round < ROUNDS; round++) {
    const int count = 1 + (int)(round % 4), columns = 1 + (int)(round % 3), geometric = round % 2;
    struct table run[4], band;
    long row = 0;
    for (int i = 0; i < count; i++) run[i] = any_table(round, 5 + (uint64_t)i, columns);
    table_band(&band, run, count, geometric);
    ck_assert_int_eq(band.columns, 1 + 3 * columns);
    ck_assert_str_eq(band.column->name, "n");
    ck_assert_int_eq(band.column->kind, COLUMN_LOW);
    for (int c = 0; c < columns; c++) {
      static const char *const alone[] = {"mean", "lo", "hi"}, *const more[] = {"", ":lo", ":hi"};
      for (int k = 0; k < 3; k++) {
        char name[64];
        snprintf(name, sizeof name, "t5c%d%s", c, more[k]);
        ck_assert_str_eq(band.column[1 + 3 * c + k].name, columns == 1 ? alone[k] : name);
        ck_assert_int_eq(band.column[1 + 3 * c + k].kind, k == 0   ? COLUMN_EXTREMES
                                                          : k == 1 ? COLUMN_LOW
                                                                   : COLUMN_HIGH);
      }
    }
    for (double step = -1; step < 200; step++) {
      int there = 0, most = 0;
      for (int i = 0; i < count; i++) there += row_at(&run[i], step) >= 0;
      if (!there) continue;
      ck_assert(row < band.rows && band.step[row] == step);
      for (int c = 0; c < columns; c++) {
        double x[4];
        int n = 0;
        for (int i = 0; i < count; i++) {
          x[n] = value_on_line(&run[i], step, c);
          n += !is_missing(x[n]);
        }
        const struct interval wanted = interval_of(x, n, geometric);
        most = n > most ? n : most;
        has(&band, row, 1 + 3 * c, n ? wanted.mean : missing_value(), "band", round);
        has(&band, row, 2 + 3 * c, n ? wanted.lo : missing_value(), "band, lo", round);
        has(&band, row, 3 + 3 * c, n ? wanted.hi : missing_value(), "band, hi", round);
      }
      has(&band, row, 0, most, "n", round);
      row++;
    }
    ck_assert_int_eq(row, band.rows);
    table_free(&band);
    table_band(&band, run, 0, geometric);
    ck_assert(band.rows == 0 && band.columns == 1 + 3 * columns);
    table_free(&band);
    for (int i = 0; i < count; i++) table_free(&run[i]);
  }
}
END_TEST

/* A series' values by their names, all or of a layer and a head. */
START_TEST(columns_of_series)
{
  static const struct {
    enum series_shape shape;
    long width, heads;
    int layer, head;
    const char *plain, *with_prefix;
  } known[] = {
    {PER_STEP, 1, 2, -1, -1, "s", "s"},
    {PER_STEP, 1, 2, 3, 1, "s", "s"},
    {PER_LAYER, 3, 2, -1, -1, "l0 l1 l2", "s:l0 s:l1 s:l2"},
    {PER_LAYER, 3, 2, 2, -1, "l2", "s:l2"},
    {PER_LAYER, 3, 2, 0, 5, "l0", "s:l0"},
    {PER_LAYER, 3, 2, 3, -1, "", ""},
    {PER_HEAD, 4, 2, -1, -1, "l0h0 l0h1 l1h0 l1h1", "s:l0h0 s:l0h1 s:l1h0 s:l1h1"},
    {PER_HEAD, 4, 2, 1, -1, "l1h0 l1h1", "s:l1h0 s:l1h1"},
    {PER_HEAD, 4, 2, -1, 0, "l0h0 l1h0", "s:l0h0 s:l1h0"},
    {PER_HEAD, 4, 2, 0, 1, "l0h1", "s:l0h1"},
    {PER_HEAD, 4, 2, 0, 2, "", ""},
    {PER_EXPERT, 6, 3, 1, 2, "l1e2", "s:l1e2"},
    {PER_EXPERT, 6, 3, -1, -1, "l0e0 l0e1 l0e2 l1e0 l1e1 l1e2", "s:l0e0 s:l0e1 s:l0e2 s:l1e0 s:l1e1 s:l1e2"},
    {PER_TENSOR, 2, 2, -1, -1, "embed w_q", "s:embed s:w_q"},
    {PER_TENSOR, 2, 2, 1, 1, "embed w_q", "s:embed s:w_q"},
  };
  char labels[2][64] = {"embed", "w_q"};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    for (int prefix = 0; prefix < 2; prefix++)
      for (long rows = 0; rows < 3; rows++) {
        double step[2] = {4, 7}, value[12];
        struct run_series s = {.name = "s",
                               .shape = known[k].shape,
                               .rows = rows,
                               .width = known[k].width,
                               .heads = known[k].heads,
                               .step = step,
                               .value = value,
                               .labels = labels};
        struct table t;
        char names[200] = "", all[96];
        for (int i = 0; i < 12; i++) value[i] = i;
        table_from_series(&t, &s, prefix, known[k].layer, known[k].head);
        for (int c = 0; c < t.columns; c++)
          snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", c ? " " : "",
                   t.column[c].name);
        ck_assert_str_eq(names, prefix ? known[k].with_prefix : known[k].plain);
        ck_assert_int_eq(t.rows, rows);
        for (long r = 0; r < rows; r++) {
          int c = 0;
          ck_assert(t.step[r] == step[r]);
          for (long i = 0; i < s.width; i++) { /* those whose names are there */
            char quoted[100], spaced[220];
            series_value_name(&s, i, all, sizeof all);
            snprintf(quoted, sizeof quoted, " %s ", all);
            snprintf(spaced, sizeof spaced, " %s ", known[k].plain);
            if (strstr(spaced, quoted)) has(&t, r, c++, (double)(r * s.width + i), "series", k);
          }
          ck_assert_int_eq(c, t.columns);
        }
        table_free(&t);
      }
}
END_TEST

static void written(const struct table *t, enum table_format format, const char *extra, const char *wanted)
{
  char *text;
  size_t length;
  FILE *f = open_memstream(&text, &length);
  table_write_header(f, t, format, extra);
  table_write_rows(f, t, format, extra);
  fclose(f);
  ck_assert_str_eq(text, wanted);
  free(text);
}

START_TEST(tables_as_text)
{
  struct table t;
  table_new(&t, 3, 2);
  const double values[] = {1.5, missing_value(), NAN, INFINITY, 0.1f, -1e300};
  for (int i = 0; i < 6; i++) t.value[i] = values[i];
  t.step[0] = 0, t.step[1] = 2.5, t.step[2] = 1e10;
  strcpy(t.column[0].name, "a"), strcpy(t.column[1].name, "b");
  written(&t, TABLE_COLUMNS, NULL, "# step a b\n0 1.5 NaN\n2.5 NaN inf\n10000000000 0.1 -1e+300\n");
  written(&t, TABLE_COLUMNS, "run",
          "# step run a b\n0 run 1.5 NaN\n2.5 run NaN inf\n10000000000 run 0.1 -1e+300\n");
  written(&t, TABLE_CSV, NULL, "step,a,b\n0,1.5,\n2.5,NaN,inf\n10000000000,0.1,-1e+300\n");
  written(&t, TABLE_TSV, "x", "step\tx\ta\tb\n0\tx\t1.5\t\n2.5\tx\tNaN\tinf\n10000000000\tx\t0.1\t-1e+300\n");
  t.rows = 0;
  written(&t, TABLE_CSV, "run", "step,run,a,b\n");
  table_free(&t);
}
END_TEST

/* As many digits as the single number needs, and no more; of a double all. */
START_TEST(numbers_as_text)
{
  static const struct {
    double value;
    const char *text;
  } known[] = {{0, "0"},
               {-3, "-3"},
               {999999999, "999999999"},
               {-999999999, "-999999999"},
               {1e9, "1000000000"},
               {0x1p54, "1.8014399e+16"},
               {0.5, "0.5"},
               {0.1f, "0.1"},
               {0.1, "0.1"},
               {1.0 / 3, "0.3333333333333333"},
               {INFINITY, "inf"},
               {-INFINITY, "-inf"},
               {NAN, "NaN"},
               {1e-300, "1e-300"}};
  char text[32], shorter[32];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    ck_assert_str_eq(table_number(known[i].value, text), known[i].text);
  ck_assert_str_eq(table_number(missing_value(), text), "NaN");
  for (uint64_t i = 0; i < 4000; i++) {
    const struct draw d = {31, STREAM_TEST, i};
    const float x = ldexpf((float)draw_normal(d, 0), (int)draw_below(d, 1, 60) - 30);
    table_number((double)x, text);
    ck_assert_msg(strtof(text, NULL) == x, "%s, not %.9g", text, (double)x);
    for (int digits = 1; digits < 9 && (double)x != rint((double)x); digits++) {
      snprintf(shorter, sizeof shorter, "%.*g", digits, (double)x);
      if (strtof(shorter, NULL) == x) ck_assert_str_eq(text, shorter);
      if (strtof(shorter, NULL) == x) break;
    }
    const double y = (double)x * (1 + 1e-9);
    table_number(y, text);
    ck_assert_msg(strtod(text, NULL) == y, "%s, not %.17g", text, y);
  }
}
END_TEST

/* At the largest step that a file may have, the number of the interval rounds up to the number of intervals. */
START_TEST(thinned_rows_of_huge_steps)
{
  for (long bins = 2; bins < 500; bins++) {
    struct table t;
    table_new(&t, 2 * bins + 4, 16);
    const long inner = t.rows - 2, last = (1L << 53) - 1;
    for (long r = 0; r < inner; r++)
      t.step[r + 1] = (double)(r == inner - 1 ? last : 1 + r * (last / (inner - 1)));
    t.step[0] = 0, t.step[t.rows - 1] = (double)last + 1;
    for (long i = 0; i < 16 * t.rows; i++) t.value[i] = (double)(i % 7);
    table_bins(&t, bins);
    ck_assert_int_le(t.rows, 2 * bins + 2);
    table_free(&t);
  }
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
  tcase_add_test(k, thinned_rows_of_huge_steps);
  tcase_add_test(k, joined_tables);
  tcase_add_test(k, reduced_tables);
  tcase_add_test(k, fewer_rows);
  tcase_add_test(k, extremes_of_intervals);
  tcase_add_test(k, bands_of_tables);
  tcase_add_test(k, columns_of_series);
  tcase_add_test(k, tables_as_text);
  tcase_add_test(k, numbers_as_text);
  tcase_add_test(k, mean_and_interval);
  tcase_add_test(k, median_and_interval);
  tcase_add_test(k, as_scipy_has_it);
  tcase_add_test(k, values_that_are_equal_have_edges);
  tcase_add_test(k, numbers_of_any_size);
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
