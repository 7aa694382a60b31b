#include "run/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "run/batched.h"
#include "run/dist.h"

/* --- steps at which passes are due ----------------------------------------------------------------------- */

static int due(long every, long step) { return every && step % every == 0; }
static int val_due(const struct trainer *t) { return due(t->plan.train->val_every, t->done); }

static int probe_due(const struct trainer *t) { return due(t->plan.record.probe_every, t->done); }
static int spectra_due(const struct trainer *t) { return due(t->plan.record.spectra_every, t->done); }

/* Do the record or the stabilizers need it? */
static int probe_wanted(const struct trainer *t)
{
  for (int i = 0; i < t->engine.model.stabilizer_count; i++)
    if (t->engine.model.context[i].wants_probe) return 1;
  return probe_due(t);
}

static int any(const struct batched *c, batched_choice *chosen)
{
  for (int i = 0; i < c->count; i++)
    if (chosen(c->run[i])) return 1;
  return 0;
}

/* Validation and probe use the weights before this step's update. The probe comes last, because stabilizers may use its
   maxima. */
static void look_around(const struct batched *c)
{
  if (any(c, val_due)) {
    trainer_run_validation(c, val_due);
    batched_replay(c, PART_KEEP_VAL);
  }
  if (any(c, probe_wanted)) {
    batched_draw(c, probe_wanted, DATA_PROBE, 0);
    batched_replay(c, PART_REDUCE_LOOK + REDUCE_CLEAR);
    batched_run_pass(c, probe_wanted, PART_LOOK);
  }
}

static struct step_scalars scalars_of(const struct trainer *t)
{
  const struct train_options *o = t->plan.train;
  return (struct step_scalars){
    t->done, schedule_rate(t->plan.schedule, t->plan.schedule_options, o->lr, o->warmup, t->done, o->steps),
    schedule_rate(t->plan.schedule, t->plan.schedule_options, 1, o->warmup, t->done, o->steps)};
}

/* Write the rows of these passes. */
static void observe_looks(struct trainer *t, const struct flight *f)
{
  if (due(t->plan.record.probe_every, t->ring.reading))
    row_writer_put(t->record.row_writer, AXIS_PROBE, &f->now, 1, 0, NULL);
  if (!due(t->plan.train->val_every, t->ring.reading)) return;
  t->val_loss = trainer_reported_val(t);
  row_writer_put(t->record.row_writer, AXIS_VAL, &f->now, (double)t->plan.train->val_batches, 0, NULL);
}

/* A solver that does not converge leaves NaN in the row: this is an event, not the end of a run. */
static void emit_spectra(struct trainer *t, int with_update)
{
  struct error e = {0};
  if (!t->plan.record.spectra_every) return;
  if (t->ranks.comm->rank) {
    observers_lend(t->record.observers, with_update);
    return;
  }
  t->ring.reading = t->done;
  struct step_scalars now = scalars_of(t);
  if (row_writer_put(t->record.row_writer, AXIS_SPECTRA, &now, 1, with_update, &e))
    health_event(&t->record.health, "nonconverged", -1, -1, NAN);
}

static void emit_update(struct trainer *t, const void *context)
{
  (void)context;
  if (report_of(t->engine.model.report, updates_finite(t->engine.updates))[0] == 0) return;
  emit_spectra(t, 1);
}

/* The row of the spectra covers the weights before the update and the coming update; a step that is not finite has no
   such row. */
static void look_at_updates(const struct batched *c)
{
  for (int i = 0; i < c->count; i++)
    if (spectra_due(c->run[i])) report_ask(c->run[i]->engine.model.report);
  for (int i = 0; i < c->count; i++)
    if (spectra_due(c->run[i])) report_receive(c->run[i]->engine.model.report);
  batched_each(c, spectra_due, emit_update, NULL);
}

static int is_finished(const struct trainer *t)
{
  return !t->error.status && !t->diverged && t->done && t->done == t->plan.train->steps;
}

static void emit_end(struct trainer *t, const void *context)
{
  (void)context;
  row_writer_put(t->record.row_writer, AXIS_VAL, &(struct step_scalars){.step = t->done},
                 (double)t->plan.train->val_batches, 0, NULL);
  emit_spectra(t, 0);
}

/* The final passes follow the last checkpoint, so that a run that is extended on resume has only the rows of the longer
   run. */
void trainer_finish_all(const struct batched *c)
{
  if (!any(c, is_finished)) return;
  trainer_run_validation(c, is_finished);
  for (int i = 0; i < c->count; i++)
    if (is_finished(c->run[i])) {
      c->run[i]->val_loss = trainer_validated(c->run[i]);
      trainer_decode_end(c->run[i]);
    }
  batched_each(c, is_finished, emit_end, NULL);
}

static int time_is_up(const struct trainer *t)
{
  return t->plan.keep->seconds > 0 && clock_seconds() - t->checkpointed_at > t->plan.keep->seconds;
}

