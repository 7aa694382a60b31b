/* ranks.c - sums (sums.c), maxima and rings over ranks, and their recording */
#include "numerics/ranks.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/memory.h"
#include "numerics/sums.h"

static int is_power(int n) { return (n & (n - 1)) == 0; }

/* --- maxima ------------------------------------------------------------------------------------------------------- */

#ifdef MAXLOGIT_DOUBLE
typedef uint64_t key;
#else
typedef uint32_t key;
#endif
#define SIGN ((key)1 << (8 * sizeof(key) - 1))

/* Keys have the order of the numbers, -0 below 0; NaN is the largest. */
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

/* Distances double each round; a rank may be counted twice, which does not change a maximum. */
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

/* Memory that the host can pass to other ranks: the device's own, or a host copy [y, work] if the device has a
   queue. */
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

static void ranked_all_reduce_sum(struct device *d, const struct all_reduce_sum_args *x)
{
  const struct comm *c = d->ranks[x->axis];
  long n = numbers(x->y), work = sum_work(c, n);
  real *y = borrow(d, x->y, work);
  sums_at_once(c, y, n, work_of(d, y, n, work));
  give_back(d, x->y, y);
}

static void ranked_all_reduce_max(struct device *d, const struct all_reduce_max_args *x)
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

static void ranked_ring_shift(struct device *d, const struct ring_shift_args *x)
{
  const struct comm *c = d->ranks[x->axis];
  carry(d, (c->rank + 1) % c->ranks, (c->rank + c->ranks - 1) % c->ranks, (enum rank_axis)x->axis, x->x,
        x->y);
}

static void ranked_pairwise_exchange(struct device *d, const struct pairwise_exchange_args *x)
{
  int partner = d->ranks[x->axis]->rank ^ (int)(1 << x->bit);
  carry(d, partner, partner, (enum rank_axis)x->axis, x->x, x->y);
}

static size_t all_reduce_sum_scratch(const struct device *d, const void *args)
{
  const struct all_reduce_sum_args *x = args;
  return d->ranks[x->axis] ? (size_t)sum_work(d->ranks[x->axis], numbers(x->y)) * sizeof(real) : 0;
}

static size_t all_reduce_max_scratch(const struct device *d, const void *args)
{
  (void)d;
  return 2 * bytes_of(((const struct all_reduce_max_args *)args)->y);
}

/* --- recording -------------------------------------------------------------------------------------------------- */

void device_set_ranks(struct device *d, enum rank_axis axis, const struct comm *c)
{
  if (c->ranks == 1) return;
  d->ranks[axis] = c;
  d->ops.all_reduce_sum = ranked_all_reduce_sum, d->ops.all_reduce_max = ranked_all_reduce_max;
  d->ops.ring_shift = ranked_ring_shift, d->ops.pairwise_exchange = ranked_pairwise_exchange;
  if (d->stream) return; /* ranks exchange host memory */
  d->ops.scratch[OP_all_reduce_sum] = all_reduce_sum_scratch,
  d->ops.scratch[OP_all_reduce_max] = all_reduce_max_scratch;
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

void op_all_reduce_sum(struct program *p, struct tensor *y, enum rank_axis axis)
{
  if (!alone(p, y, axis)) PROGRAM_CALL(p, all_reduce_sum, .y = y, .axis = axis);
}

void op_all_reduce_max(struct program *p, struct tensor *y, enum rank_axis axis)
{
  if (!alone(p, y, axis)) PROGRAM_CALL(p, all_reduce_max, .y = y, .axis = axis);
}

struct tensor *op_ring_shift(struct program *p, struct tensor *x, enum rank_axis axis)
{
  if (alone(p, x, axis)) return x;
  struct tensor *y = program_temporary(p, x->rows, x->cols, x->name);
  PROGRAM_CALL(p, ring_shift, .y = y, .x = x, .axis = axis);
  return y;
}
