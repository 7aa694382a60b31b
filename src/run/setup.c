/* setup.c - builds a trainer from its configuration, and frees it */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "model/boost.h"
#include "numerics/ranks.h"
#include "numerics/sums.h"
#include "run/dist.h"
#include "run/start.h"
#include "run/state.h"
#include "training/optimizer.h"

struct stabilizer_list {
  struct trainer *t;
  const struct stabilizer *member[MAX_STABILIZERS];
  const void *options[MAX_STABILIZERS];
  int count;
  struct error *error;
};

static int push_stabilizer(void *context, const char *name)
{
  struct stabilizer_list *s = context;
  if (s->count == MAX_STABILIZERS)
    return error_set(s->error, STATUS_USAGE, "stabilizers: more than %d", MAX_STABILIZERS);
  s->member[s->count] = stabilizer_find(name);
  if (!s->member[s->count]) return error_set(s->error, STATUS_USAGE, "stabilizers: unknown '%s'", name);
  s->options[s->count++] = config_section(s->t->plan.config, name);
  return STATUS_OK;
}

static const void *plugin_options(void *config, const char *name) { return config_section(config, name); }

static int init_data(struct trainer *t, const struct model_options *m, struct error *e)
{
  const struct data_source *source = data_source_find(t->plan.top->data);
  if (!source) return error_set(e, STATUS_USAGE, "data: unknown '%s'", t->plan.top->data);
  t->engine.data.loss_floor = NAN;
  const struct data_options *shared = config_section(t->plan.config, "data");
  if (shared->label_noise > 0 &&
      (m->mtp || t->plan.record.batches)) /* a module's inputs are the main head's targets */
    return error_set(e, STATUS_USAGE, "data.label_noise = %g: not together with %s", shared->label_noise,
                     m->mtp ? "model.mtp" : "record.batches, which stores tokens and no labels");
  t->engine.data.label_noise = shared->label_noise;
  int status = source->init(&t->engine.data, shared, config_section(t->plan.config, t->plan.top->data),
                            m->context + m->mtp, 0, e);
  if (status) return status; /* it has freed its own memory */
  t->engine.data.source = source;
  if (t->engine.data.label_noise > 0 && t->engine.data.vocab < 2)
    return error_set(e, STATUS_USAGE,
                     "data.label_noise = %g: %s has one symbol, and no other to replace it by",
                     t->engine.data.label_noise, t->engine.data.description);
  if (t->plan.origin && t->plan.origin->data_content != t->engine.data.content)
    return error_set(e, STATUS_USAGE, "%s: not the data of this run (%s now): another content",
                     strcmp(t->plan.top->data, "bytes") ? "data" : "data.path", t->engine.data.description);
  return STATUS_OK;
}

static int init_weights(struct trainer *t, struct error *e)
{
  const struct origin *o = t->plan.origin;
  int status = STATUS_OK;
  if (!t->plan.undrawn) params_draw(&t->engine.model.params, (uint64_t)t->plan.train->seed);
  if (o && o->has_state)
    t->plan.start_content = o->start_content;
  else
    status = start_from(&t->engine.model, t->plan.train->init_from, t->plan.train->seed,
                        o ? &o->start_content : NULL, &t->plan.start_content, e);
  if (!status) status = boost_heads(&t->engine.model, t->plan.train->plant, e);
  if (!status && t->ranks.shards)
    status = comm_agree(t->ranks.comm, NULL, e); /* model_begin may gather weights of all ranks */
  if (!status && !t->plan.kept) model_begin(&t->engine.model);
  return status;
}

static int init_model(struct trainer *t, struct model_options *m, struct error *e)
{
  struct stabilizer_list chosen = {.t = t, .error = e};
  if (text_split(t->plan.top->stabilizers, '+', push_stabilizer, &chosen)) return e->status;
  int status =
    model_init(&t->engine.model, m, t->engine.device, chosen.member, chosen.options, chosen.count, e);
  if (status) return status;
  t->engine.model.precision = *(const struct precision_options *)config_section(t->plan.config, "precision");
  char cancels[256];
  if (model_warning(&t->engine.model, cancels, sizeof cancels)) warning("%s", cancels);
  return STATUS_OK;
}

/* --- memory ------------------------------------------------------------------------------------------------ */