static int checkpoint_due(const struct trainer *t)
{
  if (t->plan.keep->every && t->done % t->plan.keep->every == 0) return 1;
  return t->ranks.comm->ranks > 1 ? t->saves : time_is_up(t);
}

/* --- the report, read some steps later if the device is behind ----------------------------------------------- */

static struct flight *next_flight(struct trainer *t)
{
  return &t->ring.flight[(t->ring.oldest + t->ring.flying) % (AHEAD_MOST + 1)];
}

static void submit_step(struct trainer *t)
{
  struct flight *f = next_flight(t);
  const struct batch *b = &t->engine.host.batch;
  size_t n = (size_t)(t->engine.host.rows * t->engine.host.batch.context);
  if (t->plan.record.batches) {
    memcpy(f->batch.tokens, b->tokens, (n + (size_t)t->engine.host.rows) * sizeof *b->tokens);
    memcpy(f->batch.mask, b->mask, n * sizeof *b->mask);
    memcpy(f->batch.document, b->document, n * sizeof *b->document);
  }
  report_ask(t->engine.model.report);
  t->ring.flying++;
  t->done++;
}

/* Record events and rows from the step's report. */
static void read_step(struct trainer *t, const struct flight *f)
{
  struct report *r = t->engine.model.report;
  if (t->plan.record.batches)
    recorder_batch(t->record.recorder, t->ring.reading, f->batch.tokens,
                   t->engine.data.has_mask ? f->batch.mask : NULL,
                   t->engine.data.has_document ? f->batch.document : NULL, t->engine.host.rows,
                   t->engine.host.batch.context);
  outcome_read(&t->record.outcome, &t->engine.model);
  t->grad_norm = (double)report_of(r, updates_grad_norm(t->engine.updates))[0];
  t->diverged = report_of(r, updates_finite(t->engine.updates))[0] == 0;
  observe_looks(t, f);
  health_peak(&t->record.health, &t->record.outcome);
  health_finite(&t->record.health, &t->record.outcome, t->grad_norm);
  health_spike(&t->record.health, t->record.outcome.loss, t->plan.train->spike);
  if (!t->diverged) health_series(&t->record.health, &t->engine.model);
  const int is_due = due(t->plan.record.every, t->ring.reading) || t->diverged;
  t->record.is_for_end = !is_due && t->ring.reading + 1 == t->plan.train->steps;
  if (is_due || t->record.is_for_end) row_writer_put(t->record.row_writer, AXIS_STEP, &f->now, 1, 0, NULL);
}

/* Retire the oldest step in flight. Steps after one that is not finite have changed nothing and are dropped. */
static int retire_oldest(struct trainer *t, struct error *e)
{
  const struct flight *f = &t->ring.flight[t->ring.oldest];
  t->ring.reading = f->now.step;
  report_receive(t->engine.model.report);
  read_step(t, f);
  double now = clock_seconds();
  recorder_timing(t->record.recorder, t->ring.reading,
                  now - (f->began > t->ring.read_at ? f->began : t->ring.read_at));
  t->ring.read_at = now;
  t->ring.oldest = (t->ring.oldest + 1) % (AHEAD_MOST + 1);
  t->ring.flying--;
  if (t->diverged) {
    report_drop(t->engine.model.report);
    t->ring.flying = 0;
    t->done = t->ring.reading;
  }
  return recorder_append(t->record.recorder, 0, e);
}

/* Retire steps until at most `most` are in flight. */
static int settle(struct trainer *t, int most, struct error *e)
{
  int status = STATUS_OK;
  while (!status && t->ring.flying > most) status = retire_oldest(t, e);
  return status;
}

int trainer_settle(struct trainer *t, struct error *e) { return settle(t, 0, e); }

int trainer_checkpoint(struct trainer *t, struct error *e)
{
  int status = settle(t, 0, e);
  return status ? status : trainer_save(t, e);
}

/* --- one step -------------------------------------------------------------------------------------------------- */

static void issue_step(const struct batched *c)
{
  double began = clock_seconds();
  for (int i = 0; i < c->count; i++) {
    struct flight *f = next_flight(c->run[i]);
    f->now = scalars_of(c->run[i]), f->began = began;
  }
  batched_replay(c, PART_BEGIN);
  look_around(c);
  batched_draw(c, NULL, DATA_TRAIN, 0);
  batched_run_pass(c, NULL, PART_STEP);
  for (int i = 0; i < c->count; i++) {
    struct trainer *t = c->run[i];
    if (spectra_due(t)) observers_before_update(t->record.observers);
    scalars_upload(t->engine.model.numbers, &next_flight(t)->now);
  }
  batched_replay(c, PART_UPDATES);
  look_at_updates(c);
  batched_replay(c, PART_APPLY);
  for (int i = 0; i < c->count; i++) submit_step(c->run[i]);
}

static int flights_left(const struct trainer *t) { return t->halts ? 0 : t->engine.device->ahead; }

