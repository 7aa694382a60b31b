#include "run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "model/plant.h"
#include "run/observe.h"
#include "storage/checkpoint.h"
#include "storage/recorder.h"
#include "training/data.h"
#include "training/optimizer.h"
#include "training/schedule.h"

enum { SPIKE_WINDOW = 64 };

/* One batch on the host, and one micro-batch of it as inputs of a program. */
struct host_batch {
  struct batch batch;
  long rows, context; /* of the whole batch */
  int *tokens, *targets, *position, *start;
  real *weight;
};

/* What a run file tells of the run that is to go on. */
struct origin {
  char id[16];
  int told; /* the contents; files of old do not tell them */
  uint64_t data_content, start_content;
  int has_state; /* there is a checkpoint: where the weights started is of no account */
};

struct trainer {
  struct config *config;
  int owns_config;
  const struct origin *origin; /* while a run is resumed, else NULL */
  const struct top_options *top;
  const struct train_options *train;
  struct record_options record; /* nothing costly is wanted where nothing is kept */
  const struct checkpoint_options *keep;
  struct arena *arena;

  struct device *device;
  struct data data;
  uint64_t start_content; /* hash of the weights of train.init_from; 0: drawn */
  struct model model;
  struct updates *updates;
  const struct schedule *schedule;
  const void *schedule_options;
  struct model_program step_program, look_program; /* with and without backward */
  struct host_batch host;

  char id[16], path[4096];
  struct recorder *recorder;
  struct observer *observer;
  struct event_sink sink;

  struct pass pass, probe, val;
  real *stats, *look;        /* [H,4], [H,5] on the host */
  struct tensor *norm;       /* [1] on the device */
  struct tensor *token_loss; /* [N, 1] on the device */
  real *token_loss_host;
  int *column; /* of a batch, one position: [rows of a micro-batch] */
  struct peak peak;
  double grad_norm, val_loss, earlier_wall, started, checkpointed_at;
  real spike_window[SPIKE_WINDOW]; /* the latest finite losses; saved in checkpoints */
  long done, checkpointed;         /* updates done; at the last checkpoint */
  int diverged;
  long *
    told_at; /* [layers+1, heads+1], from layer -1 and head -1: the step of the latest nonfinite event, + 1 */
};

/* --- parts of init --------------------------------------------------------------------------------------- */

/* What is not finite is told once a step and place, whoever meets it. */
static void on_event(void *context, const char *kind, int layer, int head, double value)
{
  struct trainer *t = context;
  if (!strcmp(kind, "nonfinite")) {
    long *told = &t->told_at[(layer + 1) * (t->model.options.heads + 1) + head + 1];
    if (*told == t->done + 1) return;
    *told = t->done + 1;
  }
  recorder_event(t->recorder, t->done, kind, layer, head, value);
}

struct stack {
  struct trainer *t;
  const struct stabilizer *member[MAX_STABILIZERS];
  const void *options[MAX_STABILIZERS];
  int count;
  struct error *error;
};

static int push_stabilizer(void *context, const char *name)
{
  struct stack *s = context;
  if (s->count == MAX_STABILIZERS)
    return error_set(s->error, STATUS_USAGE, "stabilizers: more than %d", MAX_STABILIZERS);
  s->member[s->count] = stabilizer_find(name);
  if (!s->member[s->count]) return error_set(s->error, STATUS_USAGE, "stabilizers: unknown '%s'", name);
  s->options[s->count++] = config_section(s->t->config, name);
  return STATUS_OK;
}

static const void *plugin_options(void *config, const char *name) { return config_section(config, name); }

static void host_batch_init(struct trainer *t, long rows, long context)
{
  struct host_batch *h = &t->host;
  size_t n = (size_t)(rows * context);
  *h = (struct host_batch){
    .rows = rows,
    .context = context,
    .batch = {rows, context, arena_get(t->arena, (size_t)(rows * (context + 1)), sizeof(int)),
              arena_get(t->arena, n, sizeof(float)), arena_get(t->arena, n, sizeof(int))},
    .tokens = arena_get(t->arena, n, sizeof(int)),
    .targets = arena_get(t->arena, n, sizeof(int)),
    .position = arena_get(t->arena, n, sizeof(int)),
    .start = arena_get(t->arena, n, sizeof(int)),
    .weight = arena_get(t->arena, n, sizeof(real))};
}

static void pass_init(struct trainer *t, struct pass *p)
{
  size_t n = (size_t)(t->model.options.layers * t->model.options.heads);
  real **const all[] = {&p->max_logit, &p->max_abs_logit, &p->max_logit_capped, &p->entropy, &p->share_above,
                        &p->pairs,     &p->q_norm,        &p->k_norm,           &p->cosine};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = arena_get(t->arena, n, sizeof(real));
    for (size_t j = 0; j < n; j++) (*all[i])[j] = (real)NAN;
  }
  p->watched =
    arena_get(t->arena, (size_t)(t->model.stabilizer_count * t->model.options.layers) + 1, sizeof(real));
}

