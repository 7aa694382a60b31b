#include "run/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "run/state.h"

/* --- one step ---------------------------------------------------------------------------------------------- */

static int probe_wanted(const struct trainer *t)
{
  for (int i = 0; i < t->model.stabilizer_count; i++)
    if (t->model.context[i].wants_probe) return 1;
  return 0;
}

static int due(long every, long step) { return every && step % every == 0; }

/* Of the step that is to be told. What it asks of the record was read: trainer_step waits. */
static int probe_due(const struct trainer *t)
{
  return due(t->record.probe_every, t->done) || (t->record.probe_every && dense_on(&t->dense));
}

static int spectra_due(const struct trainer *t)
{
  return due(t->record.spectra_every, t->done) || (t->record.spectra_every && dense_on(&t->dense));
}

/* What is looked at beside the training batch, with the weights before this step's update. The probe comes last: its
   maxima may be wanted by stabilisers. */
static void look_around(struct trainer *t)
{
  if (due(t->train->val_every, t->done)) {
    trainer_run_validation(t, NULL, NULL);
    program_run(t->keep_val);
  }
  if (probe_due(t) || probe_wanted(t)) {
    host_batch_draw(&t->host, &t->data, DATA_PROBE, COMMON_SEED, 0);
    program_run(t->begin_look);
    trainer_run_pass(t, &t->look_program);
  }
}

/* Rows of what was looked at. */
static void observe_looks(struct trainer *t, int probed)
{
  const struct report *r = t->model.report;
  if (probed) {
    pass_read(&t->probe, r, &t->model.probe, t->look_program.looks != NULL);
    observer_probe(t->observer, t->reading, &t->probe);
  }
  if (due(t->train->val_every, t->reading)) {
    t->val_loss = (double)report_of(r, t->model.val.loss)[0] / (double)t->train->val_batches;
    observer_val(t->observer, t->reading, t->val_loss);
  }
}

static void record_spectra(struct trainer *t, const struct pass *pass)
{
  struct error e = {0};
  if (!t->record.spectra_every) return;
  t->reading = t->done;
  if (observer_spectra(t->observer, t->done, pass, &e)) health_event(&t->health, "nonconverged", -1, -1, NAN);
}

/* The spectra's row is of the weights before the update and of the update to come; a step that is not finite has
   none. */
