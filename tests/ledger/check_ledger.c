/* check_ledger.c - the rule by which claims are settled: each verdict, its error rates, and the rows that it is
   applied to */
#include <check.h>
#include <glob.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/memory.h"
#include "../folder.h"
#include "../long.h"
#include "ledger/judging.h"
#include "ledger/ledger_file.h"
#include "ledger/ledger.h"
#include "ledger/page.h"
#include "ledger/replication.h"
#include "ledger/print.h"
#include "config/config.h"

/* --- verdicts ------------------------------------------------------------------------------------------- */

/* Twelve effects, of which `low` lie at m - 3 d, as many at m + 3 d and the others within d of m: one may lie
   outside of the interval on either side. */
static struct judgement judge12(double m, double d, int low, int high, enum prediction what, double matters,
                                int last)
{
  struct effect x[12];
  for (int i = 0; i < 12; i++) {
    double at = i < low ? m - 3 * d : i >= 12 - high ? m + 3 * d : m + d * (i - 5.5) / 5.5;
    x[(7 * i) % 12] = (struct effect){at, at};
  }
  return judge(x, 12, what, matters, 2, last);
}

static void expect(struct judgement j, enum verdict verdict, int settled)
{
  ck_assert_msg(j.verdict == verdict && j.settled == settled,
                "%s, settled %d (wanted %s, %d); effect %g [%g, %g]", verdict_name(j.verdict), j.settled,
                verdict_name(verdict), settled, j.effect.mean, j.effect.lo, j.effect.hi);
}