static int init_data(struct trainer *t, const struct model_options *m, struct error *e)
{
  const struct data_source *source = data_source_find(t->top->data);
  if (!source) return error_set(e, STATUS_USAGE, "data: unknown '%s'", t->top->data);
  t->data.source = source;
  t->data.loss_floor = NAN;
  int status = source->init(&t->data, config_section(t->config, "data"),
                            config_section(t->config, t->top->data), m->context, 0, e);
  if (status) {
    t->data.source = NULL; /* it has cleaned up after itself */
    return status;
  }
  if (t->origin && t->origin->told && t->origin->data_content != t->data.content)
    return error_set(e, STATUS_USAGE, "%s: not the data of this run (%s now): another content",
                     strcmp(t->top->data, "bytes") ? "data" : "data.path", t->data.description);
  return STATUS_OK;
}

/* --- where the weights start -------------------------------------------------------------------------------- */

/* The parameters of another run's checkpoint (train.init_from), by name and shape: every one that trains, and
   such states of stabilisers as it has; the others start afresh. */
static int init_from(struct trainer *t, struct error *e)
{
  const char *path = t->train->init_from;
  struct checkpoint c = {0};
  struct run_file *r = NULL;
  struct error not_a_run = {0};
  int status;
  if (!*path) return STATUS_OK;
  if (!run_open(&r, path, &not_a_run)) {
    run_close(r);
    status = checkpoint_latest(path, &c, e);
  } else
    status = checkpoint_read(path, &c, e);
  for (int i = 0; !status && i < t->model.params.count; i++) {
    struct param *p = t->model.params.list[i];
    const struct checkpoint_tensor *have = checkpoint_find(&c, "params", p->name);
    int fits = have && have->rows == p->value.rows && have->cols == p->value.cols;
    if (!fits && p->kind == PARAM_STATE) continue;
    if (!fits) {
      status = error_set(e, STATUS_USAGE, "%s: %s is missing or not %ld x %ld: another model", path, p->name,
                         p->value.rows, p->value.cols);
      break;
    }
    size_t bytes = (size_t)(have->rows * have->cols) * sizeof(real);
    t->device->upload(t->device, p->value.data, have->data, bytes);
    t->start_content = t->start_content * 31 + XXH3_64bits(have->data, bytes);
  }
  checkpoint_free(&c);
  if (!status && t->origin && t->origin->told && t->origin->start_content != t->start_content)
    status = error_set(e, STATUS_USAGE, "%s: not the weights that this run started from", path);
  return status ? error_prefix(e, "train.init_from") : STATUS_OK;
}

static int init_weights(struct trainer *t, struct error *e)
{
  int status = STATUS_OK;
  params_draw(&t->model.params, (uint64_t)t->train->seed);
  if (t->origin && t->origin->told && t->origin->has_state)
    t->start_content = t->origin->start_content;
  else
    status = init_from(t, e);
  if (!status) status = plant_heads(&t->model, t->train->plant, e);
  if (!status) model_begin(&t->model);
  return status;
}

static int init_model(struct trainer *t, struct model_options *m, struct error *e)
{
  struct stack stack = {.t = t, .error = e};
  if (text_split(t->top->stabilizers, '+', push_stabilizer, &stack)) return e->status;
  int status = model_init(&t->model, m, t->device, stack.member, stack.options, stack.count, e);
  if (status) return status;
  t->model.precision = *(const struct precision_options *)config_section(t->config, "precision");
  char cancels[256];
  if (model_warning(&t->model, cancels, sizeof cancels)) warning("%s", cancels);
  t->sink = (struct event_sink){on_event, t};
  for (int i = 0; i < t->model.stabilizer_count; i++) t->model.context[i].events = &t->sink;
  return init_weights(t, e);
}

