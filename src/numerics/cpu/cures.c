/* cures.c - additions to attention: a sink, a gate, a factor by the number of keys
   Rows go in pieces of ROWS; sums over rows are made by piece, in double, and added in the order of the pieces. */
#include <math.h>
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/cpu/cpu.h"

enum { ROWS = 32 };

struct row_piece {
  const void *args;
  void (*row)(const void *args, long n, double *sum); /* `sum` [heads]: of its piece */
  long rows, heads;
  double *sums;
};

static long pieces_of(long rows) { return (rows + ROWS - 1) / ROWS; }

static void rows_of_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct row_piece *p = context;
  double *sum = p->sums ? p->sums + piece * p->heads : NULL;
  for (long h = 0; sum && h < p->heads; h++) sum[h] = 0;
  for (long n = piece * ROWS; n < min_long((piece + 1) * ROWS, p->rows); n++) p->row(p->args, n, sum);
}

static void each_row(struct device *device, long rows, const void *args,
                     void (*row)(const void *, long, double *))
{
  struct row_piece p = {.args = args, .row = row, .rows = rows};
  parallel_for(device->pool, pieces_of(rows), rows_of_piece, &p);
}

/* The same, and to[h] += the sum over all rows. */
static void each_row_summing(struct device *device, long rows, const void *args,
                             void (*row)(const void *, long, double *), struct tensor *to)
{
  struct row_piece p = {.args = args, .row = row, .rows = rows, .heads = to->cols};
  const long pieces = pieces_of(rows);
  p.sums = device_scratch(device, (size_t)(pieces * p.heads) * sizeof *p.sums);
  parallel_for(device->pool, pieces, rows_of_piece, &p);
  for (long h = 0; h < p.heads; h++) {
    double sum = 0;
    for (long i = 0; i < pieces; i++) sum += p.sums[i * p.heads + h];
    *AT(to, 0, h) = (float)((double)*AT(to, 0, h) + sum);
  }
}
#define SUMS_SCRATCH(name, rows_like, heads_like) \
  static size_t name##_scratch(const struct device *device, const void *args) \
  { \
    (void)device; \
    const struct name##_args *x = args; \
    return (size_t)(pieces_of(x->rows_like->rows) * x->heads_like->cols) * sizeof(double); \
  }

/* y = x f, n columns */
static void times(const float *x, float f, float *y, long n)
{
  EACH(j, n) put(y + j, get(x + j, n - j) * f, n - j);
}

static double dot(const float *a, const float *b, long n)
{
  double sum = 0;
  for (long j = 0; j < n; j++) sum = fused_one_d((double)a[j], (double)b[j], sum);
  return sum;
}

/* --- a sink -------------------------------------------------------------------------------------------- */

static void sink_row(const void *args, long n, double *sum)
{
  (void)sum;
  const struct sink_args *x = args;
  const long heads = x->b->cols, dim = x->o->cols / heads;
  for (long h = 0; h < heads; h++) {
    float *ml = AT(x->ml, n, 2 * h), *o = AT(x->o, n, h * dim);
    const double m = (double)ml[0], b = (double)*AT(x->b, 0, h), top = max_keeping_nan(m, b);
    const double keys = (double)ml[1] * same_exp(m - top), all = keys + same_exp(b - top);
    times(o, (float)(keys / all), o, dim);
    ml[0] = (float)top;
    ml[1] = (float)all;
  }
}
static void sink(struct device *device, const struct sink_args *x)
{
  each_row(device, x->o->rows, x, sink_row);
}

static void sink_backward_row(const void *args, long n, double *sum)
{
  const struct sink_backward_args *x = args;
  const long heads = x->b->cols, dim = x->o->cols / heads;
  for (long h = 0; h < heads; h++) {
    const float *ml = AT(x->ml, n, 2 * h);
    sum[h] -= same_exp((double)*AT(x->b, 0, h) - (double)ml[0]) / (double)ml[1] *
              dot(AT(x->do_, n, h * dim), AT(x->o, n, h * dim), dim);
  }
}
SUMS_SCRATCH(sink_backward, o, b)
static void sink_backward(struct device *device, const struct sink_backward_args *x)
{
  each_row_summing(device, x->o->rows, x, sink_backward_row, x->db);
}

/* --- a gate: of one column of x, or of several ------------------------------------------------------------ */