START_TEST(every_verdict)
{
  struct judgement j = judge12(2, 0.1, 1, 1, PREDICT_MORE, 1, 0); /* the outermost pairs do not count */
  expect(j, VERDICT_HOLDS, 1);
  ck_assert_double_eq_tol(j.effect.mean, 2, 1e-12);
  ck_assert_double_eq_tol(j.effect.lo, 2 - 0.1 * 4.5 / 5.5, 1e-12);
  ck_assert_double_eq_tol(j.effect.hi, 2 + 0.1 * 4.5 / 5.5, 1e-12);
  ck_assert_double_eq_tol(j.p, 3 * 2 / 4096.0, 1e-15); /* three looks, two sides, twelve pairs of one sign */
  ck_assert_int_eq(j.spare, 1);
  ck_assert(isnan(j.pairs));
  j = judge12(2, 0.5, 1, 0, PREDICT_MORE, 1, 0);
  expect(j, VERDICT_HOLDS, 1); /* one of twelve lies short of it */
  ck_assert_double_eq_tol(j.p, 3 * 2 * 13 / 4096.0, 1e-15);
  ck_assert_int_eq(j.spare, 0);
  expect(judge12(2, 0.5, 2, 0, PREDICT_MORE, 1, 0), VERDICT_PARTLY, 0);  /* two do: there, its size open */
  expect(judge12(2, 0.1, 0, 0, PREDICT_MORE, 4, 0), VERDICT_REFUTED, 1); /* there, and surely too small */
  expect(judge12(0, 0.1, 0, 0, PREDICT_MORE, 1, 0), VERDICT_REFUTED, 1);
  expect(judge12(-2, 0.1, 0, 0, PREDICT_MORE, 1, 0), VERDICT_REFUTED, 1); /* the other sign */
  expect(judge12(0.9, 0.5, 0, 0, PREDICT_MORE, 1, 0), VERDICT_PARTLY, 0);
  expect(judge12(0.9, 0.5, 0, 0, PREDICT_MORE, 1, 1), VERDICT_PARTLY, 1);
  j = judge12(0.4, 2, 0, 0, PREDICT_MORE, 1, 0);
  expect(j, VERDICT_INCONCLUSIVE, 0);
  /* half of the interval, 2 * 4.5 / 5.5, has to come down to 0.6: what matters is farther away than zero */
  ck_assert_double_eq(j.pairs, ceil(12 * pow(2 * 4.5 / 5.5 / 0.6, 2)));
  expect(judge12(0.4, 2, 0, 0, PREDICT_MORE, 1, 1), VERDICT_INCONCLUSIVE, 1);
  j = judge12(0.9, 0.5, 0, 0, PREDICT_MORE, 1, 0);
  ck_assert_double_eq(j.pairs, ceil(12 * pow(0.5 * 4.5 / 5.5 / (1 - j.effect.mean), 2)));
  expect(judge12(-2, 0.1, 0, 0, PREDICT_LESS, 1, 0), VERDICT_HOLDS, 1);
  expect(judge12(2, 0.1, 0, 0, PREDICT_LESS, 1, 0), VERDICT_REFUTED, 1);
  j = judge12(-2, 0.1, 0, 3, PREDICT_LESS, 1, 0);
  ck_assert_double_eq_tol(j.effect.lo, -2 - 0.1 * 4.5 / 5.5, 1e-12); /* told as it was measured */
  ck_assert_double_eq_tol(j.effect.hi, -2 + 0.3, 1e-12);
  expect(judge12(0.1, 0.1, 0, 0, PREDICT_SAME, 1, 0), VERDICT_HOLDS, 1);
  j = judge12(0.1, 0.4, 0, 1, PREDICT_SAME, 1, 0);
  expect(j, VERDICT_HOLDS, 1); /* p: of the side on which fewer lie within */
  ck_assert_double_eq_tol(j.p, 3 * 2 * 13 / 4096.0, 1e-15);
  for (int side = -1; side <= 1; side += 2) { /* beyond what matters, but for the one pair inside */
    j = judge12(2 * side, 0.5, side > 0, side < 0, PREDICT_SAME, 1, 0);
    expect(j, VERDICT_REFUTED, 1);
    ck_assert_double_eq_tol(j.p, 3 * 2 * 13 / 4096.0, 1e-15);
    ck_assert_int_eq(j.spare, 0);
    j = judge12(side, 0.5, 0, 0, PREDICT_SAME, 1, 0); /* all of one sign, beyond and within */
    expect(j, VERDICT_DIFFERS, 0);
    ck_assert_double_eq_tol(j.p, 3 * 2 / 4096.0, 1e-15);
  }
  expect(judge12(-1, 0.5, 0, 0, PREDICT_SAME, 1, 1), VERDICT_DIFFERS, 1);
  expect(judge12(0.9, 2, 0, 0, PREDICT_SAME, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge12(0, 1.5, 0, 0, PREDICT_SAME, 1, 0), VERDICT_INCONCLUSIVE, 0); /* beyond on both sides */
  expect(judge12(-2, 0.1, 0, 0, PREDICT_NOT_MORE, 1, 0), VERDICT_HOLDS, 1);
  expect(judge12(0.4, 0.05, 0, 0, PREDICT_NOT_MORE, 1, 0), VERDICT_HOLDS,
         1); /* a rise that does not matter */
  expect(judge12(2, 0.1, 0, 0, PREDICT_NOT_MORE, 1, 0), VERDICT_REFUTED, 1);
  expect(judge12(0.9, 0.5, 0, 0, PREDICT_NOT_MORE, 1, 1), VERDICT_DIFFERS, 1);
  expect(judge12(0.2, 3, 0, 0, PREDICT_NOT_MORE, 1, 1), VERDICT_INCONCLUSIVE, 1);
  expect(judge12(2, 0.1, 0, 0, PREDICT_NOT_LESS, 1, 0), VERDICT_HOLDS, 1);
  expect(judge12(-2, 0.1, 0, 0, PREDICT_NOT_LESS, 1, 0), VERDICT_REFUTED, 1);
}
END_TEST

/* --- the rule again, as stages.h has it ------------------------------------------------------------------ */

/* Of n pairs at most k on one side, each a coin. */
static double tail_of(int n, int k)
{
  double sum = 0, one = pow(0.5, n);
  for (int i = 0; i <= k; one *= (double)(n - i) / (i + 1), i++) sum += one;
  return sum;
}

static int ascending(const void *a, const void *b)
{
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median_of_sorted(const double *x, int n)
{
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

struct wanted {
  enum verdict verdict;
  int settled, spare;
  double lo, hi, mean, p, pairs;
};

/* Turned so that what is predicted lies above; how many pairs have to lie elsewhere for an edge to reach a bound. */
static struct wanted rule_of(const struct effect *x, int n, enum prediction what, double matters, int stage,
                             int last)
{
  static const int misses[STAGES] = {-1, 0, 1, 6};
  const double error = tail_of(stage_seeds[stage], misses[stage]);
  const int turned = what == PREDICT_LESS || what == PREDICT_NOT_LESS,
            denies = what == PREDICT_NOT_MORE || what == PREDICT_NOT_LESS;
  struct wanted w = {VERDICT_FEW_SEEDS, last, 0, NAN, NAN, NAN, NAN, NAN};
  double low[32], high[32], away = -1;
  int rank = 0, wrong = -1, below_m = 0, above_m = 0, not_above_zero = 0, not_below_zero = 0, above_minus = 0,
      below_minus = 0;
  for (int i = 0; i < n; i++) {
    if (isnan(x[i].low) || isnan(x[i].high)) return w;
    low[i] = turned ? -x[i].high : x[i].low, high[i] = turned ? -x[i].low : x[i].high;
    below_m += low[i] <= matters, above_m += high[i] >= matters;
    not_above_zero += low[i] <= 0, not_below_zero += high[i] >= 0;
    above_minus += high[i] >= -matters, below_minus += low[i] <= -matters;
  }
  if (!n) return w;
  qsort(low, (size_t)n, sizeof *low, ascending), qsort(high, (size_t)n, sizeof *high, ascending);
  while (rank < n && error > 0 && tail_of(n, rank) <= error) rank++;
  const double a = median_of_sorted(low, n), b = median_of_sorted(high, n);
  w.mean = isinf(a) ? b : isinf(b) ? a : (a + b) / 2;
  if (rank) {
    w.lo = low[rank - 1], w.hi = high[n - rank], w.verdict = VERDICT_INCONCLUSIVE;
    if (what == PREDICT_SAME) {
      const double short_of = fabs(fabs(w.mean) - matters);
      if (w.lo > -matters && w.hi < matters)
        w.verdict = VERDICT_HOLDS, wrong = below_minus > above_m ? below_minus : above_m;
      else if (w.lo > matters || w.hi < -matters)
        w.verdict = VERDICT_REFUTED, wrong = w.lo > matters ? below_m : above_minus;
      else if (w.lo > 0 || w.hi < 0)
        w.verdict = VERDICT_DIFFERS, wrong = w.lo > 0 ? not_above_zero : not_below_zero, away = short_of;
      else
        away = fmax(short_of, fabs(w.mean));
    } else {
      const double short_of = fabs(w.mean - matters);
      if (w.lo > matters)
        w.verdict = denies ? VERDICT_REFUTED : VERDICT_HOLDS, wrong = below_m;
      else if (w.hi < matters)
        w.verdict = denies ? VERDICT_HOLDS : VERDICT_REFUTED, wrong = above_m;
      else if (w.lo > 0)
        w.verdict = denies ? VERDICT_DIFFERS : VERDICT_PARTLY, wrong = not_above_zero, away = short_of;
      else
        away = fmax(short_of, w.mean);
    }
    if (w.verdict == VERDICT_HOLDS || w.verdict == VERDICT_REFUTED) w.settled = 1;
    if (wrong >= 0) w.p = fmin(1, 3 * 2 * tail_of(n, wrong)), w.spare = rank - 1 - wrong;
    if (away > 0 && isfinite(w.hi - w.lo)) w.pairs = ceil(n * pow((w.hi - w.lo) / 2 / away, 2));
  }
  if (turned) {
    const double lo = w.lo;
    w.mean = -w.mean, w.lo = -w.hi, w.hi = -lo;
  }
  return w;
}

static int is_close(double a, double b)
{
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9 * fabs(b);
}

/* Pairs of any number, many of them equal, at borders, at zero, open to one side; every prediction and stage. */
START_TEST(every_judgement)
{
  static const enum prediction all[] = {PREDICT_MORE, PREDICT_LESS, PREDICT_SAME, PREDICT_NOT_MORE,
                                        PREDICT_NOT_LESS};
  static const double margins[] = {0.25, 1, 2}, kinds[] = {-3, -2, -1, -0.25, 0, 0.25, 1, 2, 3, 0.5};
  int seen[VERDICTS] = {0};
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
  for (int round = 0; round < 20000; round++) {
    const int n = (int)gsl_rng_uniform_int(rng, 31), stage = (int)gsl_rng_uniform_int(rng, STAGES),
              last = round % 2;
    const enum prediction what = all[gsl_rng_uniform_int(rng, 5)];
    const double matters = margins[gsl_rng_uniform_int(rng, 3)], shift = kinds[gsl_rng_uniform_int(rng, 10)],
                 width = round % 3 ? 0.2 : 2;
    struct effect x[32];
    for (int i = 0; i < n; i++) {
      const double at = round % 4 ? shift + width * gsl_ran_gaussian(rng, 1)
                                  : kinds[gsl_rng_uniform_int(rng, 10)] * width + shift;
      x[i] = (struct effect){at, at};
      if (round % 5 == 0 && gsl_rng_uniform_int(rng, 4) == 0) x[i].high = INFINITY;
      if (round % 7 == 0 && gsl_rng_uniform_int(rng, 6) == 0) x[i].low = -INFINITY;
      if (round % 50 == 0 && i == 2) x[i].low = NAN;
    }
    const struct wanted w = rule_of(x, n, what, matters, stage, last);
    const struct judgement j = judge(x, n, what, matters, stage, last);
    ck_assert_msg(j.verdict == w.verdict && j.settled == w.settled && j.spare == w.spare &&
                    is_close(j.p, w.p) && is_close(j.pairs, w.pairs) && is_close(j.effect.lo, w.lo) &&
                    is_close(j.effect.hi, w.hi) && is_close(j.effect.mean, w.mean) && j.effect.n == n,
                  "%d: %s %d %d p %g pairs %g, %g [%g, %g], not %s %d %d p %g pairs %g, %g [%g, %g]", round,
                  verdict_name(j.verdict), j.settled, j.spare, j.p, j.pairs, j.effect.mean, j.effect.lo,
                  j.effect.hi, verdict_name(w.verdict), w.settled, w.spare, w.p, w.pairs, w.mean, w.lo, w.hi);
    seen[j.verdict]++;
    /* an identity holds in every pair, or is broken */
    const struct judgement k = judge_identity(x, n, what, matters);
    int holds = 1;
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < n; i++) {
      const int turned = what == PREDICT_LESS || what == PREDICT_NOT_LESS;
      const double low = turned ? -x[i].high : x[i].low, high = turned ? -x[i].low : x[i].high;
      holds &= what == PREDICT_SAME                           ? low > -matters && high < matters
               : what == PREDICT_MORE || what == PREDICT_LESS ? low > matters
                                                              : high < matters;
      least = fmin(least, x[i].low), most = fmax(most, x[i].high);
    }
    ck_assert_int_eq(k.verdict, !n ? VERDICT_FEW_SEEDS : holds ? VERDICT_TRUE : VERDICT_BROKEN);
    ck_assert(k.settled && isnan(k.p) && isnan(k.pairs) && k.effect.n == n);
    if (n && round % 50) ck_assert(k.effect.lo == least && k.effect.hi == most);
  }
  gsl_rng_free(rng);
  for (int v = 0; v <= VERDICT_FEW_SEEDS; v++)
    ck_assert_msg(seen[v] > 100, "%s: %d", verdict_name((enum verdict)v), seen[v]);
}
END_TEST

START_TEST(what_settles_nothing)
{
  struct effect x[6] = {{2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}};
  for (int stage = 0; stage < STAGES; stage++)
    expect(judge(x, 5, PREDICT_MORE, 1, stage, 0), VERDICT_FEW_SEEDS, 0);
  expect(judge(x, 6, PREDICT_MORE, 1, 0, 1), VERDICT_FEW_SEEDS, 1); /* the first stage is no look */
  ck_assert(isnan(judge(x, 5, PREDICT_MORE, 1, 1, 1).effect.lo) &&
            judge(x, 5, PREDICT_MORE, 1, 1, 1).effect.mean == 2);
  expect(judge(x, 6, PREDICT_MORE, 1, 1, 0), VERDICT_HOLDS, 1);
  expect(judge(x, 6, PREDICT_MORE, 1, 2, 0), VERDICT_FEW_SEEDS, 0); /* nor are six at the look for twelve */
  expect(judge(NULL, 0, PREDICT_SAME, 1, 1, 1), VERDICT_FEW_SEEDS, 1);
  ck_assert(isnan(judge(NULL, 0, PREDICT_SAME, 1, 1, 1).p));
  /* of a time that was not reached one side is known: that B passed later, say, not by how much */
  x[2].high = INFINITY;
  expect(judge(x, 6, PREDICT_MORE, 1, 1, 0), VERDICT_HOLDS, 1);
  expect(judge(x, 6, PREDICT_SAME, 3, 1, 1), VERDICT_DIFFERS, 1);
  x[2].low = -INFINITY;
  expect(judge(x, 6, PREDICT_MORE, 1, 1, 1), VERDICT_INCONCLUSIVE, 1);
  x[2] = (struct effect){NAN, NAN};
  expect(judge(x, 6, PREDICT_MORE, 1, 1, 0), VERDICT_FEW_SEEDS, 0);
  /* runs that agree to the bit have an interval of no width */
  struct effect zero[6] = {{0, 0}};
  expect(judge(zero, 6, PREDICT_SAME, 1e-9, 1, 0), VERDICT_HOLDS, 1);
}
END_TEST

/* --- shares --------------------------------------------------------------------------------------------- */

/* n pairs, of which `more` have what is counted in the second run only, and `fewer` in the first only. */
static struct judgement shares(int n, int more, int fewer, enum prediction what, double matters, int stage)
{
  struct effect x[24] = {{0, 0}};
  for (int i = 0; i < more; i++) x[i] = (struct effect){1, 1};
  for (int i = more; i < more + fewer; i++) x[i] = (struct effect){-1, -1};
  return judge_shares(x, n, what, matters, stage, 1);
}

START_TEST(verdicts_of_shares)
{
  /* of 12 of 12 the lower limit is the twelfth root of half the error, and the upper one of 0 of 12 follows from it */
  const double root = pow(stage_error(2) / 2, 1 / 12.);
  struct judgement j = shares(12, 12, 0, PREDICT_MORE, 0.1, 2);
  expect(j, VERDICT_HOLDS, 1);
  ck_assert_double_eq(j.effect.mean, 1);
  ck_assert_double_eq_tol(j.effect.lo, root - (1 - root), 1e-9);
  ck_assert_double_eq_tol(j.effect.hi, 1, 1e-12);
  ck_assert_double_le(j.p, 3 * 2 * stage_error(2));
  ck_assert(j.p > 0 && isnan(j.pairs));
  j = shares(12, 0, 12, PREDICT_LESS, 0.1, 2);
  expect(j, VERDICT_HOLDS, 1);
  ck_assert_double_eq_tol(j.effect.hi, 1 - 2 * root, 1e-9);
  expect(shares(6, 6, 0, PREDICT_MORE, 0.1, 1), VERDICT_INCONCLUSIVE, 1); /* six pairs are too few */
  expect(shares(12, 0, 12, PREDICT_MORE, 0.1, 2), VERDICT_REFUTED, 1);
  expect(shares(12, 0, 12, PREDICT_NOT_MORE, 0.1, 2), VERDICT_HOLDS, 1);
  expect(shares(24, 0, 0, PREDICT_SAME, 0.3, 3), VERDICT_HOLDS, 1);
  expect(shares(24, 0, 0, PREDICT_SAME, 0.1, 3), VERDICT_INCONCLUSIVE, 1);
  expect(shares(24, 14, 0, PREDICT_MORE, 0.4, 3), VERDICT_PARTLY, 1);
  expect(shares(24, 12, 12, PREDICT_MORE, 0.1, 3), VERDICT_INCONCLUSIVE, 1);
  expect(shares(5, 5, 0, PREDICT_MORE, 0.1, 1), VERDICT_FEW_SEEDS, 1);
  expect(shares(6, 6, 0, PREDICT_MORE, 0.1, 0), VERDICT_FEW_SEEDS, 1); /* the first stage is no look */
}
END_TEST

/* The chance that the interval misses the true difference to one side, by counting all outcomes of the pairs. */
START_TEST(errors_of_shares)
{
  for (int stage = 1; stage < STAGES; stage++) {
    const int n = stage_seeds[stage];
    double lowest[25][25], worst = 0;
    for (int b = 0; b <= n; b++)
      for (int c = 0; b + c <= n; c++) lowest[b][c] = shares(n, b, c, PREDICT_MORE, 0.1, stage).effect.lo;
    for (double p = 0; p <= 1; p += 0.05)
      for (double q = 0; p + q <= 1 + 1e-9; q += 0.05) {
        const double rest = fmax(0, 1 - p - q);
        double missed = 0;
        for (int b = 0; b <= n; b++)
          for (int c = 0; b + c <= n; c++)
            if (lowest[b][c] > p - q + 1e-12)
              missed += exp(lgamma(n + 1) - lgamma(b + 1) - lgamma(c + 1) - lgamma(n - b - c + 1)) *
                        pow(p, b) * pow(q, c) * pow(rest, n - b - c);
        worst = fmax(worst, missed);
      }
    ck_assert_msg(worst <= stage_error(stage), "stage %d: %g, allowed %g", stage, worst, stage_error(stage));
    ck_assert_msg(worst > stage_error(stage) / 5, "stage %d: %g is idle", stage, worst);
  }
}
END_TEST

/* p is the error at which the verdict would just be lost. */
START_TEST(p_of_shares)
{
  for (int more = 0; more <= 12; more++)
    for (int fewer = 0; more + fewer <= 12; fewer++) {
      const struct judgement j = shares(12, more, fewer, PREDICT_MORE, 0.1, 2);
      const int settled =
        j.verdict == VERDICT_HOLDS || j.verdict == VERDICT_REFUTED || j.verdict == VERDICT_PARTLY;
      ck_assert_msg(settled == !isnan(j.p), "%d, %d: %s, p %g", more, fewer, verdict_name(j.verdict), j.p);
      if (settled) ck_assert_double_le(j.p, 6 * stage_error(2) * (1 + 1e-6));
    }
}
END_TEST

START_TEST(identities)
{
  struct effect x[3] = {{2, 2}, {2.1, 2.1}, {1.9, 1.9}}, same[3] = {{0, 0}};
  struct judgement j = judge_identity(x, 3, PREDICT_MORE, 1.5);
  expect(j, VERDICT_TRUE, 1);
  ck_assert(j.effect.lo == 1.9 && j.effect.hi == 2.1 && isnan(j.p));
  expect(judge_identity(x, 3, PREDICT_MORE, 1.95), VERDICT_BROKEN, 1); /* one pair is enough */
  expect(judge_identity(x, 3, PREDICT_LESS, 1.5), VERDICT_BROKEN, 1);
  expect(judge_identity(x, 3, PREDICT_NOT_MORE, 2.2), VERDICT_TRUE, 1);
  expect(judge_identity(x, 3, PREDICT_NOT_MORE, 2.05), VERDICT_BROKEN, 1);
  expect(judge_identity(same, 3, PREDICT_SAME, 1e-12), VERDICT_TRUE, 1);
  same[1] = (struct effect){1e-9, 1e-9};
  expect(judge_identity(same, 3, PREDICT_SAME, 1e-12), VERDICT_BROKEN, 1);
  same[1] = (struct effect){NAN, NAN};
  expect(judge_identity(same, 3, PREDICT_SAME, 1), VERDICT_BROKEN, 1);
  expect(judge_identity(NULL, 0, PREDICT_SAME, 1), VERDICT_FEW_SEEDS, 1);
}
END_TEST

/* --- error rates ---------------------------------------------------------------------------------------- */

/* The chance that the median lies beyond the interval, to one side, at any of the looks: of a walk of equal signs. */
START_TEST(errors_by_counting)
{
  double walk[25] = {1}, missed = 0;
  for (int n = 1, stage = 0; n <= 24; n++) {
    for (int k = n; k >= 0; k--) walk[k] = (walk[k] + (k ? walk[k - 1] : 0)) / 2;
    if (n != stage_seeds[stage]) continue;
    int rank = sign_rank_of(n, stage_error(stage++));
    for (int k = 0; k < rank; k++) missed += walk[k], walk[k] = 0;
  }
  ck_assert_double_le(missed, LEDGER_ERROR);
  ck_assert_double_ge(missed, 0.025);           /* the rule is no idler */
  ck_assert_double_eq_tol(missed, 0.026, 5e-4); /* as stages.h has it */
}
END_TEST

enum { MOST_PAIRS = 24 };
static long trials(void) { return amount(200, 8000); }

/* Pairs as runs give them; each draws one effect, whose median is found from many. */
static struct effect normal_pair(gsl_rng *r)
{
  double d = 1 + gsl_ran_ugaussian(r);
  return (struct effect){d, d};
}
static struct effect log_normal_pair(gsl_rng *r) /* of losses of two arms, one of which now and then spikes */
{
  double d = gsl_ran_lognormal(r, 0, 1.2) - gsl_ran_lognormal(r, 0, 0.3);
  return (struct effect){d, d};
}
static struct effect one_log_normal(gsl_rng *r) /* against a level */
{
  double d = gsl_ran_lognormal(r, 0, 1);
  return (struct effect){d, d};
}
static struct effect gamma_pair(gsl_rng *r)
{
  double d = gsl_ran_gamma(r, 0.5, 2) - 0.2 * gsl_ran_gamma(r, 0.5, 2);
  return (struct effect){d, d};
}
static struct effect heavy_pair(gsl_rng *r) /* by Student's t of two degrees of freedom, skewed */
{
  double d = gsl_ran_tdist(r, 2);
  d = d > 0 ? 2 * d : d;
  return (struct effect){d, d};
}
static double largest_of(gsl_rng *r, int n)
{
  double x = 0;
  for (int i = 0; i < n; i++) x = fmax(x, gsl_ran_lognormal(r, 0, 1));
  return x;
}
static struct effect maxima_pair(gsl_rng *r) /* the logarithm of a ratio of maxima */
{
  double d = log(largest_of(r, 8)) - 0.3 * log(largest_of(r, 8));
  return (struct effect){d, d};
}
static struct effect censored_pair(gsl_rng *r) /* times to a level, seen for 200 steps */
{
  double a = gsl_ran_exponential(r, 120), b = gsl_ran_exponential(r, 240), seen = 200;
  return (struct effect){fmin(b, seen) - (a > seen ? INFINITY : a),
                         (b > seen ? INFINITY : b) - fmin(a, seen)};
}
static double censored_truth(gsl_rng *r)
{
  return -gsl_ran_exponential(r, 120) + gsl_ran_exponential(r, 240);
}

static const struct family {
  const char *name;
  struct effect (*draw)(gsl_rng *);
  double (*truth)(gsl_rng *); /* where it is not what is drawn */
} families[] = {
  {"normal", normal_pair, NULL},
  {"log-normal", log_normal_pair, NULL},
  {"log-normal, one arm", one_log_normal, NULL},
  {"gamma", gamma_pair, NULL},
  {"heavy tails", heavy_pair, NULL},
  {"log of maxima", maxima_pair, NULL},
  {"censored", censored_pair, censored_truth},
};

static void find_truth(const struct family *f, gsl_rng *r, double *median, double *mean)
{
  enum { MANY = 400000 };
  double *x = memory_new(MANY, sizeof *x);
  *mean = 0;
  for (int i = 0; i < MANY; i++) {
    x[i] = f->truth ? f->truth(r) : f->draw(r).low;
    *mean += x[i] / MANY;
  }
  *median = median_of(x, MANY).middle;
  memory_free(x);
}

struct misses {
  double below, above; /* shares of trials in which the interval lies below, above what is true */
};
static void count(struct misses *m, const struct interval *i, double truth, int *below, int *above)
{
  int is_below = i->hi<truth, is_above = i->lo> truth;
  m->below += is_below / (double)trials(), m->above += is_above / (double)trials();
  *below |= is_below, *above |= is_above;
}
static double worse(struct misses m) { return 100 * fmax(m.below, m.above); }

/* What the looks of one trial say: the rule's interval of the median, and Student's of the mean at 98.75 %, which is
   what stood here before; of times those that were reached. */
static void look_at(const struct family *f, gsl_rng *r, double median, double mean,
                    struct misses rule[STAGES + 1], struct misses student[STAGES + 1])
{
  struct effect x[MOST_PAIRS];
  double seen[MOST_PAIRS];
  int n = 0, reached = 0, below[2] = {0}, above[2] = {0};
  for (int stage = 0; stage < STAGES; stage++) {
    for (; n < stage_seeds[stage]; n++) {
      x[n] = f->draw(r);
      if (isfinite(x[n].low) && isfinite(x[n].high)) seen[reached++] = x[n].low;
    }
    struct judgement j = judge(x, n, PREDICT_MORE, 1, stage, 0);
    struct interval t = interval_at(seen, reached, 1 - 0.05 / STAGES);
    count(&rule[stage], &j.effect, median, &below[0], &above[0]);
    count(&student[stage], &t, mean, &below[1], &above[1]);
  }
  rule[STAGES].below += below[0] / (double)trials(), rule[STAGES].above += above[0] / (double)trials();
  student[STAGES].below += below[1] / (double)trials(), student[STAGES].above += above[1] / (double)trials();
}

/* Of the bootstrap with bias and acceleration, at the level of one of four looks: takes minutes. */
static double bootstrap_misses(const struct family *f, gsl_rng *r, double mean, int n)
{
  enum { FEW = 2000 };
  double x[MOST_PAIRS], below = 0, above = 0;
  for (int trial = 0; trial < FEW; trial++) {
    for (int i = 0; i < n; i++) x[i] = f->draw(r).low;
    struct interval b = interval_bootstrap(x, n, 1 - 0.05 / STAGES, (uint64_t)trial);
    below += b.hi<mean, above += b.lo> mean;
  }
  return 100 * fmax(below, above) / FEW;
}

START_TEST(coverage)
{
  gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
  const double most = 100 * (LEDGER_ERROR + 3 * sqrt(LEDGER_ERROR * (1 - LEDGER_ERROR) / (double)trials()));
  int student_fails = 0;
  gsl_rng_set(r, 20261124);
  printf("one-sided misses [%%], the worse side\n%-20s  order statistics, median   Student's t, "
         "mean%s\n%-20s %6s %5s %5s "
         "%5s   %5s %5s %5s %5s %5s%s\n",
         "", is_long() ? "                  BCa, mean" : "", "pairs", "6", "12", "24", "all", "3", "6", "12",
         "24", "all", is_long() ? "      12    24" : "");
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    const struct family *f = &families[i];
    struct misses rule[STAGES + 1] = {{0}}, student[STAGES + 1] = {{0}};
    double median, mean;
    find_truth(f, r, &median, &mean);
    for (int trial = 0; trial < trials(); trial++) look_at(f, r, median, mean, rule, student);
    printf("%-20s %6.2f %5.2f %5.2f %5.2f   %5.1f %5.1f %5.1f %5.1f %5.1f", f->name, worse(rule[1]),
           worse(rule[2]), worse(rule[3]), worse(rule[STAGES]), worse(student[0]), worse(student[1]),
           worse(student[2]), worse(student[3]), worse(student[STAGES]));
    if (is_long() && !f->truth)
      printf("   %5.1f %5.1f", bootstrap_misses(f, r, mean, 12), bootstrap_misses(f, r, mean, 24));
    printf("\n");
    ck_assert_msg(worse(rule[STAGES]) <= most, "%s: %.2f %% of verdicts may be wrong", f->name,
                  worse(rule[STAGES]));
    student_fails += worse(student[STAGES]) > most;
  }
  ck_assert_int_ge(student_fails, 4); /* why the rule is not his */
  gsl_rng_free(r);
}
END_TEST

/* --- rates that are known only within an uncertainty ------------------------------------------------------- */

static void fill_losses(double loss[OPTIMUM_RATES][TUNING_SEEDS], double bend, double lowest)
{
  for (int k = 0; k < OPTIMUM_RATES; k++)
    for (int s = 0; s < TUNING_SEEDS; s++) loss[k][s] = 1 + s + bend * pow(k - 1 - lowest, 2);
}

/* Losses on a parabola have its lowest point, whatever the seeds; others the end that is lower. */
START_TEST(optimum_of_losses)
{
  double loss[OPTIMUM_RATES][TUNING_SEEDS], *at = memory_new(1 + OPTIMUM_RESAMPLES, sizeof *at);
  static const double lowest[] = {0, 0.25, -0.7, 1, -3};
  for (int i = 0; i < 5; i++) {
    fill_losses(loss, 0.5, lowest[i]);
    ck_assert(optimum_resample(*loss, TUNING_SEEDS, at));
    for (int r = 0; r <= OPTIMUM_RESAMPLES; r++)
      ck_assert_double_eq_tol(at[r], fmax(-1, fmin(1, lowest[i])), 1e-12);
  }
  fill_losses(loss, -0.5, 0.25); /* no lowest point: the end farther from the highest one */
  ck_assert(optimum_resample(*loss, TUNING_SEEDS, at) && at[0] == -1);
  fill_losses(loss, 0, 0);
  ck_assert(optimum_resample(*loss, TUNING_SEEDS, at) && at[0] == 0);
  at[0] = 7, loss[2][3] = INFINITY;
  ck_assert(!optimum_resample(*loss, TUNING_SEEDS, at) && at[0] == 7);
  memory_free(at);
}
END_TEST

/* Two seeds that disagree: resamples have both, one of them twice, or the other twice. */
START_TEST(resamples_of_the_choice)
{
  double loss[OPTIMUM_RATES][2], at[1 + OPTIMUM_RESAMPLES];
  int times[3] = {0};
  for (int k = 0; k < OPTIMUM_RATES; k++) loss[k][0] = pow(k - 1 + 0.4, 2), loss[k][1] = pow(k - 1 - 0.8, 2);
  ck_assert(optimum_resample(*loss, 2, at));
  ck_assert_double_eq_tol(at[0], 0.2, 1e-12);
  for (int r = 1; r <= OPTIMUM_RESAMPLES; r++) {
    int which = (int)lround((at[r] + 0.4) / 0.6);
    ck_assert_double_eq_tol(at[r], -0.4 + 0.6 * which, 1e-12);
    times[which]++;
  }
  ck_assert(abs(times[0] - 500) < 80 && abs(times[1] - 1000) < 100 && abs(times[2] - 500) < 80);
}
END_TEST

/* Six seeds give an interval; fewer do not, because their resamples are too narrow. */
START_TEST(interval_of_few_seeds)
{
  double loss[OPTIMUM_RATES * OPTIMUM_SEEDS], at[1 + OPTIMUM_RESAMPLES];
  for (int seeds = 3; seeds <= OPTIMUM_SEEDS; seeds++) {
    for (int k = 0; k < OPTIMUM_RATES; k++)
      for (int s = 0; s < seeds; s++) loss[k * seeds + s] = pow(k - 1 - 0.1 * s, 2);
    ck_assert(optimum_resample(loss, seeds, at));
    const struct interval i = optimum_rate(at, seeds, 0.01, 2);
    ck_assert_double_eq_tol(i.mean, 0.01 * pow(2, 0.05 * (seeds - 1)), 1e-12);
    ck_assert_int_eq(i.n, seeds);
    ck_assert(seeds < OPTIMUM_SEEDS ? isnan(i.lo) && isnan(i.hi) : i.lo < i.mean && i.mean < i.hi);
  }
}
END_TEST

/* Seeds do not settle a claim whose best rate has a lost run beside it. */
START_TEST(no_optimum_in_words)
{
  const struct claim c = {
    .id = "C", .regime = "", .equal = EQUAL_TUNED, .arm = {{.name = "A"}, {.name = "B"}}};
  struct entry x = {.claim = &c, .judgement = {VERDICT_INCONCLUSIVE, 1, {3, 0.2, -1, 1}, NAN, 40, 0}};
  char text[512];
  entry_reason(&x, text);
  ck_assert_msg(strstr(text, "no best rate with finite losses") != NULL, "%s", text);
  entry_change(&x, text);
  ck_assert_msg(strstr(text, "best rates with finite losses") == text && !strstr(text, "seeds more"), "%s",
                text);
}
END_TEST

/* A polynomial of second degree is interpolated exactly. The tail: pnorm(-sqrt(6 / 5) * qt(0.975, 5)) of R. */
START_TEST(between_the_rates)
{
  for (double at = -1; at <= 1; at += 0.125) {
    double weight[OPTIMUM_RATES], sum = 0;
    optimum_weights(at, weight);
    for (int k = 0; k < OPTIMUM_RATES; k++) sum += weight[k] * (3 - 2 * (k - 1) + 5 * (k - 1) * (k - 1));
    ck_assert_double_eq_tol(sum, 3 - 2 * at + 5 * at * at, 1e-12);
  }
  ck_assert_double_eq_tol(optimum_tail(6), 0.002432, 2e-5);
  ck_assert_double_eq_tol(optimum_tail(10000), 0.025, 1e-4);
}
END_TEST

/* Two arms whose optimum lies anywhere between the rates of the grid, as runs give them. A loss rises by 1 at a step
   from the optimum. */
static const struct choice {
  double noise, slope, spread; /* of a loss; of ln S by a step of the rate; of ln S over seeds */
} choices[] = {{0.1, 0.5, 0.3}, {0.3, 0.8, 0.1}, {0.3, 0.2, 0.3}, {1, 0.8, 0.1}};

struct trial {
  double lowest[2], loss[2][OPTIMUM_RATES][TUNING_SEEDS], ln_s[2][MOST_PAIRS][OPTIMUM_RATES];
};

static void draw_trial(const struct choice *c, gsl_rng *r, struct trial *t)
{
  enum { GRID = 5 };
  for (int a = 0; a < 2; a++) {
    double loss[GRID][TUNING_SEEDS], mean[GRID] = {0};
    int best = 1;
    t->lowest[a] = gsl_rng_uniform(r) - 0.5;
    for (int g = 0; g < GRID; g++)
      for (int s = 0; s < TUNING_SEEDS; s++)
        mean[g] += loss[g][s] = pow(g - 2 - t->lowest[a], 2) + c->noise * gsl_ran_ugaussian(r);
    for (int g = 1; g < GRID - 1; g++) best = mean[g] < mean[best] ? g : best;
    memcpy(t->loss[a], loss[best - 1], sizeof t->loss[a]);
    for (int i = 0; i < MOST_PAIRS; i++)
      for (int k = 0; k < OPTIMUM_RATES; k++)
        t->ln_s[a][i][k] = c->slope * (best + k - 3) + c->spread * gsl_ran_ugaussian(r);
  }
}

/* Effects of n pairs, a row a resample. */
static void put_effects(const struct trial *t, double (*at)[1 + OPTIMUM_RESAMPLES], int n, struct effect *x)
{
  for (int r = 0; r <= OPTIMUM_RESAMPLES; r++) {
    double w[2][OPTIMUM_RATES];
    for (int a = 0; a < 2; a++) optimum_weights(at[a][r], w[a]);
    for (int i = 0; i < n; i++) {
      double d = 0;
      for (int k = 0; k < OPTIMUM_RATES; k++) d += w[1][k] * t->ln_s[1][i][k] - w[0][k] * t->ln_s[0][i][k];
      x[r * n + i] = (struct effect){d, d};
    }
  }
}

/* Of the rule with the uncertainty of the rates in its interval, and of one that takes them for known. */
START_TEST(coverage_of_tuned_arms)
{
  const int times = (int)amount(60, 2000);
  const double most = 100 * (LEDGER_ERROR + 3 * sqrt(LEDGER_ERROR * (1 - LEDGER_ERROR) / times));
  gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
  struct effect *x = memory_new((size_t)MOST_PAIRS * (1 + OPTIMUM_RESAMPLES), sizeof *x);
  double(*at)[1 + OPTIMUM_RESAMPLES] = memory_new(2, sizeof *at);
  struct trial t;
  double worst = 0;
  gsl_rng_set(r, 20261128);
  printf(
    "tuned arms: one-sided misses over all looks [%%]\nnoise slope spread   the rule   rates as if known\n");
  for (size_t c = 0; c < sizeof choices / sizeof *choices; c++) {
    double misses[2] = {0};
    for (int trial = 0; trial < times; trial++) {
      int below[2] = {0}, above[2] = {0};
      draw_trial(&choices[c], r, &t);
      const double truth = choices[c].slope * (t.lowest[1] - t.lowest[0]);
      for (int a = 0; a < 2; a++) ck_assert(optimum_resample(*t.loss[a], TUNING_SEEDS, at[a]));
      for (int stage = 1; stage < STAGES; stage++) {
        put_effects(&t, at, stage_seeds[stage], x);
        for (int known = 0; known < 2; known++) {
          struct judgement j = judge_resampled(x, stage_seeds[stage], known ? 0 : OPTIMUM_RESAMPLES,
                                               optimum_tail(TUNING_SEEDS), PREDICT_MORE, 1, stage, 0);
          below[known] |= j.effect.hi<truth, above[known] |= j.effect.lo> truth;
        }
      }
      for (int known = 0; known < 2; known++) misses[known] += 50.0 * (below[known] + above[known]) / times;
    }
    printf("%5g %5g %6g %10.2f %10.2f\n", choices[c].noise, choices[c].slope, choices[c].spread, misses[0],
           misses[1]);
    ck_assert_msg(misses[0] <= most, "%.2f %% of verdicts may be wrong", misses[0]);
    worst = fmax(worst, misses[1]);
  }
  ck_assert_double_ge(worst, 15); /* why the interval contains the choice */
  memory_free(at);
  memory_free(x);
  gsl_rng_free(r);
}
END_TEST

/* The share of trials, of normal effects with deviation 1, that end with `verdict` by the stages. */
static double share(double mean, enum prediction what, double matters, enum verdict verdict, double *seeds)
{
  gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
  struct effect effect[24];
  double found = 0;
  gsl_rng_set(random, 20250712);
  *seeds = 0;
  for (int trial = 0; trial < trials(); trial++) {
    struct judgement j = {0};
    int n = 0, stage = 0;
    do {
      for (; n < stage_seeds[stage]; n++) effect[n].low = effect[n].high = mean + gsl_ran_ugaussian(random);
      j = judge(effect, n, what, matters, stage, stage + 1 == STAGES);
    } while (++stage < STAGES && !j.settled);
    found += j.verdict == verdict;
    *seeds += (double)n / (double)trials();
  }
  gsl_rng_free(random);
  return found / (double)trials();
}

/* Of whole verdicts: at the very edge of what matters either answer is an error. */
START_TEST(wrong_verdicts_are_rare)
{
  static const struct {
    double mean;
    enum prediction what;
    double matters;
    enum verdict wrong;
  } at[] = {{0.8, PREDICT_MORE, 0.8, VERDICT_HOLDS},      {0.8, PREDICT_MORE, 0.8, VERDICT_REFUTED},
            {-0.8, PREDICT_LESS, 0.8, VERDICT_HOLDS},     {-0.8, PREDICT_LESS, 0.8, VERDICT_REFUTED},
            {0.8, PREDICT_NOT_MORE, 0.8, VERDICT_HOLDS},  {0.8, PREDICT_NOT_MORE, 0.8, VERDICT_REFUTED},
            {-0.8, PREDICT_NOT_LESS, 0.8, VERDICT_HOLDS}, {0.8, PREDICT_SAME, 0.8, VERDICT_HOLDS},
            {-0.8, PREDICT_SAME, 0.8, VERDICT_HOLDS},     {0.8, PREDICT_SAME, 0.8, VERDICT_REFUTED},
            {0, PREDICT_MORE, 2, VERDICT_PARTLY}};
  double n;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    double found = share(at[i].mean, at[i].what, at[i].matters, at[i].wrong, &n);
    ck_assert_msg(found <= LEDGER_ERROR, "%d: %s with a chance of %g", (int)i, verdict_name(at[i].wrong),
                  found);
  }
}
END_TEST