static int init_training(struct trainer *t, struct error *e)
{
  const struct train_options *o = t->train;
  struct update_rule rule = {o->weight_decay, o->decay_gains, o->decay, o->lr, (uint64_t)o->seed};
  t->updates = updates_new(&t->model, t->top->optimizer, config_section(t->config, "override"), &rule,
                           plugin_options, t->config, e);
  if (!t->updates) return e->status;
  t->schedule = schedule_find(o->schedule);
  if (!t->schedule) return error_set(e, STATUS_USAGE, "train.schedule: unknown '%s'", o->schedule);
  t->schedule_options = config_section(t->config, o->schedule);
  if (o->batch % o->micro_batches)
    return error_set(e, STATUS_USAGE, "train.micro_batches = %ld does not divide train.batch = %ld",
                     o->micro_batches, o->batch);
  long rows = o->batch / o->micro_batches, context = t->model.options.context;
  t->model.look = t->record.level > 0;
  t->model.look_level = t->record.level;
  int status = model_program_init(&t->model, &t->step_program, rows, context, 1, e);
  t->model.look = t->record.pairs && t->record.probe_every;
  if (!status) status = model_program_init(&t->model, &t->look_program, rows, context, 0, e);
  if (status) return status;
  host_batch_init(t, o->batch, context);
  pass_init(t, &t->pass);
  pass_init(t, &t->probe);
  pass_init(t, &t->val);
  t->stats = arena_get(t->arena, (size_t)(4 * t->model.options.heads), sizeof(real));
  t->look = arena_get(t->arena, (size_t)(5 * t->model.options.heads), sizeof(real));
  t->told_at = arena_get(t->arena, (size_t)((t->model.options.layers + 1) * (t->model.options.heads + 1)),
                         sizeof *t->told_at);
  t->norm = tensor_new(t->device, TENSOR_REAL, 1, 1, "norm");
  t->token_loss = tensor_new(t->device, TENSOR_REAL, rows * context, 1, "token loss");
  t->column = arena_get(t->arena, (size_t)rows, sizeof(int));
  t->token_loss_host = arena_get(t->arena, (size_t)(rows * context), sizeof(real));
  for (int i = 0; i < t->model.stabilizer_count; i++) {
    struct stabilizer_context *c = &t->model.context[i];
    const struct pass *seen = c->wants_probe ? &t->probe : &t->pass;
    c->max_logit = seen->max_logit;
    c->max_abs_logit = seen->max_abs_logit;
    c->watched = seen->watched + i * t->model.options.layers;
    c->updates = t->updates;
  }
  for (int i = 0; i < SPIKE_WINDOW; i++) t->spike_window[i] = (real)NAN;
  t->val_loss = t->grad_norm = t->pass.loss = NAN;
  t->peak = (struct peak){-INFINITY, -1, -1};
  return STATUS_OK;
}

static void make_path(struct trainer *t)
{
  if (*t->record.path)
    snprintf(t->path, sizeof t->path, "%s", t->record.path);
  else
    snprintf(t->path, sizeof t->path, "runs/%s-%s.h5", *t->top->preset ? t->top->preset : t->top->optimizer,
             t->id);
}

void trainer_resolve(const struct config *c)
{
  for (const struct optimizer *const *o = optimizers; *o; o++)
    if ((*o)->resolve) (*o)->resolve(config_section(c, (*o)->name));
}

/* Everything of a run but its files. */
static int build(struct trainer *t, int keeps, struct error *e)
{
  t->arena = arena_new();
  t->top = config_section(t->config, "");
  t->train = config_section(t->config, "train");
  t->record = *(const struct record_options *)config_section(t->config, "record");
  if (!keeps) t->record.spectra_every = t->record.probe_every = t->record.batches = 0;
  t->keep = config_section(t->config, "checkpoint");
  const struct device_options *device = config_section(t->config, "device");
  struct model_options *m = config_section(t->config, "model");
  trainer_resolve(t->config);
  int status = init_data(t, m, e);
  if (!status) status = model_resolve(m, t->data.vocab, e);
  if (!status) status = device_open(&t->device, t->top->device, (int)device->threads, e);
  if (!status) status = init_model(t, m, e);
  if (!status) status = init_training(t, e);
  if (status) return status;
  config_id(t->config, t->data.content, t->start_content, t->id);
  t->started = t->checkpointed_at = clock_seconds();
  return STATUS_OK;
}

static void facts(struct trainer *t, struct run_facts *f)
{
  struct params *p = &t->model.params;
  const char **names = arena_get(t->arena, (size_t)p->count + 1, sizeof *names);
  *f = (struct run_facts){.id = t->id,
                          .device = t->device->description,
                          .data = t->top->data,
                          .data_text = t->data.description,
                          .layers = t->model.options.layers,
                          .heads = t->model.options.heads,
                          .loss_floor = t->data.loss_floor,
                          .data_content = t->data.content,
                          .start_content = t->start_content,
                          .tensor_names = names};
  for (int i = 0; i < p->count; i++)
    if (param_is_matrix(p->list[i])) names[f->tensors++] = p->list[i]->name;
}

static void observe(struct trainer *t)
{
  t->observer = observer_new(&t->model, t->updates, t->recorder, &t->record);
}

static void release(struct trainer *t)
{
  if (!t) return;
  observer_free(t->observer);
  recorder_free(t->recorder);
  model_program_free(&t->step_program);
  model_program_free(&t->look_program);
  if (t->updates) updates_free(t->updates);
  if (t->norm) tensor_free(t->device, t->norm);
  if (t->token_loss) tensor_free(t->device, t->token_loss);
  if (t->model.device) model_free(&t->model);
  if (t->device) device_close(t->device);
  if (t->data.source && t->data.source->free) t->data.source->free(&t->data);
  arena_free(t->arena);
  if (t->owns_config) config_free(t->config);
  memory_free(t);
}

static int create_record(struct trainer *t, const struct run_facts *f, struct error *e)
{
  make_path(t);
  int status = recorder_create(&t->recorder, t->path, (int)t->record.overwrite, t->config, f, e);
  return status ? status : checkpoint_remove_all(t->path, e);
}

