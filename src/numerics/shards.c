#include "numerics/shards.h"
#include <stdint.h>
#include <string.h>
#include "base/memory.h"
#include "base/pages.h"

struct shards *shards_new(const struct comm *c)
{
  struct shards *s = memory_new(1, sizeof *s);
  s->comm = c;
  return s;
}

static size_t reserved(const struct shards *s) { return (size_t)s->total * sizeof(real); }

void shards_free(struct device *d, struct shards *s)
{
  if (!s) return;
  for (int row = 0; row < SHARD_ROWS; row++) {
    if (!s->comm) continue; /* the row has another owner */
    if (s->place[row]) pages_release(s->place[row], reserved(s));
    tensor_free(d, s->held[row]);
  }
  if (!s->comm) tensor_free(d, s->held[SHARD_VALUES]);
  memory_free(s->piece);
  memory_free(s->parcel);
  memory_free(s->group);
  memory_free(s);
}

void shards_add(struct shards *s, long from, long n, int owner, long at)
{
  REQUIRE(!s->count || from >= s->piece[s->count - 1].from + s->piece[s->count - 1].n);
  if (s->count == s->room) {
    int wider = s->room ? 2 * s->room : 16;
    s->piece = memory_grow(s->piece, (size_t)s->room, (size_t)wider, sizeof *s->piece);
    s->parcel = memory_grow(s->parcel, 2 * (size_t)s->room, 2 * (size_t)wider, sizeof *s->parcel);
    s->room = wider;
  }
  s->piece[s->count++] = (struct shard){from, n, owner, at};
  if (owner == s->comm->rank && at + n > s->own) s->own = at + n;
}

void shards_group(struct shards *s, long at)
{
  if (s->groups == s->group_room) {
    int wider = s->group_room ? 2 * s->group_room : 16;
    s->group = memory_grow(s->group, (size_t)s->group_room, (size_t)wider, sizeof *s->group);
    s->group_room = wider;
  }
  s->group[s->groups++] = at;
}

long shards_end(const struct shards *s, int g) { return g + 1 < s->groups ? s->group[g + 1] : s->total; }

void shards_reserve(struct shards *s, long total)
{
  s->total = total;
  for (int row = 0; row < SHARD_ROWS; row++) {
    s->place[row] = pages_reserve(reserved(s));
    if (!s->place[row]) BUG("no addresses for %zu bytes", reserved(s));
  }
}

void shards_hold(struct device *d, struct shards *s)
{
  static const char *const names[] = {[SHARD_VALUES] = "own values", [SHARD_GRADS] = "own gradients"};
  for (int row = 0; row < SHARD_ROWS; row++)
    s->held[row] = tensor_new(d, TENSOR_REAL, 1, s->own ? s->own : 1, names[row]);
}

/* --- ranges --------------------------------------------------------------------------------------------------- */

/* The part of a piece within [from, from + n): numbers [begin, end) of the row. */
static int meets(const struct shard *x, long from, long n, long *begin, long *end)
{
  *begin = x->from > from ? x->from : from;
  *end = x->from + x->n < from + n ? x->from + x->n : from + n;
  return *begin < *end;
}

/* The parcels of all pieces whose owners match `like` in the bits of `mask`. Adjacent pieces form one message;
   otherwise there would be one per piece. */
static int parcels_of(const struct shards *s, long from, long n, int mask, int like, int partner, real *whole,
                      struct parcel *out)
{
  int count = 0;
  long begin, end, last = -1;
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++)
    if ((x->owner & mask) == (like & mask) && meets(x, from, n, &begin, &end)) {
      const size_t bytes = (size_t)(end - begin) * sizeof *whole;
      if (begin == last)
        out[count - 1].bytes += bytes;
      else
        out[count++] = (struct parcel){partner, whole + (begin - from), bytes};
      last = end;
    }
  return count;
}

void shards_take(const struct shards *s, long from, long n, const real *own, real *whole)
{
  long begin, end;
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++)
    if (x->owner == s->comm->rank && meets(x, from, n, &begin, &end))
      memcpy(whole + (begin - from), own + x->at + (begin - x->from), (size_t)(end - begin) * sizeof *own);
}