static void retire_step(struct trainer *t, const void *context)
{
  (void)context;
  int status = settle(t, flights_left(t), &t->error), stops = 0;
  if (t->halts && t->ranks.comm->ranks > 1)
    status = dist_barrier(t, &stops, &t->error); /* before they write a checkpoint together */
  if (!status && !t->diverged && t->halts) trainer_save(t, &t->error);
}

static void retire_before(struct trainer *t, const void *context)
{
  (void)context;
  settle(t, 0, &t->error);
}

/* Spectra and checkpoints need the weights of finite steps, so wait for all earlier reports first. */
static void settle_before_spectra(const struct batched *c)
{
  for (int i = 0; i < c->count; i++)
    if (spectra_due(c->run[i])) report_reach(c->run[i]->engine.model.report, 0);
  batched_each(c, spectra_due, retire_before, NULL);
}

static void keep_those_that_go_on(struct batched *c)
{
  int n = 0;
  for (int i = 0; i < c->count; i++)
    if (!c->run[i]->error.status && trainer_more(c->run[i])) c->run[n++] = c->run[i];
  c->count = n;
}

/* The final passes need all ranks: if the files of one rank have failed, none does them. */
static void barrier_at_the_end(const struct batched *c)
{
  struct trainer *t = c->run[0];
  int stops = 0;
  if (t->ranks.comm->ranks > 1 && t->done == t->plan.train->steps) dist_barrier(t, &stops, &t->error);
}

/* This thread waits for the device; then the rows and files of all runs are written in parallel. */
void trainer_step_all(struct batched *c)
{
  for (int i = 0; i < c->count; i++) c->run[i]->error.status = STATUS_OK;
  settle_before_spectra(c);
  keep_those_that_go_on(c);
  if (!c->count) return;
  issue_step(c);
  for (int i = 0; i < c->count; i++) {
    struct trainer *t = c->run[i];
    t->halts = t->done == t->plan.train->steps || checkpoint_due(t);
    report_reach(t->engine.model.report, flights_left(t));
  }
  batched_each(c, NULL, retire_step, NULL);
  barrier_at_the_end(c);
  trainer_finish_all(c);
}

int trainer_step(struct trainer *t, struct error *e)
{
  trainer_step_all(ALONE(t));
  return t->error.status ? error_set(e, t->error.status, "%s", t->error.text) : STATUS_OK;
}

/* --- the end, and queries ---------------------------------------------------------------------------------------- */

struct trainer_status trainer_status(const struct trainer *t)
{
  const long steps = t->plan.train->steps;
  const struct outcome *o = &t->record.outcome;
  return (struct trainer_status){.done = t->done,
                                 .steps = steps,
                                 .loss = o->loss,
                                 .val_loss = t->val_loss,
                                 .grad_norm = t->grad_norm,
                                 .max_logit = o->max_logit,
                                 .peak = t->record.health.peak,
                                 .state = t->diverged        ? "diverged"
                                          : t->done >= steps ? "finished"
                                                             : "stopped"};
}

int trainer_done(struct trainer *t, struct error *e)
{
  int status = settle(t, 0, e), due = t->checkpointed != t->done || !t->done, stops = 0;
  if (t->ranks.comm->ranks > 1) status = dist_barrier(t, &stops, e);
  /* Write the checkpoint before the state "finished". A diverged run gets its state first, so that its last step is not
     repeated. */
  if (!status && due && !t->diverged) status = trainer_save(t, e);
  if (!status)
    status = recorder_snapshot(t->record.recorder, trainer_status(t).state, t->done, trainer_wall(t), 1, e);
  if (!status && due && t->diverged) status = trainer_save(t, e);
  trainer_release(t);
  return status;
}

void trainer_abandon(struct trainer *t) { trainer_release(t); }

int trainer_barrier(struct trainer *t, int *stops, struct error *e)
{
  t->saves = time_is_up(t);
  return dist_barrier(t, stops, e);
}

int trainer_ranks(const struct trainer *t, int *rank)
{
  if (rank) *rank = t->ranks.comm->rank;
  return t->ranks.comm->ranks;
}

int trainer_more(const struct trainer *t) { return !t->diverged && t->done < t->plan.train->steps; }
const char *trainer_path(const struct trainer *t) { return t->plan.path; }
const char *trainer_id(const struct trainer *t) { return t->plan.id; }
const struct recorder *trainer_recorder(const struct trainer *t) { return t->record.recorder; }
const struct config *trainer_config(const struct trainer *t) { return t->plan.config; }
struct model *trainer_model(struct trainer *t) { return &t->engine.model; }
struct device *trainer_device(const struct trainer *t) { return t->engine.device; }
const char *trainer_data(const struct trainer *t) { return t->engine.data.description; }

void trainer_contents(const struct trainer *t, uint64_t *data, uint64_t *start)
{
  *data = t->engine.data.content;
  *start = t->plan.start_content;
}

double trainer_loss_floor(const struct trainer *t) { return t->engine.data.loss_floor; }
