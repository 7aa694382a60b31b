/* ranks.c - sums, maxima and rings over ranks, and who records them
   Sums: all ranks hold the bits of one balanced tree of the ranks in their order. Of a power of two, by halves: in
   round k a rank and the one whose number differs in bit k each add half of what they still have to the other's;
   then the pieces come back the same way: 2 n (R-1)/R numbers sent by each, which is the least (Rabenseifner 2004); a
   few numbers rather in log2 R messages of all. An addition commutes: it does not matter who makes it. */
#include "numerics/ranks.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/memory.h"

enum { FEW = 1024 }; /* numbers that are not worth two messages a round */

static int is_power(int n) { return (n & (n - 1)) == 0; }

static void swap(const struct comm *c, int partner, const real *send, long sends, real *receive,
                 long receives)
{
  comm_transfer(c, &(struct parcel){partner, (void *)(uintptr_t)send, (size_t)sends * sizeof *send},
                sends > 0, &(struct parcel){partner, receive, (size_t)receives * sizeof *receive},
                receives > 0);
}

static void add(real *y, const real *x, long n)
{
  for (long i = 0; i < n; i++) y[i] = y[i] + x[i];
}

/* --- of a power of two ------------------------------------------------------------------------------------------ */

static long place(long n, int piece, int ranks) { return n * piece / ranks; }

static void sum_few(const struct comm *c, real *y, long n, real *work)
{
  for (int d = 1; d < c->ranks; d *= 2) {
    swap(c, c->rank ^ d, y, n, work, n);
    add(y, work, n);
  }
}

/* Pieces [lo, hi) are those that this rank and the ones it has met still add up. */
static void sum_by_halves(const struct comm *c, real *y, long n, real *work)
{
  int lo = 0, hi = c->ranks, d = 1;
  for (; d < c->ranks; d *= 2) {
    int mid = (lo + hi) / 2, upper = (c->rank & d) != 0;
    long from = place(n, lo, c->ranks), at = place(n, mid, c->ranks), to = place(n, hi, c->ranks);
    if (upper)
      swap(c, c->rank ^ d, y + from, at - from, work, to - at), add(y + at, work, to - at), lo = mid;
    else
      swap(c, c->rank ^ d, y + at, to - at, work, at - from), add(y + from, work, at - from), hi = mid;
  }
  for (d /= 2; d; d /= 2) {
    int size = hi - lo, upper = (c->rank & d) != 0, other = upper ? lo - size : hi;
    long from = place(n, lo, c->ranks), to = place(n, hi, c->ranks);
    long there = place(n, other, c->ranks), end = place(n, other + size, c->ranks);
    swap(c, c->rank ^ d, y + from, to - from, y + there, end - there);
    if (upper)
      lo = other;
    else
      hi = other + size;
  }
}

/* --- of any number ---------------------------------------------------------------------------------------------- */

/* A binary counter of partial sums: what level k holds is that of 2^k ranks. all [ranks, n] is used up. */
static void sum_of_all(const struct comm *c, real *y, long n, real *all)
{
  comm_gather(c, y, all, (size_t)n * sizeof *y);
  for (int width = 1; width < c->ranks; width *= 2)
    for (int r = 0; r + width < c->ranks; r += 2 * width) add(all + r * n, all + (r + width) * n, n);
  memcpy(y, all, (size_t)n * sizeof *y);
}

static void sum_over(const struct comm *c, real *y, long n, real *work)
{
  if (!is_power(c->ranks))
    sum_of_all(c, y, n, work);
  else if (n <= FEW)
    sum_few(c, y, n, work);
  else
    sum_by_halves(c, y, n, work);
}

/* --- maxima ------------------------------------------------------------------------------------------------------- */

#ifdef MAXLOGIT_DOUBLE
typedef uint64_t key;
#else
typedef uint32_t key;
#endif
#define SIGN ((key)1 << (8 * sizeof(key) - 1))

/* Of the same order as the numbers, -0 below 0; a NaN is the largest. */
static key key_of(real x)
{
  key bits;
  if (isnan(x)) return (key)-1;
  memcpy(&bits, &x, sizeof bits);
  return bits & SIGN ? ~bits : bits | SIGN;
}

static real number_of_key(key k)
{
  real x;
  if (k == (key)-1) return (real)NAN;
  k = k & SIGN ? k & ~SIGN : ~k;
  memcpy(&x, &k, sizeof x);
  return x;
}

/* In rounds whose distances double: a rank may be counted twice. */
static void max_over(const struct comm *c, real *y, long n, real *work)
{
  key *own = (key *)work, *other = own + n;
  for (long i = 0; i < n; i++) own[i] = key_of(y[i]);
  for (int d = 1; d < c->ranks; d *= 2) {
    comm_pass(c, d, own, other, (size_t)n * sizeof *own);
    for (long i = 0; i < n; i++)
      if (other[i] > own[i]) own[i] = other[i];
  }
  for (long i = 0; i < n; i++) y[i] = number_of_key(own[i]);
}

/* --- the operations --------------------------------------------------------------------------------------------- */

