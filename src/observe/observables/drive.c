/* drive.c - change of the leading singular value of each head's bilinear form by the step's update
   With M = w_q^T w_k = sum sigma u v^T and the updates D (weights lose rate D), M changes to first order by
     dM = -rate (D_q^T w_k + w_q^T D_k),
   and sigma_1 by u1^T dM v1: the norm of dM times its alignment. */
#include <math.h>

#include "base/memory.h"
#include "observe/host_spectra.h"

enum { GAIN, NORM, ALIGNMENT };
static const struct series series[] = {
  [GAIN] = {"drive/gain", PER_HEAD, AXIS_SPECTRA, "1", "what the update adds to sigma_1 of w_q^T w_k",
            "u1^T dM v1 with the leading singular pair of the head's form M = w_q^T w_k (content parts for "
            "mla), dM its "
            "change by the step's update to first order, learning rate included; decay, the tensors' own "
            "rates and what "
            "stabilizers do afterwards apart. NaN after the last update"},
  [NORM] = {"drive/norm", PER_HEAD, AXIS_SPECTRA, "1", "norm of the update of w_q^T w_k",
            "Frobenius norm of dM of drive/gain"},
  [ALIGNMENT] = {"drive/alignment", PER_HEAD, AXIS_SPECTRA, "1", "alignment of the update of w_q^T w_k",
                 "drive/gain over drive/norm: the cosine between dM and u1 v1^T"},
  {0}};

/* The head's rows of queries and keys, both [rows, width]. */
struct drive_head {
  struct logit_block q, k;
};

struct drive {
  struct host_spectra room;
  struct drive_head *head; /* [L*H]; weight NULL where the two have no form */
  double **work;           /* [workers] */
  struct observation *reading;
};

static void find_head(const struct model *m, int layer, int head, struct drive_head *out)
{
  if (!head_factors(m, layer, head, &out->q, &out->k) ||
      out->q.weight->value.cols != out->k.weight->value.cols)
    out->q.weight = out->k.weight = NULL;
}

static void declare(struct observer *w)
{
  struct drive *s = w->state;
  const struct model *m = w->model;
  long heads = m->options.heads, count = model_blocks(&m->options) * heads;
  s->head = arena_get(w->arena, (size_t)count, sizeof *s->head);
  for (long i = 0; i < count; i++) find_head(m, (int)(i / heads), (int)(i % heads), &s->head[i]);
  host_spectra_init(&s->room, w);
  s->work = arena_get(w->arena, (size_t)s->room.workers, sizeof *s->work);
  for (int i = 0; i < s->room.workers; i++)
    s->work[i] = arena_get(w->arena, 2 * (size_t)s->room.longer, sizeof(double)); /* u1 | v1 */
}

static void release(struct observer *w) { host_spectra_free(&((struct drive *)w->state)->room); }

static double dot(const real *x, const real *y, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
  return sum;
}

static double along(const real *x, const double *y, long n)
{
  double sum = 0;
  for (long i = 0; i < n; i++) sum += (double)x[i] * y[i];
  return sum;
}

/* |p^T b + a^T q|_F^2 for rows p, a, q, b [rows, d], by products of their rows alone. */
static double square_of(const real *p, const real *b, const real *a, const real *q, long rows, long d)
{
  double sum = 0;
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < rows; j++)
      sum += dot(p + i * d, p + j * d, d) * dot(b + i * d, b + j * d, d) +
             dot(a + i * d, a + j * d, d) * dot(q + i * d, q + j * d, d) +
             2 * dot(p + i * d, a + j * d, d) * dot(b + i * d, q + j * d, d);
  return sum;
}

static int one(const struct observer *w, long i, int worker, struct error *e)
{
  const struct drive *s = w->state;
  struct observation *r = s->reading;
  const struct drive_head *h = &s->head[i];
  if (!h->q.weight) return STATUS_OK;
  const struct tensor *q = &h->q.weight->value, *k = &h->k.weight->value;
  long d = q->cols, rows = h->q.rows, from_q = h->q.row * q->ld, from_k = h->k.row * k->ld;
  const real *wq = in_copy(w, r->weights, q) + from_q, *wk = in_copy(w, r->weights, k) + from_k;
  const real *dq = in_copy(w, r->update_values, q) + from_q, *dk = in_copy(w, r->update_values, k) + from_k;
  double *u = s->work[worker], *v = u + d, sigma, gain = 0;
  if (leading_of_form(s->room.work[worker], wq, q->ld, wk, k->ld, rows, d, &sigma, u, v, e))
    return error_prefix(e, "drive of a head"), e->status;
  for (long j = 0; j < rows; j++)
    gain -=
      along(dq + j * d, u, d) * along(wk + j * d, v, d) + along(wq + j * d, u, d) * along(dk + j * d, v, d);
  double norm = sqrt(square_of(dq, wk, wq, dk, rows, d)) * r->now.rate;
  gain *= r->now.rate;
  r->row[GAIN].value[i] = (float)gain;
  r->row[NORM].value[i] = (float)norm;
  r->row[ALIGNMENT].value[i] = (float)(gain / norm);
  return STATUS_OK;
}

static int read(struct observer *w, struct observation *r, struct error *e)
{
  struct drive *s = w->state;
  s->reading = r;
  return r->update_values ? host_spectra_each(w, w->tally->stats->rows, one, e) : STATUS_OK;
}

const struct observable observable_drive = {
  .name = "drive",
  .help = "change of the leading singular value of each head's w_q^T w_k by an update; by name only",
  .series = series,
  .state_size = sizeof(struct drive),
  .declare = declare,
  .read = read,
  .free = release,
};
