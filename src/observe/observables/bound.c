/* bound.c - max logits relative to their bound from the norms of weights. Enabled by record.bound. */
#include <math.h>

#include "base/memory.h"
#include "numerics/reach.h"
#include "observe/host_spectra.h"

static const struct series series[] = {
  {"attn/bound_tightness", PER_HEAD, AXIS_SPECTRA, "1", "max logit over its bound",
   "attn/max_logit over scale (sqrt(D) |A| + |b_q|) (sqrt(D) |B| + "
   "|b_k|), A and B the head's rows of w_q and w_k "
   "with the gain of the RMSNorm before them, |A| their spectral norm; "
   "mla: content and rotary parts added (kexue.fm/archives/11126), so at least "
   "attn/bound of maxlogit spectra, and otherwise equal to it. NaN where a stabilizer changes queries, "
   "keys or weights on their way, and after "
   "the last update. Of the weights that made these logits, also under qk_clip.when = before",
   EVENT_NONE},
  {0}};

struct bound_room { /* for the largest block of rows */
  real *folded;     /* [rows, cols]: with the gain before them */
  double *gain;     /* [cols] */
  double *bias;     /* [rows] */
};

struct bound {
  struct host_spectra room;
  double scale;               /* of scores; NaN if logits do not depend on the weights alone */
  double *bound;              /* [L*H] */
  struct bound_room *room_of; /* [workers] */
  real *seen; /* the weights that the batch used; NULL: nothing changes them before the row is made */
  const real *weights; /* the row's */
};

static int wanted(const struct observer *w, int i)
{
  (void)i;
  return w->record->bound != 0;
}

static void make_room(const struct observer *w, struct bound_room *room)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  long rows = 0, cols = 0;
  for (int i = 0, n = w->model->attention->logit_blocks(w->model, 0, 0, f); i < n; i++) {
    if (f[i].rows > rows) rows = f[i].rows; /* of all heads alike */
    if (f[i].weight->value.cols > cols) cols = f[i].weight->value.cols;
  }
  room->folded = arena_get(w->arena, (size_t)(rows * cols), sizeof *room->folded);
  room->gain = arena_get(w->arena, (size_t)cols, sizeof *room->gain);
  room->bias = arena_get(w->arena, (size_t)rows, sizeof *room->bias);
}

static double scale_of(struct model *m)
{
  struct logit_block f[MAX_LOGIT_BLOCKS];
  struct attention_spec spec = {0};
  long dim = 0;
  int n = m->attention->logit_blocks(m, 0, 0, f);
  for (int i = 0; i < n; i++)
    if (role_is_query(f[i].role)) dim += f[i].rows;
  spec.score.scale = 1 / sqrt((double)dim);
  model_on_score(m, 0, &spec);
  return model_changes_qk(m) ? NAN : spec.score.scale;
}

static void declare(struct observer *w)
{
  struct bound *s = w->state;
  const struct model *m = w->model;
  s->scale = scale_of(w->model);
  s->bound = arena_get(w->arena, (size_t)w->tally->stats->rows, sizeof *s->bound);
  host_spectra_init(&s->room, w);
  s->room_of = arena_get(w->arena, (size_t)s->room.workers, sizeof *s->room_of);
  for (int i = 0; i < s->room.workers; i++) make_room(w, &s->room_of[i]);
  for (int i = 0; i < m->stabilizer_count && !s->seen; i++)
    if (m->stabilizer[i]->before_update)
      s->seen = arena_get(w->arena, (size_t)m->params.total, sizeof *s->seen);
}

static void release(struct observer *w) { host_spectra_free(&((struct bound *)w->state)->room); }

static void tap(struct observer *w, struct program *p, enum point point, int layer, const struct flow *flow)
{
  const struct bound *s = w->state;
  const struct params *all = &w->model->params;
  (void)p, (void)layer, (void)flow;
  if (point == POINT_BEFORE_UPDATE && s->seen) params_copy(all, &all->values, s->seen);
}

/* After an RMSNorm |x| is at most sqrt(D). */
static int block_reach(const struct observer *w, const struct logit_block *f, int worker, double *out,
                       struct error *e)
{
  const struct bound *s = w->state;
  const struct bound_room *room = &s->room_of[worker];
  const struct tensor *t = &f->weight->value;
  const real *gain = f->gain ? in_copy(w, s->weights, &f->gain->value) : NULL,
             *bias = f->bias ? in_copy(w, s->weights, &f->bias->value) + f->row : NULL;
  struct normed_rows rows = {.w = in_copy(w, s->weights, t) + f->row * t->ld,
                             .rows = f->rows,
                             .cols = t->cols,
                             .ld = t->ld,
                             .gain = room->gain,
                             .length = sqrt((double)t->cols)};
  struct reach reach;
  for (long j = 0; j < t->cols; j++) room->gain[j] = model_gain_at(w->model, gain, j);
  for (long i = 0; i < f->rows; i++) room->bias[i] = bias ? (double)bias[i] : 0;
  int status =
    reach_of(s->room.work[worker], SPECTRA_GRAM, &rows, room->folded, t->cols, room->bias, &reach, e);
  if (!status) *out = reach.weights + reach.rest;
  return status;
}

/* |s| <= scale sum over parts of |q| |k| (Su, kexue.fm/archives/11126). */
static int one(const struct observer *w, long i, int worker, struct error *e)
{
  const struct bound *s = w->state;
  const struct model *m = w->model;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  double bound[2][2] = {{0}}; /* [rotary][query] */
  int n = m->attention->logit_blocks(m, (int)(i / m->options.heads), (int)(i % m->options.heads), f);
  s->bound[i] = NAN;
  for (int k = 0; k < n; k++)
    if (block_reach(w, &f[k], worker, &bound[role_is_rotary(f[k].role)][role_is_query(f[k].role)], e))
      return error_prefix(e, "spectrum of a head"), e->status;
  s->bound[i] = s->scale * (bound[0][0] * bound[0][1] + bound[1][0] * bound[1][1]);
  return STATUS_OK;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  struct bound *s = w->state;
  const struct tensor *stats = w->tally->stats;
  if (!rows->update_values) return STATUS_OK;
  s->weights = s->seen ? s->seen : rows->weights;
  int status = host_spectra_each(w, stats->rows, one, e);
  for (long i = 0; i < stats->rows; i++)
    rows->row[0].value[i] = (float)((double)report_of(rows->read, stats)[i * stats->cols] / s->bound[i]);
  return status;
}

const struct observable observable_bound = {
  .name = "bound",
  .help = "max logits divided by their bound from weight norms (record.bound), with record.spectra_every",
  .flags = OBSERVABLE_DEFAULT,
  .series = series,
  .state_size = sizeof(struct bound),
  .wanted = wanted,
  .declare = declare,
  .tap = tap,
  .read = read,
  .free = release,
};
