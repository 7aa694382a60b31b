#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/elementary.h"
#include "base/text.h"
#include "numerics/number_format.h"

enum { MAX_SPAN = 4 };

static const char *const init_kinds[] = {"fan_in", "fixed", NULL};

#define ROW_INT(field, standard, min, max, help) \
  INT_ROW(struct model_options, field, standard, min, max, "1", help, 0)

const struct option_row model_rows[] = {
  ROW_INT(layers, "2", 1, 1000, "blocks in the stack"),
  ROW_INT(width, "64", 1, 65536, "width of the residual stream"),
  ROW_INT(heads, "4", 1, 4096, "query heads"),
  ROW_INT(kv_heads, "0", 0, 4096, "key/value heads; 0 with mha: as many as heads"),
  ROW_INT(head_dim, "0", 0, 8192, "size of a head (mla: of its content part); 0: width / heads"),
  ROW_INT(context, "64", 1, 1048576, "tokens a row"),
  ROW_INT(ffn_width, "0", 0, 1048576, "width of SwiGLU; 0: 8/3 width, rounded to a multiple of 16"),
  ROW_INT(vocab, "0", 0, 1048576, "symbols; 0: as many as the data has"),
  TEXT_ROW(struct model_options, attention, "mha", "attention variant: see `maxlogit list attention`", 0),
  TEXT_ROW(struct model_options, ffn, "swiglu", "feed-forward block: see `maxlogit list ffn`", OPTION_LATER),
  ROW_INT(q_rank, "0", 0, 65536, "mla: rank of the query latent; 0: none, queries come from the width"),
  ROW_INT(kv_rank, "0", 0, 65536, "mla: rank of the key/value latent; 0: 4 head_dim"),
  ROW_INT(rope_dim, "0", 0, 8192, "mla: size of the rotary part, even; 0: head_dim / 2"),
  ROW_INT(value_dim, "0", 0, 8192, "mla: size of a value head; 0: head_dim"),
  BOOL_ROW(struct model_options, tied, "0", "one matrix for embedding and head", 0),
  BOOL_ROW(struct model_options, bias, "0", "biases in the attention's projections", 0),
  REAL_ROW(struct model_options, rope_base, "10000", 1, 1e12, "1", "base of RoPE's frequencies", 0),
  REAL_ROW(struct model_options, rope_scale, "1", 1e-6, 1e6, "1",
           "positions are divided by it (position interpolation, arXiv 2306.15595)", 0),
  REAL_ROW(struct model_options, norm_eps, "1e-06", 0, 1, "1", "added to the mean square in RMSNorm", 0),
  REAL_ROW(struct model_options, z_loss, "0", 0, 1e6, "1", "factor of the z-loss: the mean of (log Z)^2", 0),
  CHOICE_ROW(struct model_options, init, "fan_in", init_kinds,
             "initial matrices: N(0, 1/fan_in) with embedding N(0, 1), or N(0, init_std^2) for all", 0),
  REAL_ROW(struct model_options, init_std, "0.02", 0, 1e6, "1", "standard deviation of init = fixed", 0),
  INT_ROW(struct model_options, mtp, "0", 0, 8, "1",
          "modules of multi-token prediction (DeepSeek-V3, arXiv 2412.19437 sec. 2.2): the k-th predicts the "
          "token k further on",
          OPTION_LATER),
  REAL_ROW(struct model_options, mtp_weight, "0.3", 0, 1e6, "1", "weight of the mean of the modules' losses",
           OPTION_LATER),
  END_ROW};

const struct option_row precision_rows[] = {
  CHOICE_ROW(struct precision_options, scores, "f32", number_formats,
             "format that logits are rounded to before the cap and the softmax; f32: not rounded", 0),
  CHOICE_ROW(struct precision_options, qk, "f32", number_formats,
             "format that queries and keys are rounded to before their product; f32: not rounded", 0),
  END_ROW};

/* --- what follows from what --------------------------------------------------------------------------- */

enum { MOST_NAMES = 64 };

