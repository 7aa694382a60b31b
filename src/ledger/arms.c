#include "ledger/arms.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "ledger/run_batch.h"

const char ledger_records[] = "sweep.dir = runs/claims\n"
                              "record.probe_every = 10\n"
                              "record.spectra_every = 50\n"
                              "record.pairs = 1\n"
                              "record.bound = 1\n";

struct arm_setting {
  struct config *config;
  const char *origin;
  struct error *error;
};

static int assign(void *context, const char *word)
{
  struct arm_setting *s = context;
  char key[128];
  size_t length = strcspn(word, "=");
  if (!*word) return STATUS_OK;
  if (!word[length] || length >= sizeof key)
    return error_set(s->error, STATUS_USAGE, "%s: key=value is wanted", word);
  snprintf(key, sizeof key, "%.*s", (int)length, word);
  return config_set(s->config, key, word + length + 1, s->origin, s->error);
}

/* Add the settings of a run: those that all ledger runs record, the regime, the arm's own, and those of the ledger. */
static int read_settings(const struct ledger *l, const struct claim *claim, const char *arm,
                         const char *regime, const char *set, struct config *c, struct error *error)
{
  struct arm_setting s = {c, arm, error};
  int status = config_read(c, ledger_records, "ledger", error);
  if (!status) status = config_read(c, regime, claim->id, error);
  if (!status && set) status = text_split(set, ' ', assign, &s);
  for (int i = 0; i < l->assignments && !status; i++) status = config_assign(c, l->assignment[i], error);
  return status;
}

void ledger_settings(const struct ledger *l, struct buffer *out)
{
  struct config *c = config_new();
  struct config_entry x;
  buffer_add(out, "%s", "");
  for (int i = 0; i < l->assignments; i++)
    if (!config_assigned(c, l->assignment[i], &x) || !(x.row->flags & OPTION_FREE) ||
        !strcmp(x.key, "data.path")) /* free, because only the content of the file counts */
      buffer_add(out, "%s%s", out->length ? " " : "", l->assignment[i]);
  config_free(c);
}

/* --- first phases ------------------------------------------------------------------------------------------- */

/* First phases with equal settings share one folder, whichever claims and arms start from them. */
static int name_folder(const struct ledger *l, const struct claim *claim, int a, const struct config *c,
                       struct buffer *folder, struct error *error)
{
  struct config *finished = config_point(c, 0);
  struct buffer what = {0};
  int status = config_finish(finished, error);
  ledger_settings(l, &what);
  buffer_add(&what, "\n%s\n%s", claim->start, claim->arm[a].start ? claim->arm[a].start : "");
  if (!status)
    buffer_add(folder, "%s/start-%012llx",
               ((const struct sweep_options *)config_section(finished, "sweep"))->dir,
               (unsigned long long)XXH3_64bits(what.text, what.length) >> 16);
  config_free(finished);
  memory_free(what.text);
  return status;
}

/* The configuration of the first phase of arm a, in its folder. */
static int start_config(const struct ledger *l, const struct claim *claim, int a, struct config *c,
                        struct error *error)
{
  const struct claim_arm *arm = &claim->arm[a];
  struct buffer folder = {0};
  int status = read_settings(l, claim, arm->name, claim->start, arm->start, c, error);
  if (!status) status = name_folder(l, claim, a, c, &folder, error);
  if (!status) status = config_set(c, "sweep.dir", folder.text, "ledger", error);
  if (!status) status = config_set(c, "sweep.drop_checkpoints", "0", "ledger", error); /* arms use them */
  memory_free(folder.text);
  return status;
}

static int plan_start(const struct ledger *l, const struct claim *claim, int a, int first, int seeds,
                      struct config *c, struct sweep *s, struct error *error)
{
  int status = start_config(l, claim, a, c, error);
  if (!status) status = arm_set_seeds(c, first, seeds, error);
  if (!status) status = sweep_plan(s, c, "claims", 1, 1, error);
  return status ? error_prefix(error, "%s, what %s starts from", claim->id, claim->arm[a].name) : STATUS_OK;
}

