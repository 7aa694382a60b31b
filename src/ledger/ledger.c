#include "ledger/ledger.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "ledger/registered.h"
#include "run/drive.h"
#include "storage/recorder.h"

/* --- choosing ------------------------------------------------------------------------------------------- */

static int find_row(const struct claim_row *rows, const char *id)
{
  for (int i = 0; rows[i].claim; i++)
    if (!strcasecmp(rows[i].claim->id, id)) return i;
  return -1;
}

static int unknown_claim(const struct claim_row *rows, const char *id, struct error *error)
{
  size_t count = 0;
  while (rows[count].claim) count++;
  const char **known = memory_new(count + 1, sizeof *known);
  for (size_t i = 0; i < count; i++) known[i] = rows[i].claim->id;
  const char *near = text_nearest(id, known, count);
  memory_free(known);
  return error_set(error, STATUS_USAGE, "no claim is called %s%s%s%s; maxlogit claims --list names them", id,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static void entry_init(struct entry *x, const struct claim_row *row)
{
  *x = (struct entry){.claim = row->claim,
                      .question = row->question,
                      .holm = NAN,
                      .fdr = NAN,
                      .judgement = {VERDICT_OPEN, 0, {0, NAN, NAN, NAN}, NAN, NAN, 0}};
  registered_hash(row->claim, x->registered);
  for (int a = 0; a < CLAIM_ARMS; a++) x->arm[a].mean = (struct interval){0, NAN, NAN, NAN};
}

/* An earlier row with the same comparison; -1: there is none, or nothing to compare. */
static int first_of_its_kind(const struct claim_row *rows, int i)
{
  for (int k = 0; k < i && claim_is_tested(rows[i].claim); k++)
    if (claim_is_tested(rows[k].claim) && claim_is_same_comparison(rows[k].claim, rows[i].claim)) return k;
  return -1;
}

int ledger_open(struct ledger *l, const struct claim_row *rows, char *const *id, int ids, struct error *error)
{
  int count = 0;
  *l = (struct ledger){.stages = STAGES};
  while (rows[count].claim) count++;
  char *wanted = memory_new((size_t)count + 1, 1);
  for (int i = 0; i < ids; i++) {
    int row = find_row(rows, id[i]);
    if (row < 0) {
      memory_free(wanted);
      return unknown_claim(rows, id[i], error);
    }
    wanted[row] = 1;
  }
  l->entry = memory_new((size_t)count + 1, sizeof *l->entry);
  for (int i = 0; i < count; i++) {
    int first = first_of_its_kind(rows, i);
    l->family += claim_is_tested(rows[i].claim) && first < 0;
    if (ids && !wanted[i]) continue;
    struct entry *x = &l->entry[l->entries++];
    entry_init(x, &rows[i]);
    x->same_as = first < 0 ? NULL : rows[first].claim;
  }
  memory_free(wanted);
  return STATUS_OK;
}

/* Those of the claim, then those beside the best rates. */
enum { ALL_ARMS = CLAIM_ARMS + NEIGHBOURS };
static struct entry_arm *arm_of(struct entry *x, int a)
{
  return a < CLAIM_ARMS ? &x->arm[a] : &x->rates.arm[a - CLAIM_ARMS];
}

static void forget_runs(struct entry *x)
{
  for (int a = 0; a < ALL_ARMS; a++) {
    struct entry_arm *arm = arm_of(x, a);
    for (int i = 0; i < arm->runs; i++) memory_free(arm->run[i].path);
    memory_free(arm->run);
    *arm = (struct entry_arm){.mean = {0, NAN, NAN, NAN}};
  }
}

void ledger_close(struct ledger *l)
{
  for (int i = 0; i < l->entries; i++) {
    forget_runs(&l->entry[i]);
    memory_free(l->entry[i].replica);
  }
  memory_free(l->entry);
  memory_free(l->folder);
  *l = (struct ledger){0};
}

/* --- planning ------------------------------------------------------------------------------------------- */

/* What every run of the ledger records, so that claims can share it: a run's id does not tell what was recorded. */
static const char recorded[] = "sweep.dir = runs/claims\n"
                               "record.probe_every = 10\n"
                               "record.spectra_every = 50\n"
                               "record.pairs = 1\n"
                               "record.bound = 1\n";

struct setting {
  struct config *config;
  const char *origin;
  struct error *error;
};

static int assign(void *context, const char *word)
{
  struct setting *s = context;
  char key[128];
  size_t length = strcspn(word, "=");
  if (!*word) return STATUS_OK;
  if (!word[length] || length >= sizeof key)
    return error_set(s->error, STATUS_USAGE, "%s: key=value is wanted", word);
  snprintf(key, sizeof key, "%.*s", (int)length, word);
  return config_set(s->config, key, word + length + 1, s->origin, s->error);
}

/* The configuration of an arm, at a rate of its own where it is tuned. */
static int arm_config(const struct ledger *l, const struct claim *claim, const struct claim_arm *arm,
                      const char *rate, struct config *c, struct error *error)
{
  struct setting s = {c, arm->name, error};
  int status = config_read(c, recorded, "ledger", error);
  if (!status) status = config_read(c, claim->regime, claim->id, error);
  if (!status && arm->set) status = text_split(arm->set, ' ', assign, &s);
  for (int i = 0; i < l->assignments && !status; i++) status = config_assign(c, l->assignment[i], error);
  if (!status && *rate) status = config_set(c, "train.lr", rate, "tuned", error);
  if (!status && config_points(c) != 1)
    status = error_set(error, STATUS_USAGE, "a list of values makes several runs where the claim wants one");
  return status;
}

static int set_seeds(struct config *c, int seeds, struct error *error)
{
  char text[64];
  snprintf(text, sizeof text, "train.seed=%d:%d:lin:%d", LEDGER_SEED, LEDGER_SEED + seeds - 1, seeds);
  return config_assign(c, text, error);
}

static void keep_runs(struct entry_arm *arm, const struct sweep *s)
{
  arm->run = memory_new((size_t)s->count + 1, sizeof *arm->run);
  for (long i = 0; i < s->count; i++) {
    const struct sweep_point *p = &s->points[i];
    struct entry_run *run = &arm->run[arm->runs++];
    *run = (struct entry_run){.seed = LEDGER_SEED + i, .path = memory_text(p->path), .fate = p->fate};
    snprintf(run->id, sizeof run->id, "%s", p->id);
  }
}

struct planned { /* the sweep of a stage, and what must outlive it */
  struct sweep sweep;
  struct config **config;
  size_t configs;
};

static void planned_free(struct planned *p)
{
  sweep_free(&p->sweep);
  for (size_t i = 0; i < p->configs; i++) config_free(p->config[i]);
  memory_free(p->config);
}

static int plan_arm(struct ledger *l, struct entry *x, int a, const char *rate, struct entry_arm *out,
                    int seeds, struct planned *p, struct error *error)
{
  const struct claim_arm *arm = &x->claim->arm[a];
  struct sweep s = {0};
  struct config *c = config_new();
  p->config = memory_grow(p->config, p->configs, p->configs + 1, sizeof *p->config);
  p->config[p->configs++] = c;
  int status = arm_config(l, x->claim, arm, rate, c, error);
  if (!status) status = set_seeds(c, seeds, error);
  if (!status) status = sweep_plan(&s, c, "claims", 1, 1, error);
  if (status) return error_prefix(error, "%s, %s", x->claim->id, arm->name);
  keep_runs(out, &s);
  if (!l->folder && s.count) {
    l->folder = memory_text(s.points->path);
    *strrchr(l->folder, '/') = 0;
  }
  sweep_join(&p->sweep, &s);
  return STATUS_OK;
}

static int plan_entry(struct ledger *l, struct entry *x, int seeds, struct planned *p, struct error *error)
{
  int status = STATUS_OK;
  forget_runs(x);
  for (int a = 0; a < claim_arms(x->claim) && !status; a++)
    status = plan_arm(l, x, a, a < 2 ? x->rates.best[a] : "", &x->arm[a], seeds, p, error);
  for (int n = 0; n < NEIGHBOURS && !status; n++)
    if (*x->rates.beside[n])
      status = plan_arm(l, x, n / 2, x->rates.beside[n], &x->rates.arm[n], seeds, p, error);
  return status;
}

/* The runs of all claims that are not settled. What only shows a trend has one stage. */
static int plan_stage(struct ledger *l, int stage, struct planned *p, struct error *error)
{
  int status = STATUS_OK;
  *p = (struct planned){0};
  for (int i = 0; i < l->entries && !status; i++)
    if (!l->entry[i].judgement.settled) status = plan_entry(l, &l->entry[i], stage_seeds[stage], p, error);
  if (l->jobs) p->sweep.jobs = l->jobs;
  return status;
}

int ledger_plan(struct ledger *l, int stage, struct error *error)
{
  struct planned p;
  int status = plan_stage(l, stage, &p, error);
  planned_free(&p);
  return status;
}

/* --- rates ---------------------------------------------------------------------------------------------- */

static int add_tuned(const struct ledger *l, struct tuning *t, const struct entry *x, struct error *error)
{
  int status = STATUS_OK;
  for (int a = 0; a < claim_compared(x->claim) && !status; a++) {
    char name[64];
    struct config *c = config_new();
    snprintf(name, sizeof name, "%s, %.40s", x->claim->id, x->claim->arm[a].name);
    status = arm_config(l, x->claim, &x->claim->arm[a], "", c, error);
    if (!status) status = tuning_add(t, name, c, error);
    config_free(c);
  }
  return status;
}

static void keep_rates(struct entry *x, const struct tuning_arm *arm, int a)
{
  x->rates.end[a] = arm->end;
  if (arm->best < 0) {
    snprintf(x->failed, sizeof x->failed, "%s: %s", arm->name, tuning_end_text(arm->end));
    return;
  }
  snprintf(x->rates.best[a], 32, "%s", arm->point[arm->best].text[0]);
  for (int side = 0; side < 2; side++) {
    const struct tuning_point *p = tuning_beside(arm, 0, side ? 1 : -1);
    snprintf(x->rates.beside[2 * a + side], 32, "%s", p ? p->text[0] : "");
  }
}

static void hear_rates(void *context, const struct sweep *s)
{
  const struct ledger *l = context;
  if (l->tune) l->tune(l->context, s);
}
static void look_at_rates(void *context, const struct sweep *s, long point)
{
  const struct ledger *l = context;
  if (l->look) l->look(l->context, s, point);
}

/* Each compared arm of the claims that want it at its best rate, by validation loss, on seeds of their own. */
static int tune_rates(struct ledger *l, struct error *error)
{
  static const char *const key = "train.lr";
  struct tuning t = {.key = {key},
                     .keys = 1,
                     .seeds = TUNING_SEEDS,
                     .jobs = l->jobs,
                     .name = "claims",
                     .begin = hear_rates,
                     .look = look_at_rates,
                     .context = l};
  int status = STATUS_OK, arm = 0;
  for (int i = 0; i < l->entries && !status; i++)
    if (l->entry[i].claim->equal == EQUAL_TUNED) status = add_tuned(l, &t, &l->entry[i], error);
  if (!status && t.arms) status = tuning_run(&t, error);
  for (int i = 0; i < l->entries && !status; i++)
    for (int a = 0; l->entry[i].claim->equal == EQUAL_TUNED && a < claim_compared(l->entry[i].claim); a++)
      keep_rates(&l->entry[i], &t.arm[arm++], a);
  tuning_free(&t);
  return status;
}

/* --- judging -------------------------------------------------------------------------------------------- */

/* What became of the arms' runs. */
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
  struct metric m, loss;
  struct measured last;
  int status = metric_read(&m, claim_metric(claim, a), error), some = 0;
  if (!status) status = metric_read(&loss, "loss:last", error);
  for (int i = 0; i < arm->runs && !status; i++) {
    struct entry_run *run = &arm->run[i];
    struct run opened = {.path = run->path};
    if (!is_done(run)) continue;
    status = run_open(&opened.file, run->path, error);
    if (status) continue;
    status = metric_of(&m, &opened, &run->value, error);
    if (!status) status = metric_of(&loss, &opened, &last, error);
    run->last_loss = last.value;
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
         (contrast == CONTRAST_DIFFERENCE || v->value > 0);
}

/* A time that was not reached is the last step seen, or any later one. */
static struct effect range_of(const struct entry_run *run)
{
  return (struct effect){run->value.value, run->value.censored ? INFINITY : run->value.value};
}

static struct effect contrast_of(struct effect a, struct effect b, int ratio)
{
  if (ratio) a.low = log(a.low), a.high = log(a.high), b.low = log(b.low), b.high = log(b.high);
  return (struct effect){b.low - a.high, b.high - a.low};
}

/* Effects of the seeds that count, of a ratio its logarithms; returns how many. */
struct left { /* seeds that do not count, and why */
  int diverged, out;
};
static int find_effects(const struct claim *c, const struct entry_arm *a, const struct entry_arm *b,
                        struct effect *effect, struct left *left)
{
  int n = 0, ratio = c->contrast == CONTRAST_RATIO;
  const struct effect level = {c->level, c->level};
  *left = (struct left){0, 0};
  for (int i = 0; i < a->runs; i++) {
    const struct entry_run *first = &a->run[i], *second = b ? &b->run[i] : NULL;
    if (first->fate == SWEEP_DIVERGED || (second && second->fate == SWEEP_DIVERGED)) {
      left->diverged++;
    } else if (!counts(first, c->contrast) || (second && !counts(second, c->contrast))) {
      left->out++;
    } else
      effect[n++] = contrast_of(second ? range_of(first) : level, range_of(second ? second : first), ratio);
  }
  return n;
}

/* Two arms that end with the same losses to the bit are the same training: a clip that never acted, an option that is
   not used. Such a pair says nothing of what it was made to compare. */
static int is_idle(const struct entry *x)
{
  int same = 0;
  for (int i = 0; claim_compared(x->claim) > 1 && i < x->arm->runs; i++) {
    const struct entry_run *a = &x->arm[0].run[i], *b = &x->arm[1].run[i];
    if (!strcmp(a->id, b->id) || a->last_loss != b->last_loss) return 0; /* one run, seen in two ways */
    same++;
  }
  return same > 0;
}

/* A difference was looked for where the measure has one value in every run of both arms, no spike with a cure and none
   without: the interval is a point, and says nothing. Of a claim that denies a difference it is what was said. */
static int is_silent(const struct entry *x)
{
  const struct claim *c = x->claim;
  int seen = 0;
  double value = NAN;
  for (int a = 0; claim_compared(c) > 1 && c->prediction != PREDICT_SAME && a < 2; a++)
    for (int i = 0; i < x->arm[a].runs; i++) {
      const struct entry_run *run = &x->arm[a].run[i];
      if (!counts(run, c->contrast)) continue;
      if (seen++ && run->value.value != value) return 0;
      value = run->value.value;
    }
  return seen > 0;
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

/* Six pairs can settle a claim, but stand no correction for many of them: their least p is 1/32. At the full level
   nothing stops so early. */
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
                                   : judge(effect, n, c->prediction, matters, stage, last);
  memory_free(effect);
  return j;
}

/* Does the verdict stand beside the best rates? A neighbour at which runs are lost is none to train at, and says
   nothing. */
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
  x->diverged = left.diverged, x->left_out = left.out;
  if (c->equal == EQUAL_TUNED) status = judge_neighbours(x, stage, last, error);
  if (!c->identity && !may_stop(l, stage)) j->settled = last;
  x->idle = !c->identity && is_idle(x);
  x->silent = !c->identity && !x->idle && is_silent(x);
  if (x->silent) j->settled = last; /* further seeds may have something to say */
  if (x->idle || x->silent) j->verdict = VERDICT_INCONCLUSIVE, j->p = NAN;
  if (c->equal == EQUAL_TUNED && !(*x->rates.best[0] && *x->rates.best[1]))
    j->verdict = VERDICT_INCONCLUSIVE, j->p = NAN; /* it is said why: `failed` */
  if (c->scale) j->verdict = VERDICT_NEEDS_SCALE, j->p = NAN;
  return status;
}

/* What is said of a claim that has no runs. */
static void settle_without_runs(struct entry *x)
{
  x->judgement.verdict = x->claim->withdrawn ? VERDICT_WITHDRAWN : VERDICT_NEEDS_SCALE;
  x->judgement.settled = 1;
}

static int judge_stage(struct ledger *l, int stage, const struct sweep *s, struct error *error)
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

/* The family is what could be tested, not what was asked for or came out: of the rest p is 1. */
static void correct(struct ledger *l)
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

static int is_open(const struct ledger *l)
{
  for (int i = 0; i < l->entries; i++)
    if (!l->entry[i].judgement.settled) return 1;
  return 0;
}

static long count_elsewhere(const struct sweep *s)
{
  long n = 0;
  for (long i = 0; i < s->count; i++) n += s->points[i].fate == SWEEP_ELSEWHERE;
  return n;
}

/* The runs of a stage, those too that another process has in hand: it is waited for. */
static int run_stage(struct ledger *l, int stage, struct planned *p, struct error *error)
{
  for (int told = 0;; told = 1) {
    int status = plan_stage(l, stage, p, error);
    p->sweep.look = l->look, p->sweep.say = l->say, p->sweep.context = l->context;
    if (!status && l->begin && !told) l->begin(l->context, l, stage, &p->sweep);
    if (!status && p->sweep.count) status = sweep_run(&p->sweep, error);
    long elsewhere = count_elsewhere(&p->sweep);
    if (status || !elsewhere) return status;
    if (!told)
      message("%ld run%s in the hands of another process, which is waited for", elsewhere,
              elsewhere == 1 ? " is" : "s are");
    planned_free(p);
    for (int i = 0; i < 10 && !drive_stopping(); i++) usleep(100000);
  }
}

int ledger_run(struct ledger *l, struct error *error)
{
  int status = tune_rates(l, error), failed = 0;
  for (int stage = 0; stage < l->stages && is_open(l) && !status; stage++) {
    struct planned p;
    status = run_stage(l, stage, &p, error);
    if (status == STATUS_FAIL && !*error->text)
      failed = 1, status = STATUS_OK; /* some runs: their claims say so */
    if (!status) status = judge_stage(l, stage, &p.sweep, error);
    planned_free(&p);
  }
  correct(l);
  return status ? status : failed ? STATUS_FAIL : STATUS_OK;
}

void ledger_settings(const struct ledger *l, struct buffer *out)
{
  struct config *c = config_new();
  struct config_entry x;
  buffer_add(out, "%s", "");
  for (int i = 0; i < l->assignments; i++)
    if (!config_assigned(c, l->assignment[i], &x) || !(x.row->flags & OPTION_FREE))
      buffer_add(out, "%s%s", out->length ? " " : "", l->assignment[i]);
  config_free(c);
}
