#include "run/observe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "numerics/linalg.h"

/* --- the series, each said once ---------------------------------------------------------------------- */

#define LOGIT_DEFINITION \
  "signed maximum over the batch and the allowed (causal, same document) positions of the softmax input " \
  "before any cap, softmax scale included, over all micro-batches of the step"

enum {
  LOSS,
  LR,
  GRAD_NORM,
  MAX_LOGIT,
  MAX_ABS_LOGIT,
  MAX_LOGIT_CAPPED,
  ENTROPY,
  SHARE_ABOVE,
  VAL_LOSS,
  PROBE_LOSS,
  PROBE_MAX_LOGIT,
  PROBE_MAX_ABS_LOGIT,
  PROBE_Q_NORM,
  PROBE_K_NORM,
  PROBE_COSINE,
  LOAD,
  ROUTER_BIAS,
  MAX_VIO,
  ROUTER_ENTROPY,
  ROUTER_MAX,
  MOVED,
  BALANCE_LOSS,
  AHEAD_LOSS,
  AHEAD_VAL_LOSS,
  CORE_COUNT
};

static const struct series core[CORE_COUNT] = {
  [LOSS] = {"loss", PER_STEP, AXIS_STEP, "nat", "training loss",
            "mean cross-entropy per counted target of the step's batch, before its update, without z-loss"},
  [LR] = {"lr", PER_STEP, AXIS_STEP, "1", "learning rate", "rate of this step's update, warm-up included"},
  [GRAD_NORM] = {"grad_norm", PER_STEP, AXIS_STEP, "1", "gradient norm",
                 "Euclidean norm over all trained tensors, before clipping"},
  [MAX_LOGIT] = {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", LOGIT_DEFINITION},
  [MAX_ABS_LOGIT] = {"attn/max_abs_logit", PER_HEAD, AXIS_STEP, "nat", "max |logit|",
                     "as attn/max_logit, of the absolute value"},
  [MAX_LOGIT_CAPPED] = {"attn/max_logit_capped", PER_HEAD, AXIS_STEP, "nat", "max logit after the cap",
                        "as attn/max_logit, after the cap: what enters the softmax"},
  [ENTROPY] = {"attn/entropy", PER_HEAD, AXIS_STEP, "nat", "attention entropy",
               "mean over queries of the entropy of the attention weights"},
  [SHARE_ABOVE] =
    {"attn/share_above", PER_HEAD, AXIS_STEP, "1", "share of logits above the level",
     "share of the pairs of attn/max_logit whose logit is above record.level (large-logit ratio, "
     "arXiv 2502.16982 app. D)"},
  [VAL_LOSS] = {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss",
                "mean cross-entropy on fixed validation batches, the same for every seed, before the update"},
  [PROBE_LOSS] = {"probe/loss", PER_STEP, AXIS_PROBE, "nat", "loss on the probe batch",
                  "mean cross-entropy on one fixed batch, the same for every seed, before the update"},
  [PROBE_MAX_LOGIT] = {"probe/max_logit", PER_HEAD, AXIS_PROBE, "nat", "max logit on the probe batch",
                       "as attn/max_logit, on the probe batch"},
  [PROBE_MAX_ABS_LOGIT] = {"probe/max_abs_logit", PER_HEAD, AXIS_PROBE, "nat",
                           "max |logit| on the probe batch", "as attn/max_abs_logit, on the probe batch"},
  [PROBE_Q_NORM] =
    {"probe/q_norm", PER_HEAD, AXIS_PROBE, "1", "|q| at the max logit",
     "Euclidean norm of the query of the pair that has probe/max_logit, as it enters the "
     "product: probe/max_logit = scale q_norm k_norm cosine (under qk_norm.kind = l2 both are RMS-normed "
     "and scale is 1 over the head size)"},
  [PROBE_K_NORM] = {"probe/k_norm", PER_HEAD, AXIS_PROBE, "1", "|k| at the max logit",
                    "as probe/q_norm, of the key"},
  [PROBE_COSINE] = {"probe/cosine", PER_HEAD, AXIS_PROBE, "1", "cosine of q and k at the max logit",
                    "cosine of the angle between query and key of the pair that has probe/max_logit"},
  [LOAD] = {"moe/load", PER_EXPERT, AXIS_STEP, "1", "load of the expert",
            "share of the step's choices (moe.active for every token, shared experts apart) that went to the "
            "expert, "
            "over all micro-batches; NaN in dense layers, as all moe/ series are"},
  [ROUTER_BIAS] = {"moe/bias", PER_EXPERT, AXIS_STEP, "1", "router bias",
                   "what was added to the expert's score in the step's choices: before the step's update"},
  [MAX_VIO] = {"moe/max_vio", PER_LAYER, AXIS_STEP, "1", "MaxVio",
               "(largest load - mean load) / mean load of the step's batch (arXiv 2408.15664 eq. 4)"},
  [ROUTER_ENTROPY] = {"moe/entropy", PER_LAYER, AXIS_STEP, "nat", "router entropy",
                      "mean over tokens of the entropy of the scores over their sum"},
  [ROUTER_MAX] = {"moe/max_abs_logit", PER_LAYER, AXIS_STEP, "nat", "max |router logit|",
                  "largest absolute value of the router's logits over tokens and experts"},
  [MOVED] = {"moe/moved", PER_LAYER, AXIS_STEP, "1", "share of tokens moved by the bias",
             "share of the step's tokens that would have chosen another set of experts without the bias"},
  [BALANCE_LOSS] = {"moe/balance_loss", PER_LAYER, AXIS_STEP, "nat", "balance loss",
                    "the loss of balance by sequence, moe.aux included; not part of loss"},
  [AHEAD_LOSS] = {"mtp/loss", PER_LAYER, AXIS_STEP, "nat", "loss of the module",
                  "mean cross-entropy of the multi-token prediction module whose block the layer is, of the "
                  "step's batch before its update; NaN in layers of the stack; not part of loss"},
  [AHEAD_VAL_LOSS] = {"mtp/val_loss", PER_LAYER, AXIS_VAL, "nat", "validation loss of the module",
                      "as mtp/loss, on the batches of val_loss"},
};

/* The numbers of a spectrum, for each of these objects. */
enum object {
  WEIGHT,
  UPDATE,
  HEAD_Q,
  HEAD_K,
  HEAD_FORM,
  EXPERT_GATE,
  EXPERT_UP,
  EXPERT_DOWN,
  OBJECTS,
  HEAD_BOUND = OBJECTS
};
static const struct {
  const char *group;
  enum series_shape shape;
  const char *what, *note; /* the note is for the definition alone */
} objects[OBJECTS] = {
  [WEIGHT] = {"weight", PER_TENSOR, "the weight, before the step's update",
              " (after a clip of qk_clip.when = before; experts as one matrix, one below the other)"},
  [UPDATE] = {"update", PER_TENSOR, "the step's update per unit learning rate, decay apart",
              "; the tensor's own rate, with the factors of override.lr and of stabilisers"},
  [HEAD_Q] = {"head_q", PER_HEAD, "the head's rows of w_q (w_qc for mla)", ""},
  [HEAD_K] = {"head_k", PER_HEAD, "the rows of w_k (w_kc for mla) that serve the head", ""},
  [HEAD_FORM] = {"head_qk", PER_HEAD, "the head's bilinear form w_q^T w_k, [D,D], n = head size", ""},
  [EXPERT_GATE] = {"expert_gate", PER_EXPERT, "the expert's w_gate", ""},
  [EXPERT_UP] = {"expert_up", PER_EXPERT, "the expert's w_up", ""},
  [EXPERT_DOWN] = {"expert_down", PER_EXPERT, "the expert's w_down", ""},
};
static const struct series alignment = {
  "update/alignment",
  PER_TENSOR,
  AXIS_SPECTRA,
  "1",
  "alignment of the update",
  "u1^T dW v1 with the leading singular pair of the weight, dW the update of update/spectral_norm: the "
  "first-order change of the spectral norm per unit of the tensor's learning rate",
  EVENT_NONE};

static const struct series tightness = {
  "attn/bound_tightness",
  PER_HEAD,
  AXIS_SPECTRA,
  "1",
  "max logit over its bound",
  "attn/max_logit over scale (|x_q| sigma(w_q) + |b_q|) (|x_k| "
  "sigma(w_k) + |b_k|), sigma the spectral norm of "
  "the head's rows, |x| = sqrt(width) max|gain| of the RMSNorm before "
  "them; mla: content and rotary parts added "
  "(kexue.fm/archives/11126). NaN where a stabiliser changes queries, "
  "keys or weights on their way, and after "
  "the last update. Of the weights that made these logits, also under qk_clip.when = before",
  EVENT_NONE};

/* --- state --------------------------------------------------------------------------------------------- */

struct job { /* one matrix whose spectrum is wanted */
  enum object object;
  struct param *param, *other; /* HEAD_FORM: w_q and w_k */
  long row, rows, other_row;
  long place; /* in the rows of its object; HEAD_BOUND: layer * heads + head */
};

struct observer {
  struct model *model;
  struct updates *updates;
  struct recorder *recorder;
  int layers, heads;
  struct arena *arena;
  int core_id[CORE_COUNT];
  int *emit_id[MAX_STABILIZERS];
  float *narrow; /* a row on its way to the recorder */
  /* spectra */
  int spectra_id[OBJECTS][SPECTRUM_FIELDS], alignment_id;
  long width[OBJECTS];
  float *value[OBJECTS][SPECTRUM_FIELDS], *alignment_value;
  int tightness_id;
  double *bound, scale;
  struct job *jobs;
  long job_count;
  struct spectra **workspace;
  double **leading;
  int workers;
  real *values, *update; /* copies of all weights and of all directions, as params.values lies */
  real *seen;            /* the weights that the batch saw, for the bound; NULL: they are those of `values` */
  int directions;
  struct error *job_error;
  int failed;
};

static int declare(struct observer *o, const struct series *s) { return recorder_series(o->recorder, s); }

/* Find head h's content factors: the first query role and the first key role. */
static int head_blocks(const struct observer *o, int layer, int head, struct factor *q, struct factor *k)
{
  struct factor all[MAX_FACTORS];
  int n = o->model->attention->factors(o->model, layer, head, all), have_q = 0, have_k = 0;
  for (int i = 0; i < n; i++) {
    if (all[i].role == ROLE_Q_HEAD && !have_q) {
      *q = all[i];
      have_q = 1;
    }
    if ((all[i].role == ROLE_K_HEAD || all[i].role == ROLE_K_GROUP) && !have_k) {
      *k = all[i];
      have_k = 1;
    }
  }
  return have_q && have_k;
}

/* Where a tensor of the parameters stands in a copy of them all. */
static const real *in_copy(const struct observer *o, const real *copy, const struct tensor *t)
{
  return copy + (REALS(t) - REALS(&o->model->params.values));
}

static void add_job(struct observer *o, struct job job) { o->jobs[o->job_count++] = job; }

/* The scale of scores, or NaN where logits are not those of the weights alone. */
static double bound_scale(struct model *m)
{
  struct factor f[MAX_FACTORS];
  struct attention_spec spec = {0};
  long dim = 0;
  int n = m->attention->factors(m, 0, 0, f);
  for (int i = 0; i < n; i++)
    if (role_is_query(f[i].role)) dim += f[i].rows;
  spec.score.scale = 1 / sqrt((double)dim);
  model_on_score(m, &spec);
  for (int i = 0; i < m->stabilizer_count; i++)
    if (m->stabilizer[i]->on_qk || m->stabilizer[i]->on_weight) return NAN;
  return spec.score.scale;
}

/* Every expert's matrices by themselves. */
static void add_expert_jobs(struct observer *o)
{
  static const struct {
    const char *name;
    enum object object;
  } stacks[] = {{"ffn.experts.w_gate", EXPERT_GATE},
                {"ffn.experts.w_up", EXPERT_UP},
                {"ffn.experts.w_down", EXPERT_DOWN}};
  for (int l = 0; l < o->layers; l++)
    for (int i = 0; i < 3 && model_router(o->model, l).experts; i++) {
      struct param *p = model_param(o->model, l, stacks[i].name);
      for (long e = 0; e * p->block_rows < p->value.rows; e++)
        add_job(o, (struct job){stacks[i].object, p, NULL, e * p->block_rows, p->block_rows, 0,
                                l * o->model->experts + e});
    }
}

static void prepare_spectra(struct observer *o)
{
  struct params *ps = &o->model->params;
  long heads = (long)o->layers * o->heads, experts = o->layers * o->model->experts, rows = 1, cols = 1;
  long most = 2L * ps->count + 4 * heads + 3 * experts;
  o->jobs = arena_get(o->arena, (size_t)most, sizeof *o->jobs);
  long place = 0;
  for (int i = 0; i < ps->count; i++) {
    struct param *p = ps->list[i];
    if (!param_is_matrix(p)) continue;
    if (p->value.rows > rows) rows = p->value.rows;
    if (p->value.cols > cols) cols = p->value.cols;
    add_job(o, (struct job){WEIGHT, p, NULL, 0, p->value.rows, 0, place});
    place++;
  }
  for (int l = 0; l < o->layers; l++)
    for (int h = 0; h < o->heads; h++) {
      struct factor q = {0}, k = {0};
      long at = (long)l * o->heads + h;
      if (!head_blocks(o, l, h, &q, &k)) continue;
      add_job(o, (struct job){HEAD_Q, q.weight, NULL, q.row, q.rows, 0, at});
      add_job(o, (struct job){HEAD_K, k.weight, NULL, k.row, k.rows, 0, at});
      if (q.weight->value.cols == k.weight->value.cols)
        add_job(o, (struct job){HEAD_FORM, q.weight, k.weight, q.row, q.rows, k.row, at});
    }
  if (o->bound)
    for (long i = 0; i < heads; i++) add_job(o, (struct job){.object = HEAD_BOUND, .place = i});
  add_expert_jobs(o);
  for (int object = 0; object < OBJECTS; object++) {
    enum series_shape shape = objects[object].shape;
    long width = shape == PER_TENSOR ? o->width[WEIGHT] : shape == PER_EXPERT ? experts : heads;
    if (width == 0) continue; /* no experts */
    o->width[object] = width;
    for (int s = 0; s < SPECTRUM_FIELDS; s++) {
      o->value[object][s] = arena_get(o->arena, (size_t)width, sizeof(float));
      o->spectra_id[object][s] =
        declare(o, &(struct series){
                     arena_format(o->arena, "%s/%s", objects[object].group, spectrum_fields[s].name),
                     objects[object].shape, AXIS_SPECTRA, "1",
                     arena_format(o->arena, "%s of %s", spectrum_fields[s].long_name, objects[object].what),
                     arena_format(o->arena, "%s; n = min(rows, columns); of %s%s",
                                  spectrum_fields[s].definition, objects[object].what, objects[object].note),
                     EVENT_NONE});
    }
  }
  o->values = arena_get(o->arena, (size_t)ps->values.cols, sizeof *o->values);
  o->update = arena_get(o->arena, (size_t)ps->values.cols, sizeof *o->update);
  for (int s = 0; s < o->model->stabilizer_count && o->bound && !o->seen; s++)
    if (o->model->stabilizer[s]->before_update)
      o->seen = arena_get(o->arena, (size_t)ps->values.cols, sizeof *o->seen);
  o->alignment_value = arena_get(o->arena, (size_t)o->width[UPDATE], sizeof(float));
  o->alignment_id = declare(o, &alignment);
  o->workers = o->model->device->pool ? pool_threads(o->model->device->pool) : 1;
  o->workspace = arena_get(o->arena, (size_t)o->workers, sizeof *o->workspace);
  o->leading = arena_get(o->arena, (size_t)o->workers, sizeof *o->leading);
  for (int w = 0; w < o->workers; w++) {
    o->workspace[w] = spectra_new(rows, cols);
    o->leading[w] = arena_get(o->arena, (size_t)(rows + cols), sizeof(double));
  }
  o->job_error = arena_get(o->arena, 1, sizeof *o->job_error);
}

/* Of the routers of all layers that have one. */
static struct router any_router(const struct model *m)
{
  struct router any = {0};
  for (int l = 0; l < model_blocks(&m->options) && !any.experts; l++) any = model_router(m, l);
  return any;
}

static int wanted(int series, const struct attention_spec *spec, const struct record_options *record,
                  const struct router *router, long modules)
{
  switch (series) {
  case LOAD:
  case MAX_VIO:
  case ROUTER_ENTROPY:
  case ROUTER_MAX: return router->experts > 0;
  case ROUTER_BIAS:
  case MOVED: return router->has_bias;
  case BALANCE_LOSS: return router->has_loss;
  case AHEAD_LOSS:
  case AHEAD_VAL_LOSS: return modules > 0;
  case MAX_LOGIT_CAPPED: return spec->score.cap != 0;
  case SHARE_ABOVE: return record->level > 0;
  case PROBE_Q_NORM:
  case PROBE_K_NORM:
  case PROBE_COSINE: return record->pairs != 0;
  default: return 1;
  }
}

struct observer *observer_new(struct model *m, struct updates *u, struct recorder *r,
                              const struct record_options *record)
{
  struct observer *o = memory_new(1, sizeof *o);
  *o = (struct observer){.model = m,
                         .updates = u,
                         .recorder = r,
                         .arena = arena_new(),
                         .layers = (int)model_blocks(&m->options),
                         .heads = (int)m->options.heads};
  o->width[WEIGHT] = params_matrices(&m->params);
  struct attention_spec spec = {0};
  model_on_score(m, &spec);
  struct router router = any_router(m);
  for (int i = 0; i < CORE_COUNT; i++)
    o->core_id[i] = wanted(i, &spec, record, &router, m->options.mtp) ? declare(o, &core[i]) : -1;

  long widest = (long)o->layers * (o->heads > m->experts ? o->heads : m->experts);
  if (widest < o->width[WEIGHT]) widest = o->width[WEIGHT];
  o->narrow = arena_get(o->arena, (size_t)widest, sizeof(float));
  for (int s = 0; s < m->stabilizer_count; s++) {
    const struct series *emits = m->stabilizer[s]->emits;
    int count = 0;
    while (emits && emits[count].name) count++;
    o->emit_id[s] = arena_get(o->arena, (size_t)count + 1, sizeof(int));
    for (int i = 0; i < count; i++) o->emit_id[s][i] = declare(o, &emits[i]);
  }
  if (record->spectra_every && record->bound) {
    o->bound = arena_get(o->arena, (size_t)o->layers * (size_t)o->heads, sizeof *o->bound);
    o->scale = bound_scale(m);
    o->tightness_id = declare(o, &tightness);
  }
  if (record->spectra_every) prepare_spectra(o);
  return o;
}

void observer_free(struct observer *o)
{
  if (!o) return;
  for (int w = 0; w < o->workers; w++) spectra_free(o->workspace[w]);
  arena_free(o->arena);
  memory_free(o);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

/* For every series of every stabiliser. */
#define EACH_EMITTED(o, s, i) \
  for (int s = 0; s < (o)->model->stabilizer_count; s++) \
    for (int i = 0; (o)->model->stabilizer[s]->emits && (o)->model->stabilizer[s]->emits[i].name; i++)

static void put(struct observer *o, int id, const real *values, long width)
{
  if (id < 0) return;
  for (long i = 0; i < width; i++) o->narrow[i] = (float)values[i];
  recorder_put(o->recorder, id, o->narrow);
}

void observer_step(struct observer *o, long step, const struct pass *p, double lr, double grad_norm,
                   long first_step)
{
  long n = (long)o->layers * o->heads;
  recorder_put_number(o->recorder, o->core_id[LOSS], p->loss);
  recorder_put_number(o->recorder, o->core_id[LR], lr);
  recorder_put_number(o->recorder, o->core_id[GRAD_NORM], grad_norm);
  put(o, o->core_id[MAX_LOGIT], p->max_logit, n);
  put(o, o->core_id[MAX_ABS_LOGIT], p->max_abs_logit, n);
  put(o, o->core_id[MAX_LOGIT_CAPPED], p->max_logit_capped, n);
  put(o, o->core_id[ENTROPY], p->entropy, n);
  put(o, o->core_id[SHARE_ABOVE], p->share_above, n);
  put(o, o->core_id[LOAD], p->load, o->layers * o->model->experts);
  put(o, o->core_id[ROUTER_BIAS], p->router_bias, o->layers * o->model->experts);
  put(o, o->core_id[MAX_VIO], p->max_vio, o->layers);
  put(o, o->core_id[ROUTER_ENTROPY], p->router_entropy, o->layers);
  put(o, o->core_id[ROUTER_MAX], p->router_max, o->layers);
  put(o, o->core_id[MOVED], p->moved, o->layers);
  put(o, o->core_id[BALANCE_LOSS], p->balance_loss, o->layers);
  put(o, o->core_id[AHEAD_LOSS], p->ahead, o->layers);
  EACH_EMITTED(o, s, i)
  put(o, o->emit_id[s][i], report_of(o->model->report, o->model->context[s].series[i]),
      model_series_size(o->model, o->model->stabilizer[s]->emits[i].shape));
  if (first_step == OBSERVE_RECORDED)
    recorder_row(o->recorder, AXIS_STEP, step);
  else
    recorder_aside(o->recorder, step, first_step);
}

void observer_val(struct observer *o, long step, double loss, const struct pass *p)
{
  recorder_put_number(o->recorder, o->core_id[VAL_LOSS], loss);
  put(o, o->core_id[AHEAD_VAL_LOSS], p->ahead, o->layers);
  recorder_row(o->recorder, AXIS_VAL, step);
}

void observer_probe(struct observer *o, long step, const struct pass *p)
{
  long n = (long)o->layers * o->heads;
  recorder_put_number(o->recorder, o->core_id[PROBE_LOSS], p->loss);
  put(o, o->core_id[PROBE_MAX_LOGIT], p->max_logit, n);
  put(o, o->core_id[PROBE_MAX_ABS_LOGIT], p->max_abs_logit, n);
  put(o, o->core_id[PROBE_Q_NORM], p->q_norm, n);
  put(o, o->core_id[PROBE_K_NORM], p->k_norm, n);
  put(o, o->core_id[PROBE_COSINE], p->cosine, n);
  recorder_row(o->recorder, AXIS_PROBE, step);
}

/* --- spectra --------------------------------------------------------------------------------------------- */

static void store(struct observer *o, enum object object, long place, const struct spectrum *s)
{
  for (int i = 0; i < SPECTRUM_FIELDS; i++) o->value[object][i][place] = (float)spectrum_number(s, i);
}

/* u^T (-direction) v: the update is subtracted. */
static double align(const struct tensor *direction, const real *values, const double *u, const double *v)
{
  double sum = 0;
  for (long i = 0; i < direction->rows; i++) {
    const real *row = values + i * direction->ld;
    double dot = 0;
    for (long j = 0; j < direction->cols; j++) dot += (double)row[j] * v[j];
    sum -= u[i] * dot;
  }
  return sum;
}

/* The weight of one tensor and, where there is one, its update: they share the leading pair. */
static int weight_job(struct observer *o, const struct job *j, int worker, struct error *e)
{
  struct tensor *w = &j->param->value;
  double *u = o->leading[worker], *v = u + w->rows;
  struct spectrum s;
  if (spectrum_and_pair(o->workspace[worker], in_copy(o, o->values, w), w->rows, w->cols, w->ld, &s, u, v, e))
    return e->status;
  store(o, WEIGHT, j->place, &s);
  if (!o->directions) return STATUS_OK;
  const real *d = in_copy(o, o->update, w);
  if (spectrum_of(o->workspace[worker], SPECTRA_GRAM, d, w->rows, w->cols, w->ld, &s, e)) return e->status;
  store(o, UPDATE, j->place, &s);
  o->alignment_value[j->place] = (float)align(w, d, u, v);
  return STATUS_OK;
}

/* The weights that made the step's logits. */
static const real *weights_seen(const struct observer *o) { return o->seen ? o->seen : o->values; }

/* Bound on the norm of what a factor makes: |x| sigma(w) + |b|. RMSNorm makes no x longer than
   sqrt(cols) max|gain|. */
static int factor_bound(struct observer *o, const struct factor *f, int worker, double *bound,
                        struct error *e)
{
  const struct tensor *w = &f->weight->value, *gain = &f->gain->value;
  struct spectrum s;
  double largest = 0, bias = 0;
  if (spectrum_of(o->workspace[worker], SPECTRA_GRAM, in_copy(o, weights_seen(o), w) + f->row * w->ld,
                  f->rows, w->cols, w->ld, &s, e))
    return e->status;
  for (long i = 0; i < gain->cols; i++) {
    double g = fabs((double)in_copy(o, weights_seen(o), gain)[i]);
    if (!(g <= largest)) largest = g;
  }
  for (long i = f->row; f->bias && i < f->row + f->rows; i++)
    bias += pow((double)in_copy(o, weights_seen(o), &f->bias->value)[i], 2);
  *bound = sqrt((double)gain->cols) * largest * s.spectral_norm + sqrt(bias);
  return STATUS_OK;
}

/* |s| <= scale sum over parts of |q| |k| (Su, kexue.fm/archives/11126). */
static int bound_job(struct observer *o, const struct job *j, int worker, struct error *e)
{
  struct factor f[MAX_FACTORS];
  double bound[2][2] = {{0}}; /* [rotary][query] */
  int n = o->model->attention->factors(o->model, (int)(j->place / o->heads), (int)(j->place % o->heads), f);
  for (int i = 0; i < n; i++)
    if (factor_bound(o, &f[i], worker, &bound[role_is_rotary(f[i].role)][role_is_query(f[i].role)], e))
      return e->status;
  o->bound[j->place] = o->scale * (bound[0][0] * bound[0][1] + bound[1][0] * bound[1][1]);
  return STATUS_OK;
}

static void run_job(void *context, long piece, int worker)
{
  struct observer *o = context;
  const struct job *j = &o->jobs[piece];
  const struct tensor *w = j->param ? &j->param->value : NULL;
  const real *rows = w ? in_copy(o, o->values, w) + j->row * w->ld : NULL;
  struct error e = {0};
  struct spectrum s;
  int status;
  if (j->object == HEAD_BOUND) {
    status = bound_job(o, j, worker, &e);
  } else if (j->object == WEIGHT) {
    status = weight_job(o, j, worker, &e);
  } else if (j->object == HEAD_FORM) {
    const struct tensor *k = &j->other->value;
    status =
      spectrum_of_form(o->workspace[worker], rows, w->ld, in_copy(o, o->values, k) + j->other_row * k->ld,
                       k->ld, j->rows, w->cols, &s, &e);
    if (!status) store(o, HEAD_FORM, j->place, &s);
  } else {
    status = spectrum_of(o->workspace[worker], SPECTRA_GRAM, rows, j->rows, w->cols, w->ld, &s, &e);
    if (!status) store(o, j->object, j->place, &s);
  }
  if (status) {
    error_prefix(&e, "spectrum of %s", j->param ? j->param->name : "a head");
    if (!__atomic_exchange_n(&o->failed, 1, __ATOMIC_ACQ_REL)) *o->job_error = e;
  }
}

static void take_copies(struct observer *o)
{
  struct device *device = o->model->device;
  size_t bytes = (size_t)o->model->params.values.cols * sizeof(real);
  device->download(device, o->values, o->model->params.values.data, bytes);
  if (o->directions) device->download(device, o->update, updates_all_directions(o->updates)->data, bytes);
}

void observer_weights(struct observer *o)
{
  struct device *device = o->model->device;
  const struct tensor *values = &o->model->params.values;
  if (o->seen) device->download(device, o->seen, values->data, (size_t)values->cols * sizeof(real));
}

static void put_tightness(struct observer *o, const struct pass *p)
{
  for (long i = 0; i < (long)o->layers * o->heads; i++)
    o->narrow[i] = p ? (float)((double)p->max_logit[i] / o->bound[i]) : NAN;
  recorder_put(o->recorder, o->tightness_id, o->narrow);
}

int observer_spectra(struct observer *o, long step, const struct pass *p, struct error *e)
{
  for (int object = 0; object < OBJECTS; object++)
    for (int s = 0; s < SPECTRUM_FIELDS; s++)
      for (long i = 0; i < o->width[object]; i++) o->value[object][s][i] = NAN;
  for (long i = 0; i < o->width[UPDATE]; i++) o->alignment_value[i] = NAN;
  for (long i = 0; o->bound && i < (long)o->layers * o->heads; i++) o->bound[i] = NAN;
  o->directions = p != NULL;
  take_copies(o);
  o->failed = 0;
  parallel_for(o->model->device->pool, o->job_count, run_job, o);
  for (int object = 0; object < OBJECTS; object++)
    for (int s = 0; s < SPECTRUM_FIELDS && o->width[object]; s++)
      recorder_put(o->recorder, o->spectra_id[object][s], o->value[object][s]);
  recorder_put(o->recorder, o->alignment_id, o->alignment_value);
  if (o->bound) put_tightness(o, p);
  recorder_row(o->recorder, AXIS_SPECTRA, step);
  /* a solver that does not converge leaves NaN in the row: an event for the caller, not the end of a run */
  if (o->failed) return error_set(e, o->job_error->status, "%s", o->job_error->text);
  return STATUS_OK;
}
