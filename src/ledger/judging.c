#include "ledger/judging.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Copy the fates of the sweep's points to the arms' runs. */
static void hear_fates(struct entry *x, const struct sweep *s)
{
  for (int a = 0; a < ALL_ARMS; a++)
    for (int i = 0; i < arm_of(x, a)->runs; i++) {
      struct entry_run *run = &arm_of(x, a)->run[i];
      for (long k = 0; k < s->count; k++) {
        const struct sweep_point *p = &s->points[k];
        if (strcmp(p->id, run->id) != 0) continue;
        run->fate = p->fate;
        if (p->fate == SWEEP_FAILED && !*x->failed)
          snprintf(x->failed, sizeof x->failed, "%s: %.200s", p->id, p->reason);
        break;
      }
    }
}

static int is_done(const struct entry_run *run)
{
  return run->fate == SWEEP_FINISHED || run->fate == SWEEP_DIVERGED;
}

static int read_arm(const struct claim *claim, int a, struct entry_arm *arm, struct error *error)
{
  struct metric m, loss, control[CLAIM_CONTROLS];
  struct measured last;
  int status = metric_read(&m, claim_metric(claim, a), error), some = 0;
  if (!status) status = metric_read(&loss, "loss:last", error);
  for (int k = 0; k < CLAIM_CONTROLS && claim->control[k].metric && !status; k++)
    status = metric_read(&control[k], claim->control[k].metric, error);
  for (int i = 0; i < arm->runs && !status; i++) {
    struct entry_run *run = &arm->run[i];
    struct run opened = {.path = run->path};
    if (!is_done(run)) continue;
    status = run_open(&opened.file, run->path, error);
    if (status) continue;
    status = metric_of(&m, &opened, &run->value, error);
    if (!status) status = metric_of(&loss, &opened, &last, error);
    run->last_loss = last.value;
    for (int k = 0; k < CLAIM_CONTROLS; k++) run->control[k] = NAN;
    for (int k = 0; k < CLAIM_CONTROLS && claim->control[k].metric && !status; k++)
      if (claim->control[k].arm == a) {
        status = metric_of(&control[k], &opened, &last, error);
        if (last.has) run->control[k] = last.value;
      }
    if (!status) run->blew_up = run_blew_up(opened.file);
    run->seconds = run_wall_seconds(opened.file);
    some |= run->value.has || run->fate == SWEEP_DIVERGED;
    run_close(opened.file);
  }
  if (!status && arm->runs && is_done(arm->run) && !some)
    status = error_set(error, STATUS_USAGE, "metric %s: no run has a value", m.name);
  snprintf(arm->unit, sizeof arm->unit, "%s", m.unit);
  return status;
}

static int counts(const struct entry_run *run, enum contrast contrast)
{
  const struct measured *v = &run->value;
  return run->fate == SWEEP_FINISHED && v->has && isfinite(v->value) &&
         (contrast != CONTRAST_RATIO || v->value > 0);
}

/* The range of a run's value, of a ratio its logarithm. A time that was not reached is at least the last step. For a
   share, a run counts 0 or 1. */
static struct effect range_of(const struct entry_run *run, const struct claim *c)
{
  struct effect e = {run->value.value, run->value.censored ? INFINITY : run->value.value};
  if (c->contrast == CONTRAST_SHARE) e.low = e.high = run->value.value > c->level;
  if (c->contrast == CONTRAST_RATIO) e.low = log(e.low), e.high = log(e.high);
  return e;
}

static int is_fitted(const struct entry *x, int a) { return a < 2 && x->rates.optimum[a].n > 0; }

/* Run i of compared arm a at rate k: 0 below the best rate, 1 at it, 2 above it. */
static const struct entry_run *run_at(const struct entry *x, int a, int i, int k)
{
  return k == 1 ? &x->arm[a].run[i] : &x->rates.arm[2 * a + k / 2].run[i];
}

