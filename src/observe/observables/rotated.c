/* rotated.c - the norm of each head's bilinear form as RoPE rotates it
   The logit of tokens x and y at distance d is scale x^T w_q^T R(-d) w_k y. The largest singular value of
   w_q^T R(-d) w_k over all d bounds it; that of d = 0 alone does not. */
#include "base/memory.h"
#include "observe/host_spectra.h"

static const struct series series[] = {
  {"head_qk/rotated_norm", PER_HEAD, AXIS_SPECTRA, "1", "largest spectral norm of the rotated w_q^T w_k",
   "largest singular value of w_q^T R w_k over the rotations R by RoPE for all distances of a query and a "
   "key that "
   "the layer's mask allows in the context; distance 0 is head_qk/spectral_norm. If gains are 1 and no "
   "stabilizer "
   "changes queries, keys or scores, no |logit| exceeds it times scale times model.width. Not for mla, where "
   "this form does not rotate",
   EVENT_NONE},
  {0}};

struct rotated_forms {
  struct host_spectra room;
  double *turn[2]; /* [head_dim]: cosines | sines of one position, to earlier and to later keys */
  struct observation *rows;
};

static int wanted(const struct observer *w, int i)
{
  struct logit_block all[MAX_LOGIT_BLOCKS];
  (void)i;
  for (int k = w->model->attention->logit_blocks(w->model, 0, 0, all) - 1; k >= 0; k--)
    if (role_is_rotary(all[k].role)) return 0;
  return 1;
}

static void declare(struct observer *w)
{
  struct rotated_forms *s = w->state;
  const struct model_options *o = &w->model->options;
  const long half = o->head_dim / 2;
  for (int later = 0; later < 2; later++) {
    double *turn = s->turn[later] = arena_get(w->arena, (size_t)o->head_dim, sizeof *turn);
    for (long i = 0; i < half; i++) model_rope_turn(o, later ? 1 : -1, i, half, &turn[i], &turn[half + i]);
  }
  host_spectra_init(&s->room, w);
}

static void release(struct observer *w) { host_spectra_free(&((struct rotated_forms *)w->state)->room); }

static int one(const struct observer *w, long i, int worker, struct error *e)
{
  const struct rotated_forms *s = w->state;
  const struct model_options *o = &w->model->options;
  const int layer = (int)(i / o->heads);
  struct logit_block q, k;
  double norm[2] = {0};
  head_factors(w->model, layer, (int)(i % o->heads), &q, &k);
  const struct tensor *wq = &q.weight->value, *wk = &k.weight->value;
  const real *a = in_copy(w, s->rows->weights, wq) + q.row * wq->ld,
             *b = in_copy(w, s->rows->weights, wk) + k.row * wk->ld;
  for (int later = 0; later < 2; later++)
    if (largest_of_turned_forms(s->room.work[worker], a, wq->ld, b, wk->ld, q.rows, wq->cols, s->turn[later],
                                model_distances(o, layer, later), &norm[later], e))
      return error_prefix(e, "rotated form of a head"), e->status;
  s->rows->row[0].value[i] = (float)(norm[1] > norm[0] ? norm[1] : norm[0]);
  return STATUS_OK;
}

static int read(struct observer *w, struct observation *rows, struct error *e)
{
  ((struct rotated_forms *)w->state)->rows = rows;
  return host_spectra_each(w, w->tally->stats->rows, one, e);
}

const struct observable observable_rotated = {
  .name = "rotated",
  .help = "norm of each head's w_q^T w_k over all rotations by RoPE, with record.spectra_every; by name only",
  .series = series,
  .state_size = sizeof(struct rotated_forms),
  .wanted = wanted,
  .declare = declare,
  .read = read,
  .free = release,
};