const char *const memory_part_names[MEMORY_PARTS] = {
  [MEMORY_DATA] = "the data",
  [MEMORY_MODEL] = "weights, gradients and the report",
  [MEMORY_UPDATES] = "the optimizers' states and updates",
  [MEMORY_RECORD] = "what is recorded",
  [MEMORY_PASSES] = "the passes over a micro-batch",
};

/* Assign the memory held since the last mark to this part. */
static void mark_memory(struct trainer *t, enum memory_part part)
{
  size_t now = memory_held(), before = t->record.unmarked;
  t->record.memory[part] = now > before ? now - before : 0;
  t->record.unmarked = now;
}

void trainer_memory(const struct trainer *t, size_t bytes[MEMORY_PARTS])
{
  memcpy(bytes, t->record.memory, sizeof t->record.memory);
}

/* Check before large buffers are first touched, because pages are committed lazily. */
static int check_memory(const struct trainer *t, struct error *e)
{
  enum memory_part most = 0;
  double all = 0;
  for (enum memory_part i = 0; i < MEMORY_PARTS; i++) {
    all += (double)t->record.memory[i];
    if (t->record.memory[i] > t->record.memory[most]) most = i;
  }
  const struct memory_limit limit = memory_limit("");
  if (all <= limit.bytes) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE, "%.1f GiB of memory are wanted, %.1f of them for %s, and %s %.1f; less of %s",
    all / 0x1p30, (double)t->record.memory[most] / 0x1p30, memory_part_names[most], limit.by,
    limit.bytes / 0x1p30,
    most == MEMORY_PASSES
      ? "train.batch (or more train.micro_batches), model.context, model.width, model.layers or "
        "model.vocab helps"
      : "model.width, model.layers or model.vocab helps");
}

static void record_beginnings(struct trainer *t)
{
  struct model *m = &t->engine.model;
  t->engine.begin = program_new(t->engine.device);
  report_record_clear(m->report, t->engine.begin);
  PROGRAM_CALL(t->engine.begin, fill, .y = &m->params.grads, .value = 0);
  t->engine.step_reduce = grad_reduce_new(m, PASSES_STEP, t->ranks.micro_batches);
  t->engine.look_reduce = grad_reduce_new(m, PASSES_LOOK, t->ranks.micro_batches);
  t->engine.keep_val = program_new(t->engine.device);
  PROGRAM_CALL(t->engine.keep_val, copy, .y = m->val.loss, .x = m->probe.loss);
  if (m->val.ahead) PROGRAM_CALL(t->engine.keep_val, copy, .y = m->val.ahead, .x = m->probe.ahead);
  program_plan(t->engine.begin);
  program_plan(t->engine.keep_val);
}

static void init_flights(struct trainer *t)
{
  size_t n = (size_t)(t->engine.host.rows * t->engine.host.batch.context);
  t->ring.flight = arena_get(t->arena, AHEAD_MOST + 1, sizeof *t->ring.flight);
  for (int i = 0; t->plan.record.batches && i <= AHEAD_MOST; i++)
    t->ring.flight[i].batch =
      (struct batch){t->engine.host.rows, t->engine.host.batch.context,
                     arena_get(t->arena, n + (size_t)t->engine.host.rows, sizeof(int)),
                     arena_get(t->arena, n, sizeof(float)), arena_get(t->arena, n, sizeof(int))};
}

/* For record.observe = decode. Recorded with the other programs, so that the memory of a run in a batch is known in
   advance. */
static int init_decoder(struct trainer *t, struct error *e)
{
  const struct model_program *p = &t->engine.look_program;
  const enum decode_form form = t->engine.model.attention->absorbs ? DECODE_ABSORBED : DECODE_MATERIALISED;
  if (!observers_have(t->record.observers, "decode") || t->ranks.comm->ranks > 1) return STATUS_OK;
  const int status =
    model_decoder_init(&t->engine.model, &t->engine.decoder, p->batch, 1, p->context, form, e);
  return status ? error_prefix(e, "record.observe = decode") : STATUS_OK;
}

enum { MOST_TOKENS = 1 << 26 }; /* of a micro-batch */

