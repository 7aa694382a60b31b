/* resume.c - a run goes on: what its file tells, what may be changed, its newest state */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "run/lockstep.h"

static int set_parameter(void *config, const char *key, const char *value, const char *origin)
{
  return config_set(config, key, value, origin, NULL);
}

/* The configuration that a run file tells, its values from where they came then. */
static int config_of_run(const struct run_file *r, struct config *c, struct error *e)
{
  const char *preset = run_parameter(r, "preset");
  if (preset && *preset && config_set(c, "preset", preset, "run file", e)) return e->status;
  if (run_settings(r, set_parameter, c))
    return error_set(e, STATUS_FAIL, "its parameters do not fit this version");
  return config_finish(c, e);
}

/* Only keys that cannot change the past: free ones, train.steps upwards under a constant schedule, and where
   train.init_from lies now (its content is compared where it is still needed). */
static int check_change(const struct config *c, const char *assignment, struct error *e)
{
  struct config_entry x;
  if (!config_assigned(c, assignment, &x)) return STATUS_OK; /* config_assign says so */
  if (x.row->flags & (OPTION_FREE | OPTION_CONTENT)) return STATUS_OK;
  const struct train_options *t = config_section(c, "train");
  if (!(x.row->flags & OPTION_EXTEND))
    return error_set(e, STATUS_USAGE,
                     "%s would change the past of this run; resume takes train.steps "
                     "(upwards, constant schedule), paths, threads and recording intervals",
                     x.key);
  if (strcmp(t->schedule, "constant"))
    return error_set(e, STATUS_USAGE,
                     "%s: the %s schedule depends on it; only a constant schedule can be "
                     "extended",
                     x.key, t->schedule);
  return STATUS_OK;
}

static int change_config(struct config *c, const char *const *changes, int count, struct error *e)
{
  long steps = ((const struct train_options *)config_section(c, "train"))->steps;
  for (int i = 0; i < count; i++)
    if (check_change(c, changes[i], e) || config_assign(c, changes[i], e)) return e->status;
  if (count && config_finish(c, e)) return e->status;
  const struct train_options *t = config_section(c, "train");
  if (t->steps < steps)
    return error_set(e, STATUS_USAGE, "train.steps = %ld is less than the run's %ld", t->steps, steps);
  return STATUS_OK;
}

static int read_origin(const char *path, struct config **c, struct origin *o, struct error *e)
{
  struct run_file *r = NULL;
  *c = NULL;
  if (run_open_trained(&r, path, e)) return e->status;
  *c = config_new();
  *o = (struct origin){0};
  run_contents(r, &o->data_content, &o->start_content);
  o->is_over = !strcmp(run_state(r), "diverged");
  o->last_step = run_last_step(r);
  snprintf(o->id, sizeof o->id, "%s", run_id(r));
  if (config_of_run(r, *c, e)) {
    error_prefix(e, "%s", path);
    config_free(*c);
    *c = NULL;
  }
  run_close(r);
  return *c ? STATUS_OK : e->status;
}

int trainer_config_of(const char *path, struct config **c, char id[16], struct error *e)
{
  struct origin o;
  int status = read_origin(path, c, &o, e);
  if (id && !status) snprintf(id, sizeof o.id, "%s", o.id);
  return status;
}

/* The configuration as it was, with the contents that the file tells, has the run's id: else these are other
   numerics, or the file is so old that it does not tell them. */
static int check_numerics(const char *path, const struct config *c, const struct origin *o, struct error *e)
{
  char now[16];
  config_id(c, o->data_content, o->start_content, now);
  if (!strcmp(now, o->id)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "%s: this version computes other numbers than this run's (id %s, now %s)",
                   path, o->id, now);
}

/* The newest checkpoint; none, where the run was killed before the first: then from the start. */
static int read_state(const char *path, long last_step, struct checkpoint *c, struct error *e)
{
  int status = checkpoint_latest(path, c, e);
  if (status == STATUS_USAGE) {
    if (last_step > 0)
      warning("%s: no checkpoint is left of its %ld step%s; it begins anew from step 0", path, last_step,
              text_s(last_step));
    *e = (struct error){0};
    *c = (struct checkpoint){0};
    return STATUS_OK;
  }
  if (!status && strcmp(c->core, device_blas_core()))
    warning("the checkpoint was computed on OpenBLAS core %s, this is %s: the bits may differ", c->core,
            device_blas_core());
  return status;
}

/* Those from before train.steps was raised bear the id that the run had then: with the steps that its file tells they
   have its own. */
static int is_earlier(const struct checkpoint *state, const struct config *c, const struct origin *o)
{
  char id[16] = "", then_id[16], text[32];
  struct error unread = {0};
  struct config *then = config_new();
  snprintf(text, sizeof text, "%ld", ((const struct train_options *)config_section(c, "train"))->steps);
  if (!config_read(then, state->config_text, "checkpoint", &unread) && !config_finish(then, &unread)) {
    config_id(then, o->data_content, o->start_content, then_id); /* another one: of other data, or weights */
    if (!strcmp(then_id, state->id) && !config_set(then, "train.steps", text, "run file", &unread) &&
        !config_finish(then, &unread))
      config_id(then, o->data_content, o->start_content, id);
  }
  config_free(then);
  return !strcmp(id, o->id);
}

