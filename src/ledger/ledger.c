#include "ledger/ledger.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "ledger/arms.h"
#include "ledger/judging.h"
#include "ledger/tuned_rates.h"
#include "ledger/registry_hash.h"
#include "ledger/run_batch.h"

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
  registry_hash(row->claim, x->registered);
  for (int a = 0; a < CLAIM_ARMS; a++) x->arm[a].mean = (struct interval){0, NAN, NAN, NAN};
}

/* The index of the first earlier row with the same comparison; -1: none, or the claim compares nothing. */
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

/* Without the weights of their first phase, runs have no ids yet. */
static void keep_seeds(struct entry_arm *arm, int seeds)
{
  arm->run = memory_new((size_t)seeds + 1, sizeof *arm->run);
  for (arm->runs = 0; arm->runs < seeds; arm->runs++) arm->run[arm->runs].seed = LEDGER_SEED + arm->runs;
}

static int plan_arm(struct ledger *l, struct entry *x, int a, const char *rate, struct entry_arm *out,
                    int seeds, struct run_batch *p, struct error *error)
{
  const struct claim_arm *arm = &x->claim->arm[a];
  struct sweep s = {0};
  struct config *c = config_new();
  int status, can_start;
  run_batch_own(p, c);
  status = starts_are_done(l, x->claim, a, LEDGER_SEED, seeds, &can_start, error);
  if (!status) status = arm_config(l, x->claim, a, rate, c, error);
  if (!status && !can_start) {
    keep_seeds(out, seeds);
    return STATUS_OK;
  }
  if (!status) status = arm_set_seeds(c, LEDGER_SEED, seeds, error);
  if (!status) status = sweep_plan(&s, c, "claims", 1, 1, error);
  if (status) return error_prefix(error, "%s, %s", x->claim->id, arm->name);
  keep_runs(out, &s);
  run_batch_join(p, &s, &l->folder);
  return STATUS_OK;
}

static int plan_entry(struct ledger *l, struct entry *x, int seeds, struct run_batch *p, struct error *error)
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

/* Plan the runs of all claims that are not settled. A claim that only shows a trend has one stage. */
static int plan_stage(struct ledger *l, int stage, struct run_batch *p, struct error *error)
{
  int status = STATUS_OK;
  *p = (struct run_batch){0};
  for (int i = 0; i < l->entries && !status; i++)
    if (!l->entry[i].judgement.settled) status = plan_entry(l, &l->entry[i], stage_seeds[stage], p, error);
  if (l->jobs) p->sweep.jobs = l->jobs;
  return status;
}

int ledger_plan(struct ledger *l, int stage, struct error *error)
{
  struct run_batch p;
  for (int i = 0; i < l->entries; i++) tuned_rates_load(l, &l->entry[i]);
  int status = plan_stage(l, stage, &p, error);
  run_batch_free(&p);
  return status;
}

/* --- rates ---------------------------------------------------------------------------------------------- */

static int add_tuned(const struct ledger *l, struct tuning *t, struct entry *x, struct error *error)
{
  int status = STATUS_OK;
  for (int a = 0; a < claim_compared(x->claim) && !status; a++) {
    char name[64];
    struct config *c = config_new();
    snprintf(name, sizeof name, "%s, %.40s", x->claim->id, x->claim->arm[a].name);
    status = arm_config(l, x->claim, a, "", c, error);
    /* only the losses of these runs are used */
    if (!status) status = config_set(c, "record.probe_every", "0", "ledger", error);
    if (!status) status = config_set(c, "record.spectra_every", "0", "ledger", error);
    if (!status) status = tuning_add(t, name, c, error);
    config_free(c);
  }
  return status;
}

static void keep_rates(struct entry *x, const struct tuning *t, const struct tuning_arm *arm, int a)
{
  x->rates.end[a] = arm->end;
  if (arm->best < 0) {
    snprintf(x->failed, sizeof x->failed, "%s: %s", arm->name, tuning_end_text(arm->end));
    return;
  }
  snprintf(x->rates.best[a], 32, "%s", arm->point[arm->best].text[0]);
  for (int step = -1; step <= 1; step++) {
    const struct tuning_point *p = tuning_beside(arm, 0, step);
    if (step) snprintf(x->rates.beside[2 * a + (step > 0)], 32, "%s", p ? p->text[0] : "");
    for (int s = 0; s < TUNING_SEEDS; s++)
      x->rates.loss[a][step + 1][s] = p ? tuning_worth(t, &p->run[s]) : INFINITY;
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

static int is_tuned(const struct entry *x)
{
  return x->claim->equal == EQUAL_TUNED && !x->lacks_start && !x->rates.kept;
}

/* Choose the best rate of each compared arm of claims with EQUAL_TUNED, by validation loss, on separate seeds. */
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
    if (is_tuned(&l->entry[i])) status = add_tuned(l, &t, &l->entry[i], error);
  if (!status && t.arms) status = tuning_run(&t, error);
  for (int i = 0; i < l->entries && !status; i++)
    for (int a = 0; is_tuned(&l->entry[i]) && a < claim_compared(l->entry[i].claim); a++)
      keep_rates(&l->entry[i], &t, &t.arm[arm++], a);
  tuning_free(&t);
  return status;
}

int ledger_choose(struct ledger *l, int *failed, struct error *error)
{
  for (int i = 0; i < l->entries && !l->choose; i++) tuned_rates_load(l, &l->entry[i]);
  int status = starts_run(l, TUNING_SEED, TUNING_SEEDS, 1, failed, error);
  if (!status) status = tune_rates(l, error);
  if (!status) tuned_rates_compare(l);
  return status;
}

/* --- running ------------------------------------------------------------------------------------------- */

static int is_open(const struct ledger *l)
{
  for (int i = 0; i < l->entries; i++)
    if (!l->entry[i].judgement.settled) return 1;
  return 0;
}

struct stage {
  struct ledger *ledger;
  int number;
};

static int plan_runs(void *context, struct run_batch *p, int again, struct error *error)
{
  struct stage *at = context;
  struct ledger *l = at->ledger;
  int status = plan_stage(l, at->number, p, error);
  p->sweep.look = l->look, p->sweep.say = l->say, p->sweep.context = l->context;
  if (!status && l->begin && !again) l->begin(l->context, l, at->number, &p->sweep);
  return status;
}

int ledger_run(struct ledger *l, struct error *error)
{
  int failed = 0, status = ledger_choose(l, &failed, error);
  for (int stage = 0; stage < l->stages && is_open(l) && !status; stage++) {
    struct run_batch p;
    status = starts_run(l, LEDGER_SEED, stage_seeds[stage], 0, &failed, error);
    if (status) break;
    status = run_batch_run(&p, plan_runs, &(struct stage){l, stage}, error);
    if (status == STATUS_FAIL && !*error->text)
      failed = 1, status = STATUS_OK; /* some runs failed: their claims report it */
    if (!status) status = judge_stage(l, stage, &p.sweep, error);
    run_batch_free(&p);
  }
  judge_family(l);
  return status ? status : failed ? STATUS_FAIL : STATUS_OK;
}
