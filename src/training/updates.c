/* updates.c - the update half of a step: updates, as optimizers record them, and their decoupled application */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/model.h"
#include "training/updates_parts.h"

/* --- rows --------------------------------------------------------------------------------------------- */

static long end_of(const struct param *p) { return p->place + p->value.rows * p->value.cols; }

static struct tensor *view(struct updates *u, void *data, long cols, const char *name)
{
  struct tensor *t = arena_get(u->arena, 1, sizeof *t);
  *t = tensor_of(data, 1, cols);
  t->name = name;
  return t;
}

static void make_directions(struct updates *u)
{
  struct params *all = &u->model->params;
  u->all = tensor_new(u->model->device, TENSOR_REAL, 1, all->values.cols, "updates");
  all->update_values = *u->all;
  for (int i = 0; i < u->count; i++) {
    struct param *p = u->params[i];
    p->update = tensor_of(all->shards ? NULL : REALS(u->all) + p->place, p->value.rows, p->value.cols);
    p->update.name = p->name;
  }
}

/* The part of a parameter that lies in a row: numbers [*begin, *end) of the parameter; 0: nothing. */
static int overlap(const struct param *p, const struct update *row, long *begin, long *end)
{
  long to = row->from + row->update->cols;
  *begin = row->from > p->place ? row->from - p->place : 0;
  *end = (to < end_of(p) ? to : end_of(p)) - p->place;
  return *begin < *end;
}

static void shape_of(const struct optimizer *o, const struct param *p, int k, long *rows, long *cols)
{
  *rows = p->value.rows, *cols = p->value.cols;
  if (o->state_shape) o->state_shape(p, k, rows, cols);
}

/* The part of a parameter's k-th state that lies in a row: numbers [*begin, *end), stored at the returned address;
   NULL: nothing. */
static real *state_in(const struct updates *u, const struct param *p, int k, const struct update *row,
                      long *begin, long *end)
{
  const struct optimizer *o = u->rules[row->param - u->params].optimizer;
  for (int i = 0; i < row->count; i++) {
    if (row->param[i] != p || !overlap(p, row, begin, end)) continue;
    if (o->state_shape) { /* whole tensors */
      long rows, cols;
      shape_of(o, p, k, &rows, &cols);
      *begin = 0, *end = rows * cols;
    }
    return REALS(row->state[k]) + row->state_place[k][i] + *begin;
  }
  return NULL;
}

/* Tensors of checkpoints: those of a run of parameters with one optimizer. */
static void name_states(struct updates *u, int first, int count)
{
  const struct optimizer *o = u->rules[first].optimizer;
  for (int k = 0; o->state_names && o->state_names[k]; k++)
    for (int i = first; i < first + count; i++) {
      struct param *p = u->params[i];
      char *name = u->state_names[u->state_count];
      snprintf(name, sizeof *u->state_names, "%s.%s.%s", o->name, o->state_names[k], p->name);
      struct tensor *t = arena_get(u->arena, 1, sizeof *t);
      long rows, cols, begin, end;
      shape_of(o, p, k, &rows, &cols);
      *t = tensor_of(NULL, rows, cols);
      t->name = name;
      for (const struct update *row = u->rows; row < u->rows + u->row_count; row++) {
        real *data = state_in(u, p, k, row, &begin, &end);
        if (data && end - begin == rows * cols) t->data = data;
      }
      u->state_of[u->state_count] = (struct state_of){p, k};
      u->states[u->state_count++] = t;
    }
}

static int is_first_moment(const char *state) { return !strcmp(state, "m") || !strcmp(state, "momentum"); }

