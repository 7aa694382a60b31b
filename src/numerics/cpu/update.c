/* update.c - optimizers and clips on long rows of numbers
   Segments are cut into pieces of at most PIECE numbers; a piece lies in one segment. */
#include <math.h>
#include "numerics/cpu/cpu.h"

/* --- elements of several rows of equal length ------------------------------------------------------------- */

struct update_span {
  void (*some)(const void *args, long from, long n);
  const void *args;
  long n;
};

static void span_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct update_span *s = context;
  s->some(s->args, piece * PIECE, min_long(PIECE, s->n - piece * PIECE));
}

/* All of y, which is one block, and others like it. */
static void span(struct device *device, const struct tensor *y, const void *args,
                 void (*some)(const void *, long, long))
{
  struct update_span s = {some, args, y->rows * y->cols};
  parallel_for(device->pool, (s.n + PIECE - 1) / PIECE, span_piece, &s);
}

static int is_block(const struct tensor *t) { return t->ld == t->cols || t->rows == 1; }

/* Rows of views, one after another, as tensors of one row. */
static struct tensor row_of(const struct tensor *t, long row) { return tensor_rows(t, row, 1); }

static void some_adam(const void *args, long from, long n)
{
  const struct adam_args *x = args;
  const float b1 = (float)number(x->b1), b2 = (float)number(x->b2);
  const float r1 = (float)(1 - number(x->b1)), r2 = (float)(1 - number(x->b2));
  const float c1 = (float)(1 / number(x->c1)), c2 = (float)(1 / sqrt(number(x->c2))),
              eps = (float)number(x->eps);
  float *to = REALS(x->update) + from, *m = REALS(x->m) + from, *v = REALS(x->v) + from;
  const float *gradient = REALS(x->g) + from;
  EACH(j, n) {
    vec g = get(gradient + j, n - j);
    vec first = fused(ALL(b1), get(m + j, n - j), r1 * g), second = fused(r2 * g, g, b2 * get(v + j, n - j));
    put(m + j, first, n - j);
    put(v + j, second, n - j);
    /* this order avoids overflow on the way; an infinite v makes the update NaN */
    put(to + j, fused(first / fused(vec_sqrt(second), ALL(c2), ALL(eps)), ALL(c1), second - second), n - j);
  }
}
static void adam(struct device *device, const struct adam_args *x)
{
  if (is_block(x->update) && is_block(x->m) && is_block(x->v) && is_block(x->g)) {
    span(device, x->update, x, some_adam);
    return;
  }
  for (long r = 0; r < x->g->rows; r++) {
    struct tensor update = row_of(x->update, r), m = row_of(x->m, r), v = row_of(x->v, r);
    struct tensor g = row_of(x->g, r);
    struct adam_args row = *x;
    row.update = &update, row.m = &m, row.v = &v, row.g = &g;
    span(device, &update, &row, some_adam);
  }
}

static void some_momentum(const void *args, long from, long n)
{
  const struct momentum_args *x = args;
  const float mu = (float)number(x->mu), ahead = x->nesterov ? mu : 1, *gradient = REALS(x->g) + from;
  float *to = REALS(x->update) + from, *m = REALS(x->m) + from;
  EACH(j, n) {
    vec g = get(gradient + j, n - j), now = fused(ALL(mu), get(m + j, n - j), g);
    put(m + j, now, n - j);
    put(to + j, x->nesterov ? fused(ALL(ahead), now, g) : now, n - j);
  }
}
static void momentum(struct device *device, const struct momentum_args *x)
{
  if (is_block(x->update) && is_block(x->m) && is_block(x->g)) {
    span(device, x->update, x, some_momentum);
    return;
  }
  for (long r = 0; r < x->g->rows; r++) {
    struct tensor update = row_of(x->update, r), m = row_of(x->m, r), g = row_of(x->g, r);
    struct momentum_args row = *x;
    row.update = &update, row.m = &m, row.g = &g;
    span(device, &update, &row, some_momentum);
  }
}

/* Whole rows, as many as make a piece. */
static long rows_of_piece(const struct tensor *t) { return t->cols < PIECE ? PIECE / t->cols : 1; }

static void row_moment_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct row_moment_args *x = context;
  const double b2 = number(x->b2), eps = number(x->eps);
  const long cols = x->x->cols, rows = rows_of_piece(x->x), end = min_long((piece + 1) * rows, x->x->rows);
  for (long n = piece * rows; n < end; n++) {
    float *y = REALS(x->x) + n * x->x->ld, *v = REALS(x->v) + n * x->v->ld;
    *v = (float)(b2 * (double)*v + (1 - b2) * squares(y, cols) / (double)cols);
    const float by = (float)(sqrt((double)*v) + eps), lost = *v - *v; /* an infinite v makes the row NaN */
    EACH(j, cols) put(y + j, get(y + j, cols - j) / by + lost, cols - j);
  }
}
static void row_moment(struct device *device, const struct row_moment_args *x)
{
  long rows = rows_of_piece(x->x);
  parallel_for(device->pool, (x->x->rows + rows - 1) / rows, row_moment_piece, (void *)x);
}

