/* passes.c - programs over a model: forward, backward, decoding, and their contributions to a tally */
#include <math.h>
#include "base/elementary.h"
#include "base/memory.h"
#include "model/model.h"
#include "numerics/ranks.h"

/* Logits that exist at one time, at most, unless one row has more: 64 MiB in single precision. */
enum { MOST_LOGITS = 1 << 24 };

void model_rope_turn(const struct model_options *o, long position, long pair, long pairs, double *cosine,
                     double *sine)
{
  double angle = (double)position / o->rope_scale * same_pow(o->rope_base, -(double)pair / (double)pairs);
  same_turn(angle * (0.5 * M_1_PI), cosine, sine);
}

static void fill_rope_table(const struct model_options *o, struct device *device, struct tensor *table)
{
  long half = table->cols / 2;
  real *values = memory_new((size_t)(table->rows * table->cols), sizeof *values);
  for (long t = 0; t < table->rows; t++)
    for (long i = 0; i < half; i++) {
      double cosine, sine;
      model_rope_turn(o, t, i, half, &cosine, &sine);
      values[t * table->cols + i] = (real)cosine;
      values[t * table->cols + half + i] = (real)sine;
    }
  device->upload(device, table->data, values, (size_t)(table->rows * table->cols) * sizeof *values);
  memory_free(values);
}

struct key_ranges model_stage(const struct model_program *mp, int stage)
{
  return mp->stage ? mp->stage[stage] : (struct key_ranges){mp->start, mp->end, mp->window};
}

struct row_range model_stage_range(const struct model_program *mp, int stage, struct row_range r)
{
  const struct zigzag *cut = &mp->cut;
  const int rank = (cut->rank + cut->ranks - stage) % cut->ranks;
  return (struct row_range){(int)zigzag_before(cut, rank, r.start), (int)zigzag_before(cut, rank, r.end),
                            (int)zigzag_before(cut, rank, r.window)};
}

/* Every row of the batch is one document. */
static void fill_ranges(const struct model *m, const struct model_program *mp)
{
  const long n = mp->batch * mp->context;
  int *host = memory_new(3 * (size_t)n, sizeof *host);
  for (int s = 0; s < mp->cut.ranks; s++) {
    const struct key_ranges own = model_stage(mp, s);
    struct tensor *to[] = {own.start, own.end, own.window};
    for (long i = 0; i < n; i++) {
      struct row_range r =
        model_row_range(&m->options, zigzag_position(&mp->cut, i % mp->context), 0, mp->cut.length);
      r = model_stage_range(mp, s, r);
      host[i] = r.start, host[n + i] = r.end, host[2 * n + i] = r.window;
    }
    for (int i = 0; i < 3; i++)
      if (to[i]) m->device->upload(m->device, to[i]->data, host + i * n, (size_t)n * sizeof *host);
  }
  memory_free(host);
}

static void fill_inputs(const struct model *m, const struct model_program *mp)
{
  long n = mp->batch * mp->context;
  int *position = memory_new((size_t)n, sizeof *position);
  real *weight = memory_new((size_t)n, sizeof *weight);
  for (long i = 0; i < n; i++) {
    position[i] = (int)zigzag_position(&mp->cut, i % mp->context);
    weight[i] = (real)(1 / (double)(n * mp->cut.ranks));
  }
  m->device->upload(m->device, mp->position->data, position, (size_t)n * sizeof *position);
  m->device->upload(m->device, mp->weight->data, weight, (size_t)n * sizeof *weight);
  memory_free(position);
  memory_free(weight);
  if (!mp->slot) fill_ranges(m, mp);
}