START_TEST(power_and_stopping)
{
  double n;
  ck_assert_double_ge(share(1.5, PREDICT_MORE, 0.5, VERDICT_HOLDS, &n),
                      0.85); /* a deviation beyond what matters */
  ck_assert_double_ge(share(0, PREDICT_SAME, 1, VERDICT_HOLDS, &n), 0.85);
  ck_assert_double_ge(share(6, PREDICT_MORE, 1, VERDICT_HOLDS, &n), 0.99);
  ck_assert_double_le(n, 6.1); /* what is large is settled as soon as six pairs are there */
  ck_assert(stage_seeds[0] == 3 && stage_seeds[1] == 6 && stage_seeds[2] == 12 && stage_seeds[3] == 24);
}
END_TEST

/* --- the rows ------------------------------------------------------------------------------------------- */

static long steps_of(const struct claim *c)
{
  const char *at = c->regime ? strstr(c->regime, "train.steps = ") : NULL;
  return at ? strtol(at + strlen("train.steps = "), NULL, 10) : 0;
}

/* Every "tau is 10" of a text is a setting of the regime or of an arm. */
static void check_tau(const struct claim *c, const char *text)
{
  for (const char *at = text; at && (at = strstr(at, "tau is ")) != NULL; at++) {
    int said = 0;
    const double tau = strtod(at + strlen("tau is "), NULL);
    for (int a = -1; a < claim_arms(c); a++) {
      const char *set = a < 0 ? c->regime : c->arm[a].set, *key = set ? strstr(set, "qk_clip.tau") : NULL;
      if (key) said |= strtod(key + strcspn(key, "0123456789"), NULL) == tau;
    }
    ck_assert_msg(said, "%s: the text says tau %g, the settings do not", c->id, tau);
  }
}