/* Place the states with their own shapes one after another. Returns their total length. */
static long place_states(struct updates *u, struct update *row, int k)
{
  enum { ALIGNMENT = 16 }; /* as parameters are */
  const struct optimizer *o = u->rules[row->param - u->params].optimizer;
  long *place = arena_get(u->arena, (size_t)row->count, sizeof *place), rows, cols, length = 0;
  int others = 0;
  for (int i = 0; i < row->count; i++) {
    const struct tensor *w = &row->param[i]->value;
    shape_of(o, row->param[i], k, &rows, &cols);
    others |= rows != w->rows || cols != w->cols;
    place[i] = length;
    length += (rows * cols + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  if (!others) return row->update->cols;
  row->state_place[k] = place;
  return length;
}

/* n numbers from `from` on, of parameters [first, first+count), which lie one after another and have one optimizer;
   here they are at `at`. */
static void make_row(struct updates *u, int first, int count, long from, long n, long at)
{
  const struct optimizer *o = u->rules[first].optimizer;
  struct params *all = &u->model->params;
  struct update *row = &u->rows[u->row_count++];
  long *place = arena_get(u->arena, (size_t)count, sizeof *place);
  for (int i = 0; i < count; i++) place[i] = u->params[first + i]->place - from;
  *row = (struct update){.grad = view(u, REALS(&all->grads) + at, n, "gradients"),
                         .update = view(u, REALS(u->all) + at, n, "updates"),
                         .param = u->params + first,
                         .place = place,
                         .count = count,
                         .from = from,
                         .seed = u->rule.seed,
                         .model = u->model};
  for (int k = 0; o->state_names && o->state_names[k]; k++) {
    REQUIRE(k < MAX_STATES);
    row->state_place[k] = place;
    long length = o->state_shape ? place_states(u, row, k) : n;
    row->state[k] = tensor_new(u->model->device, TENSOR_REAL, 1, length, o->state_names[k]);
    u->memory[u->memory_count++] = row->state[k];
    if (is_first_moment(o->state_names[k]))
      all->moments[all->moment_count++] = (struct moments){row->state[k], from};
  }
}

/* Rows of this rank's pieces. */
static void make_own_rows(struct updates *u)
{
  const struct shards *s = u->shards;
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++) {
    int first = 0, end;
    if (x->owner != s->comm->rank) continue;
    while (end_of(u->params[first]) <= x->from) first++;
    for (end = first + 1; end < u->count && u->params[end]->place < x->from + x->n; end++) {}
    make_row(u, first, end - first, x->from, x->n, x->at);
  }
}

/* The number of parameters from i on with the same optimizer. */
static int run_at(const struct updates *u, int i)
{
  int n = 1;
  while (i + n < u->count && u->rules[i + n].optimizer == u->rules[i].optimizer) n++;
  return n;
}

static void make_rows(struct updates *u)
{
  size_t rows = (size_t)u->count + (u->shards ? (size_t)u->shards->count : 0) + 1, states = rows * MAX_STATES;
  u->rows = arena_get(u->arena, rows, sizeof *u->rows);
  u->states = arena_get(u->arena, states, sizeof *u->states);
  u->state_of = arena_get(u->arena, states, sizeof *u->state_of);
  u->memory = arena_get(u->arena, states, sizeof *u->memory);
  u->state_names = arena_get(u->arena, states, sizeof *u->state_names);
  u->model->params.moments = arena_get(u->arena, states, sizeof *u->model->params.moments);
  u->model->params.moment_count = 0;
  if (u->shards) make_own_rows(u);
  for (int i = 0, n; i < u->count; i += n) {
    n = run_at(u, i);
    long from = u->params[i]->place;
    if (!u->shards) make_row(u, i, n, from, end_of(u->params[i + n - 1]) - from, from);
    name_states(u, i, n);
  }
}

/* Shard parameters and states, before memory of a rank's size is allocated. */
static void share_out(struct updates *u)
{
  struct params *all = &u->model->params;
  u->owns_shards = u->rule.ranks && !all->shards;
  u->shards = u->owns_shards ? shards_new(u->rule.ranks) : all->shards;
  for (int i = 0, n; u->shards && i < u->count; i += n) {
    n = run_at(u, i);
    if (all->shards || u->rules[i].optimizer->record) sharing_divide(u, i, n);
  }
  params_hold(all);
}

/* --- blocks ------------------------------------------------------------------------------------------- */

static int speaks_about_heads(const struct model *model)
{
  for (int i = 0; i < model->stabilizer_count; i++)
    if (model->stabilizer[i]->on_update) return 1;
  return 0;
}

static void make_blocks(struct updates *u)
{
  int by_head = speaks_about_heads(u->model);
  for (int pass = 0; pass < 2; pass++) {
    int n = 0;
    for (int i = 0; i < u->count; i++) {
      struct param *p = u->params[i];
      long rows = by_head && p->head_rows ? p->head_rows : p->value.rows;
      if (!u->rules[i].optimizer->record) continue;
      for (long row = 0; row < p->value.rows; row += rows, n++)
        if (pass) {
          u->blocks[n] = (struct update_block){p, row, rows};
          u->block_rules[n] = u->rules[i];
        }
    }
    u->block_count = n;
    if (pass) continue;
    u->blocks = arena_get(u->arena, (size_t)n + 1, sizeof *u->blocks);
    u->block_rules = arena_get(u->arena, (size_t)n + 1, sizeof *u->block_rules);
  }
}

/* --- recording: gradient to update ------------------------------------------------------------------- */

/* finite: 1 as long as every step has been finite. */
static void record_health(struct updates *u, struct program *p)
{
  const struct tally *batch = &u->model->step;
  if (u->model->params.shards)
    program_host(p, sharing_norm, &u, sizeof u);
  else
    PROGRAM_CALL(p, norm, .y = u->grad_norm, .x = &u->model->params.grads);
  if (u->rule.stops) {
    PROGRAM_CALL(p, all_finite, .y = u->finite, .x = program_view(p, batch->loss, 0, 1));
    PROGRAM_CALL(p, all_finite, .y = u->finite, .x = program_view(p, batch->stats, 1, 1));
    PROGRAM_CALL(p, all_finite, .y = u->finite, .x = u->grad_norm);
  }
  PROGRAM_CALL(p, copy, .y = u->reported_finite, .x = u->finite);
}

static void record_clip(struct updates *u, struct program *p)
{
  if (!(u->rule.grad_clip > 0)) return;
  struct tensor *factor = program_temporary(p, 1, 1, "gradient clip");
  PROGRAM_CALL(p, clip_factor, .y = factor, .x = u->grad_norm,
               .limit = numbers_constant(u->model->numbers, u->rule.grad_clip));
  PROGRAM_CALL(p, scale, .y = &u->model->params.grads, .by = factor, .alpha = 1);
}

static struct program *record_updates(struct updates *u, const void *(*options_of)(void *, const char *),
                                      void *context)
{
  struct model *m = u->model;
  struct program *p = program_new(m->device);
  record_health(u, p);
  program_guard(p, u->finite);
  record_clip(u, p);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->before_update) m->stabilizer[i]->before_update(&m->context[i], p);
  for (int i = 0; i < u->row_count; i++) {
    const struct optimizer *o = u->rules[u->rows[i].param - u->params].optimizer;
    if (o->record) o->record(options_of(context, o->name), p, m->numbers, &u->rows[i]);
  }
  if (u->owns_shards) program_host(p, sharing_collect, &u, sizeof u);
  updates_match(u, p);
  program_plan(p);
  return p;
}