static int no_plugin(const char *key, const char *what, const char *name, const char *const *names,
                     size_t count, struct error *e)
{
  char list[512] = "";
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names[i]);
  }
  const char *nearest = text_nearest(name, names, count);
  return error_set(e, STATUS_USAGE, "%s: \"%s\" is no %s; allowed: %s%s%s%s", key, name, what, list,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int unknown_attention(const char *name, struct error *e)
{
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (const struct attention *const *a = attentions; *a && count < MOST_NAMES; a++)
    names[count++] = (*a)->name;
  return no_plugin("model.attention", "variant", name, names, count, e);
}

static int unknown_ffn(const char *name, struct error *e)
{
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (const struct ffn *const *f = ffns; *f && count < MOST_NAMES; f++) names[count++] = (*f)->name;
  return no_plugin("model.ffn", "feed-forward block", name, names, count, e);
}

int model_resolve(struct model_options *o, long data_vocab, struct error *e)
{
  const struct attention *attention = attention_find(o->attention);
  const struct ffn *ffn = ffn_find(o->ffn);
  if (!attention) return unknown_attention(o->attention, e);
  if (!ffn) return unknown_ffn(o->ffn, e);
  if (o->head_dim == 0) {
    if (o->width % o->heads)
      return error_set(e, STATUS_USAGE,
                       "model.head_dim: width / heads = %ld / %ld is not whole; give "
                       "model.head_dim, or heads that divide the width",
                       o->width, o->heads);
    o->head_dim = o->width / o->heads;
  }
  if (o->ffn_width == 0) {
    o->ffn_width = 16 * lround((double)o->width / 6);
    if (o->ffn_width == 0) o->ffn_width = 16;
  }
  if (o->vocab == 0) o->vocab = data_vocab;
  if (o->vocab < data_vocab || o->vocab < 1)
    return error_set(e, STATUS_USAGE,
                     "model.vocab: %ld is fewer than the %ld symbols of the data; allowed: "
                     "%ld or more, or 0 for as many as the data has",
                     o->vocab, data_vocab, data_vocab);
  int status = attention->resolve ? attention->resolve(o, e) : STATUS_OK;
  return status || !ffn->resolve ? status : ffn->resolve(o, o->ffn_options, e);
}

/* --- declaring ---------------------------------------------------------------------------------------- */

static struct param *add_matrix(struct model *m, enum param_kind kind, int layer, long rows, long cols,
                                const char *name)
{
  const struct model_options *o = &m->options;
  /* The embedding is looked up, not multiplied: unit variance; tied, it is the head as well: fan-in. */
  enum param_init init = kind == PARAM_EMBED && !o->tied ? INIT_NORMAL : INIT_FAN_IN;
  double scale = 1;
  if (o->init == MODEL_INIT_FIXED) {
    init = INIT_NORMAL;
    scale = o->init_std;
  }
  return params_add(&m->params, kind, layer, rows, cols, init, scale, "%s", name);
}

static const char *block_name(char out[96], int layer, const char *name)
{
  int length = snprintf(out, 96, "blocks.%d.%s", layer, name);
  REQUIRE(length < 96);
  return out;
}

struct param *model_add_matrix(struct model *m, int layer, long rows, long cols, long head_rows,
                               const char *name)
{
  char full[96];
  struct param *p = add_matrix(m, PARAM_MATRIX, layer, rows, cols, block_name(full, layer, name));
  p->head_rows = head_rows;
  return p;
}

struct param *model_add_gain(struct model *m, int layer, long cols, double value, const char *name)
{
  return params_add(&m->params, PARAM_GAIN, layer, 1, cols, INIT_CONSTANT, value, "blocks.%d.%s", layer,
                    name);
}

struct param *model_add_bias(struct model *m, int layer, long cols, const char *name)
{
  return params_add(&m->params, PARAM_BIAS, layer, 1, cols, INIT_CONSTANT, 0, "blocks.%d.%s", layer, name);
}

struct param *model_param(const struct model *m, int layer, const char *name)
{
  char full[96];
  struct param *p = params_find(&m->params, block_name(full, layer, name));
  if (!p) BUG("no parameter %s", full);
  return p;
}

static struct param *add_module_gain(struct model *m, int layer, long k, const char *name)
{
  return params_add(&m->params, PARAM_GAIN, layer, 1, m->options.width, INIT_CONSTANT, 1, "mtp.%ld.%s", k,
                    name);
}

/* What stands before and behind the block of module k. */
static void declare_module(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  long k = layer - o->layers + 1;
  struct module *own = &m->module[k - 1];
  char name[32];
  snprintf(name, sizeof name, "mtp.%ld.w_join", k);
  own->norm_h = add_module_gain(m, layer, k, "norm_h");
  own->norm_e = add_module_gain(m, layer, k, "norm_e");
  own->w_join = add_matrix(m, PARAM_MATRIX, layer, o->width, 2 * o->width, name);
  own->norm = add_module_gain(m, layer, k, "norm");
}

static void declare(struct model *m)
{
  const struct model_options *o = &m->options;
  m->embed = add_matrix(m, PARAM_EMBED, -1, o->vocab, o->width, "embed");
  m->norm = params_add(&m->params, PARAM_GAIN, -1, 1, o->width, INIT_CONSTANT, 1, "norm");
  m->head = o->tied ? m->embed : add_matrix(m, PARAM_HEAD, -1, o->vocab, o->width, "head");
  m->layer = arena_get(m->params.arena, (size_t)model_blocks(o), sizeof *m->layer);
  m->module = arena_get(m->params.arena, (size_t)o->mtp + 1, sizeof *m->module);
  for (int l = 0; l < model_blocks(o); l++) {
    struct layer *b = &m->layer[l];
    b->attn_norm = model_add_gain(m, l, o->width, 1, "attn.norm");
    m->attention->declare(m, l);
    b->ffn_norm = model_add_gain(m, l, o->width, 1, "ffn.norm");
    m->ffn->declare(m, l);
  }
  for (long l = o->layers; l < model_blocks(o); l++) declare_module(m, (int)l);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->declare)
      for (int l = 0; l < model_blocks(o); l++) m->stabilizer[i]->declare(&m->context[i], l);
}