static long numbers(const struct tensor *t) { return t->rows * t->cols; }
static size_t bytes_of(const struct tensor *t) { return (size_t)numbers(t) * sizeof(real); }

/* What a device keeps from the host is carried by it: [y, work] of the host. */
static real *borrow(struct device *d, const struct tensor *t, long work)
{
  if (!d->stream) return REALS(t);
  real *copy = memory_new((size_t)(numbers(t) + work) + 1, sizeof *copy);
  d->download(d, copy, t->data, bytes_of(t));
  return copy;
}

static void give_back(struct device *d, const struct tensor *t, real *copy)
{
  if (!d->stream) return;
  d->upload(d, t->data, copy, bytes_of(t));
  memory_free(copy);
}

static real *work_of(struct device *d, real *copy, long n, long work)
{
  return d->stream ? copy + n : device_scratch(d, (size_t)work * sizeof(real));
}

static long sum_work(const struct comm *c, long n) { return is_power(c->ranks) ? n : n * c->ranks; }

static void ranked_all_sum(struct device *d, const struct all_sum_args *x)
{
  const struct comm *c = d->ranks[x->axis];
  long n = numbers(x->y), work = sum_work(c, n);
  real *y = borrow(d, x->y, work);
  sum_over(c, y, n, work_of(d, y, n, work));
  give_back(d, x->y, y);
}

static void ranked_all_max(struct device *d, const struct all_max_args *x)
{
  long n = numbers(x->y);
  real *y = borrow(d, x->y, 2 * n);
  max_over(d->ranks[x->axis], y, n, work_of(d, y, n, 2 * n));
  give_back(d, x->y, y);
}

static void carry(struct device *d, int to, int from, enum rank_axis axis, const struct tensor *x,
                  struct tensor *y)
{
  real *send = borrow(d, x, numbers(x)), *receive = d->stream ? send + numbers(x) : REALS(y);
  comm_transfer(d->ranks[axis], &(struct parcel){to, send, bytes_of(x)}, 1,
                &(struct parcel){from, receive, bytes_of(y)}, 1);
  if (!d->stream) return;
  d->upload(d, y->data, receive, bytes_of(y));
  memory_free(send);
}

static void ranked_pass_on(struct device *d, const struct pass_on_args *x)
{
  const struct comm *c = d->ranks[x->axis];
  carry(d, (c->rank + 1) % c->ranks, (c->rank + c->ranks - 1) % c->ranks, (enum rank_axis)x->axis, x->x,
        x->y);
}

static void ranked_trade(struct device *d, const struct trade_args *x)
{
  int partner = d->ranks[x->axis]->rank ^ (int)(1 << x->bit);
  carry(d, partner, partner, (enum rank_axis)x->axis, x->x, x->y);
}

static size_t all_sum_scratch(const struct device *d, const void *args)
{
  const struct all_sum_args *x = args;
  return d->ranks[x->axis] ? (size_t)sum_work(d->ranks[x->axis], numbers(x->y)) * sizeof(real) : 0;
}

static size_t all_max_scratch(const struct device *d, const void *args)
{
  (void)d;
  return 2 * bytes_of(((const struct all_max_args *)args)->y);
}

/* --- who records them --------------------------------------------------------------------------------------------- */

void device_set_ranks(struct device *d, enum rank_axis axis, const struct comm *c)
{
  if (c->ranks == 1) return;
  d->ranks[axis] = c;
  d->ops.all_sum = ranked_all_sum, d->ops.all_max = ranked_all_max;
  d->ops.pass_on = ranked_pass_on, d->ops.trade = ranked_trade;
  if (d->stream) return; /* by memory of the host */
  d->ops.scratch[OP_all_sum] = all_sum_scratch, d->ops.scratch[OP_all_max] = all_max_scratch;
}

int device_ranks(const struct device *d, enum rank_axis axis)
{
  return d->ranks[axis] ? d->ranks[axis]->ranks : 1;
}
int device_rank(const struct device *d, enum rank_axis axis)
{
  return d->ranks[axis] ? d->ranks[axis]->rank : 0;
}

static int alone(const struct program *p, const struct tensor *t, enum rank_axis axis)
{
  REQUIRE(t->ld == t->cols || t->rows == 1);
  return !program_device(p)->ranks[axis];
}

void op_all_sum(struct program *p, struct tensor *y, enum rank_axis axis)
{
  if (!alone(p, y, axis)) PROGRAM_CALL(p, all_sum, .y = y, .axis = axis);
}

void op_all_max(struct program *p, struct tensor *y, enum rank_axis axis)
{
  if (!alone(p, y, axis)) PROGRAM_CALL(p, all_max, .y = y, .axis = axis);
}

struct tensor *op_pass_on(struct program *p, struct tensor *x, enum rank_axis axis)
{
  if (alone(p, x, axis)) return x;
  struct tensor *y = program_temporary(p, x->rows, x->cols, x->name);
  PROGRAM_CALL(p, pass_on, .y = y, .x = x, .axis = axis);
  return y;
}