int starts_are_done(const struct ledger *l, const struct claim *claim, int a, int first, int seeds, int *done,
                    struct error *error)
{
  *done = 1;
  if (!claim->start) return STATUS_OK;
  struct sweep s = {0};
  struct config *c = config_new();
  int status = plan_start(l, claim, a, first, seeds, c, &s, error);
  for (long i = 0; i < s.count; i++)
    *done &= s.points[i].fate == SWEEP_FINISHED || s.points[i].fate == SWEEP_DIVERGED;
  sweep_free(&s);
  config_free(c);
  return status;
}

struct starts {
  struct ledger *ledger;
  int first, seeds, tuned;
};

/* The number of arms of an entry that need a first phase now. */
static int wanted(const struct starts *s, const struct entry *x)
{
  const struct claim *c = x->claim;
  if (!c->start || x->judgement.settled) return 0;
  if (s->tuned && (c->equal != EQUAL_TUNED || x->rates.kept)) return 0;
  return s->tuned ? claim_compared(c) : claim_arms(c);
}

static int plan_starts(void *context, struct run_batch *r, int again, struct error *error)
{
  const struct starts *s = context;
  struct ledger *l = s->ledger;
  int status = STATUS_OK;
  char *folder = NULL; /* starts have their own folders */
  *r = (struct run_batch){0};
  for (int i = 0; i < l->entries; i++)
    for (int a = 0; a < wanted(s, &l->entry[i]) && !status; a++) {
      struct sweep one = {0};
      struct config *c = config_new();
      run_batch_own(r, c);
      status = plan_start(l, l->entry[i].claim, a, s->first, s->seeds, c, &one, error);
      if (!status) run_batch_join(r, &one, &folder);
    }
  memory_free(folder);
  if (l->jobs) r->sweep.jobs = l->jobs;
  r->sweep.look = l->look, r->sweep.say = l->say, r->sweep.context = l->context;
  if (!status && r->sweep.count && l->start && !again) l->start(l->context, &r->sweep);
  return status;
}

int starts_run(struct ledger *l, int first, int seeds, int tuned, int *failed, struct error *error)
{
  struct starts s = {l, first, seeds, tuned};
  struct run_batch r;
  int any = 0, done;
  for (int i = 0; i < l->entries; i++) any |= wanted(&s, &l->entry[i]);
  if (!any) return STATUS_OK;
  int status = run_batch_run(&r, plan_starts, &s, error);
  run_batch_free(&r);
  if (status == STATUS_FAIL && !*error->text) *failed = 1, status = STATUS_OK;
  for (int i = 0; i < l->entries && tuned; i++) {
    struct entry *x = &l->entry[i];
    for (int a = 0; a < wanted(&s, x) && !status; a++) {
      status = starts_are_done(l, x->claim, a, first, seeds, &done, error);
      if (!done) x->lacks_start = 1;
    }
    if (x->lacks_start) snprintf(x->failed, sizeof x->failed, "a run that it starts from could not be done");
  }
  return status;
}

/* --- arms ------------------------------------------------------------------------------------------------- */

int arm_config(const struct ledger *l, const struct claim *claim, int a, const char *rate, struct config *c,
               struct error *error)
{
  const struct claim_arm *arm = &claim->arm[a];
  struct buffer folder = {0};
  int status = read_settings(l, claim, arm->name, claim->regime, arm->set, c, error);
  if (!status && claim->start) status = name_folder(l, claim, a, c, &folder, error);
  if (!status && claim->start) status = config_set(c, "train.init_from", folder.text, "ledger", error);
  memory_free(folder.text);
  if (!status && *rate) status = config_set(c, "train.lr", rate, "tuned", error);
  if (!status && config_points(c) != 1)
    status = error_set(error, STATUS_USAGE, "a list of values makes several runs where the claim wants one");
  return status;
}

int arm_set_seeds(struct config *c, int first, int seeds, struct error *error)
{
  char text[64];
  snprintf(text, sizeof text, "train.seed=%d:%d:lin:%d", first, first + seeds - 1, seeds);
  return config_assign(c, text, error);
}