/* --- recording: update to weight --------------------------------------------------------------------- */

static double share_of(const void *context, const struct step_scalars *now)
{
  (void)context;
  return now->share;
}

/* keep = 1 - decay rate, or, where decay does not follow the base rate, 1 - decay share. */
static void record_keep(struct updates *u, struct program *p, struct tensor *keep, struct tensor *rate)
{
  int n = u->block_count;
  double *decay = program_memory(p, (size_t)n, sizeof *decay);
  for (int i = 0; i < n; i++) decay[i] = u->block_rules[i].weight_decay;
  struct tensor *lost = program_temporary(p, 1, n, "decay");
  PROGRAM_CALL(p, copy, .y = lost, .x = program_reals(p, 1, n, decay, "decay factors"));
  PROGRAM_CALL(p, scale, .y = lost, .by = numbers_constant(u->model->numbers, u->rule.weight_decay),
               .alpha = 1);
  if (u->rule.decay_independent)
    PROGRAM_CALL(p, scale, .y = lost, .by = numbers_varying(u->model->numbers, share_of, NULL, 0),
                 .alpha = 1);
  else
    PROGRAM_CALL(p, multiply, .y = lost, .x = rate);
  PROGRAM_CALL(p, fill, .y = keep, .value = 1);
  PROGRAM_CALL(p, axpby, .y = keep, .x = lost, .alpha = -1, .beta = 1);
}