START_TEST(rows_are_sound)
{
  struct error e = {0};
  int count = 0;
  for (const struct claim_row *r = claim_rows; r->claim; r++, count++) {
    const struct claim *c = r->claim;
    for (const struct claim_row *other = claim_rows; other != r; other++)
      ck_assert_msg(strcmp(other->claim->id, c->id) != 0, "%s stands twice", c->id);
    ck_assert_msg(c->source && *c->source && c->sentence && *c->sentence, "%s: source and sentence", c->id);
    ck_assert_msg(c->scale || c->regime, "%s: what is not run has a reason", c->id);
    if (!c->regime || c->withdrawn) continue;
    ck_assert_msg(c->equal != EQUAL_UNSAID, "%s: what is held equal", c->id);
    ck_assert_msg(!c->identity || c->equal != EQUAL_TUNED, "%s: an identity has no best rate", c->id);
    ck_assert_msg(!strstr(c->regime, "override.match") || c->equal == EQUAL_RMS || c->equal == EQUAL_NORM,
                  "%s: equal %s, and updates are matched", c->id, equal_name(c->equal));
    ck_assert_msg(c->equal != EQUAL_TUNED || claim_compared(c) == 2, "%s: two arms are tuned", c->id);
    ck_assert_msg(!strstr(c->regime, "seed") && !(c->start && strstr(c->start, "seed")),
                  "%s: the seeds are the rule's", c->id);
    for (int a = 0; a < claim_arms(c); a++)
      ck_assert_msg(c->start || !c->arm[a].start, "%s: an arm's first phase, and the claim has none", c->id);
    /* a run's id does not tell what was recorded, so that claims that share a run must record the same; of another
       length there is no other */
    for (const struct claim_row *other = claim_rows; other->claim; other++)
      ck_assert_msg(!strstr(c->regime, "record.") || strstr(c->regime, "record.level") || other == r ||
                      steps_of(other->claim) != steps_of(c),
                    "%s: records, and may share a run with %s", c->id, other->claim->id);
    ck_assert_msg(c->matters > (c->contrast == CONTRAST_RATIO), "%s: what matters is %g", c->id, c->matters);
    ck_assert_msg(c->contrast == CONTRAST_DIFFERENCE || claim_compared(c) == 2 || c->level > 0, "%s: level",
                  c->id);
    ck_assert_msg(c->refute && *c->refute && c->explored && *c->explored, "%s: refute and explored", c->id);
    ck_assert_msg(c->contrast != CONTRAST_SHARE || claim_compared(c) == 2, "%s: shares of two arms", c->id);
    ck_assert_msg(c->equal != EQUAL_TUNED || (c->contrast != CONTRAST_SHARE && claim_compared(c) == 2),
                  "%s: tuned arms are two, and a share has no value between two rates", c->id);
    const struct claim_row *twin = claim_rows;
    while (c->tuned && twin->claim && strcmp(twin->claim->id, c->tuned) != 0) twin++;
    ck_assert_msg(!c->tuned || (c->equal != EQUAL_TUNED && twin->claim && twin->claim->equal == EQUAL_TUNED),
                  "%s: the tuned twin %s", c->id, c->tuned);
    check_tau(c, c->sentence), check_tau(c, c->refute), check_tau(c, c->revised), check_tau(c, c->explored);
    for (int k = 0; k < CLAIM_CONTROLS && c->control[k].metric; k++) {
      struct metric m;
      ck_assert_msg(metric_read(&m, c->control[k].metric, &e) == STATUS_OK, "%s: %s", c->id, e.text);
      ck_assert_msg(c->control[k].arm < claim_compared(c), "%s: a control of an arm that is not compared",
                    c->id);
    }
    for (int a = 0; a < claim_arms(c); a++) {
      struct metric m;
      ck_assert_msg(metric_read(&m, claim_metric(c, a), &e) == STATUS_OK, "%s: %s", c->id, e.text);
      ck_assert_msg(strncmp(m.series, "attn/max", 8) != 0 || strstr(c->sentence, "batch"),
                    "%s: a maximum over training batches is not a measure; probe/max_logit is", c->id);
    }
  }
  ck_assert_int_gt(count, 0);
}
END_TEST

START_TEST(all_is_planned)
{
  struct ledger l;
  struct error e = {0};
  ck_assert_int_eq(ledger_open(&l, claim_rows, NULL, 0, &e), STATUS_OK);
  ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
  for (int i = 0; i < l.entries; i++)
    for (int a = 0; a < claim_arms(l.entry[i].claim); a++) {
      ck_assert_int_eq(l.entry[i].arm[a].runs, stage_seeds[0]);
      for (int k = 0; k < stage_seeds[0]; k++)
        ck_assert_int_eq(l.entry[i].arm[a].run[k].seed, LEDGER_SEED + k);
    }
  ledger_close(&l);
  char *const wrong[] = {"C-1"};
  ck_assert_int_eq(ledger_open(&l, claim_rows, wrong, 1, &e), STATUS_USAGE);
}
END_TEST

/* --- rates that were chosen before ---------------------------------------------------------------------------- */

static const struct known_rate {
  const char *id, *registered, *below, *best, *above;
  int arm;
  enum tuning_end end;
  double loss[OPTIMUM_RATES * TUNING_SEEDS];
} known_rates[] = {
#define NUMERICS(version)
#define RATE(id, registered, arm, below, best, above, end, ...) \
  {id, registered, below, best, above, arm, end, {__VA_ARGS__}},
#include "../experiments/rates.def"
#undef NUMERICS
#undef RATE
};
enum { KNOWN_RATES = sizeof known_rates / sizeof *known_rates };

