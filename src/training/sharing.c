/* sharing.c - optimizer states, or weights with their gradients and states, sharded over ranks
   Elementwise states are cut into equal pieces anywhere, even within a head. An optimizer of whole matrices has each
   matrix on one rank, balanced by cost, which receives its whole gradient (as in Moonlight, arXiv 2502.16982 alg. 1).
   Each rank computes the updates of its own pieces. If only states are sharded, the updates are then gathered;
   sharded weights stay with their updates (ZeRO, arXiv 1910.02054 sec. 5). The bits are those of a single rank. */
#include <math.h>
#include <string.h>
#include "comm/comm.h"
#include "model/model.h"
#include "training/updates_parts.h"

/* --- ownership ----------------------------------------------------------------------------------------------- */

/* Approximate cost of orthogonalizing a parameter. */
static double cost_of(const struct param *p)
{
  double rows = (double)param_block_rows(p), cols = (double)p->value.cols;
  return (double)(p->value.rows * p->value.cols) * (rows < cols ? rows : cols);
}

/* The most expensive first, each to the rank with the least load so far. */
static void owners_of(const struct updates *u, int first, int count, int *owner)
{
  double *load = memory_new((size_t)u->shards->comm->ranks, sizeof *load);
  for (int i = 0; i < count; i++) owner[i] = -1;
  for (int n = 0; n < count; n++) {
    int most = -1, least = 0;
    for (int i = 0; i < count; i++)
      if (owner[i] < 0 && (most < 0 || cost_of(u->params[first + i]) > cost_of(u->params[first + most])))
        most = i;
    for (int r = 1; r < u->shards->comm->ranks; r++)
      if (load[r] < load[least]) least = r;
    owner[most] = least;
    load[least] += cost_of(u->params[first + most]);
  }
  memory_free(load);
}

static void add_piece(struct updates *u, long from, long n, int owner, long *at)
{
  enum { ALIGNMENT = 16 }; /* as parameters are */
  if (n <= 0) return;
  shards_add(u->shards, from, n, owner, u->owns_shards ? from : at[owner]);
  at[owner] += (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void sharing_divide(struct updates *u, int first, int count)
{
  struct shards *s = u->shards;
  const struct param *last = u->params[first + count - 1];
  const struct optimizer *o = u->rules[first].optimizer;
  long from = u->params[first]->place, n = last->place + last->value.rows * last->value.cols - from;
  const int ranks = s->comm->ranks;
  if (!u->used) u->used = arena_get(u->arena, (size_t)ranks, sizeof *u->used);
  if (o->elementwise || !o->record) {
    for (int r = 0; r < ranks; r++)
      add_piece(u, from + n * r / ranks, n * (r + 1) / ranks - n * r / ranks, r, u->used);
    return;
  }
  int *owner = memory_new((size_t)count, sizeof *owner);
  owners_of(u, first, count, owner);
  for (int i = 0, k; i < count; i += k) {
    for (k = 1; i + k < count && owner[i + k] == owner[i]; k++) {}
    const struct param *end = u->params[first + i + k - 1];
    from = u->params[first + i]->place;
    add_piece(u, from, end->place + end->value.rows * end->value.cols - from, owner[i], u->used);
  }
  memory_free(owner);
}

/* --- updates ------------------------------------------------------------------------------------------------ */

/* Memory that the host cannot access is copied through the host. */
void sharing_collect(struct device *d, void *context)
{
  const struct updates *u = *(struct updates **)context;
  size_t bytes = (size_t)u->all->cols * sizeof(real);
  real *base = d->stream ? memory_new(bytes, 1) : REALS(u->all);
  if (d->stream) d->download(d, base, u->all->data, bytes);
  if (d->enter) d->enter(d);
  shards_gather(u->shards, 0, u->all->cols, base);
  if (d->leave) d->leave(d);
  if (!d->stream) return;
  d->upload(d, u->all->data, base, bytes);
  memory_free(base);
}

/* --- the gradient's norm ------------------------------------------------------------------------------------------ */

/* `norm` sums squares over pieces of a fixed length. Each owner computes its own pieces; a piece with several owners,
   or with gaps, is gathered. */
void sharing_norm(struct device *d, void *context)
{
  const struct updates *u = *(struct updates **)context;
  const struct shards *s = u->shards;
  const real *own = REALS(&u->model->params.grads);
  const long length = d->ops.squared, pieces = (s->total + length - 1) / length;
  double *sum = memory_new((size_t)pieces, sizeof *sum), all = 0;
  real *room = memory_new((size_t)length, sizeof *room), norm;
  long at;
  memset(sum, 0, (size_t)pieces * sizeof *sum);
  for (int shared = 0; shared < 2; shared++) {
    for (long i = 0; i < pieces; i++) {
      const long from = i * length, n = from + length < s->total ? length : s->total - from;
      const int owner = shards_owner(s, from, n, &at);
      if (!shared && owner == s->comm->rank) sum[i] = d->ops.squares(own + at, n);
      if (!shared || owner >= 0) continue;
      memset(room, 0, (size_t)n * sizeof *room);
      shards_take(s, from, n, own, room);
      shards_gather(s, from, n, room);
      sum[i] = d->ops.squares(room, n);
    }
    if (!shared) sharing_join(u, sum, (size_t)pieces * sizeof *sum);
  }
  for (long i = 0; i < pieces; i++) all += sum[i];
  norm = (real)sqrt(all);
  d->upload(d, u->grad_norm->data, &norm, sizeof norm);
  memory_free(sum);
  memory_free(room);
}

/* --- states ------------------------------------------------------------------------------------------------------ */

/* Each rank has zeros outside its own bytes, so a bitwise or yields the whole. */
void sharing_join(const struct updates *u, void *host, size_t bytes)
{
  const struct comm *c = u->shards->comm;
  unsigned char *own = host, *other = memory_new(bytes, 1);
  for (int size = 1; size < c->ranks; size *= 2) {
    comm_transfer(c, &(struct parcel){c->rank ^ size, own, bytes}, 1,
                  &(struct parcel){c->rank ^ size, other, bytes}, 1);
    for (size_t i = 0; i < bytes; i++) own[i] |= other[i];
  }
  memory_free(other);
}