/* The range of seed i's value at a point between the three rates. */
static struct effect range_at(const struct entry *x, int a, int i, double at)
{
  double weight[OPTIMUM_RATES];
  struct effect sum = {0, 0};
  if (!is_fitted(x, a)) return range_of(&x->arm[a].run[i], x->claim);
  optimum_weights(at, weight);
  for (int k = 0; k < OPTIMUM_RATES; k++) {
    struct effect e = range_of(run_at(x, a, i, k), x->claim);
    if (weight[k] != 0) {
      sum.low += weight[k] * (weight[k] > 0 ? e.low : e.high);
      sum.high += weight[k] * (weight[k] > 0 ? e.high : e.low);
    }
  }
  return sum;
}

struct left {                  /* seeds that are left out or flagged */
  int diverged, out, blown_up; /* blown_up: these seeds count */
};

/* Does seed i count? All runs of the compared arms that are needed must have a value. */
static int seed_counts(const struct entry *x, int i, struct left *left)
{
  int diverged = 0, out = 0, blown_up = 0;
  for (int a = 0; a < claim_compared(x->claim); a++)
    for (int k = is_fitted(x, a) ? 0 : 1; k <= (is_fitted(x, a) ? 2 : 1); k++) {
      const struct entry_run *run = run_at(x, a, i, k);
      diverged |= run->fate == SWEEP_DIVERGED;
      out |= !counts(run, x->claim->contrast);
      blown_up |= run->blew_up;
    }
  left->diverged += diverged;
  left->out += out && !diverged;
  left->blown_up += blown_up && !out && !diverged;
  return !out && !diverged;
}

/* The effect of seed i with the rates at these points. */
static struct effect effect_at(const struct entry *x, int i, const double at[2])
{
  const struct claim *c = x->claim;
  int ratio = c->contrast == CONTRAST_RATIO;
  struct effect level = {ratio ? log(c->level) : c->level, ratio ? log(c->level) : c->level};
  struct effect a = claim_compared(c) > 1 ? range_at(x, 0, i, at[0]) : level,
                b = claim_compared(c) > 1 ? range_at(x, 1, i, at[1]) : range_at(x, 0, i, at[0]);
  return (struct effect){b.low - a.high, b.high - a.low};
}

/* Two arms with bitwise equal final losses are the same training: a clip that never acted, an option that is not used.
   Such a pair cannot test the claim. */
static int is_idle(const struct entry *x)
{
  int same = 0;
  for (int i = 0; claim_compared(x->claim) > 1 && i < x->arm->runs; i++) {
    const struct entry_run *a = &x->arm[0].run[i], *b = &x->arm[1].run[i];
    if (!is_done(a) || !is_done(b) || a->last_loss != b->last_loss) return 0;
    if (!strcmp(a->id, b->id)) return 0; /* one run in both arms */
    same++;
  }
  return same > 0;
}

/* Does every run of both arms have the same value, for example no spikes with and without the cure? The interval is
   then a point without meaning, unless the claim predicts no difference. */
static int is_silent(const struct entry *x)
{
  const struct claim *c = x->claim;
  int seen[2] = {0, 0};
  double value = NAN;
  for (int a = 0; claim_compared(c) > 1 && c->prediction != PREDICT_SAME && a < 2; a++)
    for (int i = 0; i < x->arm[a].runs; i++) {
      const struct entry_run *run = &x->arm[a].run[i];
      if (!counts(run, c->contrast)) continue;
      if (!isnan(value) && run->value.value != value) return 0;
      value = run->value.value;
      seen[a]++;
    }
  return seen[0] && seen[1];
}

/* The first control that is not met, counted from 1. If no run has a value, the control is not met. */
static int find_unmet_control(struct entry *x)
{
  const struct claim *c = x->claim;
  int unmet = 0;
  for (int k = 0; k < CLAIM_CONTROLS && c->control[k].metric && !unmet; k++) {
    const struct entry_arm *arm = &x->arm[c->control[k].arm];
    double *value = memory_new((size_t)arm->runs + 1, sizeof *value);
    int n = 0;
    for (int i = 0; i < arm->runs; i++)
      if (is_done(&arm->run[i]) && !isnan(arm->run[i].control[k])) value[n++] = arm->run[i].control[k];
    x->control = n ? median_of(value, n).middle : NAN;
    if (!(x->control > c->control[k].above)) unmet = k + 1;
    memory_free(value);
  }
  return unmet;
}

