/* change.c - changes of options of a run that continues */
#include <stdio.h>
#include <string.h>

#include "run/state.h"

/* Accepts only keys that cannot change the past: free ones, train.steps upwards under a constant schedule, and the
   current path of train.init_from (its content is compared where it is still needed). */
static int check_change(const struct config *c, const char *assignment, struct error *e)
{
  struct config_entry x;
  if (!config_assigned(c, assignment, &x)) return STATUS_OK; /* config_assign refuses it */
  if (x.row->flags & (OPTION_FREE | OPTION_CONTENT) || !strcmp(x.key, "comm.context")) return STATUS_OK;
  const struct train_options *t = config_section(c, "train");
  if (!(x.row->flags & OPTION_EXTEND))
    return error_set(e, STATUS_USAGE,
                     "%s would change the past of this run; resume takes train.steps "
                     "(upwards, constant schedule), paths, threads and recording intervals; a new run "
                     "from its weights: train.init_from=CHECKPOINT",
                     x.key);
  if (strcmp(t->schedule, "constant"))
    return error_set(e, STATUS_USAGE,
                     "%s: the %s schedule depends on it; only a constant schedule can be "
                     "extended",
                     x.key, t->schedule);
  return STATUS_OK;
}

int trainer_change_config(struct config *c, const char *const *changes, int count, long *context,
                          struct error *e)
{
  long steps = ((const struct train_options *)config_section(c, "train"))->steps;
  const struct comm_options *comm = config_section(c, "comm");
  const long before = comm->context;
  for (int i = 0; i < count; i++)
    if (check_change(c, changes[i], e) || config_assign(c, changes[i], e)) return e->status;
  if (count && config_finish(c, e)) return e->status;
  if (comm->context != before) {
    char text[32];
    snprintf(text, sizeof text, "%ld", before);
    *context = comm->context;
    if (config_set(c, "comm.context", text, "run file", e) || config_finish(c, e)) return e->status;
  }
  const struct train_options *t = config_section(c, "train");
  if (t->steps < steps)
    return error_set(e, STATUS_USAGE, "train.steps = %ld is less than the run's %ld", t->steps, steps);
  return STATUS_OK;
}

/* --- of a run in memory ------------------------------------------------------------------------------------ */

/* The programs and series of a live trainer are fixed, so of the record only intervals can change. */
static int check_live(const struct trainer *t, const char *assignment, struct error *e)
{
  static const char *const intervals[] = {"record.every", "record.spectra_every", "record.probe_every"};
  const long now[] = {t->plan.record.every, t->plan.record.spectra_every, t->plan.record.probe_every};
  struct config_entry x;
  if (!config_assigned(t->plan.config, assignment, &x) || !strcmp(x.key, "train.steps")) return STATUS_OK;
  for (int i = 0; i < 3; i++) {
    if (strcmp(x.key, intervals[i])) continue;
    if (now[i]) return STATUS_OK;
    return error_set(e, STATUS_USAGE, "%s: was 0 when this run began; a new run can record it", x.key);
  }
  return STATUS_OK;
}

/* Options that follow from others are computed again. */
static void resolve_again(const struct trainer *t)
{
  struct error e = {0};
  trainer_resolve(t->plan.config);
  if (model_resolve(config_section(t->plan.config, "model"), t->engine.data.vocab, &e)) BUG("%s", e.text);
}

void trainer_forget_end(struct trainer *t)
{
  const long every = t->plan.record.every, step = t->done - 1;
  if (t->record.is_for_end && t->done < t->plan.train->steps && (!every || step % every))
    recorder_forget(t->record.recorder, step);
}

int trainer_change(struct trainer *t, const char *change, struct error *e)
{
  struct config *c = t->plan.config;
  const struct record_options *record = config_section(c, "record");
  struct config_entry x;
  long context = 0;
  const long steps = t->plan.train->steps;
  if (check_live(t, change, e)) return e->status;
  char *before = memory_text(config_assigned(c, change, &x) ? x.value : "");
  const int status = trainer_change_config(c, &change, 1, &context, e);
  const int is_changed = status && config_assigned(c, change, &x) && strcmp(x.value, before);
  if (is_changed && (config_set(c, x.key, before, "the run", NULL) || config_finish(c, NULL)))
    BUG("%s = %s is refused", x.key, before);
  memory_free(before);
  resolve_again(t);
  if (status) return status;
  if (t->plan.record.every) t->plan.record.every = record->every;
  if (t->plan.record.spectra_every) t->plan.record.spectra_every = record->spectra_every;
  if (t->plan.record.probe_every) t->plan.record.probe_every = record->probe_every;
  if (t->plan.train->steps > steps && t->done == steps) { /* drop the rows of its former end */
    recorder_go_back(t->record.recorder, t->done);
    trainer_forget_end(t);
  }
  return STATUS_OK;
}
