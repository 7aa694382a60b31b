/* setup.c - a trainer from its configuration, and its end */
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
  s->options[s->count++] = config_section(s->t->config, name);
  return STATUS_OK;
}

static const void *plugin_options(void *config, const char *name) { return config_section(config, name); }

static int init_data(struct trainer *t, const struct model_options *m, struct error *e)
{
  const struct data_source *source = data_source_find(t->top->data);
  if (!source) return error_set(e, STATUS_USAGE, "data: unknown '%s'", t->top->data);
  t->data.source = source;
  t->data.loss_floor = NAN;
  const struct data_options *shared = config_section(t->config, "data");
  if (shared->label_noise > 0 &&
      (m->mtp || t->record.batches)) /* a module's inputs are the main head's targets */
    return error_set(e, STATUS_USAGE, "data.label_noise = %g: not together with %s", shared->label_noise,
                     m->mtp ? "model.mtp" : "record.batches, which stores tokens and no labels");
  t->data.label_noise = shared->label_noise;
  int status =
    source->init(&t->data, shared, config_section(t->config, t->top->data), m->context + m->mtp, 0, e);
  if (status) {
    t->data.source = NULL; /* it has cleaned up after itself */
    return status;
  }
  if (t->data.label_noise > 0 && t->data.vocab < 2)
    return error_set(e, STATUS_USAGE,
                     "data.label_noise = %g: %s has one symbol, and no other to replace it by",
                     t->data.label_noise, t->data.description);
  if (t->origin && t->origin->data_content != t->data.content)
    return error_set(e, STATUS_USAGE, "%s: not the data of this run (%s now): another content",
                     strcmp(t->top->data, "bytes") ? "data" : "data.path", t->data.description);
  return STATUS_OK;
}

static int init_weights(struct trainer *t, struct error *e)
{
  const struct origin *o = t->origin;
  int status = STATUS_OK;
  params_draw(&t->model.params, (uint64_t)t->train->seed);
  if (o && o->has_state)
    t->start_content = o->start_content;
  else
    status = start_from(&t->model, t->train->init_from, t->train->seed, o ? &o->start_content : NULL,
                        &t->start_content, e);
  if (!status) status = boost_heads(&t->model, t->train->plant, e);
  if (!status && t->shards) status = comm_agree(t->comm, NULL, e); /* what begins may gather weights */
  if (!status) model_begin(&t->model);
  return status;
}

static int init_model(struct trainer *t, struct model_options *m, struct error *e)
{
  struct stabilizer_list chosen = {.t = t, .error = e};
  if (text_split(t->top->stabilizers, '+', push_stabilizer, &chosen)) return e->status;
  int status = model_init(&t->model, m, t->device, chosen.member, chosen.options, chosen.count, e);
  if (status) return status;
  t->model.precision = *(const struct precision_options *)config_section(t->config, "precision");
  char cancels[256];
  if (model_warning(&t->model, cancels, sizeof cancels)) warning("%s", cancels);
  return STATUS_OK;
}

/* --- memory ------------------------------------------------------------------------------------------------ */

const char *const memory_part_names[MEMORY_PARTS] = {
  [MEMORY_DATA] = "the data",
  [MEMORY_MODEL] = "weights, gradients and the report",
  [MEMORY_UPDATES] = "the optimisers' states and updates",
  [MEMORY_RECORD] = "what is recorded",
  [MEMORY_PASSES] = "the passes over a micro-batch",
};

/* What is held more than at the mark before is this part's. */
static void mark_memory(struct trainer *t, enum memory_part part)
{
  size_t now = memory_held(), before = t->unmarked;
  t->memory[part] = now > before ? now - before : 0;
  t->unmarked = now;
}

void trainer_memory(const struct trainer *t, size_t bytes[MEMORY_PARTS])
{
  memcpy(bytes, t->memory, sizeof t->memory);
}

/* Before anything large is written, that is, taken. */
static int check_memory(const struct trainer *t, struct error *e)
{
  enum memory_part most = 0;
  double all = 0;
  for (enum memory_part i = 0; i < MEMORY_PARTS; i++) {
    all += (double)t->memory[i];
    if (t->memory[i] > t->memory[most]) most = i;
  }
  const struct memory_limit limit = memory_limit("");
  if (all <= limit.bytes) return STATUS_OK;
  return error_set(
    e, STATUS_USAGE, "%.1f GiB of memory are wanted, %.1f of them for %s, and %s %.1f; less of %s",
    all / 0x1p30, (double)t->memory[most] / 0x1p30, memory_part_names[most], limit.by, limit.bytes / 0x1p30,
    most == MEMORY_PASSES
      ? "train.batch (or more train.micro_batches), model.context, model.width, model.layers or "
        "model.vocab helps"
      : "model.width, model.layers or model.vocab helps");
}

