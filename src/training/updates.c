/* updates.c - the update half of a step: directions, as optimisers record them, and the decoupled update they share */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "training/updates_parts.h"

/* --- rows --------------------------------------------------------------------------------------------- */

static long begin_of(const struct updates *u, const struct param *p)
{
  return REALS(&p->value) - REALS(&u->model->params.values);
}

static long end_of(const struct updates *u, const struct param *p)
{
  return begin_of(u, p) + p->value.rows * p->value.cols;
}

static struct tensor *view(struct updates *u, void *data, long cols, const char *name)
{
  struct tensor *t = arena_get(u->arena, 1, sizeof *t);
  *t = tensor_of(data, 1, cols);
  t->name = name;
  return t;
}

static void make_directions(struct updates *u)
{
  u->all = tensor_new(u->model->device, TENSOR_REAL, 1, u->model->params.values.cols, "directions");
  u->model->params.directions = *u->all;
  for (int i = 0; i < u->count; i++) {
    struct param *p = u->params[i];
    p->direction = tensor_of(REALS(u->all) + begin_of(u, p), p->value.rows, p->value.cols);
    p->direction.name = p->name;
    memset(p->momentum, 0, sizeof p->momentum);
  }
}

static void name_states(struct updates *u, const struct update *row, const struct optimizer *optimizer, int k)
{
  for (int i = 0; i < row->count; i++) {
    struct param *p = row->param[i];
    char *name = u->state_names[u->state_count];
    snprintf(name, sizeof *u->state_names, "%s.%s.%s", optimizer->name, optimizer->state_names[k], p->name);
    struct tensor *t = arena_get(u->arena, 1, sizeof *t);
    *t = tensor_of(REALS(row->state[k]) + row->place[i], p->value.rows, p->value.cols);
    t->name = name;
    u->states[u->state_count++] = t;
    if (!strcmp(optimizer->state_names[k], "m") || !strcmp(optimizer->state_names[k], "momentum"))
      p->momentum[p->momentum[0] ? 1 : 0] = t;
  }
}

/* Parameters [first, first+count), which lie one after another and have one optimiser. */
static void make_row(struct updates *u, int first, int count)
{
  const struct optimizer *o = u->rules[first].optimizer;
  struct update *row = &u->rows[u->row_count++];
  long from = begin_of(u, u->params[first]), n = end_of(u, u->params[first + count - 1]) - from;
  long *place = arena_get(u->arena, (size_t)count, sizeof *place);
  for (int i = 0; i < count; i++) place[i] = begin_of(u, u->params[first + i]) - from;
  *row = (struct update){.grad = view(u, REALS(&u->model->params.grads) + from, n, "gradients"),
                         .direction = view(u, REALS(u->all) + from, n, "directions"),
                         .param = u->params + first,
                         .place = place,
                         .count = count,
                         .seed = u->rule.seed};
  for (int k = 0; o->state_names && o->state_names[k]; k++) {
    REQUIRE(k < MAX_STATES);
    row->state[k] = tensor_new(u->model->device, TENSOR_REAL, 1, n, o->state_names[k]);
    u->memory[u->memory_count++] = row->state[k];
    name_states(u, row, o, k);
  }
}

static void make_rows(struct updates *u)
{
  size_t states = (size_t)u->count * MAX_STATES;
  u->rows = arena_get(u->arena, (size_t)u->count + 1, sizeof *u->rows);
  u->states = arena_get(u->arena, states + 1, sizeof *u->states);
  u->memory = arena_get(u->arena, states + 1, sizeof *u->memory);
  u->state_names = arena_get(u->arena, states + 1, sizeof *u->state_names);
  for (int i = 0, n; i < u->count; i += n) {
    for (n = 1; i + n < u->count && u->rules[i + n].optimizer == u->rules[i].optimizer; n++) {}
    make_row(u, i, n);
  }
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

/* --- recording: gradient to direction ------------------------------------------------------------------- */

/* finite: 1 as long as every step has been finite. */
static void record_health(struct updates *u, struct program *p)
{
  const struct tally *batch = &u->model->step;
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

static struct program *record_directions(struct updates *u, const void *(*options_of)(void *, const char *),
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
  updates_match(u, p);
  program_plan(p);
  return p;
}

/* --- recording: direction to weight --------------------------------------------------------------------- */

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

static void record_weights(struct updates *u, struct program *p)
{
  struct model *m = u->model;
  int n = u->block_count, *segment = program_memory(p, 2 * (size_t)n + 1, sizeof *segment);
  double *factor = program_memory(p, (size_t)n + 1, sizeof *factor);
  if (!n) return;
  for (int i = 0; i < n; i++) {
    const struct update_block *b = &u->blocks[i];
    /* a bias is one row: its rows are not columns here */
    model_segment(m, b->param, b->row, b->param->kind == PARAM_BIAS ? b->param->value.cols : b->rows,
                  segment + 2 * i);
    factor[i] = u->block_rules[i].lr;
  }
  struct tensor *rate = program_temporary(p, 1, n, "rates"), *keep = program_temporary(p, 1, n, "keep");
  PROGRAM_CALL(p, copy, .y = rate, .x = program_reals(p, 1, n, factor, "rate factors"));
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_update) m->stabilizer[i]->on_update(&m->context[i], p, u->blocks, n, rate);
  PROGRAM_CALL(p, scale, .y = rate, .by = m->lr, .alpha = 1);
  record_keep(u, p, keep, rate);
  PROGRAM_CALL(p, apply_segments, .w = &m->params.values, .direction = u->all,
               .segment = program_ints(p, n, 2, segment, "blocks"), .keep = keep, .rate = rate);
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
  make_directions(u);
  make_rows(u);
  make_blocks(u);
  u->finite = tensor_new(model->device, TENSOR_REAL, 1, 1, "finite");
  u->grad_norm = report_add(model->report, 1, 1, NAN, "gradient norm");
  u->reported_finite = report_add(model->report, 1, 1, 1, "finite");
  real one = 1;
  model->device->upload(model->device, u->finite->data, &one, sizeof one);
  u->directions = record_directions(u, options_of, context);
  u->apply = record_apply(u);
  return u;
}

void updates_free(struct updates *u)
{
  if (!u) return;
  struct device *device = u->model->device;
  program_free(u->directions);
  program_free(u->apply);
  for (int i = 0; i < u->memory_count; i++) tensor_free(device, u->memory[i]);
  tensor_free(device, u->all);
  tensor_free(device, u->finite);
  arena_free(u->arena);
}

/* --- looking in --------------------------------------------------------------------------------------- */

struct program *updates_directions(const struct updates *u) { return u->directions; }
struct program *updates_apply(const struct updates *u) { return u->apply; }
const struct tensor *updates_grad_norm(const struct updates *u) { return u->grad_norm; }
const struct tensor *updates_finite(const struct updates *u) { return u->reported_finite; }

const char *updates_optimizer_of(const struct updates *u, const struct param *p)
{
  for (int i = 0; i < u->count; i++)
    if (u->params[i] == p) return u->rules[i].optimizer->name;
  BUG("%s does not train", p->name);
}

int updates_states(const struct updates *u) { return u->state_count; }

struct tensor *updates_state(const struct updates *u, int index, char *name, size_t room)
{
  snprintf(name, room, "%s", u->state_names[index]);
  return u->states[index];
}