int trainer_init(struct trainer **out, struct config *c, unsigned flags, struct error *e)
{
  struct trainer *t = memory_new(1, sizeof *t);
  int keeps = !(flags & TRAINER_NO_RECORD);
  t->config = c;
  int status = build(t, keeps, e);
  if (!status) {
    struct run_facts f;
    facts(t, &f);
    if (keeps)
      status = create_record(t, &f, e);
    else
      t->recorder = recorder_null(&f);
  }
  if (!status) {
    observe(t);
    status = recorder_snapshot(t->recorder, "running", 0, 0, 0, e);
    if (!status && !strcmp(t->keep->keep, "all")) status = trainer_checkpoint(t, e);
  }
  if (status) {
    release(t);
    t = NULL;
  }
  *out = t;
  return status;
}

/* --- data in, statistics out ------------------------------------------------------------------------------ */

/* Fill the host's batch; returns the number of targets that count. */
static double draw_batch(struct trainer *t, enum data_split split, uint64_t seed, uint64_t index)
{
  struct host_batch *h = &t->host;
  long n = h->rows * h->context;
  double count = 0;
  for (long i = 0; i < n; i++) {
    h->batch.mask[i] = 1;
    h->batch.document[i] = 0;
  }
  t->data.source->fill(&t->data, split, seed, index, &h->batch);
  for (long i = 0; i < n; i++) count += h->batch.mask[i];
  for (long b = 0; b < h->rows; b++)
    for (long c = 0, start = 0; c < h->context; c++) {
      long at = b * h->context + c;
      if (c && h->batch.document[at] != h->batch.document[at - 1]) start = c;
      h->tokens[at] = h->batch.tokens[b * (h->context + 1) + c];
      h->targets[at] = h->batch.tokens[b * (h->context + 1) + c + 1];
      h->position[at] = (int)c;
      h->start[at] = (int)start;
      h->weight[at] = count > 0 ? (real)(h->batch.mask[at] / count) : 0;
    }
  return count;
}

/* Give a program the rows of micro-batch `part`. */
static void feed(struct trainer *t, struct model_program *p, long part)
{
  long n = p->batch * p->context, from = part * n;
  struct device *d = t->device;
  d->upload(d, p->tokens->data, t->host.tokens + from, (size_t)n * sizeof(int));
  d->upload(d, p->targets->data, t->host.targets + from, (size_t)n * sizeof(int));
  d->upload(d, p->position->data, t->host.position + from, (size_t)n * sizeof(int));
  d->upload(d, p->start->data, t->host.start + from, (size_t)n * sizeof(int));
  d->upload(d, p->weight->data, t->host.weight + from, (size_t)n * sizeof(real));
}

/* Is `a` the maximum where `b` was? Of several NaN the first is. */
static int passes(real a, real b) { return isnan(a) ? !isnan(b) : a > b; }

/* What a program has seen of the pairs of head i: shares are averaged, the pair is that of the largest logit. */
static void collect_look(struct pass *pass, long i, const real *look, int first, int largest)
{
  real pairs = first ? 0 : pass->pairs[i], share = first ? 0 : pass->share_above[i];
  pass->pairs[i] = pairs + look[1];
  pass->share_above[i] = share + (look[0] - share) * (look[1] / pass->pairs[i]);
  if (!first && !largest) return;
  pass->q_norm[i] = look[2];
  pass->k_norm[i] = look[3];
  pass->cosine[i] = look[4];
}

static void collect(struct trainer *t, const struct model_program *p, struct pass *pass, int first)
{
  long layers = t->model.options.layers, heads = t->model.options.heads;
  real loss[2];
  t->device->download(t->device, loss, p->loss->data, sizeof loss);
  pass->loss = (first ? 0 : pass->loss) + (double)loss[0];
  for (long l = 0; l < layers; l++) {
    t->device->download(t->device, t->stats, p->stats[l]->data, (size_t)heads * 4 * sizeof(real));
    if (p->looks)
      t->device->download(t->device, t->look, p->looks[l]->data, (size_t)heads * 5 * sizeof(real));
    for (long h = 0; h < heads; h++) {
      const real *s = t->stats + 4 * h;
      long i = l * heads + h;
      real part = s[3] / (real)t->train->micro_batches;
      if (p->looks) collect_look(pass, i, t->look + 5 * h, first, passes(s[0], pass->max_logit[i]));
      pass->max_logit[i] = first ? s[0] : (real)max_keeping_nan(pass->max_logit[i], s[0]);
      pass->max_abs_logit[i] = first ? s[1] : (real)max_keeping_nan(pass->max_abs_logit[i], s[1]);
      pass->max_logit_capped[i] = first ? s[2] : (real)max_keeping_nan(pass->max_logit_capped[i], s[2]);
      pass->entropy[i] = first ? part : pass->entropy[i] + part;
    }
  }
}