static int init_training(struct trainer *t, struct error *e)
{
  const struct train_options *o = t->plan.train;
  struct update_rule rule = {.weight_decay = o->weight_decay,
                             .decay_gains = o->decay_gains,
                             .decay_independent = o->decay,
                             .decay_cautious = o->cautious_decay,
                             .seed = (uint64_t)o->seed,
                             .grad_clip = o->grad_clip,
                             .ranks = dist_shards(t) == SHARD_STATES ? t->ranks.comm : NULL,
                             .stops = o->on_nonfinite != ON_NONFINITE_CONTINUE};
  if (dist_check_parts(t, e)) return e->status;
  t->engine.updates =
    updates_new(&t->engine.model, t->plan.top->optimizer, config_section(t->plan.config, "override"), &rule,
                plugin_options, t->plan.config, e);
  if (!t->engine.updates) return e->status;
  t->plan.schedule = schedule_find(o->schedule);
  if (!t->plan.schedule) return error_set(e, STATUS_USAGE, "train.schedule: unknown '%s'", o->schedule);
  t->plan.schedule_options = config_section(t->plan.config, o->schedule);
  if (o->batch % o->micro_batches)
    return error_set(e, STATUS_USAGE, "train.micro_batches = %ld does not divide train.batch = %ld",
                     o->micro_batches, o->batch);
  if (dist_divide(t, e)) return e->status;
  long rows = o->batch / o->micro_batches, context = t->engine.model.options.context;
  const double tokens = (double)rows * (double)context;
  if (tokens > MOST_TOKENS) /* before a program with as many calls is recorded */
    return error_set(
      e, STATUS_USAGE,
      "train.batch: %ld sequences of model.context = %ld tokens are %.3g tokens in one pass; allowed: "
      "2^26, or more train.micro_batches",
      rows, context, tokens);
  mark_memory(t, MEMORY_UPDATES);
  if (t->ranks.shards) { /* the size of shards depends on the optimizers */
    const size_t held = (size_t)(SHARD_ROWS * t->ranks.shards->own) * sizeof(real);
    t->record.memory[MEMORY_UPDATES] -= held, t->record.memory[MEMORY_MODEL] += held;
  }
  t->record.observers = observers_new(&t->engine.model, t->engine.updates, &t->plan.record);
  mark_memory(t, MEMORY_RECORD);
  model_program_init(&t->engine.model, &t->engine.step_program, rows, context, 1, &t->engine.model.step,
                     o->micro_batches);
  model_program_init(&t->engine.model, &t->engine.look_program, rows, context, 0, &t->engine.model.probe,
                     o->micro_batches);
  if (init_decoder(t, e)) return e->status;
  record_beginnings(t);
  host_batch_init(&t->engine.host, t->arena, &t->engine.model.options, o->batch);
  outcome_init(&t->record.outcome, t->arena, &t->engine.model);
  health_init(&t->record.health, t->arena, &t->engine.model, &t->ring.reading);
  init_flights(t);
  t->engine.columns = arena_get(t->arena, (size_t)(rows * context), sizeof(int));
  t->engine.token_loss_host = arena_get(t->arena, (size_t)(rows * context), sizeof(real));
  t->val_loss = t->grad_norm = NAN;
  return STATUS_OK;
}

void trainer_resolve(const struct config *c)
{
  for (const struct optimizer *const *o = optimizers; *o; o++)
    if ((*o)->resolve) (*o)->resolve(config_section(c, (*o)->name));
}

int trainer_build(struct trainer *t, int keeps, struct error *e)
{
  t->record.unmarked = memory_held();
  t->arena = arena_new();
  t->plan.top = config_section(t->plan.config, "");
  t->ranks.comm = dist_ranks(t->engine.shares_device);
  t->plan.train = config_section(t->plan.config, "train");
  t->plan.record = *(const struct record_options *)config_section(t->plan.config, "record");
  if (!keeps) t->plan.record.spectra_every = t->plan.record.probe_every = t->plan.record.batches = 0;
  t->plan.keep = config_section(t->plan.config, "checkpoint");
  const struct device_options *device = config_section(t->plan.config, "device");
  struct model_options *m = config_section(t->plan.config, "model");
  trainer_resolve(t->plan.config);
  int status = init_data(t, m, e);
  mark_memory(t, MEMORY_DATA);
  if (!status) status = model_resolve(m, t->engine.data.vocab, e);
  int threads = dist_threads(t, (int)device->threads);
  if (!status) status = dist_split(t, e);
  if (!status && !t->engine.device) status = device_open(&t->engine.device, t->plan.top->device, threads, e);
  for (int axis = 0; !status && axis < RANK_AXES; axis++)
    if (t->ranks.part[axis]) device_set_ranks(t->engine.device, (enum rank_axis)axis, t->ranks.part[axis]);
  if (!status && t->ranks.context == 1) device_set_ranks(t->engine.device, RANKS_BATCH, t->ranks.comm);
  if (!status) status = dist_check_shards(t, e);
  if (!status && dist_shards(t) == SHARD_WEIGHTS)
    device_set_shards(t->engine.device, t->ranks.shards = shards_new(t->ranks.comm));
  else if (!status && dist_reduces_early(t))
    device_set_early(t->engine.device, t->ranks.early = shards_new(NULL));
  if (!status) status = device_set_math(t->engine.device, (enum device_math)device->math, e);
  if (!status) status = init_model(t, m, e);
  if (!status) mark_memory(t, MEMORY_MODEL);
  if (!status) status = init_training(t, e);
  if (status) return status;
  device_settle_scratch(t->engine.device);
  mark_memory(t, MEMORY_PASSES);
  status = check_memory(t, e);
  if (!status) status = init_weights(t, e);
  if (status) return status;
  config_id(t->plan.config, t->engine.data.content, t->plan.start_content, t->plan.id);
  status = dist_verify(t, e);
  if (status) return status;
  t->started = t->checkpointed_at = clock_seconds();
  return STATUS_OK;
}

