/* spectra.c - singular values of weights, updates, heads and experts */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "numerics/linalg.h"
#include "observe/host_spectra.h"
#include "observe/observable.h"

/* The numbers of a spectrum, for each of these objects. */
enum object { WEIGHT, UPDATE, HEAD_Q, HEAD_K, HEAD_FORM, EXPERT_GATE, EXPERT_UP, EXPERT_DOWN, OBJECTS };
static const struct {
  const char *group;
  enum series_shape shape;
  const char *what, *note; /* the note is for the definition alone */
} objects[OBJECTS] = {
  [WEIGHT] = {"weight", PER_TENSOR, "the weight, before the step's update",
              " (after a clip of qk_clip.when = before; experts as one matrix, one below the other)"},
  [UPDATE] = {"update", PER_TENSOR, "the step's update per unit learning rate, decay apart",
              "; the tensor's own rate, with the factors of override.lr and of stabilizers"},
  [HEAD_Q] = {"head_q", PER_HEAD, "the head's rows of w_q (w_qc for mla)", ""},
  [HEAD_K] = {"head_k", PER_HEAD, "the rows of w_k (w_kc for mla) that serve the head", ""},
  [HEAD_FORM] = {"head_qk", PER_HEAD, "the head's bilinear form w_q^T w_k, [D,D], n = head size", ""},
  [EXPERT_GATE] = {"expert_gate", PER_EXPERT, "the expert's w_gate", ""},
  [EXPERT_UP] = {"expert_up", PER_EXPERT, "the expert's w_up", ""},
  [EXPERT_DOWN] = {"expert_down", PER_EXPERT, "the expert's w_down", ""},
};
enum { ALIGNMENT = OBJECTS * SPECTRUM_FIELDS };
static const struct series alignment = {
  "update/alignment",
  PER_TENSOR,
  AXIS_SPECTRA,
  "1",
  "alignment of the update",
  "u1^T dW v1 with the leading singular pair of the weight, dW the update of update/spectral_norm: the "
  "first-order change of the spectral norm per unit of the tensor's learning rate",
  EVENT_NONE};

/* Field f of object o is row o * SPECTRUM_FIELDS + f. */
static const struct series *make(void)
{
  static struct series all[ALIGNMENT + 2];
  static char text[OBJECTS * SPECTRUM_FIELDS][3][640];
  if (all[0].name) return all;
  for (int i = ALIGNMENT - 1; i >= 0; i--) {
    const struct spectrum_field *field = &spectrum_fields[i % SPECTRUM_FIELDS];
    int o = i / SPECTRUM_FIELDS;
    snprintf(text[i][0], sizeof *text[i], "%s/%s", objects[o].group, field->name);
    snprintf(text[i][1], sizeof *text[i], "%s of %s", field->long_name, objects[o].what);
    snprintf(text[i][2], sizeof *text[i], "%s; n = min(rows, columns); of %s%s", field->definition,
             objects[o].what, objects[o].note);
    all[i] =
      (struct series){text[i][0], objects[o].shape, AXIS_SPECTRA, "1", text[i][1], text[i][2], EVENT_NONE};
  }
  all[ALIGNMENT] = alignment;
  return all;
}

static int wanted(const struct observer *w, int i)
{
  return i == ALIGNMENT || objects[i / SPECTRUM_FIELDS].shape != PER_EXPERT || w->model->experts > 0;
}

/* --- the matrices --------------------------------------------------------------------------------------- */

struct spectrum_job { /* one matrix to decompose */
  enum object object;
  struct param *param, *other; /* HEAD_FORM: w_q and w_k */
  long row, rows, other_row;
  long place; /* in the rows of its object */
};

struct spectra_state {
  struct spectrum_job *job;
  long jobs;
  struct host_spectra room;
  double **leading;         /* [workers] of [SPECTRA_LANES / 2] of rows + columns: weights' leading pairs */
  struct observation *rows; /* the current rows */
};

static void add_job(struct spectra_state *s, struct spectrum_job job) { s->job[s->jobs++] = job; }

/* Add every expert's matrices separately. */
static void add_experts(struct spectra_state *s, const struct model *m, int layer)
{
  static const struct {
    const char *name;
    enum object object;
  } stacks[] = {{"ffn.experts.w_gate", EXPERT_GATE},
                {"ffn.experts.w_up", EXPERT_UP},
                {"ffn.experts.w_down", EXPERT_DOWN}};
  for (int i = 0; i < 3 && model_router(m, layer).experts; i++) {
    struct param *p = model_param(m, layer, stacks[i].name);
    for (long e = 0; e * p->block_rows < p->value.rows; e++)
      add_job(s, (struct spectrum_job){stacks[i].object, p, NULL, e * p->block_rows, p->block_rows, 0,
                                       layer * m->experts + e});
  }
}

static void add_head(struct spectra_state *s, const struct model *m, int layer, int head)
{
  struct logit_block q, k;
  long at = (long)layer * m->options.heads + head;
  if (!head_factors(m, layer, head, &q, &k)) return;
  add_job(s, (struct spectrum_job){HEAD_Q, q.weight, NULL, q.row, q.rows, 0, at});
  add_job(s, (struct spectrum_job){HEAD_K, k.weight, NULL, k.row, k.rows, 0, at});
  if (q.weight->value.cols == k.weight->value.cols)
    add_job(s, (struct spectrum_job){HEAD_FORM, q.weight, k.weight, q.row, q.rows, k.row, at});
}