/* The median of each arm, of a tuned one at its optimum. */
static void summarise(struct entry *x, const double at[2])
{
  for (int a = 0; a < claim_arms(x->claim); a++) {
    struct entry_arm *arm = &x->arm[a];
    double *value = memory_new((size_t)arm->runs + 1, sizeof *value);
    int n = 0;
    for (int i = 0; i < arm->runs; i++) {
      int known = counts(&arm->run[i], x->claim->contrast) && !arm->run[i].value.censored;
      for (int k = 0; is_fitted(x, a) && k < OPTIMUM_RATES; k += 2)
        known &= counts(run_at(x, a, i, k), x->claim->contrast) && !run_at(x, a, i, k)->value.censored;
      if (!known) continue;
      double own = arm->run[i].value.value, fitted = range_at(x, a, i, a < 2 ? at[a] : 0).low;
      value[n++] = !is_fitted(x, a) ? own : x->claim->contrast == CONTRAST_RATIO ? exp(fitted) : fitted;
    }
    struct median m = median_of(value, n);
    arm->mean = (struct interval){n, m.middle, m.low, m.high};
    memory_free(value);
  }
}

static int is_last(const struct ledger *l, const struct claim *c, int stage)
{
  return stage + 1 == l->stages || c->scale;
}

/* Six pairs can settle a claim, but not survive a correction for many tests: their smallest p is 1/32. So the full
   level needs at least twelve. */
static int may_stop(const struct ledger *l, int stage)
{
  return l->stages < STAGES || stage_seeds[stage] >= 12;
}

/* Points between the rates of the grid, in its steps: of both compared arms, at the optimum and in each resample of the
   seeds that chose it. */
struct points {
  double at[1 + OPTIMUM_RESAMPLES][2];
  int resamples; /* 0: the arms are not tuned */
};

static void find_points(struct entry *x, struct points *p)
{
  double at[2][1 + OPTIMUM_RESAMPLES];
  struct entry_rates *r = &x->rates;
  *p = (struct points){0};
  int fitted = x->claim->equal == EQUAL_TUNED;
  for (int a = 0; a < 2; a++) r->optimum[a] = (struct interval){0, NAN, NAN, NAN};
  for (int a = 0; a < 2 && fitted; a++)
    fitted = *r->beside[2 * a] && *r->beside[2 * a + 1] && optimum_resample(*r->loss[a], TUNING_SEEDS, at[a]);
  for (int a = 0; a < 2 && fitted; a++) {
    for (int i = 0; i <= OPTIMUM_RESAMPLES; i++) p->at[i][a] = at[a][i];
    r->optimum[a] = optimum_rate(at[a], TUNING_SEEDS, strtod(r->best[a], NULL), TUNING_FACTOR);
  }
  p->resamples = fitted ? OPTIMUM_RESAMPLES : 0;
}

/* Judge the effects of the seeds that count; `exactly`: as if the optimum were known exactly. */
static struct judgement judge_arms(const struct entry *x, const struct points *p, int exactly, int stage,
                                   int last, struct left *left)
{
  const struct claim *c = x->claim;
  int runs = x->arm->runs, rows = exactly ? 1 : 1 + p->resamples, n = 0;
  struct effect *effect = memory_new((size_t)rows * (size_t)runs + 1, sizeof *effect);
  int *seed = memory_new((size_t)runs + 1, sizeof *seed);
  double matters = c->contrast == CONTRAST_RATIO ? fabs(log(c->matters)) : c->matters;
  *left = (struct left){0};
  for (int i = 0; i < runs; i++)
    if (seed_counts(x, i, left)) seed[n++] = i;
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < n; i++) effect[r * n + i] = effect_at(x, seed[i], p->at[r]);
  struct judgement j =
    c->identity ? judge_identity(effect, n, c->prediction, matters)
    : c->contrast == CONTRAST_SHARE
      ? judge_shares(effect, n, c->prediction, matters, stage, last)
      : judge_resampled(effect, n, rows - 1, optimum_tail(TUNING_SEEDS), c->prediction, matters, stage, last);
  memory_free(seed);
  memory_free(effect);
  return j;
}

