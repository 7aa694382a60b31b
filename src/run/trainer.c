#include "run/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "run/state.h"

/* --- one step ---------------------------------------------------------------------------------------------- */

static double gradient_norm(struct trainer *t)
{
  struct device *d = t->device;
  real norm;
  d->ops.norm(d, &(struct norm_args){t->norm, &t->model.params.grads});
  d->download(d, &norm, t->norm->data, sizeof norm);
  return (double)norm;
}

static void clip_gradient(struct trainer *t)
{
  double limit = t->train->grad_clip;
  if (limit > 0 && t->grad_norm > limit)
    t->device->ops.scale(t->device, &(struct scale_args){&t->model.params.grads, limit / t->grad_norm});
}

static int probe_wanted(const struct trainer *t)
{
  for (int i = 0; i < t->model.stabilizer_count; i++)
    if (t->model.context[i].wants_probe) return 1;
  return 0;
}

/* What is looked at beside the training batch, with the weights before this step's update. */
static void look_around(struct trainer *t)
{
  long s = t->done;
  int recorded = t->record.probe_every && s % t->record.probe_every == 0;
  if (recorded || probe_wanted(t)) {
    host_batch_draw(&t->host, &t->data, DATA_PROBE, COMMON_SEED, 0);
    trainer_run_pass(t, &t->look_program, &t->probe);
  }
  if (recorded) observer_probe(t->observer, s, &t->probe);
  if (t->train->val_every && s % t->train->val_every == 0) {
    t->val_loss = trainer_evaluate(t, NULL);
    observer_val(t->observer, s, t->val_loss);
  }
}

static void record_spectra(struct trainer *t, const struct pass *pass)
{
  struct error e = {0};
  if (!t->record.spectra_every) return;
  if (observer_spectra(t->observer, t->done, pass, &e)) health_event(&t->health, "nonconverged", -1, -1, NAN);
}

static void update(struct trainer *t, double lr)
{
  struct model *m = &t->model;
  for (int i = 0; i < m->stabilizer_count; i++) {
    m->context[i].step = t->done;
    m->context[i].lr = lr;
    if (m->stabilizer[i]->before_update) m->stabilizer[i]->before_update(&m->context[i]);
  }
  updates_directions(t->updates, t->done);
  if (t->record.spectra_every && t->done % t->record.spectra_every == 0) record_spectra(t, &t->pass);
  updates_apply(t->updates, lr);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->after_step) m->stabilizer[i]->after_step(&m->context[i]);
}

/* The last look, at the state after the last update. It comes after the last checkpoint, so that a run which
   is extended on resume has only the rows of the longer run. */
void trainer_finish_record(struct trainer *t)
{
  t->val_loss = trainer_evaluate(t, NULL);
  observer_val(t->observer, t->done, t->val_loss);
  record_spectra(t, NULL);
}

static int checkpoint_due(const struct trainer *t)
{
  if (t->keep->every && t->done % t->keep->every == 0) return 1;
  return t->keep->seconds > 0 && clock_seconds() - t->checkpointed_at > t->keep->seconds;
}

int trainer_step(struct trainer *t, struct error *e)
{
  struct device *d = t->device;
  double began = clock_seconds();
  double lr =
    schedule_rate(t->schedule, t->schedule_options, t->train->lr, t->train->warmup, t->done, t->train->steps);
  observer_clear(t->observer);
  look_around(t);
  host_batch_draw(&t->host, &t->data, DATA_TRAIN, (uint64_t)t->train->seed, (uint64_t)t->done);
  if (t->record.batches)
    recorder_batch(t->recorder, t->done, t->host.batch.tokens, t->data.has_mask ? t->host.batch.mask : NULL,
                   t->data.has_document ? t->host.batch.document : NULL, t->host.rows, t->host.context);
  d->ops.fill(d, &(struct fill_args){&t->model.params.grads, 0});
  trainer_run_pass(t, &t->step_program, &t->pass);
  t->grad_norm = gradient_norm(t);

  health_peak(&t->health, &t->pass);
  int bad = health_finite(&t->health, &t->pass, t->grad_norm);
  health_spike(&t->health, t->pass.loss, t->train->spike);
  if (bad && t->train->on_nonfinite != ON_NONFINITE_CONTINUE) {
    t->diverged = 1;
  } else {
    clip_gradient(t);
    update(t, lr);
  }
  if (t->done % t->record.every == 0 || t->diverged || t->done + 1 == t->train->steps)
    observer_step(t->observer, t->done, &t->pass, lr, t->grad_norm);
  recorder_timing(t->recorder, t->done, clock_seconds() - began);
  int status = recorder_live(t->recorder, e);
  if (!t->diverged) t->done++;
  int last = t->done == t->train->steps;
  if (!status && (last || (!t->diverged && checkpoint_due(t)))) status = trainer_checkpoint(t, e);
  if (last) trainer_finish_record(t);
  return status;
}

/* --- the end, and questions ------------------------------------------------------------------------------------ */

const char *trainer_state(const struct trainer *t)
{
  return t->diverged ? "diverged" : t->done >= t->train->steps ? "finished" : "stopped";
}

int trainer_done(struct trainer *t, struct error *e)
{
  int status = STATUS_OK, due = t->checkpointed != t->done || !t->done;
  /* A run file that says "finished" has its last checkpoint; a diverged step is not to be done again. */
  if (due && !t->diverged) status = trainer_checkpoint(t, e);
  if (!status) status = recorder_snapshot(t->recorder, trainer_state(t), t->done, trainer_wall(t), 1, e);
  if (!status && due && t->diverged) status = trainer_checkpoint(t, e);
  trainer_release(t);
  return status;
}

void trainer_abandon(struct trainer *t) { trainer_release(t); }

int trainer_more(const struct trainer *t) { return !t->diverged && t->done < t->train->steps; }
long trainer_step_count(const struct trainer *t) { return t->done; }
long trainer_steps(const struct trainer *t) { return t->train->steps; }
double trainer_loss(const struct trainer *t) { return t->pass.loss; }
double trainer_val_loss(const struct trainer *t) { return t->val_loss; }
double trainer_grad_norm(const struct trainer *t) { return t->grad_norm; }
const real *trainer_max_logit(const struct trainer *t) { return t->pass.max_logit; }
struct peak trainer_peak(const struct trainer *t) { return t->health.peak; }
const char *trainer_path(const struct trainer *t) { return t->path; }
const char *trainer_id(const struct trainer *t) { return t->id; }
const struct config *trainer_config(const struct trainer *t) { return t->config; }
struct model *trainer_model(struct trainer *t) { return &t->model; }
struct device *trainer_device(struct trainer *t) { return t->device; }
const char *trainer_data(const struct trainer *t) { return t->data.description; }

void trainer_contents(const struct trainer *t, uint64_t *data, uint64_t *start)
{
  *data = t->data.content;
  *start = t->start_content;
}

double trainer_loss_floor(const struct trainer *t) { return t->data.loss_floor; }
