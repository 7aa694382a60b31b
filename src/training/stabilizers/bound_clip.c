/* bound_clip.c - QK-Clip by the largest logit that a head's weights could make of any input
   A query x and a key y that a norm gives are no longer than sqrt(D) before its gain g. At a distance of d tokens their
   logit is scale x^T diag(g) w_q^T R(d) w_k diag(g) y with RoPE's rotation R, so
     S = scale D max_d |diag(g) w_q^T R(d) w_k diag(g)|_2,   d: all distances that the layer's mask allows
   bounds it; distance 0 alone does not. Biases add |A^T R(d) b_k|, |b_q^T R(d) B| and |b_q^T R(d) b_k|, each at its
   largest; mla adds the bounds of its content, which does not rotate, and of its rotary part. Where S > tau,
   gamma = tau / S, and the head's weights take it as under qk_clip (Kimi K2, arXiv 2507.20534 Alg. 1), which for S has
   the largest logit of a batch. S is of the weights after the step's update, so no batch's logit passes tau; initial
   weights are clipped, too. The bound by two separate norms (Su, kexue.fm/archives/11126) is larger. */
#include <math.h>
#include "base/memory.h"
#include "model/model.h"
#include "numerics/linalg.h"
#include "training/clip.h"
#include "training/spectral.h"
#include "training/stabilizers/qk_clip.h"

struct bound_clip {
  double tau;
  long gqa, every;
};

static const struct option_row rows[] = {
  REAL_ROW(struct bound_clip, tau, "100", 1e-6, 1e30, "nat",
           "clip heads whose bound of the logits exceeds this", OPTION_THRESHOLD),
  CHOICE_ROW(struct bound_clip, gqa, "q_only", qk_clip_gqa_rules, "as qk_clip.gqa", 0),
  INT_ROW(struct bound_clip, every, "1", 1, 1e9, "steps", "steps between clips", 0), END_ROW};

enum { GAMMA, BOUND };
static const struct series emits[] = {
  {"bound_clip/gamma", PER_HEAD, AXIS_STEP, "1", "factor of the clip by the bound",
   "factor by which the clip scaled the head's logits after this step's update; 1 where it did not, NaN "
   "between clips",
   EVENT_CLIP},
  {"bound_clip/bound", PER_HEAD, AXIS_STEP, "nat", "bound of logits by the weights",
   "largest |logit| that the head's weights could make of any input, after this step's update and before its "
   "clip",
   EVENT_NONE},
  {0}};

struct bound_clip_state {
  double *turn[2]; /* [rows]: cosines | sines of one position, to earlier and to later keys */
  long rows, cols; /* of the largest block */
};

/* --- the bound of a head -------------------------------------------------------------------------------- */

/* A block of rows as two matrices [rows, cols]: the weight times its input's gain and largest length, and the bias as
   a first column. */
enum { WEIGHT, BIAS, SUMMANDS };
struct head_factor {
  real *of[SUMMANDS];
  long rows;
};

static struct head_factor factor_of(const struct model *m, struct device *device, const struct logit_block *f,
                                    long cols)
{
  struct head_factor x = {.rows = f->rows};
  const struct tensor own = tensor_rows(&f->weight->value, f->row, f->rows);
  const double length = sqrt((double)own.cols);
  real *w = host_copy(device, &own), *gain = f->gain ? host_copy(device, &f->gain->value) : NULL,
       *bias = f->bias ? host_copy(device, &f->bias->value) : NULL;
  for (int i = 0; i < (bias ? SUMMANDS : BIAS); i++)
    x.of[i] = memory_new((size_t)(f->rows * cols), sizeof *w);
  for (long i = 0; i < f->rows; i++) {
    for (long j = 0; j < own.cols; j++)
      x.of[WEIGHT][i * cols + j] = (real)((double)w[i * own.cols + j] * model_gain_at(m, gain, j) * length);
    if (bias) x.of[BIAS][i * cols] = bias[f->row + i];
  }
  memory_free(w);
  memory_free(gain);
  memory_free(bias);
  return x;
}

struct bound_job {
  struct stabilizer_context *context;
  struct tensor *bound; /* [1, L*H] */
};

/* |q^T R k|_2 at its largest, R over all distances; NaN where it has no value. */
static double largest_form(const struct bound_job *job, struct spectra *work, const real *q, const real *k,
                           long height, int layer, int turned)
{
  const struct bound_clip_state *s = job->context->state;
  double most = 0, norm;
  for (int later = 0; later < 1 + turned; later++) {
    const long count = turned ? model_distances(&job->context->model->options, layer, later) : 1;
    if (!count) continue; /* the mask allows no later keys */
    if (largest_of_turned_forms(work, q, s->cols, k, s->cols, height, s->cols, s->turn[later], count, &norm,
                                NULL) ||
        isnan(norm))
      return NAN;
    most = fmax(most, norm);
  }
  return most;
}