static void some_sign(const void *args, long from, long n)
{
  const struct sign_args *a = args;
  float *y = REALS(a->y) + from;
  const float *x = REALS(a->x) + from;
  EACH(j, n) {
    vec now = get(x + j, n - j);
    put(y + j, where_above(now, ALL(0), ALL(1), where_above(ALL(0), now, ALL(-1), now)), n - j);
  }
}
static void sign(struct device *device, const struct sign_args *x)
{
  if (is_block(x->y) && is_block(x->x))
    span(device, x->y, x, some_sign);
  else
    ops_ref.sign(device, x);
}

/* --- segments --------------------------------------------------------------------------------------------- */

struct segments {
  void (*some)(const void *args, long segment, long from, long n, double *part);
  const void *args;
  const struct tensor *segment;
  double *part; /* of every piece; NULL where nothing is summed */
};

static long length_of(const struct tensor *segment, long i) { return INTS(segment)[2 * i + 1]; }
static long pieces_of(const struct tensor *segment, long i)
{
  return (length_of(segment, i) + PIECE - 1) / PIECE;
}

static long all_pieces(const struct tensor *segment)
{
  long pieces = 0;
  for (long i = 0; i < segment->rows; i++) pieces += pieces_of(segment, i);
  return pieces;
}

static void segment_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct segments *s = context;
  long i = 0, at = piece;
  for (; at >= pieces_of(s->segment, i); i++) at -= pieces_of(s->segment, i);
  long from = INTS(s->segment)[2 * i] + at * PIECE;
  s->some(s->args, i, from, min_long(PIECE, length_of(s->segment, i) - at * PIECE),
          s->part ? s->part + piece : NULL);
}

static void some_apply(const void *args, long segment, long from, long n, double *part)
{
  (void)part;
  const struct apply_segments_args *x = args;
  const float keep = REALS(x->keep)[segment], rate = REALS(x->rate)[segment];
  const float *update = REALS(x->update) + from;
  float *w = REALS(x->w) + from;
  EACH(j, n) {
    const vec now = get(w + j, n - j), by = get(update + j, n - j);
    vec kept = keep * now;
    if (x->cautious)
      kept = where_above(now, ALL(0), where_above(ALL(0), by, now, kept),
                         where_above(ALL(0), now, where_above(by, ALL(0), now, kept), kept));
    put(w + j, fused(ALL(-rate), by, kept), n - j);
  }
}
static void apply_segments(struct device *device, const struct apply_segments_args *x)
{
  struct segments s = {some_apply, x, x->segment, NULL};
  parallel_for(device->pool, all_pieces(x->segment), segment_piece, &s);
}

static void some_scaled(const void *args, long segment, long from, long n, double *part)
{
  (void)part;
  const struct scale_segments_args *x = args;
  const float factor = REALS(x->factor)[segment];
  float *y = REALS(x->x) + from;
  if (factor == 1) return;
  EACH(j, n) put(y + j, factor * get(y + j, n - j), n - j);
}
static void scale_segments(struct device *device, const struct scale_segments_args *x)
{
  struct segments s = {some_scaled, x, x->segment, NULL};
  parallel_for(device->pool, all_pieces(x->segment), segment_piece, &s);
}

static void some_squares(const void *args, long segment, long from, long n, double *part)
{
  (void)segment;
  *part = squares(REALS(((const struct norm_segments_args *)args)->x) + from, n);
}
/* Segments do not overlap: as many pieces as the row has, and one more for each that ends in a rest. */
static size_t norm_segments_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct norm_segments_args *x = args;
  return (size_t)(x->segment->rows + x->x->rows * x->x->cols / PIECE + 1) * sizeof(double);
}
static void norm_segments(struct device *device, const struct norm_segments_args *x)
{
  long pieces = all_pieces(x->segment);
  double *part = device_scratch(device, (size_t)pieces * sizeof *part);
  struct segments s = {some_squares, x, x->segment, part};
  parallel_for(device->pool, pieces, segment_piece, &s);
  for (long i = 0, at = 0; i < x->segment->rows; i++) {
    double sum = 0;
    for (long end = at + pieces_of(x->segment, i); at < end; at++) sum += part[at];
    REALS(x->y)[i] = (float)sqrt(sum);
  }
}

void EXPORT(ops_cpu_update)(struct ops *ops)
{
  ops->adam = adam;
  ops->momentum = momentum;
  ops->row_moment = row_moment;
  ops->sign = sign;
  ops->apply_segments = apply_segments;
  ops->scale_segments = scale_segments;
  ops->norm_segments = norm_segments;
  ops->scratch[OP_norm_segments] = norm_segments_scratch;
}
