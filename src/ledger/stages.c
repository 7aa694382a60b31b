#include "ledger/stages.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

#include "base/memory.h"

const int stage_seeds[STAGES] = {3, 6, 12, 24};
static const int misses[STAGES] = {-1, 0, 1, 6}; /* pairs that may lie on the other side */
enum { LOOKS = STAGES - 1 };                     /* looks with an interval */

double stage_error(int stage) { return sign_tail(stage_seeds[stage], misses[stage]); }

const char *verdict_name(enum verdict v)
{
  static const char *const names[] = {[VERDICT_HOLDS] = "holds",
                                      [VERDICT_REFUTED] = "refuted here",
                                      [VERDICT_PARTLY] = "partly",
                                      [VERDICT_DIFFERS] = "differs, size open",
                                      [VERDICT_INCONCLUSIVE] = "inconclusive",
                                      [VERDICT_FEW_SEEDS] = "few seeds",
                                      [VERDICT_NOTHING] = "nothing to test",
                                      [VERDICT_NEEDS_SCALE] = "needs scale",
                                      [VERDICT_TRUE] = "true by construction",
                                      [VERDICT_BROKEN] = "broken",
                                      [VERDICT_WITHDRAWN] = "withdrawn",
                                      [VERDICT_OPEN] = "open"};
  return names[v];
}

/* --- the median and its interval ------------------------------------------------------------------------ */

struct sample {       /* effects, with the sign of the prediction made positive */
  double *low, *high; /* [rows][n], each row sorted */
  int n, rows, rank;  /* rank of the interval's edges, from 1; 0: there is none */
  double tail;        /* of the rows after the first */
  int shares, more,
    fewer; /* the effect is a difference of shares; pairs with an effect above zero, below it */
};

static struct sample sample_of(const struct effect *x, int n, int rows, int turned)
{
  struct sample s = {
    .low = memory_new(2 * (size_t)rows * (size_t)n + 1, sizeof *s.low), .n = n, .rows = rows};
  s.high = s.low + rows * n;
  for (int i = 0; i < rows * n; i++) {
    s.low[i] = turned ? -x[i].high : x[i].low;
    s.high[i] = turned ? -x[i].low : x[i].high;
  }
  for (int r = 0; r < rows; r++) {
    gsl_sort(s.low + r * n, 1, (size_t)n);
    gsl_sort(s.high + r * n, 1, (size_t)n);
  }
  return s;
}

/* The value of `row` that only the share `tail` of the rows after the first exceeds; of a single row its own. */
static double upper_of(const struct sample *s, double (*row)(const struct sample *, int, double), double x)
{
  int first = s->rows > 1, count = s->rows - first;
  double *value = memory_new((size_t)count, sizeof *value);
  for (int r = 0; r < count; r++) value[r] = row(s, first + r, x);
  gsl_sort(value, 1, (size_t)count);
  double upper = value[count - 1 - (int)(s->tail * count)];
  memory_free(value);
  return upper;
}

/* The mean of the medians of the lower and upper bounds of the effects. */
static double middle_of(const struct sample *s)
{
  if (!s->n) return NAN;
  double low = gsl_stats_median_from_sorted_data(s->low, 1, (size_t)s->n),
         high = gsl_stats_median_from_sorted_data(s->high, 1, (size_t)s->n);
  return isinf(low) ? high : isinf(high) ? low : (low + high) / 2;
}

static double turned_low(const struct sample *s, int row, double rank)
{
  return -s->low[row * s->n + (int)rank - 1];
}

static double high_at(const struct sample *s, int row, double rank)
{
  return s->high[row * s->n + s->n - (int)rank];
}

static struct interval interval_between(const struct sample *s, int rank)
{
  struct interval i = {s->n, middle_of(s), NAN, NAN};
  if (rank) i.lo = -upper_of(s, turned_low, rank), i.hi = upper_of(s, high_at, rank);
  return i;
}

static double not_above(const struct sample *s, int row, double bound)
{
  int n = 0;
  while (n < s->n && s->low[row * s->n + n] <= bound) n++;
  return n;
}