static void collect_watched(struct trainer *t, const struct model_program *p, struct pass *pass, int first)
{
  for (long i = 0; i < t->model.stabilizer_count * t->model.options.layers; i++) {
    real x;
    if (!p->watched[i]) continue;
    t->device->download(t->device, &x, p->watched[i]->data, sizeof x);
    pass->watched[i] = first ? x : (real)max_keeping_nan(pass->watched[i], x);
  }
}

static void run_part(struct trainer *t, struct model_program *p, struct pass *pass, long part)
{
  feed(t, p, part);
  program_run(p->program);
  collect(t, p, pass, part == 0);
  collect_watched(t, p, pass, part == 0);
}

static void run_pass(struct trainer *t, struct model_program *p, struct pass *pass)
{
  for (long m = 0; m < t->train->micro_batches; m++) run_part(t, p, pass, m);
}

/* Validation and probe batches do not depend on the seed: runs stay comparable. */
enum { COMMON_SEED = 0 };

/* The loss of every token that a program has just seen, [batch*context]. */
static void token_losses(struct trainer *t, const struct model_program *p, real *out)
{
  struct tensor y = tensor_rows(t->token_loss, 0, p->batch * p->context);
  t->device->ops.token_loss(t->device, &(struct token_loss_args){&y, p->logits, p->lse, p->targets});
  t->device->download(t->device, out, y.data, (size_t)y.rows * sizeof(real));
}

/* Add the losses of micro-batch `part`, which a program has just seen, to the sums of their positions. */
static void add_positions(struct trainer *t, const struct model_program *p, long part, double *sum,
                          double *count)
{
  long n = p->batch * p->context;
  token_losses(t, p, t->token_loss_host);
  for (long i = 0; i < n; i++) {
    double counts = t->host.batch.mask[part * n + i];
    if (counts > 0) sum[i % p->context] += counts * (double)t->token_loss_host[i];
    count[i % p->context] += counts;
  }
}

double trainer_evaluate(struct trainer *t, double *by_position)
{
  struct model_program *p = &t->look_program;
  double sum = 0, *count = by_position ? memory_new((size_t)p->context, sizeof *count) : NULL;
  for (long i = 0; by_position && i < p->context; i++) by_position[i] = 0;
  for (long b = 0; b < t->train->val_batches; b++) {
    draw_batch(t, DATA_VAL, COMMON_SEED, (uint64_t)b);
    for (long m = 0; m < t->train->micro_batches; m++) {
      run_part(t, p, &t->val, m);
      if (by_position) add_positions(t, p, m, by_position, count);
    }
    sum += t->val.loss;
  }
  for (long i = 0; by_position && i < p->context; i++) by_position[i] /= count[i];
  memory_free(count);
  return sum / (double)t->train->val_batches;
}

/* --- decoding ------------------------------------------------------------------------------------------------ */

static void feed_column(struct trainer *t, struct tensor *input, const int *from, long context)
{
  int *column = t->column;
  for (long b = 0; b < input->rows; b++) column[b] = from[b * context];
  t->device->upload(t->device, input->data, column, (size_t)input->rows * sizeof *column);
}

/* Token losses [batch*context] of micro-batch `part`, one position after another. */
static void decode_part(struct trainer *t, struct model_program *d, long part, real *out)
{
  struct host_batch *h = &t->host;
  long n = h->context;
  real *column = t->token_loss_host;
  for (long c = 0; c < n; c++) {
    long at = part * d->batch * n + c;
    feed_column(t, d->tokens, h->tokens + at, n);
    feed_column(t, d->targets, h->targets + at, n);
    feed_column(t, d->position, h->position + at, n);
    feed_column(t, d->start, h->start + at, n);
    for (long b = 0; b < d->batch; b++) t->column[b] = (int)c;
    t->device->upload(t->device, d->slot->data, t->column, (size_t)d->batch * sizeof(int));
    program_run(d->program);
    token_losses(t, d, column);
    for (long b = 0; b < d->batch; b++) out[b * n + c] = column[b];
  }
}

static void look_at_part(struct trainer *t, long part, real *losses)
{
  run_part(t, &t->look_program, &t->probe, part);
  token_losses(t, &t->look_program, losses);
}

static double wider(double most, double a, double b)
{
  double off = fabs(a - b);
  return isnan(most) || off <= most ? most : off;
}

static void compare_part(struct trainer *t, long part, const real *training, const real *decoded,
                         const real *off, struct decode_result *r)
{
  long n = t->look_program.batch * t->look_program.context;
  for (long i = 0; i < n; i++) {
    double weight = (double)t->host.weight[part * n + i] / (double)t->train->val_batches;
    if (weight == 0) continue;
    r->training_loss += weight * (double)training[i];
    r->decoded_loss += weight * (double)decoded[i];
    r->difference = wider(r->difference, (double)training[i], (double)decoded[i]);
    r->rounding = wider(r->rounding, (double)training[i], (double)off[i]);
    r->tokens++;
  }
}