static double product_bound(const struct bound_job *job, struct spectra *work, const struct head_factor *q,
                            const struct head_factor *k, int layer, int turned)
{
  double sum = 0;
  for (int i = 0; i < SUMMANDS && q->of[i]; i++)
    for (int j = 0; j < SUMMANDS && k->of[j]; j++)
      sum += largest_form(job, work, q->of[i], k->of[j], q->rows, layer, turned);
  return sum;
}

static void bound_head(void *context, struct device *device, long i)
{
  const struct bound_job *job = context;
  const struct bound_clip_state *s = job->context->state;
  const struct model *m = job->context->model;
  const int layer = (int)(i / m->options.heads);
  struct logit_block f[MAX_LOGIT_BLOCKS];
  struct head_factor side[2][2] = {{{.rows = 0}}}; /* [rotary][query] */
  long dim = 0;
  for (int k = m->attention->logit_blocks(m, layer, (int)(i % m->options.heads), f) - 1; k >= 0; k--) {
    side[role_is_rotary(f[k].role)][role_is_query(f[k].role)] = factor_of(m, device, &f[k], s->cols);
    dim += role_is_query(f[k].role) ? f[k].rows : 0;
  }
  struct spectra *work = spectra_new(s->rows, s->cols);
  const int apart = side[1][1].rows > 0; /* then RoPE turns the rotary part alone */
  double bound = product_bound(job, work, &side[0][1], &side[0][0], layer, !apart);
  if (apart) bound += product_bound(job, work, &side[1][1], &side[1][0], layer, 1);
  real value = (real)(bound / sqrt((double)dim));
  device->upload(device, REALS(job->bound) + i, &value, sizeof value);
  spectra_free(work);
  for (int k = 0; k < 4 * SUMMANDS; k++) memory_free(side[k / 4][k / 2 % 2].of[k % 2]);
}

static void bound_heads(struct device *device, void *context)
{
  struct bound_job *job = context;
  host_each(device, job->bound->cols, bound_head, job);
}

/* --- hooks ---------------------------------------------------------------------------------------------- */

static int init(struct stabilizer_context *c, struct error *e)
{
  const struct model *m = c->model;
  const struct model_options *o = &m->options;
  struct bound_clip_state *s = c->state;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  const char *other = model_changes_qk(m);
  if (other)
    return error_set(
      e, STATUS_USAGE,
      "stabilizers: %s changes queries, keys or weights in the pass, so weights alone do not bound "
      "logits as bound_clip requires; keep one",
      other);
  for (int i = m->attention->logit_blocks(m, 0, 0, f) - 1; i >= 0; i--) {
    if (f[i].rows > s->rows) s->rows = f[i].rows;
    if (f[i].weight->value.cols > s->cols) s->cols = f[i].weight->value.cols;
  }
  const long half = m->attention->rope_dim(o) / 2;
  for (int later = 0; later < 2; later++) {
    double *turn = s->turn[later] = arena_get(m->params.arena, (size_t)s->rows, sizeof *turn);
    for (long i = 0; i < half; i++) model_rope_turn(o, later ? 1 : -1, i, half, &turn[i], &turn[half + i]);
  }
  return STATUS_OK;
}

static void clip(struct stabilizer_context *c, struct program *p)
{
  const struct bound_clip *o = c->options;
  const long heads = model_series_size(c->model, PER_HEAD);
  struct tensor *bound = program_temporary(p, 1, heads, "bounds");
  PROGRAM_CALL(p, fill, .y = bound, .value = 0);
  program_keep(p, bound);
  program_host(p, bound_heads, &(struct bound_job){c, bound}, sizeof(struct bound_job));
  qk_clip_record(c, p, &(struct qk_clip){.tau = o->tau, .alpha = 0.5, .gqa = o->gqa},
                 program_matrix(p, bound, 0, heads, 1));
  PROGRAM_CALL(p, copy, .y = c->series[BOUND], .x = bound);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  struct tensor *finite = clip_every(c, p, ((const struct bound_clip *)c->options)->every);
  clip(c, p);
  program_guard(p, finite);
}

const struct stabilizer stabilizer_bound_clip = {
  .name = "bound_clip",
  .help = "rescale the query and key weights of heads whose logits could exceed tau for some input",
  .options = rows,
  .options_size = sizeof(struct bound_clip),
  .state_size = sizeof(struct bound_clip_state),
  .emits = emits,
  .init = init,
  .begin = clip,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QK | STABILIZER_WHOLE,
};
