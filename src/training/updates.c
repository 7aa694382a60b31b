/* updates.c - which optimiser each tensor has, and the decoupled update they share */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "training/optimizer.h"
#include "training/spectral.h"

enum { ALIGNMENT = 16 /* elements: where a direction begins */ };

static const char *const match_names[] = {"lr", "update_rms", "update_spectral_norm", NULL};

const struct option_row override_rows[] = {
  TEXT_ROW(struct override_options, optimizer, "",
           "other optimisers by tensor: GLOB:NAME, as in w_q:adam+w_k:adam", OPTION_LIST),
  TEXT_ROW(struct override_options, lr, "", "factors on train.lr by tensor: GLOB:FACTOR, as in w_[qk]:0.1",
           OPTION_LIST),
  TEXT_ROW(struct override_options, weight_decay, "",
           "factors on train.weight_decay by tensor: GLOB:FACTOR, as in w_[qk]:10", OPTION_LIST),
  CHOICE_ROW(
    struct override_options, match, "lr", match_names,
    "held equal between optimisers on hidden matrices: the rate alone, or every update scaled to one RMS, or "
    "to one spectral norm",
    0),
  REAL_ROW(
    struct override_options, match_rms, "0.2", 0, 1e6, "1",
    "the RMS; the spectral norm is this times sqrt(max(out, in)), as of a matrix of equal singular values",
    0),
  END_ROW};

/* The tensors of one optimiser. */
struct group {
  const struct optimizer *optimizer;
  const void *options;
  struct update *list;
  int count;
  void *work; /* device memory */
};

/* What one parameter has. */
struct rule {
  const struct optimizer *optimizer;
  double lr, weight_decay;
};

/* Rows that share their factors: a whole tensor, or one head's where a stabiliser speaks about heads. */
struct block {
  struct param *param;
  struct rule rule;
  struct tensor *direction;
  long row, rows;
  double keep, rate;
};

struct updates {
  struct model *model;
  struct update_rule rule;
  long match;
  double match_rms;
  struct param **params;      /* [count] those that train */
  struct rule *rules;         /* [count] */
  struct tensor **directions; /* [count] views of `memory` */
  int count;
  struct tensor *memory;  /* all directions, one after another */
  struct tensor *numbers; /* one a thread */
  struct group *groups;
  int group_count;
  struct block *blocks;
  int block_count;
  struct tensor **states;
  char (*state_names)[160];
  int state_count;
  struct arena *arena;
};

/* --- patterns ----------------------------------------------------------------------------------------- */
struct patterns {
  struct updates *updates;
  const char *key;
  int (*apply)(struct patterns *, struct param *, struct rule *, const char *value);
  struct error *error;
};

/* Does the glob match the name, or its end after one of its dots? */
static int matches(const char *glob, const char *name)
{
  for (; name; name = strchr(name, '.') ? strchr(name, '.') + 1 : NULL)
    if (!fnmatch(glob, name, 0)) return 1;
  return 0;
}