static void gate_row(const void *args, long n, double *sum)
{
  (void)sum;
  const struct gate_args *a = args;
  const long gates = a->g->cols, each = a->x->cols / gates;
  const float *x = AT(a->x, n, 0), *g = AT(a->g, n, 0);
  float *y = AT(a->y, n, 0), s[LANES];
  EACH(j, gates) {
    const vec open = sigmoid(get(g + j, gates - j));
    if (each == 1) {
      put(y + j, get(x + j, gates - j) * open, gates - j);
      continue;
    }
    VEC(s) = open;
    for (long i = 0; i < min_long(LANES, gates - j); i++)
      times(x + (j + i) * each, s[i], y + (j + i) * each, each);
  }
}
static void gate(struct device *device, const struct gate_args *x)
{
  each_row(device, x->x->rows, x, gate_row);
}

static void gate_backward_row(const void *args, long n, double *sum)
{
  (void)sum;
  const struct gate_backward_args *a = args;
  const long gates = a->g->cols, each = a->x->cols / gates;
  const float *x = AT(a->x, n, 0), *g = AT(a->g, n, 0), *dy = AT(a->dy, n, 0);
  float *dx = AT(a->dx, n, 0), *dg = AT(a->dg, n, 0), s[LANES], slope[LANES];
  EACH(j, gates) {
    const vec in = get(g + j, gates - j), open = sigmoid(in), rest = open * sigmoid(-in);
    if (each == 1) {
      const vec d = get(dy + j, gates - j);
      put(dg + j, rest * (d * get(x + j, gates - j)), gates - j);
      put(dx + j, d * open, gates - j);
      continue;
    }
    VEC(s) = open;
    VEC(slope) = rest;
    for (long i = 0; i < min_long(LANES, gates - j); i++) {
      const long at = (j + i) * each;
      dg[j + i] = (float)((double)slope[i] * dot(dy + at, x + at, each));
      times(dy + at, s[i], dx + at, each);
    }
  }
}
static void gate_backward(struct device *device, const struct gate_backward_args *x)
{
  each_row(device, x->x->rows, x, gate_backward_row);
}

/* --- a factor by the number of keys ----------------------------------------------------------------------- */

/* ln of the number of keys that row n attends to */
static double log_keys(long n, long length, const struct tensor *start, const struct tensor *end,
                       const struct tensor *slot)
{
  const long to = end ? INTS(end)[n] : slot ? INTS(slot)[n] + 1 : n % length + 1, keys = to - INTS(start)[n];
  return same_log((double)(keys > 1 ? keys : 1));
}

static void ssmax_scale_row(const void *args, long n, double *sum)
{
  (void)sum;
  const struct ssmax_scale_args *x = args;
  const long heads = x->s->cols, dim = x->x->cols / heads;
  const double log_n = log_keys(n, x->x->rows / x->batch, x->start, x->end, x->slot);
  for (long h = 0; h < heads; h++)
    times(AT(x->x, n, h * dim), (float)((double)*AT(x->s, 0, h) * log_n), AT(x->y, n, h * dim), dim);
}
static void ssmax_scale(struct device *device, const struct ssmax_scale_args *x)
{
  each_row(device, x->x->rows, x, ssmax_scale_row);
}

static void ssmax_scale_backward_row(const void *args, long n, double *sum)
{
  const struct ssmax_scale_backward_args *x = args;
  const long heads = x->s->cols, dim = x->x->cols / heads;
  const double log_n = log_keys(n, x->x->rows / x->batch, x->start, x->end, x->slot);
  for (long h = 0; h < heads; h++) {
    const float *dy = AT(x->dy, n, h * dim), f = (float)((double)*AT(x->s, 0, h) * log_n);
    float *dx = AT(x->dx, n, h * dim);
    sum[h] += dot(dy, AT(x->x, n, h * dim), dim) * log_n;
    EACH(j, dim) {
      const vec d = get(dy + j, dim - j);
      put(dx + j, x->add ? fused(d, ALL(f), get(dx + j, dim - j)) : d * f, dim - j);
    }
  }
}
SUMS_SCRATCH(ssmax_scale_backward, x, s)
static void ssmax_scale_backward(struct device *device, const struct ssmax_scale_backward_args *x)
{
  each_row_summing(device, x->x->rows, x, ssmax_scale_backward_row, x->ds);
}

void EXPORT(ops_cpu_cures)(struct ops *ops)
{
  ops->scratch[OP_sink_backward] = sink_backward_scratch;
  ops->scratch[OP_ssmax_scale_backward] = ssmax_scale_backward_scratch;
  ops->sink = sink, ops->sink_backward = sink_backward;
  ops->gate = gate, ops->gate_backward = gate_backward;
  ops->ssmax_scale = ssmax_scale, ops->ssmax_scale_backward = ssmax_scale_backward;
}