static void declare(struct observer *w)
{
  struct model *m = w->model;
  struct spectra_state *s = w->state;
  struct params *ps = &m->params;
  int blocks = (int)model_blocks(&m->options), heads = (int)m->options.heads;
  long most = 2L * ps->count + 3L * blocks * heads + 3 * blocks * m->experts, place = 0;
  s->job = arena_get(w->arena, (size_t)most + 1, sizeof *s->job);
  for (int i = 0; i < ps->count; i++)
    if (param_is_matrix(ps->list[i]))
      for (enum object o = WEIGHT; o <= UPDATE; place += o++ == UPDATE) /* the two share the weight's pair */
        add_job(s, (struct spectrum_job){o, ps->list[i], NULL, 0, ps->list[i]->value.rows, 0, place});
  for (int l = 0; l < blocks; l++)
    for (int h = 0; h < heads; h++) add_head(s, m, l, h);
  for (int l = 0; l < blocks; l++) add_experts(s, m, l);
  host_spectra_init(&s->room, w);
  s->leading = arena_get(w->arena, (size_t)s->room.workers, sizeof *s->leading);
  for (int i = 0; i < s->room.workers; i++)
    s->leading[i] =
      arena_get(w->arena, SPECTRA_LANES / 2 * (size_t)(s->room.longer + s->room.shorter), sizeof(double));
}

static void release(struct observer *w) { host_spectra_free(&((struct spectra_state *)w->state)->room); }

/* --- rows ----------------------------------------------------------------------------------------------- */

static void store(struct observation *rows, enum object object, long place, const struct spectrum *x)
{
  for (int i = 0; i < SPECTRUM_FIELDS; i++)
    rows->row[object * SPECTRUM_FIELDS + i].value[place] = (float)spectrum_number(x, i);
}

/* u^T (-update) v: the update is subtracted. */
static double align(const struct tensor *update, const real *values, const double *u, const double *v)
{
  double sum = 0;
  for (long i = 0; i < update->rows; i++) {
    const real *row = values + i * update->ld;
    double dot = 0;
    for (long j = 0; j < update->cols; j++) dot += (double)row[j] * v[j];
    sum -= u[i] * dot;
  }
  return sum;
}

/* Set up the decomposition of a job. Returns 0 if there is nothing to do, because there was no update. */
static int prepare(const struct observer *w, const struct spectrum_job *j, struct spectra_job *out)
{
  const struct observation *rows = ((const struct spectra_state *)w->state)->rows;
  const struct tensor *t = &j->param->value;
  const real *from = j->object == UPDATE ? rows->update_values : rows->weights;
  if (!from) return 0;
  *out = (struct spectra_job){
    .w = in_copy(w, from, t) + j->row * t->ld, .rows = j->rows, .cols = t->cols, .ld = t->ld};
  if (j->object != HEAD_FORM) return 1;
  const struct tensor *k = &j->other->value;
  out->b = in_copy(w, from, k) + j->other_row * k->ld;
  out->ldb = k->ld;
  return 1;
}

/* The spectra of a few matrices; a weight and its update are in the same call. */
static int some(const struct observer *w, long i, int worker, struct error *e)
{
  const struct spectra_state *s = w->state;
  const struct spectrum_job *job = &s->job[i * SPECTRA_LANES], *of[SPECTRA_LANES];
  struct spectra_job work[SPECTRA_LANES];
  double *leading = s->leading[worker];
  long left = s->jobs - i * SPECTRA_LANES, count = 0;
  for (long k = 0; k < left && k < SPECTRA_LANES; k++) {
    if (!prepare(w, &job[k], &work[count])) continue;
    if (job[k].object == WEIGHT && s->rows->update_values) {
      work[count].u1 = leading, work[count].v1 = leading + job[k].rows;
      leading += job[k].rows + work[count].cols;
    }
    of[count++] = &job[k];
  }
  if (spectra_of(s->room.work[worker], work, count, e))
    return error_prefix(e, "spectrum of %s", of[0]->param->name), e->status;
  for (long k = 0; k < count; k++) {
    store(s->rows, of[k]->object, of[k]->place, &work[k].spectrum);
    if (of[k]->object == UPDATE)
      s->rows->row[ALIGNMENT].value[of[k]->place] =
        (float)align(&of[k]->param->value, work[k].w, work[k - 1].u1, work[k - 1].v1);
  }
  return STATUS_OK;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  struct spectra_state *s = w->state;
  s->rows = rows;
  return host_spectra_each(w, (s->jobs + SPECTRA_LANES - 1) / SPECTRA_LANES, some, e);
}

const struct observable observable_spectra = {
  .name = "spectra",
  .help = "norms, entropy and ranks of weights, updates, heads and experts, with record.spectra_every",
  .flags = OBSERVABLE_DEFAULT,
  .make = make,
  .state_size = sizeof(struct spectra_state),
  .wanted = wanted,
  .declare = declare,
  .read = read,
  .free = release,
};