/* --- stabilisers, in their order ------------------------------------------------------------------------- */

/* Of what there is one at most: two would declare the same gains, or set the same cap. */
static const struct {
  unsigned flag;
  const char *what;
} only_once[] = {{STABILIZER_CAPS, "cap the score"}, {STABILIZER_NORMS_PARTS, "normalise the queries"}};

static int check_pair(const struct stabilizer *a, const struct stabilizer *b, struct error *e)
{
  if (a == b) return error_set(e, STATUS_USAGE, "stabilizers: %s is named twice", a->name);
  for (size_t i = 0; i < sizeof only_once / sizeof *only_once; i++)
    if (a->flags & b->flags & only_once[i].flag)
      return error_set(e, STATUS_USAGE, "stabilizers: %s and %s both %s; keep one", a->name, b->name,
                       only_once[i].what);
  return STATUS_OK;
}

static int check_stack(const struct model *m, struct error *e)
{
  for (int i = 0; i < m->stabilizer_count; i++) {
    const struct stabilizer *s = m->stabilizer[i];
    for (int j = 0; j < i; j++)
      if (check_pair(m->stabilizer[j], s, e)) return e ? e->status : STATUS_USAGE;
    if (s->check && s->check(m->context[i].options, &m->options, e)) return e ? e->status : STATUS_USAGE;
  }
  return STATUS_OK;
}

/* The last stabiliser with this flag, by name. */
static const char *stacked(const struct model *m, unsigned flag)
{
  const char *name = NULL;
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->flags & flag) name = m->stabilizer[i]->name;
  return name;
}

int model_warning(const struct model *m, char *text, size_t room)
{
  const char *norms = stacked(m, STABILIZER_NORMS_QK), *partly = stacked(m, STABILIZER_NORMS_QK_PARTLY);
  const char *scales = stacked(m, STABILIZER_SCALES_QK);
  if (norms && scales)
    snprintf(text, room,
             "stabilizers: under %s the logits do not depend on the scale of query and key "
             "weights, so %s cannot lower them",
             norms, scales);
  else if (partly && scales)
    snprintf(text, room,
             "stabilizers: under %s the logits depend on the scale of the content keys' weights "
             "alone, so %s lowers them by less than it should",
             partly, scales);
  return scales && (norms || partly);
}

long model_series_size(const struct model *m, enum series_shape shape)
{
  switch (shape) {
  case PER_LAYER: return model_blocks(&m->options);
  case PER_HEAD: return model_blocks(&m->options) * m->options.heads;
  case PER_EXPERT: return model_blocks(&m->options) * m->experts;
  case PER_TENSOR: return params_matrices(&m->params);
  default: return 1;
  }
}

struct router model_router(const struct model *m, int layer)
{
  return m->ffn->router ? m->ffn->router(m, layer) : (struct router){0};
}

static long most_experts(const struct model *m)
{
  long most = 0;
  for (int l = 0; l < model_blocks(&m->options); l++) {
    struct router r = model_router(m, l);
    if (r.experts > most) most = r.experts;
  }
  return most;
}

void model_record_after_step(struct model *m, struct program *p)
{
  if (m->ffn->after_step) m->ffn->after_step(m, p);
}

static void new_series(struct model *m, int i)
{
  const struct series *emits = m->stabilizer[i]->emits;
  size_t count = 0;
  while (emits && emits[count].name) count++;
  struct tensor **series = arena_get(m->params.arena, count + 1, sizeof *series);
  for (size_t j = 0; j < count; j++)
    series[j] = report_add(m->report, 1, model_series_size(m, emits[j].shape), NAN, emits[j].name);
  m->context[i].series = series;
}

/* --- what passes see ------------------------------------------------------------------------------------ */