static void is_recalled(const struct entry *x, const struct known_rate *k)
{
  const struct entry_rates *r = &x->rates;
  ck_assert_msg(r->kept, "%s is tuned, and its rates are not kept: maxlogit claims %s --rates", k->id, k->id);
  ck_assert_str_eq(r->best[k->arm], k->best);
  ck_assert_str_eq(r->beside[2 * k->arm], k->below);
  ck_assert_str_eq(r->beside[2 * k->arm + 1], k->above);
  double best = strtod(k->best, NULL);
  if (*k->below) ck_assert_double_eq_tol(strtod(k->below, NULL) * TUNING_FACTOR, best, 2e-3 * best);
  if (*k->above) ck_assert_double_eq_tol(strtod(k->above, NULL) / TUNING_FACTOR, best, 2e-3 * best);
  ck_assert_int_eq(k->end, r->end[k->arm]);
  ck_assert(!memcmp(k->loss, r->loss[k->arm], sizeof k->loss));
  for (int i = 0; i < 2 && k->end == TUNING_BRACKETED; i++) /* the best is the best */
    ck_assert_double_le(entry_grid_loss(x, k->arm, 1), entry_grid_loss(x, k->arm, 2 * i));
  ck_assert(k->end == TUNING_BRACKETED || k->end == TUNING_AT_LIMIT);
  ck_assert_int_eq(r->end[k->arm] == TUNING_AT_LIMIT, !*k->below || !*k->above);
}

static struct ledger planned(char *const *ids, int count, const char *const *assignment, int assignments)
{
  struct ledger l;
  struct error e = {0};
  ck_assert_int_eq(ledger_open(&l, claim_rows, ids, count, &e), STATUS_OK);
  l.assignment = assignment, l.assignments = assignments;
  ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
  return l;
}

/* Of every claim whose arms are tuned, as the file has them, wherever the runs lie; with other settings of none. */
START_TEST(rates_are_kept)
{
  struct error e = {0};
  int arms = 0;
  char one[16], *const tuned_one[] = {one};
  snprintf(one, sizeof one, "%s", known_rates[0].id);
  struct ledger l = planned(NULL, 0, (const char *const[]){"sweep.dir=elsewhere"}, 1);
  for (int i = 0; i < l.entries; i++) {
    const struct claim *c = l.entry[i].claim;
    int tuned = c->equal == EQUAL_TUNED && !c->withdrawn;
    arms += tuned ? claim_compared(c) : 0;
    ck_assert_msg(l.entry[i].rates.kept == tuned, "%s: kept %d; maxlogit claims %s --rates", c->id,
                  l.entry[i].rates.kept, c->id);
  }
  for (const struct known_rate *k = known_rates; k < known_rates + KNOWN_RATES; k++) {
    int i = 0;
    while (i < l.entries && strcmp(l.entry[i].claim->id, k->id) != 0) i++;
    ck_assert_msg(i < l.entries, "%s is no claim", k->id);
    ck_assert_str_eq(l.entry[i].registered, k->registered);
    is_recalled(&l.entry[i], k);
  }
  ck_assert(arms > 0 && KNOWN_RATES == arms);
  ledger_close(&l);
  l = planned(tuned_one, 1, (const char *const[]){"sweep.dir=elsewhere", "model.ffn_width=32"}, 2);
  for (int i = 0; i < l.entries; i++) ck_assert(!l.entry[i].rates.kept && !*l.entry[i].rates.best[0]);
  ledger_close(&l);
  /* a claim that was changed */
  ck_assert_int_eq(ledger_open(&l, claim_rows, tuned_one, 1, &e), STATUS_OK);
  for (int i = 0; i < l.entries; i++) l.entry[i].registered[0] ^= 1;
  ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
  for (int i = 0; i < l.entries; i++) ck_assert(!l.entry[i].rates.kept && !*l.entry[i].rates.best[0]);
  ledger_close(&l);
}
END_TEST

/* --- runs of claims: what is looked at, and what counts ------------------------------------------------------ */

#define TINY \
  "preset = adam\nmodel.layers = 1\nmodel.width = 8\nmodel.heads = 2\nmodel.context = 8\ntrain.batch = 2\n" \
  "train.steps = 8\ntrain.warmup = 0\ndevice.threads = 1\n"
#define CLAIM_OF(text, matter, ...) \
  { \
    &(const struct claim){.regime = (text), .matters = matter, __VA_ARGS__}, "0-test" \
  }
/* Most series would cost more than the steps. */
#define CLAIM(...) CLAIM_OF(TINY "record.spectra_every = 0\nrecord.observe = loss\n", __VA_ARGS__)
/* A comparison of learning rates: A has 0.01. */
#define RATES(b) .arm = {{.name = "A"}, {.name = "B", .set = "train.lr=" #b}}
static const struct claim_row made_rows[] = {
  CLAIM(0.2, .id = "level", .arm = {{.name = "A"}}, .metric = "loss", .level = 2),
  CLAIM(1.2, .id = "level-ratio", .arm = {{.name = "A"}}, .metric = "loss", .contrast = CONTRAST_RATIO,
        .level = 2, .prediction = PREDICT_SAME),
  CLAIM(0.01, .id = "difference", RATES(0.001), .metric = "loss:all:mean", .prediction = PREDICT_LESS),
  CLAIM(1.5, .id = "ratio",
        .arm = {{.name = "A"}, {.name = "B", .set = "train.lr=0.001"}, {.name = "C", .set = "optimizer=sgd"}},
        .metric = "loss", .contrast = CONTRAST_RATIO, .prediction = PREDICT_SAME),
  CLAIM(1.1, .id = "two-metrics",
        .arm = {{.name = "A", .set = "train.lr=0.02"},
                {.name = "A", .set = "train.lr=0.02", .metric = "grad_norm"}},
        .metric = "loss", .contrast = CONTRAST_RATIO, .prediction = PREDICT_NOT_LESS),
  CLAIM(0.2, .id = "longer", .arm = {{.name = "A", .set = "train.steps=12"}, {.name = "B"}},
        .metric = "loss"),
  CLAIM(0.2, .id = "first-diverges", .arm = {{.name = "A", .set = "train.lr=1e30"}, {.name = "B"}},
        .metric = "loss"),
  CLAIM(0.2, .id = "second-diverges", RATES(1e30), .metric = "loss"),
  CLAIM_OF(TINY, 0.2, .id = "once",
           .arm = {{.name = "A", .set = "train.lr=0.011"}, {.name = "B", .set = "train.lr=0.0031"}},
           .metric = "update/frobenius_norm@*w_q:0-0:mean"), /* but one update is seen */
  CLAIM(1, .id = "times", RATES(0.003), .metric = "loss:all:above=4.9"),
  CLAIM(1, .id = "not-finite", RATES(0.003), .metric = "attn/max_logit:0-0:slope"),
  CLAIM(1.5, .id = "not-above-zero", RATES(0.003), .metric = "attn/max_logit:all:min",
        .contrast = CONTRAST_RATIO),
  CLAIM(0.2, .id = "silent", RATES(0.003), .metric = "spikes"),
  CLAIM(0.2, .id = "silent-of-one-arm", RATES(1e30),
        .metric = "spikes"), /* the other has no run that counts */
  CLAIM(0.2, .id = "silent-as-said", RATES(0.003), .metric = "spikes", .prediction = PREDICT_SAME),
  CLAIM(0.001, .id = "falls", RATES(0.003), .metric = "lr", .prediction = PREDICT_LESS),
  CLAIM(0.001, .id = "rises", RATES(0.03), .metric = "lr"),
  CLAIM(0.2, .id = "idle",
        .arm = {{.name = "A"}, {.name = "B", .set = "stabilizers=qk_clip qk_clip.tau=1e6"}},
        .metric = "loss"),
  /* the comparison of "difference", asked otherwise: counted once */
  CLAIM(0.02, .id = "again", RATES(0.001), .metric = "loss:all:mean", .prediction = PREDICT_NOT_LESS),
  CLAIM(0.001, .id = "identity", RATES(0.003), .metric = "lr", .prediction = PREDICT_LESS, .identity = 1),
  CLAIM(0.2, .id = "withdrawn", RATES(0.003), .metric = "loss", .withdrawn = "it was no claim"),
  CLAIM(0.2, .id = "share-of-runs", RATES(0.003), .metric = "lr", .contrast = CONTRAST_SHARE, .level = 0.005,
        .prediction = PREDICT_LESS),
  CLAIM(0.01, .id = "uncontrolled", RATES(0.002), .metric = "loss",
        .control = {{"loss", 0, 0}, {"lr", 1, 0.002}}),
  CLAIM(0.01, .id = "controlled", RATES(0.004), .metric = "loss",
        .control = {{"loss", 0, 0}, {"lr", 1, 0.003}}),
  {0}};

static int is_used(const struct claim *c, const struct entry_run *run)
{
  const struct measured *v = &run->value;
  return v->has && isfinite(v->value) && (v->value > 0 || c->contrast != CONTRAST_RATIO);
}

/* What a README says of a claim: who counts in each arm, and who was left out. */
static void check_readme(const struct ledger *l, const char *folder)
{
  char path[64], want[256], *text;
  size_t length;
  struct error e = {0};
  ck_assert_msg(print_readmes(l, NULL, folder, &e) == STATUS_OK, "%s", e.text);
  snprintf(path, sizeof path, "%s/0-test/README.md", folder);
  ck_assert(!file_read(path, &text, &length, &e));
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    snprintf(want, sizeof want, "| %s: %s | **%s%s%s%s**: ", x->claim->id, x->claim->sentence,
             verdict_name(x->judgement.verdict), x->same_as ? " (counted as " : "",
             x->same_as ? x->same_as->id : "", x->same_as ? ")" : "");
    ck_assert_msg(strstr(text, want) != NULL, "the README lacks %s", want);
    snprintf(want, sizeof want, "<details><summary>%s</summary>\n", x->claim->id);
    char *from = strstr(text, want), *to = from ? strstr(from, "\n</details>\n") : NULL;
    ck_assert_msg(!from == !claim_compared(x->claim) && !from == !to, "%s: details", x->claim->id);
    if (!from) continue;
    *to = 0;
    snprintf(want, sizeof want, "- Left out: %d seed%s with a run that diverged, %d without a value.\n",
             x->diverged, x->diverged == 1 ? "" : "s", x->left_out);
    ck_assert_msg(!strstr(from, "- Left out: ") == !(x->diverged || x->left_out), "%s: left out",
                  x->claim->id);
    ck_assert_msg(!strstr(from, "- Left out: ") || strstr(from, want), "%s: not %s", x->claim->id, want);
    for (int a = 0; a < claim_arms(x->claim); a++) {
      const struct claim_arm *arm = &x->claim->arm[a];
      snprintf(want, sizeof want, "| %s | `%s` | %d | ", arm->name, arm->set ? arm->set : "the regime",
               x->arm[a].mean.n);
      char *row = strstr(from, want);
      ck_assert_msg(row != NULL, "%s: not %s", x->claim->id, want);
      for (int k = 0, n = 0; k < x->arm[a].runs; k++)
        n += snprintf(want + n, sizeof want - (size_t)n, " %s%s", x->arm[a].run[k].id,
                      x->arm[a].run[k].fate == SWEEP_DIVERGED ? "(diverged)" : "");
      ck_assert_msg(strstr(row, want) && strstr(row, want) < strchr(row, '\n'), "%s: not%s", x->claim->id,
                    want);
    }
    *to = '\n';
  }
  memory_free(text);
}

/* Smallest and largest mean of a series of one value a step over an arm's runs, its last step, and the ends of its
   intervals. */
static void see_curve(const struct entry_arm *arm, const char *series, int geometric, double low_high_last[5])
{
  struct run_series s[6];
  int n = 0;
  ck_assert_int_le(arm->runs, 6);
  for (int k = 0; k < arm->runs; k++) {
    struct run_file *r;
    if (arm->run[k].fate != SWEEP_FINISHED) continue;
    ck_assert(!run_open(&r, arm->run[k].path, NULL) && !run_read(r, series, &s[n++], NULL));
    run_close(r);
  }
  for (long row = 0; n && row < s[0].rows; row++) {
    double sum = 0, values[6];
    for (int k = 0; k < n; k++) sum += geometric ? log(s[k].value[row]) / n : s[k].value[row] / n;
    for (int k = 0; k < n; k++) values[k] = s[k].value[row];
    struct interval band = interval_of(values, n, geometric);
    low_high_last[3] = fmin(low_high_last[3], band.lo);
    low_high_last[4] = fmax(low_high_last[4], band.hi);
    low_high_last[0] = fmin(low_high_last[0], geometric ? exp(sum) : sum);
    low_high_last[1] = fmax(low_high_last[1], geometric ? exp(sum) : sum);
    low_high_last[2] = fmax(low_high_last[2], s[0].step[row]);
  }
  while (n) run_series_free(&s[--n]);
}

