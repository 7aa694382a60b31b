/* parts.c - building blocks of attention variants and feed-forward blocks: stabilizers, taps, caches, weights */
#include "model/model.h"
#include "numerics/number_format.h"
#include "numerics/ranks.h"

enum { MAX_SPAN = 4 };

void model_on_qk(struct model *m, struct program *program, int layer, const struct layer_inputs *in,
                 struct qk_part *part, int parts)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_qk) m->stabilizer[i]->on_qk(&m->context[i], program, layer, in, part, parts);
}

void model_on_score(struct model *m, int layer, struct attention_spec *spec)
{
  spec->score.scores_format = m->precision.scores;
  spec->qk_format = m->precision.qk;
  spec->stats = m->stats_at;
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_score) m->stabilizer[i]->on_score(&m->context[i], layer, spec);
}

int model_hears_output(const struct model *m)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_output) return 1;
  return 0;
}

struct tensor *model_output(struct model *m, struct program *program, int layer, struct tensor *x,
                            struct tensor *y, struct tensor *residual)
{
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_heads) y = m->stabilizer[i]->on_heads(&m->context[i], program, layer, x, y);
  const struct layer *own = &m->layer[layer];
  struct tensor *w = model_weight(m, program, own->w_o, 1), *b = own->b_o ? &own->b_o->value : NULL;
  if (!model_hears_output(m)) return op_linear(program, y, w, b, residual);
  struct tensor *added = op_linear(program, y, w, b, NULL);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_output) m->stabilizer[i]->on_output(&m->context[i], program, layer, added);
  return op_add(program, added, residual);
}

void model_tell_heads(struct stabilizer_context *c, struct program *program, const char *name)
{
  const long heads = c->model->options.heads;
  for (int l = 0; l < model_blocks(&c->model->options); l++)
    PROGRAM_CALL(program, copy, .y = program_view(program, c->series[0], l * heads, heads),
                 .x = &model_param(c->model, l, name)->value);
}

void model_track_max(struct stabilizer_context *c, struct program *program, int layer, struct tensor *x)
{
  long place = (c - c->model->context) * model_blocks(&c->model->options) + layer;
  PROGRAM_CALL(program, max_abs, .y = program_rows(program, c->model->tracked_max, place, 1), .x = x);
}

void model_tap(struct model *m, struct program *program, enum point point, int layer, const struct flow *flow)
{
  struct tap *w = m->into ? m->into->tap_hook : NULL;
  if (!w) return;
  struct flow told = *flow;
  told.share = m->share;
  w->tap(w, program, point, layer, &told);
}

/* 1 + w of the learned w [1, cols] */
static struct tensor *one_plus(struct program *program, struct tensor *w)
{
  double *ones = program_memory(program, (size_t)w->cols, sizeof *ones);
  for (long i = 0; i < w->cols; i++) ones[i] = 1;
  return op_add(program, w, program_reals(program, 1, w->cols, ones, "ones"));
}

struct tensor *model_norm(struct model *m, struct program *program, struct tensor *x, struct param *gain)
{
  const long kind = m->options.norm_gain;
  struct tensor *by = kind == NORM_GAIN_ZERO_CENTERED ? one_plus(program, &gain->value)
                      : kind == NORM_GAIN_VECTOR      ? &gain->value
                                                      : NULL;
  x = op_rmsnorm(program, x, by, x->cols, m->norm_eps);
  return kind == NORM_GAIN_SCALAR ? op_scale(program, x, &gain->value) : x;
}