int trainer_decode(struct trainer *t, enum decode_form form, struct decode_result *r, struct error *e)
{
  struct model_program *p = &t->look_program, decoder;
  size_t n = (size_t)(p->batch * p->context);
  double relative = sqrt(REAL_EPS); /* far above rounding, and still a small change */
  *r = (struct decode_result){0};
  if (model_decoder_init(&t->model, &decoder, p->batch, p->context, form, e)) return e->status;
  r->cached = decoder.cached;
  real *training = memory_new(3 * n, sizeof *training), *decoded = training + n, *off = decoded + n;
  for (long b = 0; b < t->train->val_batches; b++) {
    draw_batch(t, DATA_VAL, COMMON_SEED, (uint64_t)b);
    for (long part = 0; part < t->train->micro_batches; part++) {
      look_at_part(t, part, training);
      decode_part(t, &decoder, part, decoded);
      real *weights = params_perturb(&t->model.params, relative);
      look_at_part(t, part, off);
      params_put_back(&t->model.params, weights);
      compare_part(t, part, training, decoded, off, r);
    }
  }
  r->rounding *= REAL_EPS / relative;
  memory_free(training);
  model_program_free(&decoder);
  return STATUS_OK;
}

/* --- one step ---------------------------------------------------------------------------------------------- */

static double gradient_norm(struct trainer *t)
{
  struct device *d = t->device;
  real norm;
  d->ops.norm(d, &(struct norm_args){t->norm, &t->model.params.grads});
  d->download(d, &norm, t->norm->data, sizeof norm);
  return (double)norm;
}

/* Events for what is not finite; returns whether something was not. */
static int check_finite(struct trainer *t)
{
  long heads = t->model.options.heads, n = t->model.options.layers * heads;
  int bad = 0;
  for (long i = 0; i < n; i++)
    if (!isfinite(t->pass.max_abs_logit[i])) {
      on_event(t, "nonfinite", (int)(i / heads), (int)(i % heads), (double)t->pass.max_abs_logit[i]);
      bad = 1;
    }
  if (!isfinite(t->pass.loss)) {
    on_event(t, "nonfinite", -1, -1, t->pass.loss);
    bad = 1;
  } else if (!isfinite(t->grad_norm)) {
    on_event(t, "nonfinite", -1, -1, t->grad_norm);
    bad = 1;
  }
  return bad;
}

static int by_size(const void *a, const void *b)
{
  real x = *(const real *)a, y = *(const real *)b;
  return (x > y) - (x < y);
}

/* A loss above median + spike * (median absolute deviation) of the latest losses is an event. */
static void check_spike(struct trainer *t)
{
  real sorted[SPIKE_WINDOW];
  int n = 0;
  if (!isfinite(t->pass.loss)) return;
  for (int i = 0; i < SPIKE_WINDOW; i++)
    if (!isnan(t->spike_window[i])) sorted[n++] = t->spike_window[i];
  if (t->train->spike > 0 && n == SPIKE_WINDOW) {
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double median = (double)sorted[n / 2];
    for (int i = 0; i < n; i++) sorted[i] = (real)fabs((double)sorted[i] - median);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    if (t->pass.loss > median + t->train->spike * (double)sorted[n / 2])
      on_event(t, "spike", -1, -1, t->pass.loss);
  }
  t->spike_window[t->done % SPIKE_WINDOW] = (real)t->pass.loss;
}

static void note_peak(struct trainer *t)
{
  for (long i = 0; i < t->model.options.layers * t->model.options.heads; i++) {
    double s = (double)t->pass.max_logit[i];
    if (!isnan(t->peak.value) && !(s <= t->peak.value)) t->peak = (struct peak){s, t->done, i};
  }
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
    draw_batch(t, DATA_PROBE, COMMON_SEED, 0);
    run_pass(t, &t->look_program, &t->probe);
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
  if (observer_spectra(t->observer, t->done, pass, &e)) on_event(t, "nonconverged", -1, -1, NAN);
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
static void finish_record(struct trainer *t)
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
  draw_batch(t, DATA_TRAIN, (uint64_t)t->train->seed, (uint64_t)t->done);
  if (t->record.batches)
    recorder_batch(t->recorder, t->done, t->host.batch.tokens, t->data.has_mask ? t->host.batch.mask : NULL,
                   t->data.has_document ? t->host.batch.document : NULL, t->host.rows, t->host.context);
  d->ops.fill(d, &(struct fill_args){&t->model.params.grads, 0});
  run_pass(t, &t->step_program, &t->pass);
  t->grad_norm = gradient_norm(t);

  note_peak(t);
  int bad = check_finite(t);
  check_spike(t);
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
  if (last) finish_record(t);
  return status;
}

/* --- checkpoints -------------------------------------------------------------------------------------------- */

static double wall(const struct trainer *t) { return t->earlier_wall + clock_seconds() - t->started; }

/* The tensors of a checkpoint in a fixed order: parameters, optimiser states, the spike window (which lives
   on the host: device NULL). */
struct tensor_list {
  struct checkpoint_tensor *item;
  struct tensor **device;
  int count;
};