static double not_below(const struct sample *s, int row, double bound)
{
  int n = 0;
  while (n < s->n && s->high[row * s->n + s->n - 1 - n] >= bound) n++;
  return n;
}

/* --- differences of shares ------------------------------------------------------------------------------ */

/* A lower confidence limit, at this error, of the share of pairs with more minus the share of pairs with fewer. */
static double share_limit(int more, int fewer, int n, double error)
{
  double low = more ? gsl_cdf_beta_Pinv(error / 2, more, n - more + 1) : 0,
         high = fewer < n ? gsl_cdf_beta_Pinv(1 - error / 2, fewer + 1, n - fewer) : 1;
  return low - high;
}

/* The smallest error at which the limit is above a bound. */
static double share_error(int more, int fewer, int n, double bound)
{
  double low = 1e-12, high = 1;
  if (share_limit(more, fewer, n, high) <= bound) return 1;
  while (high / low > 1 + 1e-9) {
    double middle = sqrt(low * high);
    if (share_limit(more, fewer, n, middle) > bound)
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* --- verdicts ------------------------------------------------------------------------------------------- */

static int max_int(int a, int b) { return a > b ? a : b; }

/* A verdict based on effects above one bound and below another; NAN: no such bound. */
static void settle(struct judgement *j, const struct sample *s, enum verdict verdict, double above,
                   double below, int settled)
{
  j->verdict = verdict;
  j->settled = settled;
  if (s->shares) {
    double error = isnan(above) ? 0 : share_error(s->more, s->fewer, s->n, above);
    if (!isnan(below)) error = fmax(error, share_error(s->fewer, s->more, s->n, -below));
    j->p = fmin(1, LOOKS * 2 * error);
  } else {
    int wrong = max_int(isnan(above) ? 0 : (int)upper_of(s, not_above, above),
                        isnan(below) ? 0 : (int)upper_of(s, not_below, below));
    j->p = fmin(1, LOOKS * 2 * sign_tail(s->n, wrong));
    j->spare = s->rank - 1 - wrong;
  }
}

/* Estimate the pairs after which the interval excludes a value at this distance from its middle. The width shrinks with
   the square root of the number of pairs. */
static void want(struct judgement *j, double away)
{
  double half = (j->effect.hi - j->effect.lo) / 2;
  if (away > 0 && isfinite(half)) j->pairs = ceil(j->effect.n * pow(half / away, 2));
}

static void judge_more(struct judgement *j, const struct sample *s, double matters)
{
  const struct interval *e = &j->effect;
  double short_of = fabs(e->mean - matters);
  if (e->lo > matters) {
    settle(j, s, VERDICT_HOLDS, matters, NAN, 1);
  } else if (e->hi < matters) {
    settle(j, s, VERDICT_REFUTED, NAN, matters, 1);
  } else if (e->lo > 0) {
    settle(j, s, VERDICT_PARTLY, 0, NAN, 0);
    want(j, short_of);
  } else
    want(j, fmax(short_of, e->mean)); /* the farther of the two values is excluded first */
}

/* "Not more" denies "more", so holds and refuted are swapped. */
static void judge_not_more(struct judgement *j, const struct sample *s, double matters)
{
  static const enum verdict denied[VERDICTS] = {[VERDICT_HOLDS] = VERDICT_REFUTED,
                                                [VERDICT_REFUTED] = VERDICT_HOLDS,
                                                [VERDICT_PARTLY] = VERDICT_DIFFERS,
                                                [VERDICT_INCONCLUSIVE] = VERDICT_INCONCLUSIVE};
  judge_more(j, s, matters);
  j->verdict = denied[j->verdict];
}

static void judge_same(struct judgement *j, const struct sample *s, double matters)
{
  const struct interval *e = &j->effect;
  double away = fabs(fabs(e->mean) - matters);
  if (e->lo > -matters && e->hi < matters) {
    settle(j, s, VERDICT_HOLDS, -matters, matters, 1);
  } else if (e->lo > matters || e->hi < -matters) {
    settle(j, s, VERDICT_REFUTED, e->lo > 0 ? matters : NAN, e->lo > 0 ? NAN : -matters, 1);
  } else if (e->lo > 0 || e->hi < 0) {
    settle(j, s, VERDICT_DIFFERS, e->lo > 0 ? 0 : NAN, e->lo > 0 ? NAN : 0, 0);
    want(j, away);
  } else
    want(j, fmax(away, fabs(e->mean)));
}

static int has_nan(const struct effect *x, int n)
{
  for (int i = 0; i < n; i++)
    if (isnan(x[i].low) || isnan(x[i].high)) return 1;
  return 0;
}

static int is_turned(enum prediction p) { return p == PREDICT_LESS || p == PREDICT_NOT_LESS; }

static void turn(struct interval *e) { *e = (struct interval){e->n, -e->mean, -e->hi, -e->lo}; }

/* Judge by the interval in `j`. */
static void judge_interval(struct judgement *j, const struct sample *s, enum prediction prediction,
                           double matters)
{
  j->verdict = VERDICT_INCONCLUSIVE;
  if (prediction == PREDICT_SAME)
    judge_same(j, s, matters);
  else if (prediction == PREDICT_MORE || prediction == PREDICT_LESS)
    judge_more(j, s, matters);
  else
    judge_not_more(j, s, matters);
}

struct judgement judge(const struct effect *x, int n, enum prediction prediction, double matters, int stage,
                       int last)
{
  return judge_resampled(x, n, 0, 0, prediction, matters, stage, last);
}

struct judgement judge_resampled(const struct effect *x, int n, int resamples, double tail,
                                 enum prediction prediction, double matters, int stage, int last)
{
  struct judgement j = {VERDICT_FEW_SEEDS, last, {n, NAN, NAN, NAN}, NAN, NAN, 0};
  if (n < 1 || has_nan(x, (1 + resamples) * n)) return j;
  struct sample s = sample_of(x, n, 1 + resamples, is_turned(prediction));
  s.tail = tail;
  s.rank = sign_rank_of(n, stage_error(stage));
  j.effect = interval_between(&s, s.rank);
  if (s.rank) judge_interval(&j, &s, prediction, matters);
  if (is_turned(prediction)) turn(&j.effect);
  memory_free(s.low);
  j.settled |= last;
  return j;
}

struct judgement judge_shares(const struct effect *x, int n, enum prediction prediction, double matters,
                              int stage, int last)
{
  struct judgement j = {VERDICT_FEW_SEEDS, last, {n, NAN, NAN, NAN}, NAN, NAN, 0};
  struct sample s = {.n = n, .shares = 1};
  if (n < 1 || has_nan(x, n)) return j;
  for (int i = 0; i < n; i++) s.more += x[i].low > 0, s.fewer += x[i].low < 0;
  if (is_turned(prediction)) s = (struct sample){.n = n, .shares = 1, .more = s.fewer, .fewer = s.more};
  j.effect.mean = (double)(s.more - s.fewer) / n;
  if (n >= stage_seeds[1] && stage > 0) {
    j.effect.lo = share_limit(s.more, s.fewer, n, stage_error(stage));
    j.effect.hi = -share_limit(s.fewer, s.more, n, stage_error(stage));
    judge_interval(&j, &s, prediction, matters);
  }
  if (is_turned(prediction)) turn(&j.effect);
  j.settled |= last;
  return j;
}

struct judgement judge_identity(const struct effect *x, int n, enum prediction prediction, double matters)
{
  struct judgement j = {VERDICT_FEW_SEEDS, 1, {n, NAN, NAN, NAN}, NAN, NAN, 0};
  if (n < 1) return j;
  struct sample s = sample_of(x, n, 1, is_turned(prediction));
  j.effect = interval_between(&s, 1);
  int above = j.effect.lo > matters, below = j.effect.hi < matters;
  int is_so = prediction == PREDICT_SAME                                 ? below && j.effect.lo > -matters
              : prediction == PREDICT_MORE || prediction == PREDICT_LESS ? above
                                                                         : below;
  j.verdict = is_so && !has_nan(x, n) ? VERDICT_TRUE : VERDICT_BROKEN;
  if (is_turned(prediction)) turn(&j.effect);
  memory_free(s.low);
  return j;
}