double model_gain_at(const struct model *m, const real *values, long j)
{
  switch (m->options.norm_gain) {
  case NORM_GAIN_SCALAR: return (double)values[0];
  case NORM_GAIN_NONE: return 1;
  case NORM_GAIN_ZERO_CENTERED: return 1 + (double)values[j];
  default: return (double)values[j];
  }
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

/* For every row, its first visible key in the layer. */
static struct tensor *first_seen(const struct model *m, const struct layer_inputs *in, int layer)
{
  return model_has_window(&m->options, layer) ? in->window : in->start;
}

struct tensor *model_ssmax_scale(struct model *m, struct program *program, int layer,
                                 const struct layer_inputs *in, struct tensor *x, struct tensor *s)
{
  return op_ssmax_scale(program, x, s, first_seen(m, in, layer), in->end,
                        in->decoding ? in->decoding->slot : NULL, in->batch);
}

/* The tensors tapped behind attention, without those of a stage. */
struct tapped {
  struct model *model;
  struct program *program;
  int layer;
  const struct ring_stage *stage;
  struct flow flow;
};

static void tap_stage(void *context, int stage, struct tensor *q, struct tensor *k, struct tensor *v,
                      struct tensor *stats)
{
  struct tapped *x = context;
  struct flow *f = &x->flow;
  f->stage = stage;
  f->q = q, f->k = k, f->v = v, f->stats = stats;
  f->start = x->stage[stage].start, f->end = x->stage[stage].end;
  model_tap(x->model, x->program, POINT_SCORES, x->layer, f);
}

/* The context is cut over ranks: keys and values circulate. */
static struct tensor *attend_ring(struct model *m, struct program *program, int layer,
                                  const struct layer_inputs *in, struct tensor *q, struct tensor *k,
                                  struct tensor *v, const struct attention_spec *spec, struct tensor **stats)
{
  const int stages = device_ranks(m->device, RANKS_CONTEXT);
  struct ring_stage *stage = program_memory(program, (size_t)stages, sizeof *stage);
  for (int s = 0; s < stages; s++) {
    const struct key_ranges *r = &in->stage[s];
    stage[s] = (struct ring_stage){model_has_window(&m->options, layer) ? r->window : r->start, r->end};
  }
  struct tapped tapped = {
    m, program, layer, stage, {.position = in->position, .document = in->start, .spec = spec}};
  return op_attention_ring(program, q, k, v, stage, spec, stats, tap_stage, &tapped);
}

struct tensor *model_attend(struct model *m, struct program *program, int layer,
                            const struct layer_inputs *in, struct tensor *q, struct tensor *k,
                            struct tensor *v, const struct attention_spec *spec, struct tensor **stats)
{
  struct tensor *start = first_seen(m, in, layer);
  if (in->stage) return attend_ring(m, program, layer, in, q, k, v, spec, stats);
  if (!in->decoding) {
    struct attention_spec rounded = *spec;
    rounded.qk_format = FORMAT_F32;
    q = op_round(program, q, spec->qk_format);
    k = op_round(program, k, spec->qk_format);
    struct tensor *y = op_attention(program, q, k, v, start, in->end, &rounded, stats);
    model_tap(m, program, POINT_SCORES, layer,
              &(struct flow){.q = q,
                             .k = k,
                             .v = v,
                             .position = in->position,
                             .document = in->start,
                             .start = start,
                             .end = in->end,
                             .stats = *stats,
                             .spec = spec});
    return y;
  }
  struct attention_cache c = {.slot = in->decoding->slot};
  c.keys = cache(program, in, k->cols, "key cache");
  c.values = cache(program, in, v->cols, "value cache");
  return op_attention_cached(program, &c, q, k, v, NULL, 0, start, spec, stats);
}

struct tensor *model_attend_latent(struct model *m, struct program *program, int layer,
                                   const struct layer_inputs *in, struct tensor *q, struct tensor *latent,
                                   struct tensor *rotary, struct tensor *rstd,
                                   const struct attention_spec *spec, struct tensor **stats)
{
  struct tensor *key = op_round(program, op_join_heads(program, latent, rotary, 1, 0), spec->qk_format);
  struct tensor *value = op_columns(program, key, 0, latent->cols); /* the cached values are the latents */
  struct attention_cache c = {.slot = in->decoding->slot};
  c.keys = cache(program, in, key->cols, "latent cache");
  c.values = op_columns(program, c.keys, 0, latent->cols);
  if (rstd) c.factors = cache(program, in, rstd->cols, "1/rms cache");
  return op_attention_cached(program, &c, q, key, value, rstd, latent->cols, first_seen(m, in, layer), spec,
                             stats);
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