static struct tally new_tally(struct model *m)
{
  long blocks = model_blocks(&m->options), heads = blocks * m->options.heads;
  long watched = m->stabilizer_count * blocks;
  struct tally s = {.loss = report_add(m->report, 1, 2, 0, "loss"),
                    .stats = report_add(m->report, heads, 4, -INFINITY, "attention statistics"),
                    .watched = report_add(m->report, watched + 1, 1, 0, "watched")};
  report_column_empty(m->report, s.stats, 1, 0); /* of absolute values */
  report_column_empty(m->report, s.stats, 3, 0); /* a sum */
  if (m->experts) {
    s.routes = report_add(m->report, blocks, m->experts + 4, 0, "routes");
    s.biases = report_add(m->report, blocks, m->experts, NAN, "router biases");
  }
  if (m->options.mtp) s.ahead = report_add(m->report, m->options.mtp, 2, 0, "losses of modules");
  return s;
}

/* Optimisers tell some for each row of tensors that are theirs: each tensor may be a row of its own. */
static int numbers_room(const struct model *m) { return 256 + 8 * m->params.count; }

/* Columns of a tensor outside of programs, rows alike. */
static struct tensor *part(struct model *m, struct tensor *t, long row, long rows, long col)
{
  struct tensor *view = arena_get(m->params.arena, 1, sizeof *view);
  *view = tensor_of(REALS(t) + row * t->ld + col, rows, 1);
  view->ld = t->ld;
  view->name = t->name;
  return view;
}

/* What the hooks of member i are told: its maxima are those of the pass it wants. */
static void make_context(struct model *m, int i)
{
  struct stabilizer_context *c = &m->context[i];
  const struct tally *seen = c->wants_probe ? &m->probe : &m->step;
  c->max_logit = part(m, seen->stats, 0, seen->stats->rows, 0);
  c->max_abs_logit = part(m, seen->stats, 0, seen->stats->rows, 1);
  c->watched = part(m, seen->watched, i * model_blocks(&m->options), model_blocks(&m->options), 0);
}

static double rate_of(const void *context, const struct step_scalars *now)
{
  (void)context;
  return now->rate;
}

void model_on_qk(struct model *m, struct program *program, int layer, struct qk_part *part, int parts)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_qk) m->stabilizer[i]->on_qk(&m->context[i], program, layer, part, parts);
}

void model_on_score(struct model *m, struct attention_spec *spec)
{
  spec->score.scores_format = m->precision.scores;
  spec->qk_format = m->precision.qk;
  spec->stats = m->stats_at;
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_score) m->stabilizer[i]->on_score(&m->context[i], spec);
}

static int hears_output(const struct model *m)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_output) return 1;
  return 0;
}

struct tensor *model_output(struct model *m, struct program *program, int layer, struct tensor *y,
                            struct tensor *residual)
{
  const struct layer *own = &m->layer[layer];
  struct tensor *w = model_weight(m, program, own->w_o, 1), *b = own->b_o ? &own->b_o->value : NULL;
  if (!hears_output(m)) return op_linear(program, y, w, b, residual);
  struct tensor *x = op_linear(program, y, w, b, NULL);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_output) m->stabilizer[i]->on_output(&m->context[i], program, layer, x);
  return op_add(program, x, residual);
}

void model_watch(struct stabilizer_context *c, struct program *program, int layer, struct tensor *x)
{
  long place = (c - c->model->context) * model_blocks(&c->model->options) + layer;
  PROGRAM_CALL(program, max_abs, .y = program_rows(program, c->model->watched, place, 1), .x = x);
}

void model_tap(struct model *m, struct program *program, enum point point, int layer, const struct flow *flow)
{
  struct watcher *w = m->into ? m->into->watcher : NULL;
  if (!w) return;
  struct flow told = *flow;
  told.share = m->share;
  w->tap(w, program, point, layer, &told);
}

void qk_part_norm(struct program *program, struct qk_part *part, struct tensor *gain, struct tensor *eps)
{
  if (!part->absorbed) {
    part->x = op_rmsnorm(program, part->x, gain, gain->cols, eps);
    return;
  }
  REQUIRE(!part->rstd && gain->cols == part->dim);
  part->rstd = op_inverse_rms(program, part->x, part->dim, eps);
  part->gain = gain;
}

/* --- decoding ----------------------------------------------------------------------------------------- */

static struct tensor *cache(struct program *program, const struct layer_inputs *in, long cols,
                            const char *name)
{
  in->decoding->cached += cols;
  return program_input(program, TENSOR_REAL, in->batch * in->decoding->length, cols, name);
}