/* The parts of the blocks that this rank has, with their factors. */
static int cut_blocks(struct updates *u, struct program *p, int **segment, int n, struct tensor **keep,
                      struct tensor **rate)
{
  const struct params *all = &u->model->params;
  size_t most = params_cut_most(all, n);
  int *own = program_memory(p, 2 * most, sizeof *own), *index = program_memory(p, most, sizeof *index);
  int count = params_cut(all, *segment, n, own, index);
  *segment = own;
  if (!count) return 0;
  struct tensor *of = program_ints(p, 1, count, index, "blocks of segments");
  struct tensor **number[] = {keep, rate};
  for (int i = 0; i < 2; i++) {
    struct tensor *here = program_temporary(p, 1, count, (*number[i])->name);
    PROGRAM_CALL(p, gather, .y = here, .x = *number[i], .index = of);
    *number[i] = here;
  }
  return count;
}

static void record_weights(struct updates *u, struct program *p)
{
  struct model *m = u->model;
  int n = u->block_count, *segment = program_memory(p, 2 * (size_t)n + 1, sizeof *segment);
  double *factor = program_memory(p, (size_t)n + 1, sizeof *factor);
  if (!n) return;
  for (int i = 0; i < n; i++) {
    const struct update_block *b = &u->blocks[i];
    /* a bias is one row: its rows are not columns here */
    param_segment(b->param, b->row, b->param->kind == PARAM_BIAS ? b->param->value.cols : b->rows,
                  segment + 2 * i);
    factor[i] = u->block_rules[i].lr;
  }
  struct tensor *rate = program_temporary(p, 1, n, "rates"), *keep = program_temporary(p, 1, n, "keep");
  PROGRAM_CALL(p, copy, .y = rate, .x = program_reals(p, 1, n, factor, "rate factors"));
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_update) m->stabilizer[i]->on_update(&m->context[i], p, u->blocks, n, rate);
  PROGRAM_CALL(p, scale, .y = rate, .by = m->lr, .alpha = 1);
  record_keep(u, p, keep, rate);
  int count = n;
  if (m->params.shards) count = cut_blocks(u, p, &segment, n, &keep, &rate);
  if (count)
    PROGRAM_CALL(p, apply_segments, .w = &m->params.values, .update = u->all,
                 .segment = program_ints(p, count, 2, segment, "blocks"), .keep = keep, .rate = rate,
                 .cautious = u->rule.decay_cautious);
}

static struct program *record_apply(struct updates *u)
{
  struct model *m = u->model;
  struct program *p = program_new(m->device);
  program_guard(p, u->finite);
  record_weights(u, p);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->after_step) m->stabilizer[i]->after_step(&m->context[i], p);
  model_record_after_step(m, p);
  program_plan(p);
  return p;
}

/* --- construction --------------------------------------------------------------------------------------- */

struct updates *updates_new(struct model *model, const char *optimizer,
                            const struct override_options *override, const struct update_rule *rule,
                            const void *(*options_of)(void *, const char *), void *context, struct error *e)
{
  struct arena *arena = arena_new();
  struct updates *u = arena_get(arena, 1, sizeof *u);
  *u = (struct updates){.model = model,
                        .rule = *rule,
                        .arena = arena,
                        .match = override->match,
                        .match_rms = override->match_rms};
  if (updates_decide(u, optimizer, override, e)) {
    arena_free(arena);
    return NULL;
  }
  for (int i = 0; i < u->count; i++)
    if (u->rules[i].optimizer->orthogonalizes && u->params[i]->kind == PARAM_MATRIX)
      u->rules[i].use =
        u->rules[i].optimizer->orthogonalizes(options_of(context, u->rules[i].optimizer->name));
  share_out(u);
  make_directions(u);
  make_rows(u);
  make_blocks(u);
  u->finite = tensor_new(model->device, TENSOR_REAL, 1, 1, "finite");
  u->grad_norm = report_add(model->report, 1, 1, NAN, "gradient norm");
  u->reported_finite = report_add(model->report, 1, 1, 1, "finite");
  real one = 1;
  model->device->upload(model->device, u->finite->data, &one, sizeof one);
  u->compute = record_updates(u, options_of, context);
  u->apply = record_apply(u);
  return u;
}

