/* sums.c - sums over ranks, blocking or in the background
   All ranks get the bits of one balanced tree of the ranks in their order. For a power of two of ranks, by halving:
   in round k a rank and its partner, which differs in bit k, each add half of their remaining numbers to the other's;
   then the pieces return the same way. Each rank sends 2 n (R-1)/R numbers, the minimum (Rabenseifner 2004). Few
   numbers are sent in log2 R messages of all instead. Addition commutes: it does not matter which rank adds. */
#include "numerics/sums.h"
#include <string.h>
#include "base/memory.h"
#include "comm/transfer.h"

enum { FEW = 1024 }; /* numbers that are not worth two messages per round */

static void add_double(real *y, const real *x, long n)
{
  for (long i = 0; i < n; i++) y[i] = y[i] + x[i];
}

static long place(long n, int piece, int ranks) { return n * piece / ranks; }

/* A sum in progress. This rank and its partners so far still sum pieces [lo, hi), in rounds of doubling distances;
   then the pieces return. Data received into work is added when its message is complete. */
struct sum {
  const struct comm *comm;
  real *y, *work, *to;
  long n, adds;
  int channel, lo, hi, distance, back, awaited;
  struct transfer message; /* handle NULL: all are done */
  struct sum *next;
};

static void exchange(struct sum *s, long from, long end, real *receive, long receives)
{
  const int partner = s->comm->rank ^ s->distance;
  s->message = comm_begin(
    s->comm, s->channel, &(struct parcel){partner, s->y + from, (size_t)(end - from) * sizeof(real)},
    end > from, &(struct parcel){partner, receive, (size_t)receives * sizeof(real)}, receives > 0);
}

static void exchange_to_add(struct sum *s, long from, long end, long to, long adds)
{
  exchange(s, from, end, s->work, adds);
  s->to = s->y + to, s->adds = adds;
  s->distance *= 2;
}

/* The previous message is complete; the next begins, if there is one. */
static void go_on(struct sum *s)
{
  const int ranks = s->comm->ranks;
  add_double(s->to, s->work, s->adds);
  s->adds = 0;
  if (s->n <= FEW) {
    if (s->distance < ranks) exchange_to_add(s, 0, s->n, 0, s->n);
    return;
  }
  const long from = place(s->n, s->lo, ranks), to = place(s->n, s->hi, ranks);
  if (!s->back && s->distance < ranks) {
    const int mid = (s->lo + s->hi) / 2;
    const long at = place(s->n, mid, ranks);
    if (s->comm->rank & s->distance)
      s->lo = mid, exchange_to_add(s, from, at, at, to - at);
    else
      s->hi = mid, exchange_to_add(s, at, to, from, at - from);
    return;
  }
  s->back = 1;
  if (!(s->distance /= 2)) return;
  const int size = s->hi - s->lo, upper = (s->comm->rank & s->distance) != 0;
  const int other = upper ? s->lo - size : s->hi;
  const long there = place(s->n, other, ranks);
  exchange(s, from, to, s->y + there, place(s->n, other + size, ranks) - there);
  if (upper)
    s->lo = other;
  else
    s->hi = other + size;
}

static struct sum sum_begun(const struct comm *c, int channel, real *y, long n, real *work)
{
  struct sum s = {c, y, work, y, n, 0, channel, 0, c->ranks, 1, 0, 0, {0}, NULL};
  go_on(&s);
  return s;
}

static void next_message(struct sum *s)
{
  comm_await(&s->message);
  s->awaited++;
  go_on(s);
}

/* --- any number of ranks ---------------------------------------------------------------------------------------- */

/* A balanced tree: after each round, partial sums are those of twice as many ranks. all [ranks, n] is overwritten. */
static void sum_of_all(const struct comm *c, real *y, long n, real *all)
{
  comm_gather(c, y, all, (size_t)n * sizeof *y);
  for (int width = 1; width < c->ranks; width *= 2)
    for (int r = 0; r + width < c->ranks; r += 2 * width) add_double(all + r * n, all + (r + width) * n, n);
  memcpy(y, all, (size_t)n * sizeof *y);
}

void sums_at_once(const struct comm *c, real *y, long n, real *work)
{
  if (c->ranks & (c->ranks - 1)) {
    sum_of_all(c, y, n, work);
    return;
  }
  struct sum s = sum_begun(c, 0, y, n, work);
  while (s.message.handle) next_message(&s);
}

/* --- sums in the background ------------------------------------------------------------------------------------- */

void sums_begin(struct device *d, void *context)
{
  const struct sum_beginning *x = context;
  struct sum *s = memory_new(1, sizeof *s), **end = &d->sums;
  int channel = 1; /* by their order, which all ranks share */
  for (; *end; end = &(*end)->next) channel++;
  if (channel > COMM_CHANNELS) { /* no channel is left: earlier sums end first, on all ranks */
    sums_end(d, NULL);
    end = &d->sums, channel = 1;
  }
  if (d->enter) d->enter(d);
  *s = sum_begun(d->ranks[x->axis], channel, REALS(x->y), x->y->rows * x->y->cols, REALS(x->work));
  if (d->leave) d->leave(d);
  *end = s;
}

void sums_go_on(struct device *d)
{
  if (!d->sums) return;
  if (d->enter) d->enter(d);
  for (struct sum *s = d->sums; s; s = s->next)
    while (s->message.handle && comm_is_done(&s->message)) next_message(s);
  if (d->leave) d->leave(d);
}

/* Await one message of each sum per turn, unless the sum is ahead. A rank that waits for the k-th message of a sum
   has received k of each sum; its sender has not. So ranks cannot wait in a circle. */
void sums_end(struct device *d, void *context)
{
  (void)context;
  if (d->enter) d->enter(d);
  for (int turn = 0; d->sums; turn++)
    for (struct sum **at = &d->sums, *s; (s = *at);) {
      if (s->message.handle) {
        if (s->awaited <= turn) next_message(s);
        at = &s->next;
      } else {
        *at = s->next;
        memory_free(s);
      }
    }
  if (d->leave) d->leave(d);
}

/* --- early sums ------------------------------------------------------------------------------------------------ */

void device_set_early(struct device *d, struct shards *s)
{
  REQUIRE(!d->stream && !d->shards);
  d->early = s;
}

/* Below this size, latency dominates the cost of a group's messages. */
int early_is_large(const struct shards *s, int g) { return shards_end(s, g) - s->group[g] >= 1 << 16; }