struct tensor *model_attend(struct model *m, struct program *program, int layer,
                            const struct layer_inputs *in, struct tensor *q, struct tensor *k,
                            struct tensor *v, const struct attention_spec *spec, struct tensor **stats)
{
  if (!in->decoding) {
    struct attention_spec rounded = *spec;
    rounded.qk_format = FORMAT_F32;
    q = op_round(program, q, spec->qk_format);
    k = op_round(program, k, spec->qk_format);
    struct tensor *y = op_attention(program, q, k, v, in->start, &rounded, stats);
    model_tap(m, program, POINT_SCORES, layer,
              &(struct flow){.q = q,
                             .k = k,
                             .v = v,
                             .position = in->position,
                             .start = in->start,
                             .stats = *stats,
                             .score = &spec->score});
    return y;
  }
  struct attention_cache c = {.slot = in->decoding->slot};
  c.keys = cache(program, in, k->cols, "key cache");
  c.values = cache(program, in, v->cols, "value cache");
  return op_attention_cached(program, &c, q, k, v, NULL, 0, in->start, spec, stats);
}

struct tensor *model_attend_latent(struct program *program, const struct layer_inputs *in, struct tensor *q,
                                   struct tensor *latent, struct tensor *rotary, struct tensor *rstd,
                                   const struct attention_spec *spec, struct tensor **stats)
{
  struct tensor *key = op_round(program, op_join_heads(program, latent, rotary, 1, 0), spec->qk_format);
  struct tensor *value = op_columns(program, key, 0, latent->cols); /* what is cached is one latent */
  struct attention_cache c = {.slot = in->decoding->slot};
  c.keys = cache(program, in, key->cols, "latent cache");
  c.values = op_columns(program, c.keys, 0, latent->cols);
  if (rstd) c.factors = cache(program, in, rstd->cols, "1/rms cache");
  return op_attention_cached(program, &c, q, key, value, rstd, latent->cols, in->start, spec, stats);
}

struct tensor *model_weight(struct model *m, struct program *program, struct param *first, int count)
{
  struct tensor *part[MAX_SPAN];
  int at = 0, changed = 0;
  REQUIRE(count <= MAX_SPAN);
  while (m->params.list[at] != first) at++;
  for (int i = 0; i < count; i++) {
    struct param *p = m->params.list[at + i];
    part[i] = &p->value;
    for (int s = 0; s < m->stabilizer_count; s++)
      if (m->stabilizer[s]->on_weight)
        part[i] = m->stabilizer[s]->on_weight(&m->context[s], program, p, part[i]);
    changed |= part[i] != &p->value;
  }
  if (!changed) return params_span(&m->params, first, count);
  return count == 1 ? part[0] : op_join_rows(program, part, count);
}

/* --- the model ---------------------------------------------------------------------------------------- */

int model_init(struct model *m, const struct model_options *options, struct device *device,
               const struct stabilizer *const *stabilizer, const void *const *stabilizer_options,
               int stabilizer_count, struct error *e)
{
  *m = (struct model){.options = *options,
                      .device = device,
                      .attention = attention_find(options->attention),
                      .ffn = ffn_find(options->ffn)};
  REQUIRE(m->attention && m->ffn && options->vocab > 0 && options->head_dim > 0);
  if (stabilizer_count > MAX_STABILIZERS)
    return error_set(e, STATUS_USAGE, "stabilizers: %d are stacked; allowed: at most %d", stabilizer_count,
                     MAX_STABILIZERS);
  params_init(&m->params, device);
  m->stabilizer_count = stabilizer_count;
  for (int i = 0; i < stabilizer_count; i++) {
    m->stabilizer[i] = stabilizer[i];
    m->context[i] = (struct stabilizer_context){.model = m, .options = stabilizer_options[i]};
    m->context[i].state = arena_get(m->params.arena, 1, stabilizer[i]->state_size + 1);
  }
  int status = check_stack(m, e);
  if (!status) {
    declare(m);
    m->experts = most_experts(m);
    params_allocate(&m->params);
    m->numbers = numbers_new(device, numbers_room(m));
    m->report = report_new(device);
    m->step = new_tally(m);
    m->probe = new_tally(m);
    m->val = new_tally(m);
    m->lr = numbers_varying(m->numbers, rate_of, NULL, 0);
    m->norm_eps = numbers_constant(m->numbers, options->norm_eps);
    m->z_loss = numbers_constant(m->numbers, options->z_loss);
    if (options->mtp) {
      m->ahead_weight = numbers_constant(m->numbers, options->mtp_weight / (double)options->mtp);
      m->no_z = numbers_constant(m->numbers, 0);
    }
    m->ffn_state = arena_get(m->params.arena, 1, m->ffn->state_size + 1);
    if (m->ffn->init) m->ffn->init(m);
    for (int i = 0; i < stabilizer_count && !status; i++) {
      new_series(m, i);
      m->context[i].numbers = m->numbers;
      if (stabilizer[i]->init) status = stabilizer[i]->init(&m->context[i], e);
      make_context(m, i);
    }
  }
  if (status) model_free(m);
  return status;
}