/* The residual stream behind block l. */
static struct tensor *block(struct model *m, struct model_program *mp, const struct layer_inputs *inputs,
                            int l, struct tensor *x)
{
  long heads = m->options.heads;
  program_unit(mp->program);
  struct tensor *h = model_norm(m, mp->program, x, m->layer[l].attn_norm);
  m->stats_at = program_rows(mp->program, mp->all_stats, l * heads, heads);
  x = m->attention->forward(m, mp->program, l, inputs, h, x, &mp->stats[l]);
  m->stats_at = NULL;
  h = model_norm(m, mp->program, x, m->layer[l].ffn_norm);
  m->routes_at = mp->routes ? program_rows(mp->program, mp->routes, l, 1) : NULL;
  x = m->ffn->forward(m, mp->program, l, inputs, h, x);
  m->routes_at = NULL;
  model_tap(m, mp->program, POINT_STREAM, l, &(struct flow){.x = x});
  return x;
}

static struct tensor *logits_of(struct model *m, struct program *p, struct tensor *x, struct param *gain)
{
  program_unit(p);
  return op_linear(p, model_norm(m, p, x, gain), model_weight(m, p, m->head, 1), NULL, NULL);
}

/* Rows whose logits exist at one time: all, unless these are too many. The predictions of modules that look ahead are
   compared, so they need all. */
static long logit_rows(const struct model *m, const struct model_program *mp)
{
  const long n = mp->batch * mp->context,
             some = (m->most_logits ? m->most_logits : MOST_LOGITS) / m->options.vocab;
  return mp->ahead || n <= some ? n : some < 1 ? 1 : some;
}

static void record_loss(struct model *m, struct model_program *mp, struct tensor *x, int backward)
{
  struct program *p = mp->program;
  const long n = mp->batch * mp->context, rows = logit_rows(m, mp);
  if (!backward) {
    mp->token_loss = program_temporary(p, n, 1, "token losses");
    program_keep(p, mp->token_loss);
  }
  if (rows < n) {
    program_unit(p);
    mp->loss = op_split_loss(p, model_norm(m, p, x, m->norm), model_weight(m, p, m->head, 1), mp->targets,
                             mp->weight, m->z_loss, rows, mp->token_loss);
    return;
  }
  struct tensor *logits = logits_of(m, p, x, m->norm), *ml;
  model_tap(m, p, POINT_LOGITS, -1, &(struct flow){.x = logits});
  mp->loss = op_cross_entropy(p, logits, mp->targets, mp->weight, m->z_loss, &ml);
  if (backward) return;
  mp->logits = logits;
  program_keep(p, logits);
  PROGRAM_CALL(p, token_loss, .y = mp->token_loss, .logits = logits, .ml = ml, .targets = mp->targets);
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
  struct tensor *both =
    op_join_heads(p, model_norm(m, p, h, own->norm_h), model_norm(m, p, e, own->norm_e), 1, 0);
  struct tensor *x = op_linear(p, both, model_weight(m, p, own->w_join, 1), NULL, NULL);
  x = block(m, mp, inputs, (int)m->options.layers + index, x);
  ahead->logits = logits_of(m, p, x, own->norm);
  ahead->loss = op_side_loss(p, ahead->logits, ahead->targets, ahead->weight, m->no_z, m->ahead_weight);
  return x;
}