static void list_add(struct tensor_list *l, const char *group, const char *name, struct tensor *device)
{
  struct checkpoint_tensor *x = &l->item[l->count];
  snprintf(x->name, sizeof x->name, "%s/%s", group, name);
  x->rows = device ? device->rows : 1;
  x->cols = device ? device->cols : SPIKE_WINDOW;
  l->device[l->count++] = device;
}

static void list_tensors(struct trainer *t, struct tensor_list *l)
{
  struct params *p = &t->model.params;
  int states = updates_states(t->updates);
  size_t most = (size_t)(p->count + states + 1);
  l->item = memory_new(most, sizeof *l->item);
  l->device = memory_new(most, sizeof *l->device);
  l->count = 0;
  for (int i = 0; i < p->count; i++) list_add(l, "params", p->list[i]->name, &p->list[i]->value);
  for (int i = 0; i < states; i++) {
    char name[128];
    struct tensor *state = updates_state(t->updates, i, name, sizeof name);
    list_add(l, "state", name, state);
  }
  list_add(l, "state", "trainer.spike_window", NULL);
}

static void list_free(struct tensor_list *l)
{
  memory_free(l->item);
  memory_free(l->device);
}

int trainer_checkpoint(struct trainer *t, struct error *e)
{
  struct tensor_list l;
  struct checkpoint c = {.step = t->done,
                         .wall = wall(t),
                         .peak = t->peak.value,
                         .peak_step = t->peak.step,
                         .peak_at = t->peak.at};
  int status = STATUS_OK;
  if (!recorder_keeps(t->recorder)) return STATUS_OK;
  if (recorder_due(t->recorder)) status = recorder_snapshot(t->recorder, "running", t->done, wall(t), 0, e);
  if (status) return status;
  list_tensors(t, &l);
  for (int i = 0; i < l.count; i++) {
    struct checkpoint_tensor *x = &l.item[i];
    size_t bytes = (size_t)(x->rows * x->cols) * sizeof(real);
    x->data = l.device[i] ? memory_new(bytes, 1) : t->spike_window;
    if (l.device[i]) t->device->download(t->device, x->data, l.device[i]->data, bytes);
  }
  snprintf(c.id, sizeof c.id, "%s", t->id);
  snprintf(c.core, sizeof c.core, "%s", device_blas_core());
  c.config_text = config_text(t->config);
  c.count = l.count;
  c.tensors = l.item;
  c.rows = (void *)(uintptr_t)recorder_pending(t->recorder, &c.rows_size);
  status = checkpoint_write(t->path, &c, strtol(t->keep->keep, NULL, 10), e); /* "all": 0 */
  for (int i = 0; i < l.count; i++)
    if (l.device[i]) memory_free(l.item[i].data);
  list_free(&l);
  memory_free(c.config_text);
  if (!status) {
    recorder_event(t->recorder, t->done, "checkpoint", -1, -1, NAN);
    t->checkpointed = t->done;
    t->checkpointed_at = clock_seconds();
  }
  return status;
}

static int load_tensors(struct trainer *t, const struct checkpoint *c, struct error *e)
{
  struct tensor_list l;
  int status = STATUS_OK;
  list_tensors(t, &l);
  for (int i = 0; !status && i < l.count; i++) {
    const struct checkpoint_tensor *want = &l.item[i], *have = checkpoint_find(c, NULL, want->name);
    size_t bytes = (size_t)(want->rows * want->cols) * sizeof(real);
    if (!have || have->rows != want->rows || have->cols != want->cols)
      status = error_set(e, STATUS_FAIL, "checkpoint of step %ld: %s is missing or has another shape",
                         c->step, want->name);
    else if (l.device[i])
      t->device->upload(t->device, l.device[i]->data, have->data, bytes);
    else
      memcpy(t->spike_window, have->data, bytes);
  }
  list_free(&l);
  return status;
}

/* --- resume -------------------------------------------------------------------------------------------------- */

static int set_parameter(void *config, const char *key, const char *value)
{
  return config_set(config, key, value, "run file", NULL);
}

/* The configuration that a run file tells. */
static int config_of_run(const struct run_file *r, struct config *c, struct error *e)
{
  const char *preset = run_parameter(r, "preset");
  if (preset && *preset && config_set(c, "preset", preset, "run file", e)) return e->status;
  if (run_parameters(r, set_parameter, c))
    return error_set(e, STATUS_FAIL, "its parameters do not fit this version");
  return config_finish(c, e);
}

struct change {
  const char *key;
  struct config_entry found;
  int is_found;
};

static int find_entry(void *context, const struct config_entry *x)
{
  struct change *c = context;
  if (strcmp(c->key, x->key)) return 0;
  c->found = *x;
  c->is_found = 1;
  return 1;
}

/* Only keys that cannot change the past: free ones, train.steps upwards under a constant schedule, and where
   train.init_from lies now (its content is compared where it is still needed). */