void model_begin(struct model *m)
{
  for (int i = 0; i < m->stabilizer_count; i++) {
    const struct stabilizer *s = m->stabilizer[i];
    if (!s->begin) continue;
    struct program *p = program_new(m->device);
    s->begin(&m->context[i], p);
    program_plan(p);
    numbers_tell(m->numbers, &(struct step_scalars){0});
    for (int k = 0; k < (s->begin_times ? s->begin_times : 1); k++) program_run(p);
    program_free(p);
  }
}

void model_free(struct model *m)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->free) m->stabilizer[i]->free(&m->context[i]);
  numbers_free(m->numbers);
  report_free(m->report);
  params_free(&m->params);
  *m = (struct model){0};
}

/* --- programs ----------------------------------------------------------------------------------------- */

/* cos | sin of position * base^(-2i/dim), i < dim/2 (RoFormer, arXiv 2104.09864 eq. 15), in double. */
static void fill_rope_table(const struct model_options *o, struct device *device, struct tensor *table)
{
  long half = table->cols / 2;
  real *values = memory_new((size_t)(table->rows * table->cols), sizeof *values);
  for (long t = 0; t < table->rows; t++)
    for (long i = 0; i < half; i++) {
      double angle = (double)t / o->rope_scale * same_pow(o->rope_base, -(double)i / (double)half), cosine,
             sine;
      same_turn(angle * (0.5 * M_1_PI), &cosine, &sine);
      values[t * table->cols + i] = (real)cosine;
      values[t * table->cols + half + i] = (real)sine;
    }
  device->upload(device, table->data, values, (size_t)(table->rows * table->cols) * sizeof *values);
  memory_free(values);
}

static void fill_inputs(const struct model *m, const struct model_program *mp)
{
  long n = mp->batch * mp->context;
  int *position = memory_new((size_t)n, sizeof *position);
  real *weight = memory_new((size_t)n, sizeof *weight);
  for (long i = 0; i < n; i++) {
    position[i] = (int)(i % mp->context);
    weight[i] = (real)(1 / (double)n);
  }
  m->device->upload(m->device, mp->position->data, position, (size_t)n * sizeof *position);
  m->device->upload(m->device, mp->weight->data, weight, (size_t)n * sizeof *weight);
  memory_free(position);
  memory_free(weight);
}

static struct tensor *norm(const struct model *m, struct program *program, struct tensor *x,
                           struct param *gain)
{
  return op_rmsnorm(program, x, &gain->value, m->options.width, m->norm_eps);
}

/* The residual stream behind block l. */
static struct tensor *block(struct model *m, struct model_program *mp, const struct layer_inputs *inputs,
                            int l, struct tensor *x)
{
  long heads = m->options.heads;
  struct tensor *h = norm(m, mp->program, x, m->layer[l].attn_norm);
  m->stats_at = program_rows(mp->program, mp->all_stats, l * heads, heads);
  x = m->attention->forward(m, mp->program, l, inputs, h, x, &mp->stats[l]);
  m->stats_at = NULL;
  h = norm(m, mp->program, x, m->layer[l].ffn_norm);
  m->routes_at = mp->routes ? program_rows(mp->program, mp->routes, l, 1) : NULL;
  x = m->ffn->forward(m, mp->program, l, inputs, h, x);
  m->routes_at = NULL;
  model_tap(m, mp->program, POINT_STREAM, l, &(struct flow){.x = x});
  return x;
}

static struct tensor *logits_of(struct model *m, struct program *p, struct tensor *x, struct param *gain)
{
  return op_linear(p, norm(m, p, x, gain), model_weight(m, p, m->head, 1), NULL, NULL);
}

/* Module k = index + 1 (arXiv 2412.19437 eq. 21 to 25): from the stream h of depth k - 1 and the embedding of the
   token k further on, join [RMSNorm h ; RMSNorm e], then a block, then the model's own head; returns the stream of
   depth k. */
static struct tensor *look_ahead(struct model *m, struct model_program *mp, const struct layer_inputs *inputs,
                                 int index, struct tensor *h)
{
  struct program *p = mp->program;
  const struct module *own = &m->module[index];
  struct ahead *ahead = &mp->ahead[index];
  struct tensor *tokens = index ? ahead[-1].targets : mp->targets;
  struct tensor *e = op_embed(p, tokens, &m->embed->value);
  struct tensor *both = op_join_heads(p, norm(m, p, h, own->norm_h), norm(m, p, e, own->norm_e), 1, 0);
  struct tensor *x = op_linear(p, both, model_weight(m, p, own->w_join, 1), NULL, NULL);
  x = block(m, mp, inputs, (int)m->options.layers + index, x);
  ahead->logits = logits_of(m, p, x, own->norm);
  ahead->loss = op_side_loss(p, ahead->logits, ahead->targets, ahead->weight, m->no_z, m->ahead_weight);
  return x;
}