void trainer_facts(struct trainer *t, struct run_facts *f)
{
  struct params *p = &t->engine.model.params;
  const char **names = arena_get(t->arena, (size_t)p->count + 1, sizeof *names);
  *f = (struct run_facts){.id = t->plan.id,
                          .device = t->engine.device->description,
                          .data = t->plan.top->data,
                          .data_text = t->engine.data.description,
                          .layers = model_blocks(&t->engine.model.options),
                          .heads = t->engine.model.options.heads,
                          .experts = t->engine.model.experts,
                          .loss_floor = t->engine.data.loss_floor,
                          .data_content = t->engine.data.content,
                          .start_content = t->plan.start_content,
                          .tensor_names = names};
  for (int i = 0; i < p->count; i++)
    if (param_is_matrix(p->list[i])) names[f->tensors++] = p->list[i]->name;
}

void trainer_observe(struct trainer *t)
{
  t->record.health.recorder = t->record.recorder;
  t->record.row_writer = row_writer_new(t->record.observers, t->record.recorder);
}

void trainer_release(struct trainer *t)
{
  if (!t) return;
  row_writer_free(t->record.row_writer);
  observers_free(t->record.observers);
  recorder_free(t->record.recorder);
  model_program_free(&t->engine.step_program);
  model_program_free(&t->engine.look_program);
  model_program_free(&t->engine.decoder);
  trainer_heads_free(t);
  if (t->engine.updates) updates_free(t->engine.updates);
  program_free(t->engine.begin);
  grad_reduce_free(t->engine.step_reduce);
  grad_reduce_free(t->engine.look_reduce);
  program_free(t->engine.keep_val);
  if (t->engine.model.device) model_free(&t->engine.model);
  shards_free(t->engine.device, t->ranks.shards);
  if (t->ranks.early) device_set_early(t->engine.device, NULL), shards_free(t->engine.device, t->ranks.early);
  if (t->engine.device && !t->engine.shares_device) device_close(t->engine.device);
  for (int axis = 0; axis < RANK_AXES; axis++) comm_free(t->ranks.part[axis]);
  if (t->engine.data.source && t->engine.data.source->free) t->engine.data.source->free(&t->engine.data);
  arena_free(t->arena);
  if (t->plan.owns_config) config_free(t->plan.config);
  memory_free(t);
}

/* --- programs ---------------------------------------------------------------------------------------------- */

struct program *trainer_program(const struct trainer *t, enum part part)
{
  switch (part) {
  case PART_BEGIN: return t->engine.begin;
  case PART_KEEP_VAL: return t->engine.keep_val;
  case PART_STEP: return t->engine.step_program.program;
  case PART_LOOK: return t->engine.look_program.program;
  case PART_UPDATES: return updates_program(t->engine.updates);
  case PART_APPLY: return updates_apply(t->engine.updates);
  default: break;
  }
  REQUIRE(part >= PART_REDUCE && part < PARTS);
  return part < PART_REDUCE_LOOK ? grad_reduce_program(t->engine.step_reduce, (int)(part - PART_REDUCE))
                                 : grad_reduce_program(t->engine.look_reduce, (int)(part - PART_REDUCE_LOOK));
}