static void look_at_update(struct trainer *t)
{
  report_read(t->model.report);
  if (report_of(t->model.report, updates_go(t->updates))[0] == 0) return;
  pass_read(&t->pass, t->model.report, &t->model.seen, t->step_program.looks != NULL);
  record_spectra(t, &t->pass);
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

static struct moment moment_of(const struct trainer *t)
{
  const struct train_options *o = t->train;
  return (struct moment){t->done,
                         schedule_rate(t->schedule, t->schedule_options, o->lr, o->warmup, t->done, o->steps),
                         schedule_rate(t->schedule, t->schedule_options, 1, o->warmup, t->done, o->steps)};
}

/* --- the report, some steps later where the device is behind ------------------------------------------------ */

static void take_off(struct trainer *t, const struct moment *now, double began)
{
  struct flight *f = &t->flight[(t->oldest + t->flying++) % (AHEAD_MOST + 1)];
  const struct batch *b = &t->host.batch;
  size_t n = (size_t)(t->host.rows * t->host.context);
  f->now = *now, f->began = began, f->probed = probe_due(t);
  if (t->record.batches) {
    memcpy(f->batch.tokens, b->tokens, (n + (size_t)t->host.rows) * sizeof *b->tokens);
    memcpy(f->batch.mask, b->mask, n * sizeof *b->mask);
    memcpy(f->batch.document, b->document, n * sizeof *b->document);
  }
  report_ask(t->model.report);
}

/* The row of the step axis, and with the first of a dense stretch those that were put aside before it. */
static void record_step(struct trainer *t, const struct flight *f)
{
  int wanted = t->reading % t->record.every == 0 || t->diverged || t->reading + 1 == t->train->steps;
  wanted |= dense_on(&t->dense);
  if (dense_look(&t->dense, &t->health, &t->pass)) recorder_recall(t->recorder, t->reading - t->dense.around);
  wanted |= dense_on(&t->dense);
  long first = t->reading < t->dense.around ? 0 : t->reading - t->dense.around + 1;
  if (wanted || (dense_wanted(&t->dense) && t->dense.around))
    observer_step(t->observer, t->reading, &t->pass, f->now.rate, t->grad_norm,
                  wanted ? OBSERVE_RECORDED : first);
}

/* Events and rows from the step's report. */
static void read_step(struct trainer *t, const struct flight *f)
{
  struct report *r = t->model.report;
  if (t->record.batches)
    recorder_batch(t->recorder, t->reading, f->batch.tokens, t->data.has_mask ? f->batch.mask : NULL,
                   t->data.has_document ? f->batch.document : NULL, t->host.rows, t->host.context);
  pass_read(&t->pass, r, &t->model.seen, t->step_program.looks != NULL);
  pass_read_routes(&t->pass, r, &t->model.seen, &t->model);
  t->grad_norm = (double)report_of(r, updates_grad_norm(t->updates))[0];
  t->diverged = report_of(r, updates_go(t->updates))[0] == 0;
  observe_looks(t, f->probed);
  health_peak(&t->health, &t->pass);
  health_finite(&t->health, &t->pass, t->grad_norm);
  health_spike(&t->health, t->pass.loss, t->train->spike);
  if (!t->diverged) health_series(&t->health, &t->model);
  record_step(t, f);
}

/* The oldest step that is under way. Those after a step that is not finite have changed nothing: they never were. */
static int land_oldest(struct trainer *t, struct error *e)
{
  const struct flight *f = &t->flight[t->oldest];
  t->reading = f->now.step;
  report_receive(t->model.report);
  read_step(t, f);
  double now = clock_seconds();
  recorder_timing(t->recorder, t->reading, now - (f->began > t->read_at ? f->began : t->read_at));
  t->read_at = now;
  t->oldest = (t->oldest + 1) % (AHEAD_MOST + 1);
  t->flying--;
  if (t->diverged) {
    report_drop(t->model.report);
    t->flying = 0;
    t->done = t->reading;
  }
  return recorder_live(t->recorder, e);
}

/* Until no more than this many steps are under way. */
static int settle(struct trainer *t, int most, struct error *e)
{
  int status = STATUS_OK;
  while (!status && t->flying > most) status = land_oldest(t, e);
  return status;
}

int trainer_settle(struct trainer *t, struct error *e) { return settle(t, 0, e); }

/* --- one step -------------------------------------------------------------------------------------------------- */

static void tell_step(struct trainer *t)
{
  double began = clock_seconds();
  struct moment now = moment_of(t);
  program_run(t->begin);
  look_around(t);
  host_batch_draw(&t->host, &t->data, DATA_TRAIN, (uint64_t)t->train->seed, (uint64_t)t->done);
  trainer_run_pass(t, &t->step_program);
  if (spectra_due(t)) observer_weights(t->observer);
  updates_directions(t->updates, &now);
  if (spectra_due(t)) look_at_update(t);
  updates_apply(t->updates);
  take_off(t, &now, began);
  t->done++;
}

/* What looks at weights, or keeps them, first waits for all that was told before: a divergence must be known. With
   record.dense every step is waited for, so that what is recorded of the next does not hang on how late a report is. */
int trainer_step(struct trainer *t, struct error *e)
{
  int status = spectra_due(t) ? settle(t, 0, e) : STATUS_OK;
  if (status || !trainer_more(t)) return status;
  tell_step(t);
  int halt = t->done == t->train->steps || checkpoint_due(t);
  status = settle(t, halt || dense_wanted(&t->dense) ? 0 : t->device->ahead, e);
  if (status || t->diverged) return status;
  if (halt) status = trainer_checkpoint(t, e);
  if (t->done == t->train->steps) trainer_finish_record(t);
  return status;
}

/* --- the end, and questions ------------------------------------------------------------------------------------ */

const char *trainer_state(const struct trainer *t)
{
  return t->diverged ? "diverged" : t->done >= t->train->steps ? "finished" : "stopped";
}

int trainer_done(struct trainer *t, struct error *e)
{
  int status = settle(t, 0, e), due = t->checkpointed != t->done || !t->done;
  /* A run file that says "finished" has its last checkpoint; a diverged step is not to be done again. */
  if (!status && due && !t->diverged) status = trainer_checkpoint(t, e);
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

/* --- many of one structure ------------------------------------------------------------------------------------- */

enum { PROGRAMS = 7 };

static void programs_of(const struct trainer *t, const struct program *out[PROGRAMS])
{
  const struct program *const mine[] = {t->begin, t->begin_look, t->keep_val, t->step_program.program,
                                        t->look_program.program};
  memcpy(out, mine, sizeof mine);
  updates_programs(t->updates, out + sizeof mine / sizeof *mine);
}

const char *trainer_difference(const struct trainer *a, const struct trainer *b)
{
  const struct program *of_a[PROGRAMS], *of_b[PROGRAMS];
  const char *difference = NULL;
  programs_of(a, of_a);
  programs_of(b, of_b);
  for (int i = 0; i < PROGRAMS && !difference; i++)
    difference = program_difference(of_a[i], of_b[i], b->device->slab - a->device->slab);
  return difference;
}