static void record(struct model *m, struct model_program *mp, const struct layer_inputs *inputs)
{
  struct tensor *x = op_embed(mp->program, mp->tokens, &m->embed->value), *h;
  for (int l = 0; l < m->options.layers; l++) x = block(m, mp, inputs, l, x);
  h = x;
  for (int k = 0; mp->ahead && k < m->options.mtp; k++) h = look_ahead(m, mp, inputs, k, h);
  mp->logits = logits_of(m, mp->program, x, m->norm);
  model_tap(m, mp->program, POINT_LOGITS, -1, &(struct flow){.x = mp->logits});
  mp->loss = op_cross_entropy(mp->program, mp->logits, mp->targets, mp->weight, m->z_loss, &mp->ml);
}

static void add_ahead(struct model *m, struct model_program *mp)
{
  long n = mp->batch * mp->context;
  mp->ahead = memory_new((size_t)m->options.mtp, sizeof *mp->ahead);
  for (int k = 0; k < m->options.mtp; k++) {
    mp->ahead[k].targets = program_input(mp->program, TENSOR_INT, n, 1, "targets further on");
    mp->ahead[k].weight = program_input(mp->program, TENSOR_REAL, n, 1, "weight further on");
  }
}

/* Inputs, rope table for `positions`, and the forward pass. */
static struct tensor *begin_program(struct model *m, struct model_program *mp, long batch, long context,
                                    long positions, struct decoding *decoding, long parts)
{
  long n = batch * context;
  *mp = (struct model_program){.batch = batch, .context = context, .program = program_new(m->device)};
  mp->tokens = program_input(mp->program, TENSOR_INT, n, 1, "tokens");
  mp->targets = program_input(mp->program, TENSOR_INT, n, 1, "targets");
  mp->weight = program_input(mp->program, TENSOR_REAL, n, 1, "weight");
  mp->position = program_input(mp->program, TENSOR_INT, n, 1, "position");
  mp->start = program_input(mp->program, TENSOR_INT, n, 1, "start");
  struct tensor *rope_table =
    program_input(mp->program, TENSOR_REAL, positions, m->attention->rope_dim(&m->options), "rope table");
  struct layer_inputs inputs = {mp->position, mp->start,         rope_table, batch,
                                context,      1 / (double)parts, decoding};
  if (decoding) decoding->slot = mp->slot = program_input(mp->program, TENSOR_INT, n, 1, "slot");
  if (!decoding && m->options.mtp) add_ahead(m, mp);
  mp->stats = memory_new((size_t)model_blocks(&m->options), sizeof *mp->stats);
  mp->all_stats =
    program_temporary(mp->program, model_blocks(&m->options) * m->options.heads, 4, "attention statistics");
  program_keep(mp->program, mp->all_stats);
  if (hears_output(m)) {
    mp->watched =
      program_temporary(mp->program, m->stabilizer_count * model_blocks(&m->options), 1, "watched");
    program_keep(mp->program, mp->watched);
    PROGRAM_CALL(mp->program, fill, .y = mp->watched, .value = 0);
  }
  m->watched = mp->watched;
  if (m->experts) {
    mp->routes = program_temporary(mp->program, model_blocks(&m->options), m->experts + 4, "routes");
    program_keep(mp->program, mp->routes);
  }
  record(m, mp, &inputs);
  program_keep(mp->program, mp->loss);
  return rope_table;
}

static void end_program(struct model *m, struct model_program *mp, struct tensor *rope_table, int backward)
{
  if (backward) {
    program_backward(mp->program, mp->loss);
  } else {
    program_keep(mp->program, mp->logits);
    program_keep(mp->program, mp->ml);
    for (int k = 0; mp->ahead && k < m->options.mtp; k++) program_keep(mp->program, mp->ahead[k].logits);
  }
  program_plan(mp->program);
  fill_rope_table(&m->options, m->device, rope_table);
  fill_inputs(m, mp);
}

/* Sums, and in the last column the largest. */
static void see_routes(struct model *m, struct model_program *mp, const struct tally *into)
{
  struct program *p = mp->program;
  long sums = m->experts + 3;
  PROGRAM_CALL(p, axpby, .y = program_view(p, into->routes, 0, sums),
               .x = program_view(p, mp->routes, 0, sums), .alpha = 1, .beta = 1);
  PROGRAM_CALL(p, larger, .y = program_view(p, into->routes, sums, 1),
               .x = program_view(p, mp->routes, sums, 1));
  for (int l = 0; l < model_blocks(&m->options); l++) {
    struct router r = model_router(m, l);
    if (r.experts) PROGRAM_CALL(p, copy, .y = program_rows(p, into->biases, l, 1), .x = &r.bias->value);
  }
}