static int read_arms(struct entry *x, struct error *error)
{
  int status = STATUS_OK;
  for (int a = 0; a < claim_arms(x->claim) && !status; a++) status = read_arm(x->claim, a, &x->arm[a], error);
  for (int n = 0; n < NEIGHBOURS && !status; n++)
    if (x->rates.arm[n].runs) status = read_arm(x->claim, n / 2, &x->rates.arm[n], error);
  return status ? error_prefix(error, "%s", x->claim->id) : status;
}

static int judge_entry(const struct ledger *l, struct entry *x, int stage, struct error *error)
{
  const struct claim *c = x->claim;
  int last = is_last(l, c, stage);
  if (read_arms(x, error)) return error->status;
  struct judgement *j = &x->judgement;
  struct left left;
  struct points *points = memory_new(1, sizeof *points);
  find_points(x, points);
  summarise(x, *points->at);
  x->stage = stage + 1;
  *j = judge_arms(x, points, 0, stage, last, &left);
  x->rates.if_known =
    points->resamples ? judge_arms(x, points, 1, stage, last, &(struct left){0}).verdict : j->verdict;
  memory_free(points);
  x->diverged = left.diverged, x->left_out = left.out, x->blown_up = left.blown_up;
  if (!c->identity && !may_stop(l, stage)) j->settled = last;
  x->idle = !c->identity && is_idle(x);
  x->silent = !c->identity && !x->idle && is_silent(x);
  x->uncontrolled = !c->identity && !x->idle && !x->silent ? find_unmet_control(x) : 0;
  if (x->silent || x->uncontrolled) j->settled = last; /* further seeds may change this */
  if (x->idle || x->silent || x->uncontrolled) j->verdict = VERDICT_NOTHING, j->p = NAN;
  if (c->equal == EQUAL_TUNED && !x->rates.optimum[0].n) /* no seeds change this */
    j->verdict = VERDICT_INCONCLUSIVE, j->p = NAN, j->settled = 1;
  if (c->scale) j->verdict = VERDICT_NEEDS_SCALE, j->p = NAN;
  return STATUS_OK;
}

/* The verdict of a claim without runs. */
static void settle_without_runs(struct entry *x)
{
  x->judgement.verdict = x->claim->withdrawn ? VERDICT_WITHDRAWN : VERDICT_NEEDS_SCALE;
  x->judgement.settled = 1;
}

int judge_stage(struct ledger *l, int stage, const struct sweep *s, struct error *error)
{
  int status = STATUS_OK;
  for (int i = 0; i < l->entries && !status; i++) {
    struct entry *x = &l->entry[i];
    if (x->judgement.settled) continue;
    hear_fates(x, s);
    if (claim_compared(x->claim))
      status = judge_entry(l, x, stage, error);
    else
      settle_without_runs(x);
  }
  return status;
}

static int is_of_family(const struct entry *x) { return claim_is_tested(x->claim) && !x->same_as; }

/* The family is all claims that could be tested, whichever were chosen or have data: the others get p = 1. */
void judge_family(struct ledger *l)
{
  int tests = l->entries + l->family, of_family = 0;
  double *p = memory_new(2 * (size_t)tests + 1, sizeof *p), *q = p + tests;
  for (int i = 0; i < tests; i++) p[i] = NAN;
  for (int i = 0; i < l->entries; i++) {
    const struct entry *x = &l->entry[i];
    if (!is_of_family(x)) continue;
    p[i] = isnan(x->judgement.p) ? 1 : x->judgement.p;
    of_family++;
  }
  for (int i = of_family; i < l->family; i++) p[l->entries + i] = 1;
  memcpy(q, p, (size_t)tests * sizeof *p);
  holm(p, tests);
  false_discovery(q, tests);
  for (int i = 0; i < l->entries; i++) l->entry[i].holm = p[i], l->entry[i].fdr = q[i];
  memory_free(p);
}