void shards_put(const struct shards *s, long from, long n, real *own, const real *whole)
{
  long begin, end;
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++)
    if (x->owner == s->comm->rank && meets(x, from, n, &begin, &end))
      memcpy(own + x->at + (begin - x->from), whole + (begin - from), (size_t)(end - begin) * sizeof *own);
}

int shards_owner(const struct shards *s, long from, long n, long *at)
{
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++)
    if (x->from <= from && from + n <= x->from + x->n) {
      *at = x->at + (from - x->from);
      return x->owner;
    }
  return -1;
}

/* --- between ranks ---------------------------------------------------------------------------------------------- */

/* The sizes of groups double each round: each group exchanges its numbers with its partner. */
void shards_gather(const struct shards *s, long from, long n, real *whole)
{
  const struct comm *c = s->comm;
  for (int size = 1; size < c->ranks; size *= 2) {
    const int partner = c->rank ^ size, group = c->ranks - size; /* bits above those of the group's members */
    int outs = parcels_of(s, from, n, group, c->rank, partner, whole, s->parcel);
    struct parcel *in = s->parcel + outs;
    comm_transfer(c, s->parcel, outs, in, parcels_of(s, from, n, group, partner, partner, whole, in));
  }
}

/* Recursive halving: in round k, ranks whose numbers differ in bit k exchange halves. `whole`, where this rank owns
   it, becomes the sum over the ranks by the balanced tree of their order; each rank sends (R-1)/R of it. work [n] */
static void sum_parts(const struct shards *s, long from, long n, real *whole, real *work)
{
  const struct comm *c = s->comm;
  for (int bit = 1; bit < c->ranks; bit *= 2) {
    const int partner = c->rank ^ bit, met = 2 * bit - 1;
    int outs = parcels_of(s, from, n, met, partner, partner, whole, s->parcel);
    struct parcel *in = s->parcel + outs;
    const int ins = parcels_of(s, from, n, met, c->rank, partner, work, in);
    comm_transfer(c, s->parcel, outs, in, ins);
    for (int i = 0; i < ins; i++) {
      const real *x = in[i].data;
      real *y = whole + (x - work);
      for (size_t k = 0; k < in[i].bytes / sizeof *x; k++) y[k] = y[k] + x[k];
    }
  }
}

void shards_to_first(const struct shards *s, const real *own, real *whole)
{
  const struct comm *c = s->comm;
  int count = 0;
  if (!c->rank) {
    memset(whole, 0, reserved(s));
    shards_take(s, 0, s->total, own, whole);
  }
  for (const struct shard *x = s->piece; x < s->piece + s->count; x++) {
    void *from = (void *)(uintptr_t)(own + x->at);
    if (x->owner && !c->rank)
      s->parcel[count++] = (struct parcel){x->owner, whole + x->from, (size_t)x->n * sizeof *own};
    else if (x->owner && x->owner == c->rank)
      s->parcel[count++] = (struct parcel){0, from, (size_t)x->n * sizeof *own};
  }
  comm_transfer(c, s->parcel, c->rank ? count : 0, s->parcel, c->rank ? 0 : count);
}

/* --- the operations ----------------------------------------------------------------------------------------------- */

static void shared_all_gather(struct device *d, const struct all_gather_args *x)
{
  shards_take(d->shards, x->from, x->y->cols, REALS(x->x), REALS(x->y));
  shards_gather(d->shards, x->from, x->y->cols, REALS(x->y));
}

static void shared_reduce_scatter(struct device *d, const struct reduce_scatter_args *x)
{
  const long n = x->x->cols;
  sum_parts(d->shards, x->from, n, REALS(x->x), device_scratch(d, (size_t)n * sizeof(real)));
  shards_put(d->shards, x->from, n, REALS(x->y), REALS(x->x));
}

static size_t reduce_scatter_scratch(const struct device *d, const void *args)
{
  (void)d;
  return (size_t)((const struct reduce_scatter_args *)args)->x->cols * sizeof(real);
}

void device_set_shards(struct device *d, struct shards *s)
{
  REQUIRE(!d->stream);
  d->shards = s;
  d->ops.all_gather = shared_all_gather;
  d->ops.reduce_scatter = shared_reduce_scatter;
  d->ops.scratch[OP_reduce_scatter] = reduce_scatter_scratch;
}