/* The axes of the curves are those of all arms, and have room for intervals, up to as far again. */
static void check_figures(const struct ledger *l, const char *folder)
{
  static const char script[] = "set print '-'\nprint has_curves == 1 ? sprintf('<svg %.12g %.12g %.12g', "
                               "curve_low, curve_high, last_step) : '<svg'\n";
  char path[64], *svg;
  struct error e = {0};
  int seen = 0, once = 0, whole = 0;
  snprintf(path, sizeof path, "%s/claim.gp", folder);
  ck_assert(!file_write(path, script, strlen(script), &e));
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    double want[5] = {INFINITY, -INFINITY, 0, INFINITY, -INFINITY}, found[3];
    ck_assert_msg(claim_figure(x, folder, "x", &svg, &e) == STATUS_OK, "%s", e.text);
    if (svg && sscanf(svg, "<svg %lf %lf %lf", &found[0], &found[1], &found[2]) == 3 &&
        !strncmp(x->claim->metric, "loss", 4)) {
      for (int a = 0; a < claim_arms(x->claim); a++)
        see_curve(&x->arm[a], "loss", x->claim->contrast == CONTRAST_RATIO, want);
      const double reach = want[1] - want[0];
      if (x->claim->contrast == CONTRAST_RATIO && isfinite(want[3])) {
        const double times = fmax(want[1] / want[0], 2);
        want[0] = fmin(want[0], fmax(want[3], want[0] / times));
        want[1] = fmax(want[1], fmin(want[4], want[1] * times));
      } else if (isfinite(want[3])) {
        whole += want[3] < want[0] && want[3] > want[0] - reach;
        want[0] = fmin(want[0], fmax(want[3], want[0] - reach));
        want[1] = fmax(want[1], fmin(want[4], want[1] + reach));
      }
      for (int k = 0; k < 3; k++)
        ck_assert_msg(fabs(found[k] - want[k]) <= 1e-6 * want[k], "%s: %g of its axis, not %g", x->claim->id,
                      found[k], want[k]);
      seen++;
    }
    if (!strcmp(x->claim->id, "once")) once = svg && !strncmp(svg, "<svg\n", 5);
    memory_free(svg);
  }
  ck_assert_int_ge(seen, 7);
  ck_assert_int_ge(whole, 1);
  ck_assert_msg(once, "of one value no figure, or one with a curve");
}