static void record_beginnings(struct trainer *t)
{
  struct model *m = &t->model;
  t->begin = program_new(t->device);
  report_record_clear(m->report, t->begin);
  PROGRAM_CALL(t->begin, fill, .y = &m->params.grads, .value = 0);
  t->step_reduce = grad_reduce_new(m, PASSES_STEP, t->micro_batches);
  t->look_reduce = grad_reduce_new(m, PASSES_LOOK, t->micro_batches);
  t->keep_val = program_new(t->device);
  PROGRAM_CALL(t->keep_val, copy, .y = m->val.loss, .x = m->probe.loss);
  if (m->val.ahead) PROGRAM_CALL(t->keep_val, copy, .y = m->val.ahead, .x = m->probe.ahead);
  program_plan(t->begin);
  program_plan(t->keep_val);
}

static void init_flights(struct trainer *t)
{
  size_t n = (size_t)(t->host.rows * t->host.batch.context);
  t->flight = arena_get(t->arena, AHEAD_MOST + 1, sizeof *t->flight);
  for (int i = 0; t->record.batches && i <= AHEAD_MOST; i++)
    t->flight[i].batch = (struct batch){
      t->host.rows, t->host.batch.context, arena_get(t->arena, n + (size_t)t->host.rows, sizeof(int)),
      arena_get(t->arena, n, sizeof(float)), arena_get(t->arena, n, sizeof(int))};
}

/* For record.observe = decode. Recorded with the others: in company a run has the memory that is known before. */
static int init_decoder(struct trainer *t, struct error *e)
{
  const struct model_program *p = &t->look_program;
  const enum decode_form form = t->model.attention->absorbs ? DECODE_ABSORBED : DECODE_MATERIALISED;
  if (!observers_have(t->observers, "decode") || t->comm->ranks > 1) return STATUS_OK;
  const int status = model_decoder_init(&t->model, &t->decoder, p->batch, 1, p->context, form, e);
  return status ? error_prefix(e, "record.observe = decode") : STATUS_OK;
}