const char *trainer_difference(const struct trainer *a, const struct trainer *b)
{
  const char *difference = NULL;
  for (enum part part = 0; part < PARTS && !difference; part++)
    if (trainer_program(a, part))
      difference = program_difference(trainer_program(a, part), trainer_program(b, part),
                                      b->engine.device->run_arena - a->engine.device->run_arena);
  return difference;
}

/* --- a fresh run ------------------------------------------------------------------------------------------- */

static void make_path(struct trainer *t)
{
  if (*t->plan.path) return;
  if (*t->plan.record.path)
    snprintf(t->plan.path, sizeof t->plan.path, "%s%s", *t->plan.record.path == '-' ? "./" : "",
             t->plan.record.path); /* a name that commands do not take for an option */
  else
    snprintf(t->plan.path, sizeof t->plan.path, "runs/%s-%s.h5",
             *t->plan.top->preset ? t->plan.top->preset : t->plan.top->optimizer, t->plan.id);
}

static int create_record(struct trainer *t, const struct run_facts *f, struct error *e)
{
  make_path(t);
  if (t->ranks.comm->rank) {
    t->record.recorder = recorder_null(f); /* rank 0 writes the files */
    return STATUS_OK;
  }
  return recorder_create(&t->record.recorder, t->plan.path, (int)t->plan.record.overwrite, t->plan.config, f,
                         e);
}

int trainer_bytes(struct config *c, int threads, size_t *bytes, struct error *e)
{
  struct device *device;
  int status = device_open(&device, ((const struct top_options *)config_section(c, ""))->device, threads, e);
  if (status) return status;
  struct trainer *t = memory_new(1, sizeof *t);
  t->plan.config = c;
  t->engine.device = device;
  t->plan.undrawn = 1;
  status = trainer_build(t, 1, e);
  if (!status) *bytes = t->engine.device->given;
  trainer_release(t);
  return status;
}

/* `path`: "" means record.path of the configuration. `id`: see trainer_init_again. */
static int init(struct trainer **out, struct device *device, struct config *c, const char *path,
                const char *id, unsigned flags, struct error *e)
{
  struct trainer *t = memory_new(1, sizeof *t);
  int keeps = !(flags & TRAINER_NO_RECORD);
  snprintf(t->plan.path, sizeof t->plan.path, "%s", path);
  t->engine.device = device;
  t->engine.shares_device = device != NULL;
  t->plan.config = c;
  t->plan.undrawn = (flags & TRAINER_NO_WEIGHTS) != 0;
  t->plan.kept = (flags & (TRAINER_NO_STEPS | TRAINER_NO_WEIGHTS)) != 0;
  int status = trainer_build(t, keeps, e);
  if (!status && id && strcmp(t->plan.id, id))
    status = error_set(
      e, STATUS_FAIL,
      "this version, or the data where it is now, makes other numbers than this run's (id %s, now %s)", id,
      t->plan.id);
  if (!status) {
    struct run_facts f;
    trainer_facts(t, &f);
    if (!keeps)
      t->record.recorder = recorder_null(&f);
    else if (flags & TRAINER_IN_MEMORY)
      t->record.recorder = recorder_memory(&f);
    else {
      origin_keep_private(c, 0);
      status = create_record(t, &f, e);
    }
  }
  int stops = 0;
  if (t->ranks.comm && t->ranks.comm->ranks > 1)
    status = dist_barrier(t, &stops, e); /* before they write a checkpoint together */
  if (!status) {
    trainer_observe(t);
    status = recorder_snapshot(t->record.recorder, "running", 0, 0, 0, e);
    if (!status && !strcmp(t->plan.keep->keep, "all")) status = trainer_save(t, e);
  }
  if (status) {
    trainer_release(t);
    t = NULL;
  }
  *out = t;
  return status;
}

int trainer_init(struct trainer **out, struct config *c, unsigned flags, struct error *e)
{
  return init(out, NULL, c, "", NULL, flags, e);
}

int trainer_init_on(struct trainer **out, struct device *device, struct config *c, unsigned flags,
                    struct error *e)
{
  return init(out, device, c, "", NULL, flags, e);
}

int trainer_init_again(struct trainer **out, struct config *c, const char *path, const char *id,
                       struct error *e)
{
  return init(out, NULL, c, path, id, 0, e);
}
