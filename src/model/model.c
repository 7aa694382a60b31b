/* model.c - a model: declares its parameters, checks its stabilizers and sets up their contexts */
#include "model/model.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

struct param *model_add_norm(struct model *m, int layer, long cols, const char *format, ...)
{
  const long kind = m->options.norm_gain;
  char name[96];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  REQUIRE(length < (int)sizeof name);
  if (kind == NORM_GAIN_NONE) return NULL;
  return params_add(&m->params, PARAM_GAIN, layer, 1, kind == NORM_GAIN_SCALAR ? 1 : cols, INIT_CONSTANT,
                    kind == NORM_GAIN_ZERO_CENTERED ? 0 : 1, "%s", name);
}

/* The parameters around the block of module k. */
static void declare_module(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  long k = layer - o->layers + 1;
  struct module *own = &m->module[k - 1];
  char name[32];
  snprintf(name, sizeof name, "mtp.%ld.w_join", k);
  own->norm_h = model_add_norm(m, layer, o->width, "mtp.%ld.norm_h", k);
  own->norm_e = model_add_norm(m, layer, o->width, "mtp.%ld.norm_e", k);
  own->w_join = add_matrix(m, PARAM_MATRIX, layer, o->width, 2 * o->width, name);
  own->norm = model_add_norm(m, layer, o->width, "mtp.%ld.norm", k);
}

static void declare(struct model *m)
{
  const struct model_options *o = &m->options;
  m->embed = add_matrix(m, PARAM_EMBED, -1, o->vocab, o->width, "embed");
  m->norm = model_add_norm(m, -1, o->width, "norm");
  m->head = o->tied ? m->embed : add_matrix(m, PARAM_HEAD, -1, o->vocab, o->width, "head");
  m->layer = arena_get(m->params.arena, (size_t)model_blocks(o), sizeof *m->layer);
  m->module = arena_get(m->params.arena, (size_t)o->mtp + 1, sizeof *m->module);
  for (int l = 0; l < model_blocks(o); l++) {
    struct layer *b = &m->layer[l];
    b->attn_norm = model_add_norm(m, l, o->width, "blocks.%d.attn.norm", l);
    m->attention->declare(m, l);
    b->ffn_norm = model_add_norm(m, l, o->width, "blocks.%d.ffn.norm", l);
    m->ffn->declare(m, l);
  }
  for (long l = o->layers; l < model_blocks(o); l++) declare_module(m, (int)l);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->declare_matrices)
      for (int l = 0; l < model_blocks(o); l++) m->stabilizer[i]->declare_matrices(&m->context[i], l);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->declare)
      for (int l = 0; l < model_blocks(o); l++) m->stabilizer[i]->declare(&m->context[i], l);
}

/* --- stabilizers, in their order ------------------------------------------------------------------------- */

/* Effects that at most one stabilizer may have: two would declare the same gains, or set the same cap. */
static const struct {
  unsigned flag;
  const char *what;
} only_once[] = {{STABILIZER_CAPS, "cap the score"},
                 {STABILIZER_NORMS_PARTS, "normalize queries or keys"},
                 {STABILIZER_WEIGHS, "make weights of scores"}};

static int check_pair(const struct stabilizer *a, const struct stabilizer *b, struct error *e)
{
  if (a == b) return error_set(e, STATUS_USAGE, "stabilizers: %s is named twice", a->name);
  if (a->flags & STABILIZER_SCALES_QUERIES && b->flags & STABILIZER_NORMS_QUERIES)
    return error_set(e, STATUS_USAGE, "stabilizers: %s undoes what %s does before it; allowed: %s+%s",
                     b->name, a->name, b->name, a->name);
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

/* The last stabilizer with this flag, by name. */
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
             "stabilizers: under %s the logits depend on the scale of some query or key weights alone, so %s "
             "lowers them by less than it should",
             partly, scales);
  return scales && (norms || partly);
}

const char *model_changes_qk(const struct model *m)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_qk || m->stabilizer[i]->on_weight) return m->stabilizer[i]->name;
  return NULL;
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

/* --- tallies of passes ----------------------------------------------------------------------------------- */

static struct tally new_tally(struct model *m, enum passes passes)
{
  report_seen_by(m->report, passes);
  long blocks = model_blocks(&m->options), heads = blocks * m->options.heads;
  long tracked_max = m->stabilizer_count * blocks;
  struct tally s = {.loss = report_add(m->report, 1, 2, 0, "loss"),
                    .stats = report_add(m->report, heads, 4, -INFINITY, "attention statistics"),
                    .tracked_max = report_add(m->report, tracked_max + 1, 1, 0, "watched")};
  report_column(m->report, s.stats, 1, 0, MERGE_MAX); /* of absolute values */
  report_column(m->report, s.stats, 3, 0, MERGE_SUM);
  report_column(m->report, s.tracked_max, 0, 0, MERGE_MAX); /* of absolute values */
  if (m->experts) {
    s.routes = report_add(m->report, blocks, m->experts + 4, 0, "routes");
    report_column(m->report, s.routes, m->experts + 3, 0, MERGE_MAX);
    s.biases = report_add(m->report, blocks, m->experts, NAN, "router biases");
  }
  if (m->options.mtp) s.ahead = report_add(m->report, m->options.mtp, 2, 0, "losses of modules");
  report_seen_by(m->report, PASSES_NONE);
  return s;
}

/* Optimizers add some numbers per row of tensors; in the worst case each tensor is a separate row. */
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

/* The hook arguments of member i: its maxima are those of the pass that it requests. */
static void make_context(struct model *m, int i)
{
  struct stabilizer_context *c = &m->context[i];
  const struct tally *seen = c->wants_probe ? &m->probe : &m->step;
  c->max_logit = part(m, seen->stats, 0, seen->stats->rows, 0);
  c->max_abs_logit = part(m, seen->stats, 0, seen->stats->rows, 1);
  c->tracked_max = part(m, seen->tracked_max, i * model_blocks(&m->options), model_blocks(&m->options), 0);
}

static double rate_of(const void *context, const struct step_scalars *now)
{
  (void)context;
  return now->rate;
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
    m->step = new_tally(m, PASSES_STEP);
    m->probe = new_tally(m, PASSES_LOOK);
    m->val = new_tally(m, PASSES_NONE);
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
    scalars_upload(m->numbers, &(struct step_scalars){0});
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

/* --- rows of weights -------------------------------------------------------------------------------------- */

static void scale_rows(struct model *m, const struct param *p, long row, long rows, double c)
{
  int segment[2];
  size_t most = params_cut_most(&m->params, 1);
  int *own = memory_new(2 * most, sizeof *own), *index = memory_new(most, sizeof *index);
  param_segment(p, row, rows, segment);
  int count = params_cut(&m->params, segment, 1, own, index);
  for (int i = 0; i < count; i++) {
    struct tensor here = tensor_of(REALS(&m->params.values) + own[2 * i], 1, own[2 * i + 1]);
    op_run(m->device, OP_scale, &(union op_args){.scale = {.y = &here, .alpha = c}});
  }
  memory_free(own);
  memory_free(index);
}

void logit_block_scale(struct model *m, const struct logit_block *f, double c)
{
  scale_rows(m, f->weight, f->row, f->rows, c);
  if (f->bias) scale_rows(m, f->bias, f->row, f->rows, c);
}