void updates_free(struct updates *u)
{
  if (!u) return;
  struct device *device = u->model->device;
  program_free(u->compute);
  program_free(u->apply);
  for (int i = 0; i < u->memory_count; i++) tensor_free(device, u->memory[i]);
  if (u->owns_shards) shards_free(device, u->shards);
  tensor_free(device, u->all);
  tensor_free(device, u->finite);
  arena_free(u->arena);
}

/* --- looking in --------------------------------------------------------------------------------------- */

struct program *updates_program(const struct updates *u) { return u->compute; }
struct program *updates_apply(const struct updates *u) { return u->apply; }
const struct tensor *updates_grad_norm(const struct updates *u) { return u->grad_norm; }
const struct tensor *updates_finite(const struct updates *u) { return u->reported_finite; }

const char *updates_optimizer_of(const struct updates *u, const struct param *p)
{
  for (int i = 0; i < u->count; i++)
    if (u->params[i] == p) return u->rules[i].optimizer->name;
  BUG("%s does not train", p->name);
}

int updates_momentum(const struct updates *u, const struct param *p, struct ns_use *use)
{
  int any = 0;
  for (int i = 0; i < u->count; i++) {
    const char *const *names = u->rules[i].optimizer->state_names;
    if (u->params[i] != p) continue;
    *use = u->rules[i].use;
    for (int k = 0; names && names[k]; k++) any |= is_first_moment(names[k]);
  }
  return any;
}

/* An optimizer with two first moments has its own before Adam's, which it overwrites here. */
void updates_momenta(const struct updates *u, real *host)
{
  const struct params *all = &u->model->params;
  memset(host, 0, (size_t)all->total * sizeof *host);
  for (int i = all->moment_count - 1; i >= 0; i--) {
    const struct moments *m = &all->moments[i];
    u->model->device->download(u->model->device, host + m->from, m->row->data,
                               (size_t)m->row->cols * sizeof *host);
  }
  if (u->shards) shards_gather(u->shards, 0, all->total, host);
}

int updates_are_sharded(const struct updates *u) { return u->shards != NULL; }

int updates_states(const struct updates *u) { return u->state_count; }

struct tensor *updates_state(const struct updates *u, int index, char *name, size_t room)
{
  snprintf(name, room, "%s", u->state_names[index]);
  return u->states[index];
}

void updates_state_read(const struct updates *u, int index, real *host)
{
  const struct state_of *s = &u->state_of[index];
  struct device *d = u->model->device;
  long n = u->states[index]->rows * u->states[index]->cols, begin, end;
  memset(host, 0, (size_t)n * sizeof *host);
  for (const struct update *row = u->rows; row < u->rows + u->row_count; row++) {
    const real *data = state_in(u, s->param, s->state, row, &begin, &end);
    if (data) d->download(d, host + begin, data, (size_t)(end - begin) * sizeof *host);
  }
  if (u->shards) sharing_join(u, host, (size_t)n * sizeof *host);
}

void updates_state_write(const struct updates *u, int index, const real *host)
{
  const struct state_of *s = &u->state_of[index];
  struct device *d = u->model->device;
  long begin, end;
  for (const struct update *row = u->rows; row < u->rows + u->row_count; row++) {
    real *data = state_in(u, s->param, s->state, row, &begin, &end);
    if (data) d->upload(d, data, host + begin, (size_t)(end - begin) * sizeof *host);
  }
}
