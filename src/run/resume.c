/* resume.c - continues a run from its file and its newest checkpoint */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "numerics/blas.h"
#include "run/batched.h"
#include "run/dist.h"

/* Read the newest checkpoint. If the run was killed before its first checkpoint, it begins at the start. */
static int read_state(const char *path, const struct origin *origin, struct checkpoint *c, struct error *e)
{
  const long last_step = origin->last_step;
  int status = checkpoint_latest(path, c, e);
  if (status == STATUS_USAGE) {
    *e = (struct error){0};
    if (last_step > 0 && origin->has_ended)
      return error_set(e, STATUS_USAGE,
                       "%s: no checkpoint of its %ld step%s is here, so no step can follow; `maxlogit rerun` "
                       "repeats it",
                       path, last_step, text_s(last_step));
    if (last_step > 0)
      warning("%s: no checkpoint is left of its %ld step%s; it begins anew from step 0", path, last_step,
              text_s(last_step));
    *c = (struct checkpoint){0};
    return STATUS_OK;
  }
  if (!status && strcmp(c->core, device_blas_core()))
    warning("the checkpoint was computed on OpenBLAS core %s, this is %s: the bits may differ", c->core,
            device_blas_core());
  return status;
}

static int restore(struct trainer *t, const struct checkpoint *c, int repeats, struct error *e)
{
  struct run_facts f;
  const struct model_options *m = &t->engine.model.options;
  int status = c->count ? trainer_load(t, c, e) : STATUS_OK;
  if (!status && c->count && c->peak_at >= model_blocks(m) * m->heads)
    status =
      error_set(e, STATUS_FAIL, "%s: the peak of its checkpoint is in no head of this model", t->plan.path);
  if (!status && (c->step > (long)1 << 53 || !isfinite(c->wall) || c->wall < 0))
    status = error_set(e, STATUS_FAIL, "%s: step %ld and %g s of its checkpoint are impossible", t->plan.path,
                       c->step, c->wall);
  if (status) return status;
  t->done = t->checkpointed = c->step;
  t->earlier_wall = c->wall;
  if (c->count) t->record.health.peak = (struct peak){c->peak, c->peak_step, c->peak_at};
  trainer_facts(t, &f);
  if (t->ranks.comm->rank) {
    t->record.recorder = recorder_null(&f);
    t->val_loss = NAN;
    return STATUS_OK;
  }
  status = recorder_resume(&t->record.recorder, t->plan.path, t->plan.config, &f, c->step, e);
  if (status) return status;
  t->val_loss = recorder_last(t->record.recorder, "val_loss", AXIS_VAL);
  if (repeats) /* the earlier steps may be those of a slower repetition */
    t->earlier_wall = fmax(t->earlier_wall, recorder_seconds(t->record.recorder));
  return status;
}

/* The number of updates behind which a run has a row only because it ends there; -1: it has none. */
static long row_for_end(const struct config *c)
{
  const long every = ((const struct record_options *)config_section(c, "record"))->every;
  const long steps = ((const struct train_options *)config_section(c, "train"))->steps;
  return steps && (!every || (steps - 1) % every) ? steps : -1;
}

/* Build a trainer that has its configuration and path: load `state` and take over the rows of its file. On failure, or
   if `status` is an error, the trainer is freed. Records a resume event. */
static int begin_at(struct trainer **out, struct trainer *t, struct origin *origin, struct checkpoint *state,
                    int repeats, int status, struct error *e)
{
  const int other = t->ranks.context != 0; /* other ranks along the context; 0 keeps those of the run */
  t->plan.origin = origin;
  origin->has_state = state->count > 0;
  if (!status) status = trainer_build(t, 1, e);
  if (!status) status = restore(t, state, repeats, e);
  if (!status) trainer_forget_end(t);
  checkpoint_free(state);
  t->plan.origin = NULL;
  if (!status) {
    trainer_observe(t);
    recorder_event(t->record.recorder, t->done, repeats ? "rerun" : "resume", -1, -1, NAN);
    if (other) recorder_event(t->record.recorder, t->done, "context", -1, -1, (double)t->ranks.context);
    status = recorder_snapshot(t->record.recorder, "running", t->done, trainer_wall(t), 0, e);
  }
  if (status) {
    trainer_release(t);
    return status;
  }
  trainer_finish_all(ALONE(t)); /* the run was killed while it wrote its last rows */
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
  if (origin_read(path, &c, &origin, e)) return e->status;
  if (origin.is_over) {
    config_free(c);
    return error_set(e, STATUS_USAGE, "%s: diverged at step %ld; no step can follow", path, origin.last_step);
  }
  struct trainer *t = memory_new(1, sizeof *t);
  t->plan.config = c;
  t->plan.owns_config = 1;
  t->engine.device = device;
  t->engine.shares_device = device != NULL;
  snprintf(t->plan.path, sizeof t->plan.path, "%s", path);
  const long end = row_for_end(c); /* by the intervals that it had */
  int status = origin_check(path, c, &origin, e);
  if (!status && origin.additions.status) status = error_set(e, STATUS_USAGE, "%s", origin.additions.text);
  if (!status) status = trainer_change_config(c, changes, count, &t->ranks.context, e);
  if (!status) status = origin_refuse_copy(c, path, e);
  if (!status) status = read_state(path, &origin, &state, e);
  t->record.is_for_end = state.step == end;
  if (!status) status = origin_owns(path, origin.id, &state, e);
  return begin_at(out, t, &origin, &state, 0, status, e);
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
  if (origin_read(path, &was, &origin, e)) return e->status;
  int status = origin_check(path, was, &origin, e);
  config_free(was);
  if (!status && from > origin.last_step)
    status = error_set(e, STATUS_USAGE, "%s: nothing to repeat from step %ld on, this run ended after %ld",
                       path, from, origin.last_step);
  if (!status) status = checkpoint_before(path, from, &state, e);
  if (!status) status = origin_owns(path, origin.id, &state, e);
  if (!status && !dist_ranks(0)->rank) status = recorder_copy(path, into, e);
  if (status) {
    checkpoint_free(&state);
    return status;
  }
  struct trainer *t = memory_new(1, sizeof *t);
  t->plan.config = c;
  snprintf(t->plan.path, sizeof t->plan.path, "%s", into);
  return begin_at(out, t, &origin, &state, 1, STATUS_OK, e);
}