static void record(struct model *m, struct model_program *mp, const struct layer_inputs *inputs, int backward)
{
  struct tensor *x = op_embed(mp->program, mp->tokens, &m->embed->value), *h;
  for (int l = 0; l < m->options.layers; l++) x = block(m, mp, inputs, l, x);
  h = x;
  for (int k = 0; mp->ahead && k < m->options.mtp; k++) h = look_ahead(m, mp, inputs, k, h);
  record_loss(m, mp, x, backward);
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

static void add_ranges(const struct model *m, struct model_program *mp, struct key_ranges *to, int has_end)
{
  long n = mp->batch * mp->context;
  to->start = program_input(mp->program, TENSOR_INT, n, 1, "start");
  if (has_end) to->end = program_input(mp->program, TENSOR_INT, n, 1, "end");
  if (m->options.mask == MASK_WINDOW) to->window = program_input(mp->program, TENSOR_INT, n, 1, "window");
}

/* If the context is cut, a row's visible keys do not end with the row itself. */
static struct key_ranges add_stages(const struct model *m, struct model_program *mp, int decodes)
{
  const long mask = m->options.mask;
  struct key_ranges own = {0};
  if (mp->cut.ranks == 1) {
    add_ranges(m, mp, &own, !decodes && (mask == MASK_FULL || mask == MASK_PREFIX));
    return own;
  }
  mp->stage = memory_new((size_t)mp->cut.ranks, sizeof *mp->stage);
  for (int s = 0; s < mp->cut.ranks; s++) {
    mp->stage[s] = own;
    add_ranges(m, mp, &mp->stage[s], 1);
  }
  return mp->stage[0];
}

/* Inputs, rope table for `positions`, and the forward pass. */
static struct tensor *begin_program(struct model *m, struct model_program *mp, long batch, struct zigzag cut,
                                    long positions, struct decoding *decoding, long parts, int backward)
{
  long context = zigzag_rows(&cut), n = batch * context;
  *mp =
    (struct model_program){.batch = batch, .context = context, .cut = cut, .program = program_new(m->device)};
  mp->tokens = program_input(mp->program, TENSOR_INT, n, 1, "tokens");
  mp->targets = program_input(mp->program, TENSOR_INT, n, 1, "targets");
  mp->weight = program_input(mp->program, TENSOR_REAL, n, 1, "weight");
  mp->position = program_input(mp->program, TENSOR_INT, n, 1, "position");
  const struct key_ranges own = add_stages(m, mp, decoding != NULL);
  mp->start = own.start, mp->end = own.end, mp->window = own.window;
  struct tensor *rope_table =
    program_input(mp->program, TENSOR_REAL, positions, m->attention->rope_dim(&m->options), "rope table");
  struct layer_inputs inputs = {.position = mp->position,
                                .start = mp->start,
                                .end = mp->end,
                                .window = mp->window,
                                .stage = mp->stage,
                                .rope_table = rope_table,
                                .batch = batch,
                                .context = context,
                                .share = 1 / (double)(parts * cut.ranks),
                                .decoding = decoding};
  if (decoding) decoding->slot = mp->slot = program_input(mp->program, TENSOR_INT, n, 1, "slot");
  if (!decoding && m->options.mtp) add_ahead(m, mp);
  mp->stats = memory_new((size_t)model_blocks(&m->options), sizeof *mp->stats);
  mp->all_stats =
    program_temporary(mp->program, model_blocks(&m->options) * m->options.heads, 4, "attention statistics");
  program_keep(mp->program, mp->all_stats);
  if (model_hears_output(m)) {
    mp->tracked_max =
      program_temporary(mp->program, m->stabilizer_count * model_blocks(&m->options), 1, "watched");
    program_keep(mp->program, mp->tracked_max);
    PROGRAM_CALL(mp->program, fill, .y = mp->tracked_max, .value = 0);
  }
  m->tracked_max = mp->tracked_max;
  if (m->experts) {
    mp->routes = program_temporary(mp->program, model_blocks(&m->options), m->experts + 4, "routes");
    program_keep(mp->program, mp->routes);
  }
  record(m, mp, &inputs, backward);
  program_keep(mp->program, mp->loss);
  return rope_table;
}

static void end_program(struct model *m, struct model_program *mp, struct tensor *rope_table)
{
  program_plan(mp->program);
  fill_rope_table(&m->options, m->device, rope_table);
  fill_inputs(m, mp);
}

/* Add the counts; the last column is a maximum. */
static void see_routes(struct model *m, struct model_program *mp, const struct tally *into)
{
  struct program *p = mp->program;
  long sums = m->experts + 3;
  PROGRAM_CALL(p, axpby, .y = program_view(p, into->routes, 0, sums),
               .x = program_view(p, mp->routes, 0, sums), .alpha = 1, .beta = 1);
  PROGRAM_CALL(p, maximum, .y = program_view(p, into->routes, sums, 1),
               .x = program_view(p, mp->routes, sums, 1));
  for (int l = 0; l < model_blocks(&m->options); l++) {
    struct router r = model_router(m, l);
    if (r.experts) PROGRAM_CALL(p, copy, .y = program_rows(p, into->biases, l, 1), .x = &r.bias->value);
  }
}

/* Add the program's results to the tally of its batch. */
static void accumulate_tally(struct model *m, struct model_program *mp, const struct tally *into)
{
  struct program *p = mp->program;
  long tracked_max = m->stabilizer_count * model_blocks(&m->options);
  PROGRAM_CALL(p, accumulate_stats, .seen = into->stats, .stats = mp->all_stats, .share = m->share);
  PROGRAM_CALL(p, axpby, .y = into->loss, .x = mp->loss, .alpha = 1, .beta = 1);
  if (mp->tracked_max)
    PROGRAM_CALL(p, maximum, .y = program_rows(p, into->tracked_max, 0, tracked_max), .x = mp->tracked_max);
  if (mp->routes) see_routes(m, mp, into);
  for (int k = 0; mp->ahead && k < m->options.mtp; k++)
    PROGRAM_CALL(p, axpby, .y = program_rows(p, into->ahead, k, 1), .x = mp->ahead[k].loss, .alpha = 1,
                 .beta = 1);
}

void model_program_init(struct model *m, struct model_program *mp, long batch, long context, int backward,
                        const struct tally *into, long parts)
{
  const struct zigzag cut = {context, device_rank(m->device, RANKS_CONTEXT),
                             device_ranks(m->device, RANKS_CONTEXT)};
  REQUIRE(cut.ranks == 1 || context % (2 * cut.ranks) == 0);
  m->into = into;
  m->share = 1 / (double)(parts * cut.ranks);
  struct tensor *rope_table = begin_program(m, mp, batch, cut, context, NULL, parts, backward);
  if (backward) program_backward(mp->program, mp->loss);
  for (int k = 0; !backward && mp->ahead && k < m->options.mtp; k++)
    program_keep(mp->program, mp->ahead[k].logits);
  if (into) accumulate_tally(m, mp, into);
  m->into = NULL;
  end_program(m, mp, rope_table);
}

int model_decoder_init(struct model *m, struct model_program *mp, long batch, long block, long length,
                       enum decode_form form, struct error *e)
{
  struct decoding decoding = {.form = form, .length = length};
  *mp = (struct model_program){0};
  if (m->options.mask == MASK_FULL || m->options.mask == MASK_PREFIX)
    return error_set(e, STATUS_USAGE,
                     "model.mask = %s: tokens see later ones, so they cannot be decoded one by one; allowed: "
                     "causal, window",
                     model_masks[m->options.mask]);
  if (form == DECODE_ABSORBED && !m->attention->absorbs)
    return error_set(e, STATUS_USAGE,
                     "absorbed decoding wants keys and values that come from a latent; with "
                     "model.attention = %s they come from the width; allowed: materialised",
                     m->options.attention);
  struct tensor *rope_table =
    begin_program(m, mp, batch, (struct zigzag){block, 0, 1}, length, &decoding, 1, 0);
  if (decoding.refused) {
    model_program_free(mp);
    return error_set(e, STATUS_USAGE,
                     "a stabilizer changes content keys in a way that a latent cache cannot "
                     "follow; allowed: materialised");
  }
  mp->cached = decoding.cached;
  end_program(m, mp, rope_table);
  return STATUS_OK;
}

void model_program_free(struct model_program *mp)
{
  if (mp->program) program_free(mp->program);
  memory_free(mp->stats);
  memory_free(mp->ahead);
  memory_free(mp->stage);
  *mp = (struct model_program){0};
}