static int no_such_tensor(const struct patterns *p, const char *glob)
{
  const struct updates *u = p->updates;
  const char **names = arena_get(u->arena, 2 * (size_t)u->count, sizeof *names);
  for (int i = 0; i < u->count; i++) {
    const char *name = u->params[i]->name, *dot = strrchr(name, '.');
    names[2 * i] = dot ? dot + 1 : name;
    names[2 * i + 1] = name;
  }
  const char *nearest = text_nearest(glob, names, 2 * (size_t)u->count);
  return error_set(p->error, STATUS_USAGE, "%s: no tensor matches \"%s\"%s%s%s", p->key, glob,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int one_pattern(void *context, const char *part)
{
  struct patterns *p = context;
  const char *colon = strchr(part, ':');
  if (!colon || colon == part || !colon[1])
    return error_set(p->error, STATUS_USAGE, "%s: \"%s\" is not GLOB:VALUE, as in w_q:0.1", p->key, part);
  char *glob = arena_format(p->updates->arena, "%.*s", (int)(colon - part), part);
  int found = 0;
  for (int i = 0; i < p->updates->count; i++)
    if (matches(glob, p->updates->params[i]->name)) {
      found = 1;
      if (p->apply(p, p->updates->params[i], &p->updates->rules[i], colon + 1)) return p->error->status;
    }
  return found ? STATUS_OK : no_such_tensor(p, glob);
}

static int set_optimizer(struct patterns *p, struct param *param, struct rule *rule, const char *value)
{
  rule->optimizer = optimizer_find(value);
  if (!rule->optimizer) {
    const char *names[64];
    size_t count = 0;
    for (const struct optimizer *const *o = optimizers; *o && count < 64; o++) names[count++] = (*o)->name;
    const char *nearest = text_nearest(value, names, count);
    return error_set(p->error, STATUS_USAGE, "%s: no optimiser is called \"%s\"%s%s%s", p->key, value,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
  }
  int matrix = param->value.rows > 1 && param->value.cols > 1;
  if (rule->optimizer->takes && !rule->optimizer->takes(param) && !matrix)
    return error_set(p->error, STATUS_USAGE, "%s: %s takes matrices, and %s is [%ld, %ld]", p->key, value,
                     param->name, param->value.rows, param->value.cols);
  return STATUS_OK;
}

static int set_factor(const struct patterns *p, double *factor, const char *value)
{
  char *end;
  double number = strtod(value, &end);
  if (*end || !(number >= 0 && number <= 1e6))
    return error_set(p->error, STATUS_USAGE, "%s: \"%s\" is not a factor: a number from 0 to 1e6", p->key,
                     value);
  *factor = number;
  return STATUS_OK;
}

static int set_lr(struct patterns *p, struct param *param, struct rule *rule, const char *value)
{
  (void)param;
  return set_factor(p, &rule->lr, value);
}

static int set_weight_decay(struct patterns *p, struct param *param, struct rule *rule, const char *value)
{
  (void)param;
  return set_factor(p, &rule->weight_decay, value);
}

static int apply_patterns(struct updates *u, const struct override_options *o, struct error *e)
{
  struct patterns optimizer = {u, "override.optimizer", set_optimizer, e}, lr = {u, "override.lr", set_lr, e},
                  decay = {u, "override.weight_decay", set_weight_decay, e};
  int status = *o->optimizer ? text_split(o->optimizer, '+', one_pattern, &optimizer) : STATUS_OK;
  if (!status && *o->lr) status = text_split(o->lr, '+', one_pattern, &lr);
  if (!status && *o->weight_decay) status = text_split(o->weight_decay, '+', one_pattern, &decay);
  return status;
}

/* --- construction ------------------------------------------------------------------------------------- */
static void gather(struct updates *u, const struct optimizer *standard)
{
  const struct params *all = &u->model->params;
  u->params = arena_get(u->arena, (size_t)all->count, sizeof *u->params);
  u->rules = arena_get(u->arena, (size_t)all->count, sizeof *u->rules);
  for (int i = 0; i < all->count; i++)
    if (all->list[i]->kind != PARAM_STATE) {
      int taken = !standard->takes || standard->takes(all->list[i]);
      u->rules[u->count] = (struct rule){taken ? standard : optimizer_find("adam"), 1, 1};
      u->params[u->count++] = all->list[i];
    }
}

/* Weight decay acts on every matrix, embedding and head included; on the rest where asked for. */
static void decide_decay(struct updates *u)
{
  for (int i = 0; i < u->count; i++)
    if ((u->params[i]->kind == PARAM_GAIN || u->params[i]->kind == PARAM_BIAS) && !u->rule.decay_gains)
      u->rules[i].weight_decay = 0;
}

static void make_directions(struct updates *u)
{
  long total = 0;
  u->directions = arena_get(u->arena, (size_t)u->count, sizeof *u->directions);
  for (int i = 0; i < u->count; i++) {
    const struct tensor *w = &u->params[i]->value;
    u->directions[i] = arena_get(u->arena, 1, sizeof(struct tensor));
    *u->directions[i] = tensor_of(NULL, w->rows, w->cols);
    u->directions[i]->offset = total;
    total += (w->rows * w->cols + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  u->memory = tensor_new(u->model->device, TENSOR_REAL, 1, total, "directions");
  u->numbers = tensor_new(u->model->device, TENSOR_REAL, 1, pool_threads(u->model->device->pool), "numbers");
  for (int i = 0; i < u->count; i++) {
    u->directions[i]->data = REALS(u->memory) + u->directions[i]->offset;
    u->directions[i]->name = u->params[i]->name;
  }
}

static void make_states(struct updates *u, const struct optimizer *optimizer, struct update *update)
{
  const struct tensor *w = &update->param->value;
  const char *const *name = optimizer->state_names;
  for (int k = 0; name && name[k]; k++) {
    REQUIRE(k < MAX_STATES);
    struct tensor *t = tensor_new(u->model->device, TENSOR_REAL, w->rows, w->cols, NULL);
    snprintf(u->state_names[u->state_count], sizeof *u->state_names, "%s.%s.%s", optimizer->name, name[k],
             update->param->name);
    t->name = u->state_names[u->state_count];
    u->states[u->state_count++] = update->state[k] = t;
  }
}

static void make_group(struct updates *u, const struct optimizer *optimizer, const void *options)
{
  struct group g = {.optimizer = optimizer, .options = options};
  g.list = arena_get(u->arena, (size_t)u->count, sizeof *g.list);
  for (int i = 0; i < u->count; i++)
    if (u->rules[i].optimizer == optimizer) {
      g.list[g.count] = (struct update){.param = u->params[i], .direction = u->directions[i]};
      make_states(u, optimizer, &g.list[g.count++]);
    }
  if (!g.count) return;
  if (optimizer->work)
    g.work =
      u->model->device->get(u->model->device, optimizer->work(options, u->model->device, g.list, g.count));
  u->groups[u->group_count++] = g;
}

static void make_groups(struct updates *u, const void *(*options_of)(void *, const char *), void *context)
{
  size_t kinds = 0, states = (size_t)u->count * MAX_STATES;
  while (optimizers[kinds]) kinds++;
  u->groups = arena_get(u->arena, kinds, sizeof *u->groups);
  u->states = arena_get(u->arena, states, sizeof *u->states);
  u->state_names = arena_get(u->arena, states, sizeof *u->state_names);
  for (size_t i = 0; i < kinds; i++) make_group(u, optimizers[i], options_of(context, optimizers[i]->name));
}

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
      if (!u->rules[i].optimizer->step) continue;
      for (long row = 0; row < p->value.rows; row += rows, n++)
        if (pass) u->blocks[n] = (struct block){p, u->rules[i], u->directions[i], row, rows, 1, 0};
    }
    u->block_count = n;
    if (!pass) u->blocks = arena_get(u->arena, (size_t)n + 1, sizeof *u->blocks);
  }
}

struct updates *updates_new(struct model *model, const char *optimizer,
                            const struct override_options *override, const struct update_rule *rule,
                            const void *(*options_of)(void *, const char *), void *context, struct error *e)
{
  const struct optimizer *standard = optimizer_find(optimizer);
  if (!standard) {
    error_set(e, STATUS_USAGE, "optimizer: no optimiser is called \"%s\"", optimizer);
    return NULL;
  }
  struct arena *arena = arena_new();
  struct updates *u = arena_get(arena, 1, sizeof *u);
  *u = (struct updates){.model = model,
                        .rule = *rule,
                        .arena = arena,
                        .match = override->match,
                        .match_rms = override->match_rms};
  gather(u, standard);
  decide_decay(u);
  if (apply_patterns(u, override, e)) {
    arena_free(arena);
    return NULL;
  }
  make_directions(u);
  make_groups(u, options_of, context);
  make_blocks(u);
  return u;
}

void updates_free(struct updates *u)
{
  if (!u) return;
  struct device *device = u->model->device;
  for (int i = 0; i < u->state_count; i++) tensor_free(device, u->states[i]);
  for (int i = 0; i < u->group_count; i++)
    if (u->groups[i].work) device->put_back(device, u->groups[i].work);
  tensor_free(device, u->memory);
  tensor_free(device, u->numbers);
  arena_free(u->arena);
}

/* --- one step ----------------------------------------------------------------------------------------- */
/* The size of a direction that `match` holds equal, as the RMS of a matrix of equal singular values; NaN where it
   has none. */
static double matched_size(const struct updates *u, struct device *device, struct tensor *d,
                           struct tensor *number)
{
  if (u->match == MATCH_UPDATE_RMS) return norm_of(device, d, number) / sqrt((double)(d->rows * d->cols));
  struct svd s;
  double size = svd_of(&s, device, d) ? NAN : s.sigma[0] / sqrt(fmax((double)d->rows, (double)d->cols));
  svd_free(&s);
  return size;
}

static void match_one(void *context, long piece, int worker)
{
  struct updates *u = context;
  struct device *device = device_worker(u->model->device, worker);
  struct tensor *d = u->directions[piece], number = tensor_of(REALS(u->numbers) + worker, 1, 1);
  if (u->params[piece]->kind != PARAM_MATRIX || !u->rules[piece].optimizer->step) return;
  double size = matched_size(u, device, d, &number);
  if (size != 0) device->ops.scale(device, &(struct scale_args){.y = d, .alpha = u->match_rms / size});
}

void updates_directions(struct updates *u, long step)
{
  for (int i = 0; i < u->group_count; i++) {
    struct group *g = &u->groups[i];
    for (int j = 0; j < g->count; j++) g->list[j].step = step;
    if (g->optimizer->step)
      g->optimizer->step(g->options, u->model->device, u->rule.seed, g->list, g->count, g->work);
  }
  if (u->match != MATCH_LR) parallel_for(u->model->device->pool, u->count, match_one, u);
}

static void apply_block(void *context, long piece, int worker)
{
  const struct updates *u = context;
  const struct block *b = &u->blocks[piece];
  struct tensor w = tensor_rows(&b->param->value, b->row, b->rows),
                d = tensor_rows(b->direction, b->row, b->rows);
  u->model->device->ops.apply_update(
    device_worker(u->model->device, worker),
    &(struct apply_update_args){.w = &w, .direction = &d, .keep = b->keep, .rate = b->rate});
}

static void set_factors(const struct updates *u, struct block *b, double lr)
{
  struct update_factors f = {b->rule.lr, b->rule.weight_decay};
  for (int i = 0; i < u->model->stabilizer_count; i++)
    if (u->model->stabilizer[i]->on_update)
      u->model->stabilizer[i]->on_update(&u->model->context[i], b->param, b->row, b->rows, &f);
  b->rate = lr * f.lr;
  double share = u->rule.lr > 0 ? lr / u->rule.lr : 0;
  b->keep = 1 - u->rule.weight_decay * f.weight_decay * (u->rule.decay_independent ? share : b->rate);
}

void updates_apply(struct updates *u, double lr)
{
  for (int i = 0; i < u->block_count; i++) set_factors(u, &u->blocks[i], lr);
  parallel_for(u->model->device->pool, u->block_count, apply_block, u);
}

void updates_step(struct updates *u, long step, double lr)
{
  updates_directions(u, step);
  updates_apply(u, lr);
}

/* --- looking in --------------------------------------------------------------------------------------- */
static int index_of(const struct updates *u, const struct param *p)
{
  for (int i = 0; i < u->count; i++)
    if (u->params[i] == p) return i;
  BUG("%s does not train", p->name);
}

const struct tensor *updates_direction(const struct updates *u, const struct param *p)
{
  return u->directions[index_of(u, p)];
}

const char *updates_optimizer_of(const struct updates *u, const struct param *p)
{
  return u->rules[index_of(u, p)].optimizer->name;
}

static void scale_moments(struct updates *u, const struct update *x, const char *const *name,
                          const struct factor *f, double c)
{
  struct device *device = u->model->device;
  for (int k = 0; name && name[k]; k++) {
    if (strcmp(name[k], "m") && strcmp(name[k], "momentum")) continue;
    struct tensor *m = x->state[k];
    struct tensor part =
      x->param == f->bias ? tensor_of(REALS(m) + f->row, 1, f->rows) : tensor_rows(m, f->row, f->rows);
    device->ops.scale(device, &(struct scale_args){.y = &part, .alpha = c});
  }
}

void updates_scale_momentum(struct updates *u, const struct factor *f, double c)
{
  for (int i = 0; i < u->group_count; i++)
    for (int j = 0; j < u->groups[i].count; j++) {
      const struct update *x = &u->groups[i].list[j];
      if (x->param == f->weight || x->param == f->bias)
        scale_moments(u, x, u->groups[i].optimizer->state_names, f, c);
    }
}

int updates_states(const struct updates *u) { return u->state_count; }

struct tensor *updates_state(const struct updates *u, int index, char *name, size_t room)
{
  snprintf(name, room, "%s", u->state_names[index]);
  return u->states[index];
}

/* --- what optimisers share ---------------------------------------------------------------------------- */
void momentum_step(struct device *device, struct tensor *m, struct tensor *g, struct tensor *direction,
                   double momentum, int nesterov)
{
  const struct ops *ops = &device->ops;
  ops->axpby(device, &(struct axpby_args){.y = m, .x = g, .alpha = 1, .beta = momentum});
  ops->copy(device, &(struct copy_args){.y = direction, .x = nesterov ? g : m});
  if (nesterov)
    ops->axpby(device, &(struct axpby_args){.y = direction, .x = m, .alpha = momentum, .beta = 1});
}
