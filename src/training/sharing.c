/* sharing.c - states of optimisers shared out among ranks, each of which makes the directions of its own
   What goes element by element is cut into equal pieces anywhere, in the midst of a head, too; what takes whole
   matrices has each on one rank, by cost, which sees its gradient whole (as in Moonlight, arXiv 2502.16982 alg. 1).
   Directions are then collected: the bits are those of one rank that has all. */
#include <string.h>
#include "comm/comm.h"
#include "training/updates_parts.h"

/* --- whose is what ------------------------------------------------------------------------------------------- */

/* Orthogonalising costs about so much. */
static double cost_of(const struct param *p)
{
  double rows = (double)param_block_rows(p), cols = (double)p->value.cols;
  return (double)(p->value.rows * p->value.cols) * (rows < cols ? rows : cols);
}

/* The costliest first, each to the rank that has least so far. */
void sharing_owners(const struct updates *u, int first, int count, int *owner)
{
  double *load = memory_new((size_t)u->rule.ranks->ranks, sizeof *load);
  for (int i = 0; i < count; i++) owner[i] = -1;
  for (int n = 0; n < count; n++) {
    int most = -1, least = 0;
    for (int i = 0; i < count; i++)
      if (owner[i] < 0 && (most < 0 || cost_of(u->params[first + i]) > cost_of(u->params[first + most])))
        most = i;
    for (int r = 1; r < u->rule.ranks->ranks; r++)
      if (load[r] < load[least]) least = r;
    owner[most] = least;
    load[least] += cost_of(u->params[first + most]);
  }
  memory_free(load);
}

/* --- directions ------------------------------------------------------------------------------------------------ */

/* The pieces of `size` ranks from `first` on, in memory that lies as directions do. */
static int parcels_of(const struct updates *u, int first, int size, int partner, real *base,
                      struct parcel *out)
{
  int n = 0;
  for (int i = 0; i < u->piece_count; i++) {
    const struct piece *x = &u->pieces[i];
    if (x->owner >= first && x->owner < first + size)
      out[n++] = (struct parcel){partner, base + x->from, (size_t)x->n * sizeof *base};
  }
  return n;
}

/* In rounds of doubling groups of ranks: (R-1)/R of all from each rank, the least. */
static void collect(const struct updates *u, real *base)
{
  const struct comm *c = u->rule.ranks;
  struct parcel *out = memory_new(2 * (size_t)u->piece_count + 1, sizeof *out), *in = out + u->piece_count;
  for (int size = 1; size < c->ranks; size *= 2) {
    int own = c->rank / size * size, partner = c->rank ^ size;
    int outs = parcels_of(u, own, size, partner, base, out),
        ins = parcels_of(u, own ^ size, size, partner, base, in);
    comm_transfer(c, out, outs, in, ins);
  }
  memory_free(out);
}

/* Memory that the host cannot reach is carried by it. */
void sharing_collect(struct device *d, void *context)
{
  const struct updates *u = *(struct updates **)context;
  size_t bytes = (size_t)u->all->cols * sizeof(real);
  real *base = d->stream ? memory_new(bytes, 1) : REALS(u->all);
  if (d->stream) d->download(d, base, u->all->data, bytes);
  if (d->enter) d->enter(d);
  collect(u, base);
  if (d->leave) d->leave(d);
  if (!d->stream) return;
  d->upload(d, u->all->data, base, bytes);
  memory_free(base);
}

/* --- states ------------------------------------------------------------------------------------------------------ */

/* Where nobody else's bytes are, zeros: joined by or they are the whole. */
void sharing_join(const struct updates *u, real *host, long n)
{
  const struct comm *c = u->rule.ranks;
  size_t bytes = (size_t)n * sizeof *host;
  unsigned char *own = (unsigned char *)host, *other = memory_new(bytes, 1);
  for (int size = 1; size < c->ranks; size *= 2) {
    comm_transfer(c, &(struct parcel){c->rank ^ size, own, bytes}, 1,
                  &(struct parcel){c->rank ^ size, other, bytes}, 1);
    for (size_t i = 0; i < bytes; i++) own[i] |= other[i];
  }
  memory_free(other);
}