/* Take what the program has seen into what its batch has. */
static void see(struct model *m, struct model_program *mp, const struct tally *into, long parts)
{
  struct program *p = mp->program;
  long watched = m->stabilizer_count * model_blocks(&m->options);
  PROGRAM_CALL(p, see, .seen = into->stats, .stats = mp->all_stats, .share = 1 / (double)parts);
  PROGRAM_CALL(p, axpby, .y = into->loss, .x = mp->loss, .alpha = 1, .beta = 1);
  if (mp->watched) PROGRAM_CALL(p, larger, .y = program_rows(p, into->watched, 0, watched), .x = mp->watched);
  if (mp->routes) see_routes(m, mp, into);
  for (int k = 0; mp->ahead && k < m->options.mtp; k++)
    PROGRAM_CALL(p, axpby, .y = program_rows(p, into->ahead, k, 1), .x = mp->ahead[k].loss, .alpha = 1,
                 .beta = 1);
}

void model_record_clear(struct program *p, const struct tally *s)
{
  PROGRAM_CALL(p, fill, .y = s->loss, .value = 0);
  PROGRAM_CALL(p, fill, .y = s->stats, .value = -INFINITY);
  PROGRAM_CALL(p, fill, .y = program_view(p, s->stats, 1, 1), .value = 0); /* of absolute values */
  PROGRAM_CALL(p, fill, .y = program_view(p, s->stats, 3, 1), .value = 0); /* a sum */
  PROGRAM_CALL(p, fill, .y = s->watched, .value = 0);
  if (s->routes) PROGRAM_CALL(p, fill, .y = s->routes, .value = 0);
  if (s->ahead) PROGRAM_CALL(p, fill, .y = s->ahead, .value = 0);
}

void model_program_init(struct model *m, struct model_program *mp, long batch, long context, int backward,
                        const struct tally *into, long parts)
{
  m->into = into;
  m->share = 1 / (double)parts;
  struct tensor *rope_table = begin_program(m, mp, batch, context, context, NULL, parts);
  if (into) see(m, mp, into, parts);
  m->into = NULL;
  end_program(m, mp, rope_table, backward);
}

int model_decoder_init(struct model *m, struct model_program *mp, long batch, long length,
                       enum decode_form form, struct error *e)
{
  struct decoding decoding = {.form = form, .length = length};
  *mp = (struct model_program){0};
  if (form == DECODE_ABSORBED && !m->attention->absorbs)
    return error_set(e, STATUS_USAGE,
                     "absorbed decoding wants keys and values that come from a latent; with "
                     "model.attention = %s they come from the width; allowed: materialised",
                     m->options.attention);
  struct tensor *rope_table = begin_program(m, mp, batch, 1, length, &decoding, 1);
  if (decoding.refused) {
    model_program_free(mp);
    return error_set(e, STATUS_USAGE,
                     "a stabiliser changes content keys in a way that a latent cache cannot "
                     "follow; allowed: materialised");
  }
  mp->cached = decoding.cached;
  end_program(m, mp, rope_table, 0);
  return STATUS_OK;
}

void model_program_free(struct model_program *mp)
{
  if (mp->program) program_free(mp->program);
  memory_free(mp->stats);
  memory_free(mp->ahead);
  *mp = (struct model_program){0};
}

/* --- factors ------------------------------------------------------------------------------------------ */

static struct tensor bias_columns(const struct logit_block *f)
{
  return tensor_of(REALS(&f->bias->value) + f->row, 1, f->rows);
}

void logit_block_scale(struct model *m, const struct logit_block *f, double c)
{
  struct tensor rows = tensor_rows(&f->weight->value, f->row, f->rows);
  op_run(m->device, OP_scale, &(union op_args){.scale = {.y = &rows, .alpha = c}});
  if (!f->bias) return;
  struct tensor bias = bias_columns(f);
  op_run(m->device, OP_scale, &(union op_args){.scale = {.y = &bias, .alpha = c}});
}

void model_segment(const struct model *m, const struct param *p, long row, long rows, int out[2])
{
  long from = REALS(&p->value) - REALS(&m->params.values);
  int column =
    p->kind == PARAM_BIAS; /* [1, out]: what is said of rows of a weight is of columns of its bias */
  out[0] = (int)(from + (column ? row : row * p->value.cols));
  out[1] = (int)(column ? rows : rows * p->value.cols);
}