START_TEST(what_counts_in_a_claim)
{
  char folder[FOLDER_PATH], where[64];
  struct ledger l;
  struct error e = {0};
  folder_make(folder);
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  ck_assert_int_eq(ledger_open(&l, made_rows, NULL, 0, &e), STATUS_OK);
  l.stages = 2, l.jobs = 2, l.assignment = (const char *const[]){where, "sweep.together=8"},
  l.assignments = 2;
  ck_assert_msg(ledger_run(&l, &e) == STATUS_OK, "%s", e.text);
  int diverged = 0, censored = 0, not_finite = 0;
  int family = 0;
  for (int i = 0; i < l.entries; i++) {
    const struct entry *x = &l.entry[i];
    const struct claim *c = x->claim;
    int twin = !strcmp(c->id, "again") || !strcmp(c->id, "silent-as-said"),
        once = !c->identity && !c->withdrawn && !twin;
    family += once;
    ck_assert_msg(isnan(x->holm) == !once && isnan(x->fdr) == !once && !x->same_as == !twin, "%s: %g, %g",
                  c->id, x->holm, x->fdr);
    int ratio = c->contrast == CONTRAST_RATIO, n = 0, lost = 0, out = 0;
    struct effect effect[6];
    int seeds = c->identity ? 3 : 6; /* an identity is settled by the first stage */
    for (int s = 0; s < seeds && !c->withdrawn; s++) {
      const struct entry_run *a = &x->arm[0].run[s], *b = claim_compared(c) == 2 ? &x->arm[1].run[s] : NULL;
      ck_assert_int_eq(a->seed, LEDGER_SEED + s);
      if (a->fate == SWEEP_DIVERGED || (b && b->fate == SWEEP_DIVERGED)) {
        lost++;
        continue;
      }
      ck_assert_int_eq(a->fate, SWEEP_FINISHED);
      censored += a->value.censored, not_finite += !isfinite(a->value.value);
      if (!is_used(c, a) || (b && !is_used(c, b))) {
        out++;
        continue;
      }
      double from = b ? a->value.value : c->level, to = b ? b->value.value : a->value.value;
      if (c->contrast == CONTRAST_SHARE) from = from > c->level, to = to > c->level;
      effect[n].low = effect[n].high = ratio ? log(to) - log(from) : to - from;
      if (b && a->value.censored) effect[n].low = -INFINITY;
      if ((b ? b : a)->value.censored) effect[n].high = INFINITY;
      n++;
    }
    for (int k = 0; k < claim_arms(c); k++) {
      double value[6];
      int count = 0;
      for (int s = 0; s < x->arm[k].runs; s++) {
        const struct entry_run *run = &x->arm[k].run[s];
        if (run->fate == SWEEP_FINISHED && is_used(c, run) && !run->value.censored)
          value[count++] = run->value.value;
      }
      double middle = median_of(value, count).middle;
      ck_assert_int_eq(x->arm[k].mean.n, count);
      ck_assert_msg(!count || x->arm[k].mean.mean == middle, "%s: the median of arm %d", c->id, k);
    }
    ck_assert_msg(x->diverged == lost && x->left_out == out, "%s: %d diverged, %d left out; here %d, %d",
                  c->id, x->diverged, x->left_out, lost, out);
    diverged += lost;
    double matters = ratio ? log(c->matters) : c->matters;
    struct judgement want = c->identity ? judge_identity(effect, n, c->prediction, matters)
                            : c->contrast == CONTRAST_SHARE
                              ? judge_shares(effect, n, c->prediction, matters, 1, 1)
                              : judge(effect, n, c->prediction, matters, 1, 1);
    const struct judgement *j = &x->judgement;
    if (c->withdrawn) {
      ck_assert(j->verdict == VERDICT_WITHDRAWN && !x->arm->runs);
      continue;
    }
    int idle = !strcmp(c->id, "idle"), silent = !strcmp(c->id, "silent");
    ck_assert_msg(x->idle == idle && x->silent == silent, "%s: idle %d, silent %d", c->id, x->idle,
                  x->silent);
    const int unmet = !strcmp(c->id, "uncontrolled") ? 2 : 0; /* its second control; "controlled" has both */
    ck_assert_msg(x->uncontrolled == unmet, "%s: control %d is unmet, not %d", c->id, x->uncontrolled, unmet);
    if (idle || silent || unmet) want.verdict = VERDICT_NOTHING, want.p = NAN;
    ck_assert_msg(j->verdict == want.verdict && j->settled && j->effect.n == n, "%s: %s of %d, not %s of %d",
                  c->id, verdict_name(j->verdict), j->effect.n, verdict_name(want.verdict), n);
    ck_assert_msg(!n || j->effect.mean == want.effect.mean, "%s: %g, not %g", c->id, j->effect.mean,
                  want.effect.mean);
    ck_assert_msg(j->p == want.p || (isnan(j->p) && isnan(want.p)), "%s: p %g, not %g", c->id, j->p, want.p);
    struct interval told = entry_effect(x);
    ck_assert_msg(!n || told.mean == (ratio ? exp(want.effect.mean) : want.effect.mean), "%s as told", c->id);
  }
  ck_assert_int_eq(l.family, family);
  ck_assert_msg(diverged == 18 && censored > 0 && not_finite > 0,
                "%d diverged, %d times were not reached, %d not finite", diverged, censored, not_finite);
  check_readme(&l, folder);
  if (!system("gnuplot --version >/dev/null 2>&1")) check_figures(&l, folder);
  l.entry[0].arm->run[1].fate = SWEEP_FAILED; /* which is no divergence */
  check_readme(&l, folder);
  /* each run's time is told once, whichever claims share it */
  double sum = 0, each = 0;
  for (int i = 0; i < l.entries; i++) {
    sum += entry_seconds(&l, i);
    for (int a = 0; a < claim_arms(l.entry[i].claim); a++)
      for (int s = 0; s < l.entry[i].arm[a].runs; s++) {
        int first = 1;
        for (int m = 0; m <= i; m++)
          for (int b = 0; b < (m < i ? claim_arms(l.entry[m].claim) : a); b++)
            first &= l.entry[m].arm[b].runs <= s ||
                     strcmp(l.entry[m].arm[b].run[s].id, l.entry[i].arm[a].run[s].id) != 0;
        if (first) each += l.entry[i].arm[a].run[s].seconds;
      }
  }
  ck_assert_double_gt(each, 0);
  ck_assert_double_eq_tol(sum, each, 1e-9);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

/* --- tuned arms ----------------------------------------------------------------------------------------- */

#define TUNED .equal = EQUAL_TUNED, .arm = {{.name = "A"}, {.name = "B", .set = "adam.beta2=0.94"}}
/* The rates themselves are compared: an effect is the ratio of the optima, and its interval is their uncertainty. */
static const struct claim_row tuned_rows[] = {
  CLAIM_OF(TINY, 1.0001, .id = "open", TUNED, .metric = "lr", .contrast = CONTRAST_RATIO,
           .prediction = PREDICT_SAME),
  CLAIM_OF(TINY, 9, .id = "stands", TUNED, .metric = "lr", .contrast = CONTRAST_RATIO,
           .prediction = PREDICT_SAME),
  {0}};

static double rate_of(const struct entry_arm *arm)
{
  struct run_file *file;
  struct error e = {0};
  double rate = NAN;
  for (int i = 0; i < arm->runs; i++) {
    ck_assert_int_eq(arm->run[i].seed, LEDGER_SEED + i);
    ck_assert_msg(run_open(&file, arm->run[i].path, &e) == STATUS_OK, "%s", e.text);
    double own = strtod(run_parameter(file, "train.lr"), NULL);
    ck_assert(i == 0 || own == rate);
    rate = own;
    run_close(file);
  }
  return rate;
}

/* Of runs that choose a rate nothing but the loss is recorded, of those of a verdict all that claims may ask for. */
static void what_is_recorded(const char *folder)
{
  char pattern[FOLDER_PATH + 16];
  glob_t found;
  int seen[2] = {0, 0};
  snprintf(pattern, sizeof pattern, "%s/runs/*.h5", folder);
  ck_assert(!glob(pattern, 0, NULL, &found));
  for (size_t i = 0; i < found.gl_pathc; i++) {
    struct run_file *file;
    struct error e = {0};
    ck_assert_msg(run_open(&file, found.gl_pathv[i], &e) == STATUS_OK, "%s", e.text);
    int is_choice = strtol(run_parameter(file, "train.seed"), NULL, 10) >= TUNING_SEED;
    ck_assert_str_eq(run_parameter(file, "record.probe_every"), is_choice ? "0" : "10");
    ck_assert_str_eq(run_parameter(file, "record.spectra_every"), is_choice ? "0" : "50");
    seen[is_choice]++;
    run_close(file);
  }
  ck_assert(seen[0] && seen[1]);
  globfree(&found);
}

START_TEST(tuned_arms)
{
  char folder[FOLDER_PATH], where[64], change[512];
  struct ledger l;
  struct error e = {0};
  folder_make(folder);
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  ck_assert_int_eq(ledger_open(&l, tuned_rows, NULL, 0, &e), STATUS_OK);
  l.stages = 2, l.jobs = 2, l.assignment = (const char *const[]){where, "sweep.together=8", "train.lr=0.1"},
  l.assignments = 3;
  ck_assert_msg(ledger_run(&l, &e) == STATUS_OK, "%s", e.text);
  for (int i = 0; i < l.entries; i++) {
    const struct entry *x = &l.entry[i];
    const struct entry_rates *r = &x->rates;
    const struct interval *best = r->optimum, effect = entry_effect(x);
    for (int a = 0; a < 2; a++) {
      double at = rate_of(&x->arm[a]), curve[1 + OPTIMUM_RESAMPLES];
      ck_assert_int_eq(r->end[a], TUNING_BRACKETED);
      ck_assert_double_eq_tol(at, strtod(r->best[a], NULL), 1e-12);
      for (int n = 0; n < 2; n++) {
        double want = at * (n ? TUNING_FACTOR : 1 / TUNING_FACTOR);
        ck_assert_double_eq_tol(rate_of(&r->arm[2 * a + n]), want, 2e-3 * want);
      }
      ck_assert(optimum_resample(*r->loss[a], TUNING_SEEDS, curve));
      ck_assert_double_eq_tol(best[a].mean, at * pow(TUNING_FACTOR, *curve), 1e-12);
      ck_assert(best[a].n == TUNING_SEEDS && best[a].lo < best[a].mean && best[a].mean < best[a].hi);
    }
    ck_assert_double_eq_tol(effect.mean, best[1].mean / best[0].mean, 2e-3 * effect.mean);
    ck_assert(effect.lo > best[1].lo / best[0].hi * 0.998 && effect.hi < best[1].hi / best[0].lo * 1.002);
    ck_assert(effect.lo < effect.mean && effect.mean < effect.hi);
    ck_assert_int_eq(x->judgement.verdict, i ? VERDICT_HOLDS : VERDICT_INCONCLUSIVE);
    entry_change(x, change);
    ck_assert_msg(strstr(change, "; rates: best ") != NULL, "%s", change);
  }
  what_is_recorded(folder);
  char *text, want[96];
  size_t length;
  ck_assert_msg(print_readmes(&l, NULL, folder, &e) == STATUS_OK, "%s", e.text);
  snprintf(where, sizeof where, "%s/0-test/README.md", folder);
  ck_assert(!file_read(where, &text, &length, &e));
  snprintf(want, sizeof want, "| B | `adam.beta2=0.94`, runs at train.lr=%s | 6 | ",
           l.entry[0].rates.best[1]);
  ck_assert_msg(strstr(text, want) != NULL, "the README lacks %s", want);
  memory_free(text);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

/* A rate is passed at the second step of warm-up at the best rates, by a higher one at the first: at step 0, of which
   there is no ratio. */
#define WARM "train.warmup=8 "
static const struct claim_row warm_rows[] = {
  CLAIM(9, .id = "lost", .equal = EQUAL_TUNED,
        .arm = {{.name = "A", .set = WARM}, {.name = "B", .set = WARM "adam.eps=2e-8"}},
        .metric = "lr:all:above=0.028", .contrast = CONTRAST_RATIO, .prediction = PREDICT_SAME),
  {0}};

START_TEST(a_rate_without_values)
{
  char folder[FOLDER_PATH], where[64];
  struct ledger l;
  struct error e = {0};
  folder_make(folder);
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  ck_assert_int_eq(ledger_open(&l, warm_rows, NULL, 0, &e), STATUS_OK);
  l.stages = 2, l.jobs = 2, l.assignment = (const char *const[]){where, "sweep.together=8", "train.lr=0.1"},
  l.assignments = 3;
  ck_assert_msg(ledger_run(&l, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(l.entry->judgement.verdict, VERDICT_FEW_SEEDS);
  ck_assert_int_eq(l.entry->left_out, 6); /* every seed lacks a value above its best rate */
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

/* --- arms that start from other runs ----------------------------------------------------------------------- */

#define PHASES \
  .start = TINY, .equal = EQUAL_RATE, \
  .arm = {{.name = "A", .start = "train.lr=0.003"}, \
          {.name = "B", .set = "optimizer=sgd", .start = "train.lr=0.03"}, \
          {.name = "C", .set = "optimizer=sgd", .start = "train.lr=0.003"}}
static const struct claim_row phase_rows[] = {
  CLAIM(0.2, .id = "phases", PHASES, .metric = "val_loss:0-0:mean"),
  CLAIM(0.2, .id = "without", RATES(0.003), .metric = "loss"),
  CLAIM_OF(TINY "train.lr = 0.03\nrecord.spectra_every = 0\n", 0.2, .id = "tuned-phases", .start = TINY,
           .equal = EQUAL_TUNED, .arm = {{.name = "A"}, {.name = "B", .start = "train.lr=0.03"}},
           .metric = "lr", .prediction = PREDICT_LESS),
  {0}};

#define LOST .start = TINY "train.lr = 1e30\ntrain.on_nonfinite = fail\n"
static const struct claim_row lost_rows[] = {
  CLAIM(0.2, .id = "lost", LOST, .arm = {{.name = "A"}}, .metric = "loss"),
  CLAIM(0.2, .id = "lost-tuned", LOST, .equal = EQUAL_TUNED, .arm = {{.name = "A"}, {.name = "B"}},
        .metric = "loss"),
  CLAIM(0.2, .id = "not-lost", RATES(0.003), .metric = "loss"),
  {0}};

/* The last value of a series, or the first. */
static double end_of(const char *path, const char *series, int first)
{
  struct run_file *file;
  struct run_series s;
  struct error e = {0};
  ck_assert_msg(!run_open(&file, path, &e) && !run_read(file, series, &s, &e), "%s", e.text);
  double value = s.value[first ? 0 : s.rows - 1];
  run_series_free(&s);
  run_close(file);
  return value;
}

/* Every run begins where that of its seed in the arm's first phase ended, which has the arm's own settings; arms whose
   first phases are alike share them. */
START_TEST(two_phases)
{
  char folder[FOLDER_PATH], where[64], *path, *text;
  struct ledger l;
  struct error e = {0};
  size_t length;
  folder_make(folder);
  snprintf(where, sizeof where, "sweep.dir=%s/runs", folder);
  ck_assert_int_eq(ledger_open(&l, phase_rows, NULL, 0, &e), STATUS_OK);
  l.stages = 2, l.jobs = 2, l.assignment = (const char *const[]){where, "sweep.together=8"},
  l.assignments = 2;
  ck_assert_msg(ledger_plan(&l, 1, &e) == STATUS_OK, "%s", e.text); /* nothing to start from, and no id */
  ck_assert(l.entry[0].arm[2].runs == 6 && l.entry[0].arm[2].run[5].seed == LEDGER_SEED + 5 &&
            !*l.entry[0].arm[2].run[5].id);
  ck_assert_msg(ledger_run(&l, &e) == STATUS_OK, "%s", e.text);
  char from[3][4096] = {""};
  for (int a = 0; a < 3; a++)
    for (int k = 0; k < 6; k++) {
      const struct entry_run *run = &l.entry[0].arm[a].run[k];
      struct run_file *file;
      struct sweep s = {0};
      struct config *c = config_new();
      ck_assert_int_eq(run->fate, SWEEP_FINISHED);
      ck_assert(!run_open(&file, run->path, &e));
      snprintf(from[a], sizeof *from, "%s", run_parameter(file, "train.init_from"));
      run_close(file);
      ck_assert(!config_read(c, TINY "record.probe_every = 10\n", "test", &e));
      snprintf(where, sizeof where, "train.lr=%s", a == 1 ? "0.03" : "0.003");
      ck_assert(!config_assign(c, where, &e) && !config_set(c, "sweep.dir", from[a], "test", &e));
      snprintf(where, sizeof where, "train.seed=%ld", run->seed);
      ck_assert(!config_assign(c, where, &e) && !sweep_plan(&s, c, "test", 1, 1, &e));
      ck_assert_int_eq(s.points->fate, SWEEP_FINISHED);
      ck_assert(end_of(run->path, "val_loss", 1) == end_of(s.points->path, "val_loss", 0));
      sweep_free(&s);
      config_free(c);
    }
  ck_assert_str_eq(from[0], from[2]);
  ck_assert_str_ne(from[0], from[1]);
  ck_assert(l.entry[2].rates.end[0] == TUNING_BRACKETED && l.entry[2].judgement.effect.n == 6);
  ck_assert_msg(print_readmes(&l, NULL, folder, &e) == STATUS_OK, "%s", e.text);
  snprintf(where, sizeof where, "%s/0-test/README.md", folder);
  path = where;
  ck_assert(!file_read(path, &text, &length, &e));
  ck_assert_msg(strstr(text, "starting from") &&
                  strstr(text, "| B | `optimizer=sgd`, from `train.lr=0.03` | 6 |"),
                "%s", text);
  memory_free(text);
  ledger_close(&l);
  /* where a first phase cannot be had its claims say so, and the others are settled */
  ck_assert_int_eq(ledger_open(&l, lost_rows, NULL, 0, &e), STATUS_OK);
  snprintf(where, sizeof where, "sweep.dir=%s/lost", folder);
  l.stages = 2, l.jobs = 2, l.assignment = (const char *const[]){where, "sweep.together=8"},
  l.assignments = 2;
  ck_assert_msg(ledger_run(&l, &e) == STATUS_FAIL && !*e.text, "%s", e.text);
  ck_assert(l.entry[0].judgement.verdict == VERDICT_FEW_SEEDS && l.entry[0].judgement.settled);
  ck_assert(l.entry[1].judgement.verdict == VERDICT_INCONCLUSIVE && strstr(l.entry[1].failed, "starts from"));
  ck_assert(l.entry[2].judgement.effect.n == 6 && !*l.entry[2].failed);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

START_TEST(predictions_in_words)
{
  static const struct {
    enum prediction what;
    enum contrast contrast;
    const char *one, *two; /* of one arm against the level; of two */
  } said[] = {
    {PREDICT_MORE, CONTRAST_DIFFERENCE, "A \342\210\222 3 above 0, where 0.5 matters",
     "B \342\210\222 A above 0, where 0.5 matters"},
    {PREDICT_LESS, CONTRAST_RATIO, "A / 3 below 1, where a factor of 0.5 matters",
     "B / A below 1, where a factor of 0.5 matters"},
    {PREDICT_SAME, CONTRAST_DIFFERENCE,
     "A \342\210\222 3 within \302\261"
     "0.5",
     "B \342\210\222 A within \302\261"
     "0.5"},
    {PREDICT_SAME, CONTRAST_RATIO, "A / 3 within a factor of 0.5 of 1", "B / A within a factor of 0.5 of 1"},
    {PREDICT_NOT_MORE, CONTRAST_RATIO, "A / 3 not above 1, where a factor of 0.5 matters",
     "B / A not above 1, where a factor of 0.5 matters"},
    {PREDICT_LESS, CONTRAST_SHARE, NULL,
     "B \342\210\222 A, shares of runs above 3 below 0, where 0.5 matters"},
    {PREDICT_NOT_LESS, CONTRAST_DIFFERENCE, "A \342\210\222 3 not below 0, where 0.5 matters",
     "B \342\210\222 A not below 0, where 0.5 matters"},
  };
  char out[256];
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    struct claim c = {.regime = "",
                      .arm = {{.name = "A"}},
                      .contrast = said[i].contrast,
                      .level = 3,
                      .prediction = said[i].what,
                      .matters = 0.5};
    if (said[i].one) ck_assert_str_eq(prediction_text(&c, out, sizeof out), said[i].one);
    c.arm[1].name = "B";
    ck_assert_str_eq(prediction_text(&c, out, sizeof out), said[i].two);
  }
}
END_TEST

/* Rows of a table in FOLDER/README.md; -1 without the file. */
static int overview_rows(const char *folder)
{
  char path[64], line[1024];
  int rows = 0;
  snprintf(path, sizeof path, "%s/README.md", folder);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  while (fgets(line, sizeof line, f)) rows += !strncmp(line, "| [C-", 5);
  fclose(f);
  return rows;
}

START_TEST(all_verdicts_make_a_table)
{
  char folder[FOLDER_PATH], *const one[] = {"C-02"};
  struct ledger l;
  struct error e = {0};
  int all = 0;
  while (claim_rows[all].claim) all++;
  folder_make(folder);
  for (int ids = 1; ids >= 0; ids--) { /* of one claim there is none */
    ck_assert_int_eq(ledger_open(&l, claim_rows, one, ids, &e), STATUS_OK);
    ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
    ck_assert_msg(print_readmes(&l, NULL, folder, &e) == STATUS_OK, "%s", e.text);
    ck_assert_int_eq(overview_rows(folder), ids ? -1 : all);
    ledger_close(&l);
  }
  folder_remove(folder);
}
END_TEST

/* What a verdict at one width says of another: stands, flips where it is denied or of the other sign, open. */
START_TEST(what_stands_elsewhere)
{
  static const struct {
    enum contrast contrast;
    struct finding a, b;
    const char *want;
  } rows[] = {
    {CONTRAST_RATIO, {VERDICT_HOLDS, {12, 3, 2, 4}}, {VERDICT_HOLDS, {6, 9, 2, 20}}, "stands"},
    {CONTRAST_RATIO, {VERDICT_REFUTED, {12, .5, .4, .6}}, {VERDICT_REFUTED, {6, 1.1, 1.05, 1.2}}, "stands"},
    {CONTRAST_RATIO, {VERDICT_HOLDS, {12, 3, 2, 4}}, {VERDICT_REFUTED, {6, 1.1, 1.05, 1.2}}, "flips"},
    {CONTRAST_RATIO, {VERDICT_REFUTED, {12, 1.1, 1.05, 1.2}}, {VERDICT_HOLDS, {6, 3, 2, 4}}, "flips"},
    {CONTRAST_RATIO, {VERDICT_HOLDS, {12, 3, 2, 4}}, {VERDICT_PARTLY, {6, 3, 1.1, 9}}, "open"},
    {CONTRAST_RATIO, {VERDICT_REFUTED, {12, 1.1, 1.05, 1.2}}, {VERDICT_PARTLY, {6, 3, 1.1, 9}}, "open"},
    {CONTRAST_RATIO, {VERDICT_REFUTED, {12, .5, .4, .6}}, {VERDICT_PARTLY, {6, 3, 1.1, 9}}, "flips"},
    {CONTRAST_DIFFERENCE, {VERDICT_PARTLY, {12, .5, .4, .6}}, {VERDICT_REFUTED, {6, -1, -2, -.1}}, "flips"},
    {CONTRAST_DIFFERENCE, {VERDICT_PARTLY, {12, .5, .4, .6}}, {VERDICT_REFUTED, {6, .1, .05, .2}}, "open"},
    {CONTRAST_DIFFERENCE,
     {VERDICT_REFUTED, {12, -.5, -.6, -.4}},
     {VERDICT_PARTLY, {6, .1, .05, .2}},
     "flips"},
    {CONTRAST_RATIO, {VERDICT_INCONCLUSIVE, {12, .5, .4, .6}}, {VERDICT_HOLDS, {6, 3, 2, 4}}, "open"},
    {CONTRAST_RATIO, {VERDICT_HOLDS, {12, 3, 2, 4}}, {VERDICT_INCONCLUSIVE, {6, .5, .4, .6}}, "open"},
    {CONTRAST_RATIO, {VERDICT_INCONCLUSIVE, {12, 1, .5, 2}}, {VERDICT_INCONCLUSIVE, {6, 1, .5, 2}}, "open"},
    {CONTRAST_RATIO, {VERDICT_HOLDS, {12, 3, 2, 4}}, {VERDICT_FEW_SEEDS, {3, 3, NAN, NAN}}, "open"},
    {CONTRAST_RATIO, {VERDICT_TRUE, {3, 3, 2, 4}}, {VERDICT_TRUE, {3, 3, 2, 4}}, "stands"},
    {CONTRAST_RATIO, {VERDICT_TRUE, {3, 3, 2, 4}}, {VERDICT_BROKEN, {3, 2, 1, 4}}, "flips"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct claim c = {.contrast = rows[i].contrast};
    ck_assert_msg(!strcmp(claim_standing(&c, &rows[i].a, &rows[i].b), rows[i].want), "row %zu: %s", i,
                  claim_standing(&c, &rows[i].a, &rows[i].b));
  }
}
END_TEST

/* Claims as if they had been settled: every verdict in turn, effects on either side. */
static void pretend(struct ledger *l)
{
  static const enum verdict some[] = {VERDICT_HOLDS, VERDICT_REFUTED, VERDICT_PARTLY, VERDICT_INCONCLUSIVE};
  for (int i = 0; i < l->entries; i++) {
    struct entry *x = &l->entry[i];
    double at = (i % 2 ? -1 : 1) * (.1 + .01 * i);
    if (!claim_compared(x->claim)) continue;
    x->judgement.verdict = some[i % 4];
    x->judgement.effect = (struct interval){i + 1, at, at - .05, at + .05};
  }
}

static int close_to(double a, double b) { return fabs(a - b) <= 6e-3 * fabs(b); }

/* claims.json: what it keeps is read again, infinite edges too; a claim counts as changed after the fact where it had
   been run before it was changed. */
START_TEST(what_is_kept_is_recalled)
{
  static const char *const names[][2] = {{"", "built-in chain"},
                                         {"model.width=32", "built-in chain"},
                                         {"data.path=/texts/a.txt", "a.txt"},
                                         {"data=bytes data.path=texts/b.txt model.width=32", "b.txt"}};
  char folder[FOLDER_PATH], name[64];
  struct ledger l;
  struct other_ledger k;
  struct error e = {0};
  for (int i = 0; i < 4; i++) {
    training_text_name(names[i][0], name);
    ck_assert_str_eq(name, names[i][1]);
  }
  folder_make(folder);
  ck_assert_int_eq(ledger_open(&l, claim_rows, NULL, 0, &e), STATUS_OK);
  l.folder = memory_text(folder);
  pretend(&l);
  for (int i = 0; i < l.entries; i++) {
    struct interval *effect = &l.entry[i].judgement.effect;
    if (i % 3 == 1) effect->hi = INFINITY;
    if (i % 5 == 1) effect->lo = -INFINITY; /* of a ratio 0 */
    l.entry[i].stage = i % 2;
  }
  ck_assert_msg(ledger_save(&l, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(other_ledger_open(&k, folder, &e) == STATUS_OK, "%s", e.text);
  for (int i = 0; i < l.entries; i++) {
    struct entry *x = &l.entry[i];
    struct interval found = entry_interval(other_ledger_claim(&k, x->claim->id), "effect"),
                    was = entry_effect(x);
    if (claim_compared(x->claim) && was.n > 1)
      ck_assert_msg(found.n == was.n && (found.lo == was.lo || close_to(found.lo, was.lo)) &&
                      (found.hi == was.hi || close_to(found.hi, was.hi)),
                    "%s: %d [%g, %g], was %d [%g, %g]", x->claim->id, found.n, found.lo, found.hi, was.n,
                    was.lo, was.hi);
    snprintf(x->registered, sizeof x->registered, "another");
  }
  other_ledger_close(&k);
  ledger_recall(&l);
  for (int i = 0; i < l.entries; i++)
    ck_assert_msg(!*l.entry[i].former.registered == !l.entry[i].stage, "%s: %s", l.entry[i].claim->id,
                  l.entry[i].former.registered);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

/* The family is what could be tested: p of a single claim is corrected for all of them. */
START_TEST(one_claim_is_of_the_family)
{
  struct ledger all, one;
  struct error e = {0};
  ck_assert_int_eq(ledger_open(&all, claim_rows, NULL, 0, &e), STATUS_OK);
  for (int i = 0; i < all.entries; i++) {
    char id[32], *const ids[] = {id};
    if (!claim_is_tested(all.entry[i].claim) || all.entry[i].same_as) continue;
    snprintf(id, sizeof id, "%s", all.entry[i].claim->id);
    ck_assert_int_eq(ledger_open(&one, claim_rows, ids, 1, &e), STATUS_OK);
    ck_assert(one.entries == 1 && one.family == all.family);
    one.entry->judgement.p = 1e-4;
    judge_family(&one);
    ck_assert_double_eq_tol(one.entry->holm, fmin(1, 1e-4 * all.family), 1e-12);
    ck_assert_double_eq_tol(one.entry->fdr, fmin(1, 1e-4 * all.family), 1e-12);
    ledger_close(&one);
  }
  ck_assert_int_gt(all.family, 10);
  ledger_close(&all);
}
END_TEST

/* What a README tells of a ledger is read again to the digits that it has, and told as verdicts that stand or not. */
START_TEST(readmes_are_read_again)
{
  static const char *const here[] = {"model.width=32", "model.heads=2"}, *const there[] = {"model.width=128"};
  char folder[FOLDER_PATH], path[64], *text;
  struct ledger l;
  struct other_ledger k;
  struct error e = {0};
  size_t length;
  int rows = 0;
  folder_make(folder);
  snprintf(path, sizeof path, "%s/README.md", folder);
  ck_assert(other_ledger_open(&k, path, &e) == STATUS_USAGE); /* there is none */
  other_ledger_close(&k);
  e = (struct error){0};
  ck_assert_int_eq(ledger_open(&l, claim_rows, NULL, 0, &e), STATUS_OK);
  l.assignment = here, l.assignments = 2;
  ck_assert_msg(ledger_plan(&l, 0, &e) == STATUS_OK, "%s", e.text);
  pretend(&l);
  ck_assert_msg(print_readmes(&l, NULL, folder, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(other_ledger_open(&k, path, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(json_array_size(k.all), l.entries);
  for (int i = 0; i < l.entries; i++) {
    const struct entry *x = &l.entry[i];
    const json_t *one = other_ledger_claim(&k, x->claim->id);
    struct interval found = entry_interval(one, "effect"), was = entry_effect(x);
    ck_assert_str_eq(entry_text(one, "settings"), "model.width=32 model.heads=2");
    ck_assert_msg(!strncmp(entry_text(one, "made_by"), "maxlogit ", 9), "%s", entry_text(one, "made_by"));
    ck_assert_str_eq(entry_text(one, "verdict"), verdict_name(x->judgement.verdict));
    if (!claim_compared(x->claim)) continue;
    rows += !x->claim->scale;
    ck_assert_str_eq(entry_text(one, "registered"), x->registered);
    ck_assert_msg(found.n == was.n && close_to(found.mean, was.mean) && close_to(found.lo, was.lo) &&
                    close_to(found.hi, was.hi),
                  "%s: %d %g [%g, %g]", x->claim->id, found.n, found.mean, found.lo, found.hi);
  }

  /* elsewhere the first is the other answer, the second was registered otherwise; the table has its place, twice */
  l.assignment = there, l.assignments = 1;
  l.entry[0].judgement.verdict = VERDICT_REFUTED;
  snprintf(l.entry[1].registered, sizeof l.entry[1].registered, "another");
  for (int again = 0; again < 2; again++)
    ck_assert_msg(replication_print(&l, &k, folder, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(overview_rows(folder), l.entries + rows);
  other_ledger_close(&k); /* what stands elsewhere is not of the ledger */
  ck_assert_msg(other_ledger_open(&k, path, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(json_array_size(k.all), l.entries);
  ck_assert(!file_read(path, &text, &length, &e));
  const char *block = strstr(text, "<!-- claims with model.width=128: ");
  ck_assert(block && block > strstr(text, "<!-- end of claims -->"));
  ck_assert(strstr(block, "## With `model.width=128`") &&
            strstr(block, "<!-- end of claims with model.width=128 -->"));
  static const char *const want[] = {
    " | holds | 1.11 [1.05, 1.16] | 1 | refuted here | 1.11 [1.05, 1.16] | 1 | flips |\n",
    "] | 2 | registered otherwise |\n", " stands |\n", " open |\n", " flip: 1, "};
  for (int i = 0; i < 5; i++)
    ck_assert_msg(strstr(block, want[i]) != NULL, "no %s in %.4000s", want[i], block);
  memory_free(text);
  other_ledger_close(&k);
  ledger_close(&l);
  folder_remove(folder);
}
END_TEST

/* What a figure's script is given of its axis: another arm's interval, and of an arm of one run, which has none, the
   value alone; of those beside them only one that is measured as the first. */
START_TEST(axis_of_one_run)
{
  static const struct claim c = {.id = "C-0",
                                 .regime = "",
                                 .arm = {{.name = "three", .metric = "loss"},
                                         {.name = "one", .metric = "val_loss"},
                                         {.name = "beside", .metric = "loss"},
                                         {.name = "beside, by another measure", .metric = "val_loss"}},
                                 .metric = "loss",
                                 .contrast = CONTRAST_RATIO,
                                 .matters = 2};
  struct entry_run three[3] = {{0}}, one = {.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 1000}},
                   two = one, last = {.fate = SWEEP_FINISHED, .value = {.has = 1, .value = 1e6}};
  const double known[3] = {1, 1.01, 1.02};
  for (int i = 0; i < 3; i++)
    three[i] = (struct entry_run){.fate = SWEEP_FINISHED, .value = {.has = 1, .value = known[i]}};
  struct entry x = {.claim = &c,
                    .arm = {{.run = three, .runs = 3, .mean = interval_of(known, 3, 1)},
                            {.run = &one, .runs = 1, .mean = interval_of(&one.value.value, 1, 1)},
                            {.run = &two, .runs = 1, .mean = interval_of(&two.value.value, 1, 1)},
                            {.run = &last, .runs = 1, .mean = interval_of(&last.value.value, 1, 1)}}};
  static const char script[] =
    "set print '-'\nprint sprintf('<svg %.6g %.6g, %d arms', value_low, value_high, groups)\n";
  char folder[FOLDER_PATH], path[64], want[64], *svg;
  struct error e = {0};
  folder_make(folder);
  snprintf(path, sizeof path, "%s/claim.gp", folder);
  ck_assert(!file_write(path, script, strlen(script), &e));
  ck_assert_msg(claim_figure(&x, folder, "x", &svg, &e) == STATUS_OK, "%s", e.text);
  snprintf(want, sizeof want, "<svg %.6g 1000, 3 arms", x.arm[0].mean.lo);
  ck_assert_msg(!strncmp(svg, want, strlen(want)), "%s, not %s", svg, want);
  memory_free(svg);
  folder_remove(folder);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("ledger");
  TCase *c = tcase_create("ledger");
  tcase_set_timeout(c, (double)amount(240, 3600));
  tcase_add_test(c, every_verdict);
  tcase_add_test(c, every_judgement);
  tcase_add_test(c, what_settles_nothing);
  tcase_add_test(c, identities);
  tcase_add_test(c, verdicts_of_shares);
  tcase_add_test(c, errors_of_shares);
  tcase_add_test(c, p_of_shares);
  tcase_add_test(c, errors_by_counting);
  tcase_add_test(c, coverage);
  tcase_add_test(c, optimum_of_losses);
  tcase_add_test(c, resamples_of_the_choice);
  tcase_add_test(c, interval_of_few_seeds);
  tcase_add_test(c, no_optimum_in_words);
  tcase_add_test(c, between_the_rates);
  tcase_add_test(c, coverage_of_tuned_arms);
  tcase_add_test(c, wrong_verdicts_are_rare);
  tcase_add_test(c, power_and_stopping);
  tcase_add_test(c, rows_are_sound);
  tcase_add_test(c, all_is_planned);
  tcase_add_test(c, rates_are_kept);
  tcase_add_test(c, what_counts_in_a_claim);
  tcase_add_test(c, tuned_arms);
  tcase_add_test(c, a_rate_without_values);
  tcase_add_test(c, two_phases);
  tcase_add_test(c, predictions_in_words);
  tcase_add_test(c, all_verdicts_make_a_table);
  if (!system("gnuplot --version >/dev/null 2>&1")) tcase_add_test(c, axis_of_one_run);
  suite_add_tcase(s, c);
  c = tcase_create("replicas");
  tcase_set_timeout(c, 240);
  tcase_add_test(c, what_stands_elsewhere);
  tcase_add_test(c, readmes_are_read_again);
  tcase_add_test(c, what_is_kept_is_recalled);
  tcase_add_test(c, one_claim_is_of_the_family);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
