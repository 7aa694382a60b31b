#include "ledger/judging.h"

#include <math.h>
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

/* The range of a run's value. A time that was not reached is at least the last step. For a share, a run counts 0 or
   1. */
static struct effect range_of(const struct entry_run *run, const struct claim *c)
{
  if (c->contrast == CONTRAST_SHARE)
    return (struct effect){run->value.value > c->level, run->value.value > c->level};
  return (struct effect){run->value.value, run->value.censored ? INFINITY : run->value.value};
}

static struct effect contrast_of(struct effect a, struct effect b, int ratio)
{
  if (ratio) a.low = log(a.low), a.high = log(a.high), b.low = log(b.low), b.high = log(b.high);
  return (struct effect){b.low - a.high, b.high - a.low};
}

/* Effects of the seeds that count, of a ratio its logarithms; returns how many. */
struct left {                  /* seeds that are left out or flagged */
  int diverged, out, blown_up; /* blown_up: these seeds count */
};
static int find_effects(const struct claim *c, const struct entry_arm *a, const struct entry_arm *b,
                        struct effect *effect, struct left *left)
{
  int n = 0, ratio = c->contrast == CONTRAST_RATIO;
  const struct effect level = {c->level, c->level};
  *left = (struct left){0};
  for (int i = 0; i < a->runs; i++) {
    const struct entry_run *first = &a->run[i], *second = b ? &b->run[i] : NULL;
    if (first->fate == SWEEP_DIVERGED || (second && second->fate == SWEEP_DIVERGED)) {
      left->diverged++;
    } else if (!counts(first, c->contrast) || (second && !counts(second, c->contrast))) {
      left->out++;
    } else {
      left->blown_up += first->blew_up || (second && second->blew_up);
      effect[n++] =
        contrast_of(second ? range_of(first, c) : level, range_of(second ? second : first, c), ratio);
    }
  }
  return n;
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

static void summarise(struct entry *x)
{
  for (int a = 0; a < claim_arms(x->claim); a++) {
    struct entry_arm *arm = &x->arm[a];
    double *value = memory_new((size_t)arm->runs + 1, sizeof *value);
    int n = 0;
    for (int i = 0; i < arm->runs; i++)
      if (counts(&arm->run[i], x->claim->contrast) && !arm->run[i].value.censored)
        value[n++] = arm->run[i].value.value;
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

static struct judgement judge_arms(const struct claim *c, const struct entry_arm *a,
                                   const struct entry_arm *b, int stage, int last, struct left *left)
{
  struct effect *effect = memory_new((size_t)a->runs + 1, sizeof *effect);
  double matters = c->contrast == CONTRAST_RATIO ? fabs(log(c->matters)) : c->matters;
  int n = find_effects(c, a, b, effect, left);
  struct judgement j = c->identity ? judge_identity(effect, n, c->prediction, matters)
                       : c->contrast == CONTRAST_SHARE
                         ? judge_shares(effect, n, c->prediction, matters, stage, last)
                         : judge(effect, n, c->prediction, matters, stage, last);
  memory_free(effect);
  return j;
}

/* Does the verdict also hold at the neighboring rates? Rates at which too many runs are lost are ignored. */
static int judge_neighbours(struct entry *x, int stage, int last, struct error *error)
{
  struct entry_rates *r = &x->rates;
  struct judgement *j = &x->judgement;
  struct left left;
  int status = STATUS_OK;
  r->at_best = j->verdict, r->falls = 0;
  for (int n = 0; n < NEIGHBOURS && !status; n++) {
    if (!r->arm[n].runs) continue;
    status = read_arm(x->claim, n / 2, &r->arm[n], error);
    r->judgement[n] = judge_arms(x->claim, n < 2 ? &r->arm[n] : &x->arm[0], n < 2 ? &x->arm[1] : &r->arm[n],
                                 stage, last, &left);
    enum verdict beside = r->judgement[n].verdict;
    if (beside != VERDICT_FEW_SEEDS && beside != j->verdict && !r->falls) r->falls = n + 1;
  }
  if (r->falls && (j->verdict == VERDICT_HOLDS || j->verdict == VERDICT_REFUTED))
    j->verdict = VERDICT_INCONCLUSIVE, j->p = NAN, j->settled = last;
  return status;
}

static int judge_entry(const struct ledger *l, struct entry *x, int stage, struct error *error)
{
  const struct claim *c = x->claim;
  int status = STATUS_OK, last = is_last(l, c, stage);
  for (int a = 0; a < claim_arms(c) && !status; a++) status = read_arm(c, a, &x->arm[a], error);
  if (status) return error_prefix(error, "%s", c->id);
  struct judgement *j = &x->judgement;
  struct left left;
  summarise(x);
  x->stage = stage + 1;
  *j = judge_arms(c, &x->arm[0], claim_compared(c) > 1 ? &x->arm[1] : NULL, stage, last, &left);
  x->diverged = left.diverged, x->left_out = left.out, x->blown_up = left.blown_up;
  if (c->equal == EQUAL_TUNED) status = judge_neighbours(x, stage, last, error);
  if (!c->identity && !may_stop(l, stage)) j->settled = last;
  x->idle = !c->identity && is_idle(x);
  x->silent = !c->identity && !x->idle && is_silent(x);
  x->uncontrolled = !c->identity && !x->idle && !x->silent ? find_unmet_control(x) : 0;
  if (x->silent || x->uncontrolled) j->settled = last; /* further seeds may change this */
  if (x->idle || x->silent || x->uncontrolled) j->verdict = VERDICT_NOTHING, j->p = NAN;
  if (c->equal == EQUAL_TUNED && !(*x->rates.best[0] && *x->rates.best[1]))
    j->verdict = VERDICT_INCONCLUSIVE, j->p = NAN; /* `failed` has the reason */
  if (c->scale) j->verdict = VERDICT_NEEDS_SCALE, j->p = NAN;
  return status;
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