static int init_training(struct trainer *t, struct error *e)
{
  const struct train_options *o = t->train;
  struct update_rule rule = {.weight_decay = o->weight_decay,
                             .decay_gains = o->decay_gains,
                             .decay_independent = o->decay,
                             .seed = (uint64_t)o->seed,
                             .grad_clip = o->grad_clip,
                             .ranks = dist_shards(t) == SHARD_STATES ? t->comm : NULL,
                             .stops = o->on_nonfinite != ON_NONFINITE_CONTINUE};
  if (dist_check_parts(t, e)) return e->status;
  t->updates = updates_new(&t->model, t->top->optimizer, config_section(t->config, "override"), &rule,
                           plugin_options, t->config, e);
  if (!t->updates) return e->status;
  t->schedule = schedule_find(o->schedule);
  if (!t->schedule) return error_set(e, STATUS_USAGE, "train.schedule: unknown '%s'", o->schedule);
  t->schedule_options = config_section(t->config, o->schedule);
  if (o->batch % o->micro_batches)
    return error_set(e, STATUS_USAGE, "train.micro_batches = %ld does not divide train.batch = %ld",
                     o->micro_batches, o->batch);
  if (dist_divide(t, e)) return e->status;
  long rows = o->batch / o->micro_batches, context = t->model.options.context;
  mark_memory(t, MEMORY_UPDATES);
  if (t->shards) { /* whose size follows from optimisers */
    const size_t held = (size_t)(SHARD_ROWS * t->shards->own) * sizeof(real);
    t->memory[MEMORY_UPDATES] -= held, t->memory[MEMORY_MODEL] += held;
  }
  t->observers = observers_new(&t->model, t->updates, &t->record);
  mark_memory(t, MEMORY_RECORD);
  model_program_init(&t->model, &t->step_program, rows, context, 1, &t->model.step, o->micro_batches);
  model_program_init(&t->model, &t->look_program, rows, context, 0, &t->model.probe, o->micro_batches);
  if (init_decoder(t, e)) return e->status;
  record_beginnings(t);
  host_batch_init(&t->host, t->arena, &t->model.options, o->batch);
  outcome_init(&t->outcome, t->arena, &t->model);
  health_init(&t->health, t->arena, &t->model, &t->reading);
  init_flights(t);
  t->token_loss = tensor_new(t->device, TENSOR_REAL, rows * t->look_program.context, 1, "token loss");
  t->columns = arena_get(t->arena, (size_t)(rows * context), sizeof(int));
  t->token_loss_host = arena_get(t->arena, (size_t)(rows * context), sizeof(real));
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
  t->unmarked = memory_held();
  t->arena = arena_new();
  t->top = config_section(t->config, "");
  t->comm = dist_ranks(t->shares_device);
  t->train = config_section(t->config, "train");
  t->record = *(const struct record_options *)config_section(t->config, "record");
  if (!keeps) t->record.spectra_every = t->record.probe_every = t->record.batches = 0;
  t->keep = config_section(t->config, "checkpoint");
  const struct device_options *device = config_section(t->config, "device");
  struct model_options *m = config_section(t->config, "model");
  trainer_resolve(t->config);
  int status = init_data(t, m, e);
  mark_memory(t, MEMORY_DATA);
  if (!status) status = model_resolve(m, t->data.vocab, e);
  int threads = dist_threads(t, (int)device->threads);
  if (!status) status = dist_split(t, e);
  if (!status && !t->device) status = device_open(&t->device, t->top->device, threads, e);
  for (int axis = 0; !status && axis < RANK_AXES; axis++)
    if (t->part[axis]) device_set_ranks(t->device, (enum rank_axis)axis, t->part[axis]);
  if (!status && t->context == 1) device_set_ranks(t->device, RANKS_BATCH, t->comm);
  if (!status) status = dist_check_shards(t, e);
  if (!status && dist_shards(t) == SHARD_WEIGHTS)
    device_set_shards(t->device, t->shards = shards_new(t->comm));
  else if (!status && dist_reduces_early(t))
    device_set_early(t->device, t->early = shards_new(NULL));
  if (!status) status = device_set_math(t->device, (enum device_math)device->math, e);
  if (!status) status = init_model(t, m, e);
  if (!status) mark_memory(t, MEMORY_MODEL);
  if (!status) status = init_training(t, e);
  if (status) return status;
  device_settle_scratch(t->device);
  mark_memory(t, MEMORY_PASSES);
  status = check_memory(t, e);
  if (!status) status = init_weights(t, e);
  if (status) return status;
  config_id(t->config, t->data.content, t->start_content, t->id);
  status = dist_verify(t, e);
  if (status) return status;
  t->started = t->checkpointed_at = clock_seconds();
  return STATUS_OK;
}

void trainer_facts(struct trainer *t, struct run_facts *f)
{
  struct params *p = &t->model.params;
  const char **names = arena_get(t->arena, (size_t)p->count + 1, sizeof *names);
  *f = (struct run_facts){.id = t->id,
                          .device = t->device->description,
                          .data = t->top->data,
                          .data_text = t->data.description,
                          .layers = model_blocks(&t->model.options),
                          .heads = t->model.options.heads,
                          .experts = t->model.experts,
                          .loss_floor = t->data.loss_floor,
                          .data_content = t->data.content,
                          .start_content = t->start_content,
                          .tensor_names = names};
  for (int i = 0; i < p->count; i++)
    if (param_is_matrix(p->list[i])) names[f->tensors++] = p->list[i]->name;
}

void trainer_observe(struct trainer *t)
{
  t->health.recorder = t->recorder;
  t->row_writer = row_writer_new(t->observers, t->recorder);
}

void trainer_release(struct trainer *t)
{
  if (!t) return;
  row_writer_free(t->row_writer);
  observers_free(t->observers);
  recorder_free(t->recorder);
  model_program_free(&t->step_program);
  model_program_free(&t->look_program);
  model_program_free(&t->decoder);
  trainer_heads_free(t);
  if (t->updates) updates_free(t->updates);
  program_free(t->begin);
  grad_reduce_free(t->step_reduce);
  grad_reduce_free(t->look_reduce);
  program_free(t->keep_val);
  if (t->token_loss) tensor_free(t->device, t->token_loss);
  if (t->model.device) model_free(&t->model);
  shards_free(t->device, t->shards);
  if (t->early) device_set_early(t->device, NULL), shards_free(t->device, t->early);
  if (t->device && !t->shares_device) device_close(t->device);
  for (int axis = 0; axis < RANK_AXES; axis++) comm_free(t->part[axis]);
  if (t->data.source && t->data.source->free) t->data.source->free(&t->data);
  arena_free(t->arena);
  if (t->owns_config) config_free(t->config);
  memory_free(t);
}

