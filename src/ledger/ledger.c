#include "ledger/ledger.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "ledger/judging.h"
#include "ledger/registered.h"
#include "ledger/rounds.h"

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

static int plan_arm(struct ledger *l, struct entry *x, int a, const char *rate, struct entry_arm *out,
                    int seeds, struct round *p, struct error *error)
{
  const struct claim_arm *arm = &x->claim->arm[a];
  struct sweep s = {0};
  struct config *c = config_new();
  round_keep(p, c);
  int status = arm_config(l, x->claim, arm, rate, c, error);
  if (!status) status = set_seeds(c, seeds, error);
  if (!status) status = sweep_plan(&s, c, "claims", 1, 1, error);
  if (status) return error_prefix(error, "%s, %s", x->claim->id, arm->name);
  keep_runs(out, &s);
  round_join(p, &s, &l->folder);
  return STATUS_OK;
}

static int plan_entry(struct ledger *l, struct entry *x, int seeds, struct round *p, struct error *error)
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
static int plan_stage(struct ledger *l, int stage, struct round *p, struct error *error)
{
  int status = STATUS_OK;
  *p = (struct round){0};
  for (int i = 0; i < l->entries && !status; i++)
    if (!l->entry[i].judgement.settled) status = plan_entry(l, &l->entry[i], stage_seeds[stage], p, error);
  if (l->jobs) p->sweep.jobs = l->jobs;
  return status;
}

int ledger_plan(struct ledger *l, int stage, struct error *error)
{
  struct round p;
  int status = plan_stage(l, stage, &p, error);
  round_free(&p);
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

static int plan_runs(void *context, struct round *p, int again, struct error *error)
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
  int status = tune_rates(l, error), failed = 0;
  for (int stage = 0; stage < l->stages && is_open(l) && !status; stage++) {
    struct round p;
    status = round_run(&p, plan_runs, &(struct stage){l, stage}, error);
    if (status == STATUS_FAIL && !*error->text)
      failed = 1, status = STATUS_OK; /* some runs: their claims say so */
    if (!status) status = judge_stage(l, stage, &p.sweep, error);
    round_free(&p);
  }
  judge_family(l);
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