int trainer_owns(const char *path, const char *id, const struct checkpoint *state, struct error *e)
{
  struct origin o;
  struct config *c;
  struct error unread = {0};
  if (!state->count || !strcmp(state->id, id) || read_origin(path, &c, &o, &unread)) return STATUS_OK;
  int owns = check_numerics(path, c, &o, &unread) || is_earlier(state, c, &o); /* else nobody can tell */
  config_free(c);
  if (owns) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "%s: its checkpoint of step %ld is of another run (id %s, not %s)", path,
                   state->step, state->id, id);
}

typedef int take_rows(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                      long step, const void *rows, size_t rows_size, struct error *);

static int restore(struct trainer *t, const struct checkpoint *c, take_rows *take, struct error *e)
{
  struct run_facts f;
  int status = c->count ? trainer_load(t, c, e) : STATUS_OK;
  if (status) return status;
  t->done = t->checkpointed = c->step;
  t->earlier_wall = c->wall;
  if (c->count) t->dense.quiet = dense_wanted(&t->dense) ? c->dense : -1;
  if (c->count) t->health.peak = (struct peak){c->peak, c->peak_step, c->peak_at};
  trainer_facts(t, &f);
  status = take(&t->recorder, t->path, t->config, &f, c->step, c->rows, c->rows_size, e);
  if (status) return status;
  t->val_loss = recorder_last(t->recorder, "val_loss", AXIS_VAL);
  if (take == recorder_repeat) /* the steps before it may be those of a slower repetition */
    t->earlier_wall = fmax(t->earlier_wall, recorder_seconds(t->recorder));
  return status;
}

/* A run's last step has a row, whatever record.every says. Where it has become longer, that step is not its last. */
static int forget_last_row(struct trainer *t, struct error *e)
{
  if (!t->done || t->done == t->train->steps || dense_on(&t->dense)) return STATUS_OK;
  return recorder_forget(t->recorder, t->done - 1, t->record.every, dense_first(&t->dense, t->done - 1), e);
}

/* What follows of a trainer that has its configuration and path: either it is built in `state`, rows of its file taken,
   or, as with a `status`, nothing is left of it. The event tells of it. */
static int begin_at(struct trainer **out, struct trainer *t, struct origin *origin, struct checkpoint *state,
                    take_rows *take, const char *event, int status, struct error *e)
{
  t->origin = origin;
  origin->has_state = state->count > 0;
  if (!status) status = trainer_build(t, 1, e);
  if (!status) status = restore(t, state, take, e);
  if (!status && take == recorder_resume) status = forget_last_row(t, e);
  checkpoint_free(state);
  t->origin = NULL;
  if (status) {
    trainer_release(t);
    return status;
  }
  trainer_observe(t);
  recorder_event(t->recorder, t->done, event, -1, -1, NAN);
  trainer_finish_all(ALONE(t)); /* killed on the last lines */
  *out = t;
  return STATUS_OK;
}

static int resume(struct trainer **out, struct device *device, const char *path, const char *const *changes,
                  int count, struct error *e)
{
  struct origin origin;
  struct checkpoint state = {0};
  struct config *c;
  *out = NULL;
  if (read_origin(path, &c, &origin, e)) return e->status;
  if (origin.is_over) {
    config_free(c);
    return error_set(e, STATUS_USAGE, "%s: diverged at step %ld; no step can follow", path, origin.last_step);
  }
  struct trainer *t = memory_new(1, sizeof *t);
  t->config = c;
  t->owns_config = 1;
  t->device = device;
  t->shares_device = device != NULL;
  snprintf(t->path, sizeof t->path, "%s", path);
  int status = check_numerics(path, c, &origin, e);
  if (!status) status = change_config(c, changes, count, e);
  if (!status) status = read_state(path, origin.last_step, &state, e);
  if (!status) status = trainer_owns(path, origin.id, &state, e);
  return begin_at(out, t, &origin, &state, recorder_resume, "resume", status, e);
}

int trainer_resume(struct trainer **out, const char *path, const char *const *changes, int count,
                   struct error *e)
{
  return resume(out, NULL, path, changes, count, e);
}

int trainer_resume_on(struct trainer **out, struct device *device, const char *path, struct error *e)
{
  return resume(out, device, path, NULL, 0, e);
}

int trainer_repeat(struct trainer **out, struct config *c, const char *path, const char *into, long from,
                   struct error *e)
{
  struct origin origin;
  struct checkpoint state = {0};
  struct config *was;
  *out = NULL;
  if (read_origin(path, &was, &origin, e)) return e->status;
  int status = check_numerics(path, was, &origin, e);
  config_free(was);
  if (!status && from > origin.last_step)
    status = error_set(e, STATUS_USAGE, "%s: nothing to repeat from step %ld on, this run ended after %ld",
                       path, from, origin.last_step);
  if (!status) status = checkpoint_before(path, from, &state, e);
  if (!status) status = trainer_owns(path, origin.id, &state, e);
  if (!status) status = recorder_copy(path, into, e);
  if (status) {
    checkpoint_free(&state);
    return status;
  }
  struct trainer *t = memory_new(1, sizeof *t);
  t->config = c;
  snprintf(t->path, sizeof t->path, "%s", into);
  return begin_at(out, t, &origin, &state, recorder_repeat, "rerun", STATUS_OK, e);
}