/* --- programs ---------------------------------------------------------------------------------------------- */

struct program *trainer_program(const struct trainer *t, enum part part)
{
  switch (part) {
  case PART_BEGIN: return t->begin;
  case PART_KEEP_VAL: return t->keep_val;
  case PART_STEP: return t->step_program.program;
  case PART_LOOK: return t->look_program.program;
  case PART_UPDATES: return updates_program(t->updates);
  case PART_APPLY: return updates_apply(t->updates);
  default: break;
  }
  REQUIRE(part >= PART_REDUCE && part < PARTS);
  return part < PART_REDUCE_LOOK ? grad_reduce_program(t->step_reduce, (int)(part - PART_REDUCE))
                                 : grad_reduce_program(t->look_reduce, (int)(part - PART_REDUCE_LOOK));
}

const char *trainer_difference(const struct trainer *a, const struct trainer *b)
{
  const char *difference = NULL;
  for (enum part part = 0; part < PARTS && !difference; part++)
    if (trainer_program(a, part))
      difference = program_difference(trainer_program(a, part), trainer_program(b, part),
                                      b->device->run_arena - a->device->run_arena);
  return difference;
}

/* --- a fresh run ------------------------------------------------------------------------------------------- */

static void make_path(struct trainer *t)
{
  if (*t->path) return;
  if (*t->record.path)
    snprintf(t->path, sizeof t->path, "%s", t->record.path);
  else
    snprintf(t->path, sizeof t->path, "runs/%s-%s.h5", *t->top->preset ? t->top->preset : t->top->optimizer,
             t->id);
}

static int create_record(struct trainer *t, const struct run_facts *f, struct error *e)
{
  make_path(t);
  if (t->comm->rank) {
    t->recorder = recorder_null(f); /* rank 0 has the files */
    return STATUS_OK;
  }
  return recorder_create(&t->recorder, t->path, (int)t->record.overwrite, t->config, f, e);
}

int trainer_bytes(struct config *c, int threads, size_t *bytes, struct error *e)
{
  struct device *device;
  int status = device_open(&device, ((const struct top_options *)config_section(c, ""))->device, threads, e);
  if (status) return status;
  struct trainer *t = memory_new(1, sizeof *t);
  t->config = c;
  t->device = device;
  status = trainer_build(t, 1, e);
  if (!status) *bytes = t->device->given;
  trainer_release(t);
  return status;
}

/* `path`: "" where the configuration says it. */
static int init(struct trainer **out, struct device *device, struct config *c, const char *path,
                unsigned flags, struct error *e)
{
  struct trainer *t = memory_new(1, sizeof *t);
  int keeps = !(flags & TRAINER_NO_RECORD);
  snprintf(t->path, sizeof t->path, "%s", path);
  t->device = device;
  t->shares_device = device != NULL;
  t->config = c;
  int status = trainer_build(t, keeps, e);
  if (!status) {
    struct run_facts f;
    trainer_facts(t, &f);
    if (!keeps)
      t->recorder = recorder_null(&f);
    else if (flags & TRAINER_IN_MEMORY)
      t->recorder = recorder_memory(&f);
    else
      status = create_record(t, &f, e);
  }
  int stops = 0;
  if (t->comm && t->comm->ranks > 1) status = dist_barrier(t, &stops, e); /* before they save together */
  if (!status) {
    trainer_observe(t);
    status = recorder_snapshot(t->recorder, "running", 0, 0, 0, e);
    if (!status && !strcmp(t->keep->keep, "all")) status = trainer_save(t, e);
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
  return init(out, NULL, c, "", flags, e);
}

int trainer_init_on(struct trainer **out, struct device *device, struct config *c, unsigned flags,
                    struct error *e)
{
  return init(out, device, c, "", flags, e);
}

int trainer_init_into(struct trainer **out, struct config *c, const char *path, struct error *e)
{
  return init(out, NULL, c, path, 0, e);
}