static int check_change(const struct config *c, const char *assignment, struct error *e)
{
  char key[96];
  struct change x = {.key = key};
  snprintf(key, sizeof key, "%.*s", (int)strcspn(assignment, "= "), assignment);
  config_each(c, find_entry, &x);
  if (!x.is_found || (x.found.row->flags & (OPTION_FREE | OPTION_CONTENT)))
    return STATUS_OK; /* unknown: config_assign says so */
  const struct train_options *t = config_section(c, "train");
  if (!(x.found.row->flags & OPTION_EXTEND))
    return error_set(e, STATUS_USAGE,
                     "%s would change the past of this run; resume takes train.steps "
                     "(upwards, constant schedule), paths, threads and recording intervals",
                     key);
  if (strcmp(t->schedule, "constant"))
    return error_set(e, STATUS_USAGE,
                     "%s: the %s schedule depends on it; only a constant schedule can be "
                     "extended",
                     key, t->schedule);
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
  if (run_open(&r, path, e)) return e->status;
  *c = config_new();
  *o = (struct origin){.told = 0};
  o->told = run_contents(r, &o->data_content, &o->start_content);
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

static int other_numerics(const char *path, const char *id, const char *now, struct error *e)
{
  return error_set(e, STATUS_FAIL, "%s: the data or the numerics are not those of this run (id %s, now %s)",
                   path, id, now);
}

/* The configuration as it was, with the contents that the file tells, has the run's id: else these are other
   numerics. */
static int check_numerics(const char *path, const struct config *c, const struct origin *o, struct error *e)
{
  char now[16];
  if (!o->told) return STATUS_OK;
  config_id(c, o->data_content, o->start_content, now);
  return strcmp(now, o->id) ? other_numerics(path, o->id, now, e) : STATUS_OK;
}

/* The newest checkpoint; none, where the run was killed before the first: then from the start. */
static int read_state(const char *path, struct checkpoint *c, struct error *e)
{
  int status = checkpoint_latest(path, c, e);
  if (status == STATUS_USAGE) {
    *e = (struct error){0};
    *c = (struct checkpoint){0};
    return STATUS_OK;
  }
  if (!status && strcmp(c->core, device_blas_core()))
    warning("the checkpoint was computed on OpenBLAS core %s, this is %s: the bits may differ", c->core,
            device_blas_core());
  return status;
}

static int restore(struct trainer *t, const char *path, const struct checkpoint *c, struct error *e)
{
  struct run_facts f;
  int status = c->count ? load_tensors(t, c, e) : STATUS_OK;
  if (status) return status;
  t->done = t->checkpointed = c->step;
  t->earlier_wall = c->wall;
  if (c->count) t->peak = (struct peak){c->peak, c->peak_step, c->peak_at};
  facts(t, &f);
  return recorder_resume(&t->recorder, path, t->config, &f, c->step, c->rows, c->rows_size, e);
}

int trainer_resume(struct trainer **out, const char *path, const char *const *changes, int count,
                   struct error *e)
{
  struct origin origin;
  struct checkpoint state = {0};
  struct config *c;
  *out = NULL;
  if (read_origin(path, &c, &origin, e)) return e->status;
  struct trainer *t = memory_new(1, sizeof *t);
  t->config = c;
  t->owns_config = 1;
  t->origin = &origin;
  snprintf(t->path, sizeof t->path, "%s", path);
  int status = check_numerics(path, c, &origin, e);
  if (!status) status = change_config(c, changes, count, e);
  if (!status) status = read_state(path, &state, e);
  origin.has_state = state.count > 0;
  if (!status) status = build(t, 1, e);
  if (!status && !origin.told && !count && strcmp(origin.id, t->id))
    status = other_numerics(path, origin.id, t->id, e);
  if (!status) status = restore(t, path, &state, e);
  checkpoint_free(&state);
  t->origin = NULL;
  if (!status) {
    observe(t);
    recorder_event(t->recorder, t->done, "resume", -1, -1, NAN);
    if (t->done == t->train->steps) finish_record(t); /* killed on the last lines */
    *out = t;
  } else {
    release(t);
  }
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
  if (!status) status = recorder_snapshot(t->recorder, trainer_state(t), t->done, wall(t), 1, e);
  if (!status && due && t->diverged) status = trainer_checkpoint(t, e);
  release(t);
  return status;
}

void trainer_abandon(struct trainer *t) { release(t); }

int trainer_more(const struct trainer *t) { return !t->diverged && t->done < t->train->steps; }
long trainer_step_count(const struct trainer *t) { return t->done; }
long trainer_steps(const struct trainer *t) { return t->train->steps; }
double trainer_loss(const struct trainer *t) { return t->pass.loss; }
double trainer_val_loss(const struct trainer *t) { return t->val_loss; }
double trainer_grad_norm(const struct trainer *t) { return t->grad_norm; }
const real *trainer_max_logit(const struct trainer *t) { return t->pass.max_logit; }
struct peak trainer_peak(const struct trainer *t) { return t->peak; }
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
