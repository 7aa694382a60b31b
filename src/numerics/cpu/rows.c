/* rows.c - operations on elements, and on single rows
   Work is cut into pieces of about PIECE numbers: whole rows, or, for operations on elements in contiguous memory,
   anywhere. Sums over pieces are added in the order of the pieces. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/elementary.h"
#include "base/number.h"
#include "numerics/number_format.h"
#include "numerics/cpu/cpu.h"

/* sum factor a b in double; an infinite factor meets each term, as in the definitions */
static double dot(double factor, const float *a, const float *b, long n)
{
  dvec parts[2 * SPLIT] = {{0}};
  const long whole = n / PARTS * PARTS;
  EACH_PART(i, part, whole)
  {
    vec x = VEC(a + i + part * LANES), y = VEC(b + i + part * LANES);
    parts[2 * part] = fused_d(factor * first_half(x), first_half(y), parts[2 * part]);
    parts[2 * part + 1] = fused_d(factor * second_half(x), second_half(y), parts[2 * part + 1]);
  }
  double sum = parts_sum(parts);
  for (long j = whole; j < n; j++) sum = fused_one_d(factor * (double)a[j], (double)b[j], sum);
  return sum;
}

/* --- pieces -------------------------------------------------------------------------------------------- */
/* `some` processes columns [from, from+n) of one row, all of them unless the walk is flat. `part` receives the sums
   of its piece. */
struct row_walk {
  void (*some)(const void *args, long row, long from, long n, double *part);
  const void *args;
  int flat; /* one block, cut anywhere */
  long rows, cols, rows_each;
  double *parts;
  int sums;                                          /* in `parts`, per piece */
  void (*piece)(void *walk, long piece, int worker); /* of sums; NULL: row by row */
};

static void walk_piece(void *context, long piece, int worker)
{
  (void)worker;
  const struct row_walk *w = context;
  double *part = w->parts ? w->parts + piece * w->sums : NULL;
  for (int i = 0; part && i < w->sums; i++) part[i] = 0;
  if (w->flat) {
    w->some(w->args, 0, piece * PIECE, min_long(PIECE, w->cols - piece * PIECE), part);
    return;
  }
  long row = piece * w->rows_each, end = min_long(row + w->rows_each, w->rows);
  for (; row < end; row++) w->some(w->args, row, 0, w->cols, part);
}

static long walk_pieces(struct row_walk *w)
{
  if (w->flat) return (w->cols + PIECE - 1) / PIECE;
  w->rows_each = w->cols < PIECE ? PIECE / w->cols : 1;
  return (w->rows + w->rows_each - 1) / w->rows_each;
}

/* Walk over the rows of t, for an operation on rows. */
static struct row_walk walk_rows(const struct tensor *t, const void *args,
                                 void (*some)(const void *, long, long, long, double *))
{
  return (struct row_walk){.some = some, .args = args, .rows = t->rows, .cols = t->cols};
}

/* For an operation on elements: one long row if all its tensors are contiguous. */
static struct row_walk walk_over(const struct tensor *t, int block, const void *args,
                                 void (*some)(const void *, long, long, long, double *))
{
  struct row_walk w = walk_rows(t, args, some);
  if (block) w.flat = 1, w.rows = 1, w.cols = t->rows * t->cols;
  return w;
}
static int is_block(const struct tensor *t) { return t->ld == t->cols || t->rows == 1; }

static void walk(struct device *device, struct row_walk w)
{
  long pieces = walk_pieces(&w);
  parallel_for(device->pool, pieces, walk_piece, &w);
}

/* Room for `sums` numbers from every piece over t: of rows, or of PIECE elements. */
static size_t parts_room(const struct tensor *t, int sums)
{
  return (size_t)((t->rows + t->rows * t->cols / PIECE + 1) * sums) * sizeof(double);
}
#define PARTS_SCRATCH(name, field, sums) \
  static size_t name##_scratch(const struct device *device, const void *args) \
  { \
    (void)device; \
    return parts_room(((const struct name##_args *)args)->field, sums); \
  }

/* The same with `sums` numbers from every piece, left in w->parts. */
static long walk_to_parts(struct device *device, struct row_walk *w, int sums)
{
  long pieces = walk_pieces(w);
  w->sums = sums;
  w->parts = device_scratch(device, (size_t)(pieces * sums) * sizeof *w->parts);
  parallel_for(device->pool, pieces, w->piece ? w->piece : walk_piece, w);
  return pieces;
}

/* ... and added in order. */
static void walk_summing(struct device *device, struct row_walk w, int sums, double *total)
{
  long pieces = walk_to_parts(device, &w, sums);
  for (int i = 0; i < sums; i++) total[i] = 0;
  for (long p = 0; p < pieces; p++)
    for (int i = 0; i < sums; i++) total[i] += w.parts[p * sums + i];
}

/* Prefetch the same columns some rows ahead: rows are short, and the gaps between them hide the pattern. */
enum { AHEAD = 8 };
#define SOON(p, tensor, write) __builtin_prefetch((p) + AHEAD * (tensor)->ld, write)

/* --- plain vectors ------------------------------------------------------------------------------------- */
#define SOME(name) static void name(const void *args, long row, long from, long n, double *part)

SOME(some_fill)
{
  (void)part;
  const struct fill_args *x = args;
  float *y = AT(x->y, row, from);
  EACH(j, n) put(y + j, ALL((float)x->value), n - j);
}
static void fill(struct device *device, const struct fill_args *x)
{
  walk(device, walk_over(x->y, is_block(x->y), x, some_fill));
}

SOME(some_copy)
{
  (void)part;
  const struct copy_args *x = args;
  memcpy(AT(x->y, row, from), AT(x->x, row, from), (size_t)n * sizeof(float));
}
static void copy(struct device *device, const struct copy_args *x)
{
  walk(device, walk_over(x->y, is_block(x->y) && is_block(x->x), x, some_copy));
}

SOME(some_axpby)
{
  (void)part;
  const struct axpby_args *x = args;
  const float alpha = (float)(x->alpha * number(x->a)), *from_x = AT(x->x, row, from);
  const float beta = x->beta != 0 ? (float)(x->beta * number(x->b)) : 0;
  float *y = AT(x->y, row, from);
  if (beta == 0)
    EACH(j, n) put(y + j, alpha * get(from_x + j, n - j), n - j);
  else
    EACH(j, n) put(y + j, fused(ALL(beta), get(y + j, n - j), alpha * get(from_x + j, n - j)), n - j);
}
/* A column, such as a diagonal: a walk would treat each number as a row. */
static void axpby_column(const struct axpby_args *x)
{
  const float alpha = (float)(x->alpha * number(x->a));
  const float beta = x->beta != 0 ? (float)(x->beta * number(x->b)) : 0;
  for (long i = 0; i < x->y->rows; i++) {
    float *y = AT(x->y, i, 0);
    const float more = alpha * *AT(x->x, i, 0);
    *y = beta != 0 ? fused_one(beta, *y, more) : more;
  }
}
static void axpby(struct device *device, const struct axpby_args *x)
{
  if (x->y->cols == 1) {
    axpby_column(x);
    return;
  }
  walk(device, walk_over(x->y, is_block(x->y) && is_block(x->x), x, some_axpby));
}

SOME(some_scale)
{
  (void)part;
  const struct scale_args *x = args;
  const float factor = (float)(x->alpha * number(x->by));
  float *y = AT(x->y, row, from);
  EACH(j, n) put(y + j, factor * get(y + j, n - j), n - j);
}
static void scale(struct device *device, const struct scale_args *x)
{
  if (x->alpha * number(x->by) == 1) return;
  walk(device, walk_over(x->y, is_block(x->y), x, some_scale));
}

SOME(some_squares)
{
  const struct norm_args *x = args;
  *part += squares(AT(x->x, row, from), n);
}
static double squares_of(const float *x, long n) { return squares(x, n); }
PARTS_SCRATCH(norm, x, 1)
static void norm(struct device *device, const struct norm_args *x)
{
  double total;
  walk_summing(device, walk_over(x->x, is_block(x->x), x, some_squares), 1, &total);
  *AT(x->y, 0, 0) = (float)sqrt(total);
}

/* Without their signs, floats are ordered as their bits are, with NaN above all. */
SOME(some_sizes)
{
  const struct max_abs_args *x = args;
  const float *from_x = AT(x->x, row, from);
  ivec top = {0};
  EACH(j, n) {
    ivec size = (ivec)get(from_x + j, n - j) & 0x7fffffff, above = size > top;
    top = (above & size) | (~above & top);
  }
  vec sizes = (vec)top;
  for (int i = 0; i < LANES; i++) *part = max_keeping_nan(*part, (double)sizes[i]);
}
PARTS_SCRATCH(max_abs, x, 1)
static void max_abs(struct device *device, const struct max_abs_args *x)
{
  struct row_walk w = walk_over(x->x, is_block(x->x), x, some_sizes);
  long pieces = walk_to_parts(device, &w, 1);
  double top = 0;
  for (long p = 0; p < pieces; p++) top = max_keeping_nan(top, w.parts[p]);
  *AT(x->y, 0, 0) = (float)top;
}

static void transpose_rows(void *context, long piece, int worker)
{
  (void)worker;
  const struct transpose_args *x = context;
  long i = piece * WIDTH, rows = min_long(WIDTH, x->x->rows - i);
  if (rows == WIDTH)
    pack_transposed(AT(x->x, i, 0), x->x->ld, rows, x->x->cols, AT(x->y, 0, i), x->y->ld);
  else
    for (long end = i + rows; i < end; i++)
      for (long j = 0; j < x->x->cols; j++) *AT(x->y, j, i) = *AT(x->x, i, j);
}
static void transpose_all(struct device *device, const struct transpose_args *x)
{
  struct transpose_args copy_of = *x;
  parallel_for(device->pool, (x->x->rows + WIDTH - 1) / WIDTH, transpose_rows, &copy_of);
}

SOME(some_add_bias)
{
  (void)part, (void)from;
  const struct add_bias_args *x = args;
  float *y = AT(x->y, row, 0);
  EACH(j, n) put(y + j, get(y + j, n - j) + get(REALS(x->b) + j, n - j), n - j);
}
static void add_bias(struct device *device, const struct add_bias_args *x)
{
  walk(device, walk_rows(x->y, x, some_add_bias));
}

enum { SUM_COLS = 2 * PARTS };
static void sum_some_columns(void *context, long piece, int worker)
{
  (void)worker;
  const struct sum_rows_args *x = context;
  const long from = piece * SUM_COLS, end = min_long(from + SUM_COLS, x->x->cols);
  for (long j = from; j < end; j += LANES) {
    const long left = end - j;
    float *y = AT(x->y, 0, j);
    dvec low = {0}, high = {0};
    if (x->add) low = first_half(get(y, left)), high = second_half(get(y, left));
    for (long row = 0; row < x->x->rows; row++) {
      vec z = get(AT(x->x, row, j), left);
      low += first_half(z);
      high += second_half(z);
    }
    put(y, from_halves(low, high), left);
  }
}
static void sum_rows(struct device *device, const struct sum_rows_args *x)
{
  struct sum_rows_args copy_of = *x;
  parallel_for(device->pool, (x->x->cols + SUM_COLS - 1) / SUM_COLS, sum_some_columns, &copy_of);
}

SOME(some_scale_columns)
{
  (void)part;
  const struct scale_columns_args *x = args;
  const float s = *REALS(x->s), *from_x = AT(x->x, row, from);
  float *y = AT(x->y, row, from);
  EACH(j, n) put(y + j, get(from_x + j, n - j) * s, n - j);
}
static void scale_columns(struct device *device, const struct scale_columns_args *x)
{
  walk(device, walk_over(x->y, is_block(x->y) && is_block(x->x), x, some_scale_columns));
}

SOME(some_scale_columns_backward)
{
  const struct scale_columns_backward_args *x = args;
  const float s = *REALS(x->s), *dy = AT(x->dy, row, from);
  float *dx = AT(x->dx, row, from);
  *part += dot(1, dy, AT(x->x, row, from), n);
  EACH(j, n) {
    const vec y = get(dy + j, n - j);
    put(dx + j, x->add ? fused(y, ALL(s), get(dx + j, n - j)) : y * s, n - j);
  }
}
PARTS_SCRATCH(scale_columns_backward, dy, 1)
static void scale_columns_backward(struct device *device, const struct scale_columns_backward_args *x)
{
  const int block = is_block(x->dy) && is_block(x->x) && is_block(x->dx);
  double total;
  walk_summing(device, walk_over(x->dy, block, x, some_scale_columns_backward), 1, &total);
  *REALS(x->ds) = (float)((double)*REALS(x->ds) + total);
}

/* Round to `digits` digits of the significand, with the smallest quantum and the largest number of the format; ties
   to even. Adding and subtracting a number whose last digit is the quantum rounds a magnitude to the quantum. bf16
   has the exponent range of float: its bits are rounded. */
INLINE vec round_to_grid(vec x, int digits, int smallest, float largest, float beyond)
{
  const ivec sign = (ivec)x & (int32_t)0x80000000, least = (ivec){0} + ((smallest + 127) << 23);
  vec size = (vec)((ivec)x & 0x7fffffff);
  vec bounded = where_above(size, ALL(0x1p20f), ALL(0x1p20f), size); /* NaN stays */
  ivec quantum = ((ivec)bounded & 0x7f800000) - ((digits - 1) << 23), above = quantum > least;
  vec far = (vec)((above & quantum) | (~above & least)) * 0x1.8p23f;
  bounded = (bounded + far) - far;
  return (vec)((ivec)where_above(bounded, ALL(largest), ALL(beyond), bounded) | sign);
}
INLINE vec round_to_bf16(vec x)
{
  const uvec bits = (uvec)x,
             rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000; /* a NaN's may wrap */
  const uvec is_nan = (uvec)((ivec)(bits & 0x7fffffff) > 0x7f800000);
  return (vec)((is_nan & bits) | (~is_nan & rounded));
}
SOME(some_round)
{
  (void)part;
  const struct round_to_args *x = args;
  const float *from_x = AT(x->x, row, from);
  float *y = AT(x->y, row, from);
  switch ((enum number_format)x->format) {
  case FORMAT_BF16:
    EACH(j, n) put(y + j, round_to_bf16(get(from_x + j, n - j)), n - j);
    break;
  case FORMAT_FP16:
    EACH(j, n) put(y + j, round_to_grid(get(from_x + j, n - j), 11, -24, 65504, INFINITY), n - j);
    break;
  case FORMAT_FP8_E4M3:
    EACH(j, n) put(y + j, round_to_grid(get(from_x + j, n - j), 4, -9, 448, NAN), n - j);
    break;
  case FORMAT_F32:
  case FORMAT_COUNT: EACH(j, n) put(y + j, get(from_x + j, n - j), n - j);
  }
}
static void round_to(struct device *device, const struct round_to_args *x)
{
  walk(device, walk_over(x->y, is_block(x->y) && is_block(x->x), x, some_round));
}

/* --- heads of two parts --------------------------------------------------------------------------------- */
SOME(some_join)
{
  (void)part, (void)from, (void)n;
  const struct join_heads_args *x = args;
  const long da = x->a->cols / x->heads, db = x->shared ? x->b->cols : x->b->cols / x->heads;
  float *y = AT(x->y, row, 0);
  for (long h = 0; h < x->heads; h++, y += da + db) {
    const float *a = AT(x->a, row, h * da), *b = AT(x->b, row, x->shared ? 0 : h * db);
    EACH(j, da) put(y + j, get(a + j, da - j), da - j);
    EACH(j, db) put(y + da + j, get(b + j, db - j), db - j);
  }
}
static void join_heads(struct device *device, const struct join_heads_args *x)
{
  walk(device, walk_rows(x->y, x, some_join));
}

SOME(some_join_backward)
{
  (void)part, (void)from, (void)n;
  const struct join_heads_backward_args *x = args;
  const long da = x->da->cols / x->heads, db = x->shared ? x->db->cols : x->db->cols / x->heads;
  const float *dy = AT(x->dy, row, 0);
  for (long h = 0; h < x->heads; h++) {
    const float *d = dy + h * (da + db);
    float *to = AT(x->da, row, h * da);
    EACH(j, da) put(to + j, get(d + j, da - j), da - j);
    if (x->shared) continue;
    to = AT(x->db, row, h * db);
    EACH(j, db) put(to + j, get(d + da + j, db - j), db - j);
  }
  float *sum = AT(x->db, row, 0);
  if (x->shared)
    EACH(j, db) {
      dvec low = {0}, high = {0};
      for (long h = 0; h < x->heads; h++) {
        vec d = get(dy + h * (da + db) + da + j, db - j);
        low += first_half(d);
        high += second_half(d);
      }
      put(sum + j, from_halves(low, high), db - j);
    }
}
static void join_heads_backward(struct device *device, const struct join_heads_backward_args *x)
{
  walk(device, walk_rows(x->dy, x, some_join_backward));
}

/* --- reparametrized weights ----------------------------------------------------------------------------- */
SOME(some_sigma)
{
  (void)from;
  const struct reparam_args *x = args;
  *part += dot((double)REALS(x->u)[row], AT(x->w, row, 0), REALS(x->v), n);
}
SOME(some_reparam)
{
  (void)part;
  const struct reparam_args *x = args;
  const float factor = (float)((double)*REALS(x->gain) / (double)*REALS(x->sigma)), *w = AT(x->w, row, from);
  float *y = AT(x->y, row, from);
  EACH(j, n) put(y + j, factor * get(w + j, n - j), n - j);
}
PARTS_SCRATCH(reparam, w, 1)
static void reparam(struct device *device, const struct reparam_args *x)
{
  double sigma;
  walk_summing(device, walk_rows(x->w, x, some_sigma), 1, &sigma);
  *REALS(x->sigma) = (float)sigma;
  walk(device, walk_over(x->w, is_block(x->w) && is_block(x->y), x, some_reparam));
}

/* dw [+]= factor (dy - away u v^T), away = e / sigma */
struct reparam_job {
  const struct reparam_backward_args *x;
  double factor, away;
};
SOME(some_gain)
{
  const struct reparam_backward_args *x = args;
  *part += dot(1, AT(x->dy, row, from), AT(x->w, row, from), n);
}
SOME(some_reparam_backward)
{
  (void)part, (void)from;
  const struct reparam_job *job = args;
  const struct reparam_backward_args *x = job->x;
  const float *dy = AT(x->dy, row, 0), *v = REALS(x->v), factor = (float)job->factor;
  const float away = (float)(job->away * (double)REALS(x->u)[row]);
  float *dw = AT(x->dw, row, 0);
  EACH(j, n) {
    const vec d = fused(ALL(-away), get(v + j, n - j), get(dy + j, n - j));
    put(dw + j, x->add ? fused(ALL(factor), d, get(dw + j, n - j)) : factor * d, n - j);
  }
}
PARTS_SCRATCH(reparam_backward, w, 1)
static void reparam_backward(struct device *device, const struct reparam_backward_args *x)
{
  const double sigma = (double)*REALS(x->sigma);
  double e;
  walk_summing(device, walk_over(x->w, is_block(x->w) && is_block(x->dy), x, some_gain), 1, &e);
  *REALS(x->dgain) = (float)((double)*REALS(x->dgain) + e / sigma);
  struct reparam_job job = {.x = x, .factor = (double)*REALS(x->gain) / sigma, .away = e / sigma};
  walk(device, walk_rows(x->w, &job, some_reparam_backward));
}

/* --- embedding ----------------------------------------------------------------------------------------- */
SOME(some_embed)
{
  (void)part;
  const struct embed_forward_args *x = args;
  memcpy(AT(x->y, row, from), AT(x->w, INTS(x->tokens)[row], from), (size_t)n * sizeof(float));
}
static void embed_forward(struct device *device, const struct embed_forward_args *x)
{
  walk(device, walk_rows(x->y, x, some_embed));
}

/* Rows of dy by their token, those of one token in their order: each token's sum is made in registers. */
enum { EMBED_COLS = 2 * PARTS };
struct embed_job {
  const struct embed_backward_args *x;
  int *row; /* [rows] */
};

static void sort_rows(const struct embed_backward_args *x, int *row, int *next)
{
  const int *token = INTS(x->tokens);
  memset(next, 0, (size_t)(x->dw->rows + 1) * sizeof *next);
  for (long n = 0; n < x->dy->rows; n++) next[token[n] + 1]++;
  for (long v = 0; v < x->dw->rows; v++) next[v + 1] += next[v];
  for (long n = 0; n < x->dy->rows; n++) row[next[token[n]]++] = (int)n;
}

static void embed_columns(void *context, long piece, int worker)
{
  (void)worker;
  const struct embed_job *job = context;
  const struct embed_backward_args *x = job->x;
  const long cols = min_long(EMBED_COLS, x->dy->cols - piece * EMBED_COLS);
  for (long i = 0, end; i < x->dy->rows; i = end) {
    const int token = INTS(x->tokens)[job->row[i]];
    for (end = i + 1; end < x->dy->rows && INTS(x->tokens)[job->row[end]] == token; end++)
      ;
    EACH(j, cols) {
      float *w = AT(x->dw, token, piece * EMBED_COLS + j);
      const long left = cols - j;
      dvec low = first_half(get(w, left)), high = second_half(get(w, left));
      for (long k = i; k < end; k++) {
        vec dy = get(AT(x->dy, job->row[k], piece * EMBED_COLS + j), left);
        low += first_half(dy);
        high += second_half(dy);
      }
      put(w, from_halves(low, high), left);
    }
  }
}
static size_t embed_backward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct embed_backward_args *x = args;
  return (size_t)(x->dy->rows + x->dw->rows + 1) * sizeof *((struct embed_job *)0)->row;
}
static void embed_backward(struct device *device, const struct embed_backward_args *x)
{
  struct embed_job job = {.x = x};
  job.row = device_scratch(device, embed_backward_scratch(device, x));
  sort_rows(x, job.row, job.row + x->dy->rows);
  parallel_for(device->pool, (x->dy->cols + EMBED_COLS - 1) / EMBED_COLS, embed_columns, &job);
}

/* --- tokens and their choices ------------------------------------------------------------------------------ */
SOME(some_spread)
{
  (void)part;
  const struct dispatch_tokens_args *x = args;
  const long choice = INTS(x->order)[row], chosen = x->y->rows / x->x->rows;
  const float *in = AT(x->x, choice / chosen, from);
  float *y = AT(x->y, row, from);
  if (!x->gate) {
    memcpy(y, in, (size_t)n * sizeof *y);
    return;
  }
  const float gate = *AT(x->gate, choice / chosen, choice % chosen);
  EACH(j, n) put(y + j, gate * get(in + j, n - j), n - j);
}
static void dispatch_tokens(struct device *device, const struct dispatch_tokens_args *x)
{
  walk(device, walk_rows(x->y, x, some_spread));
}

SOME(some_gather)
{
  (void)part;
  const struct combine_tokens_args *x = args;
  float *y = AT(x->y, row, from);
  EACH(j, n) {
    vec sum = x->add ? get(y + j, n - j) : ALL(0.0f);
    for (long k = 0; k < x->place->cols; k++) {
      vec in = get(AT(x->x, INTS(x->place)[row * x->place->ld + k], from + j), n - j);
      sum = x->gate ? fused(ALL(*AT(x->gate, row, k)), in, sum) : sum + in;
    }
    put(y + j, sum, n - j);
  }
}
static void combine_tokens(struct device *device, const struct combine_tokens_args *x)
{
  walk(device, walk_rows(x->y, x, some_gather));
}

SOME(some_dot)
{
  (void)part, (void)from;
  const struct dot_rows_args *x = args;
  for (long k = 0; k < x->y->cols; k++)
    *AT(x->y, row, k) =
      (float)dot(1, AT(x->x, row, 0), AT(x->z, INTS(x->place)[row * x->place->ld + k], 0), n);
}
static void dot_rows(struct device *device, const struct dot_rows_args *x)
{
  walk(device, walk_rows(x->x, x, some_dot));
}

/* --- RMSNorm ------------------------------------------------------------------------------------------- */
/* A piece is NORM_ROWS rows. Forward takes NORMS groups of columns at a time, row by row, sums first: the long ways
   from sums to factors are then gone side by side. */
enum { NORM_ROWS = 32, NORMS = 8 };

static long norm_pieces(const struct tensor *x) { return (x->rows + NORM_ROWS - 1) / NORM_ROWS; }

static void rmsnorm_rows(void *context, long piece, int worker)
{
  (void)worker;
  const struct rmsnorm_forward_args *a = context;
  const long end = min_long((piece + 1) * NORM_ROWS, a->x->rows), size = a->group, groups = a->x->cols / size;
  const float *gain = a->gain ? REALS(a->gain) : NULL;
  const double eps = number(a->eps);
  for (long row = piece * NORM_ROWS, g = 0; row < end;) {
    double factor[NORMS] = {0};
    float inverse[NORMS], *y[NORMS], *rstd[NORMS];
    const float *x[NORMS];
    int count = 0;
    for (; count < NORMS && row < end; count++) {
      x[count] = AT(a->x, row, g * size);
      y[count] = AT(a->y, row, g * size);
      rstd[count] = AT(a->rstd, row, g);
      EACH(j, size) {
        SOON(x[count] + j, a->x, 0);
        __builtin_prefetch(y[count] + j, 1);
      }
      factor[count] = squares(x[count], size);
      if (++g == groups) g = 0, row++;
    }
    UNROLL
    for (int i = 0; i < NORMS; i++) /* also of missing groups: the count stays constant */
      inverse[i] = (float)(1 / sqrt(factor[i] / (double)size + eps));
    for (int i = 0; i < count; i++) {
      *rstd[i] = inverse[i];
      EACH(j, size) {
        vec z = get(x[i] + j, size - j) * inverse[i];
        if (gain) z *= get(gain + j, size - j);
        put(y[i] + j, z, size - j);
      }
    }
  }
}
static void rmsnorm_forward(struct device *device, const struct rmsnorm_forward_args *x)
{
  struct rmsnorm_forward_args copy_of = *x;
  parallel_for(device->pool, norm_pieces(x->x), rmsnorm_rows, &copy_of);
}

/* y = x rstd gain; with e = dy gain: dx = rstd (e - x rstd * rstd mean(e x)), dgain = sum of dy x rstd. A
   piece of NORM_ROWS rows adds its dgain into its own row of `gains`. */
struct norm_job {
  const struct rmsnorm_backward_args *a;
  float *gains;
  long gains_ld;
};

static void rmsnorm_backward_rows(void *context, long piece, int worker)
{
  (void)worker;
  const struct norm_job *job = context;
  const struct rmsnorm_backward_args *a = job->a;
  const long end = min_long((piece + 1) * NORM_ROWS, a->x->rows), size = a->group;
  float *gains = job->gains + piece * job->gains_ld;
  if (a->dgain) memset(gains, 0, (size_t)job->gains_ld * sizeof *gains);
  for (long row = piece * NORM_ROWS; row < end; row++)
    for (long g = 0; g < a->x->cols / size; g++) {
      const float *x = AT(a->x, row, g * size), *dy = AT(a->dy, row, g * size), rstd = *AT(a->rstd, row, g);
      float *dx = AT(a->dx, row, g * size);
      vec sum[SPLIT] = {{0}};
      EACH_PART(i, part, size)
      {
        const long j = i + part * LANES;
        vec ex = get(dy + j, size - j) * get(x + j, size - j);
        if (a->dgain) VEC(gains + j) = fused(ex, ALL(rstd), VEC(gains + j));
        sum[part] = a->gain ? fused(ex, get(REALS(a->gain) + j, size - j), sum[part]) : sum[part] + ex;
      }
      const float mean = rstd * (lane_sum(sum_of_parts(sum)) / (float)size);
      EACH(j, size) {
        vec e = get(dy + j, size - j);
        if (a->gain) e *= get(REALS(a->gain) + j, size - j);
        const vec d = fused(get(x + j, size - j) * rstd, ALL(-mean), e);
        put(dx + j, a->add ? fused(ALL(rstd), d, get(dx + j, size - j)) : rstd * d, size - j);
      }
    }
}

static size_t rmsnorm_backward_scratch(const struct device *device, const void *args)
{
  (void)device;
  const struct rmsnorm_backward_args *x = args;
  return (size_t)(norm_pieces(x->x) * round_up(x->group, PARTS)) * sizeof(float);
}
static void rmsnorm_backward(struct device *device, const struct rmsnorm_backward_args *x)
{
  long pieces = norm_pieces(x->x), ld = round_up(x->group, PARTS);
  struct norm_job job = {.a = x, .gains_ld = ld};
  job.gains = device_scratch(device, rmsnorm_backward_scratch(device, x));
  parallel_for(device->pool, pieces, rmsnorm_backward_rows, &job);
  for (long j = 0; x->dgain && j < x->group; j++) {
    double sum = 0;
    for (long p = 0; p < pieces; p++) sum += (double)job.gains[p * ld + j];
    *AT(x->dgain, 0, j) += (float)sum;
  }
}

/* --- SwiGLU, RoPE -------------------------------------------------------------------------------------- */
SOME(some_swiglu)
{
  (void)part;
  const struct swiglu_forward_args *a = args;
  const float *gate = AT(a->x, row, from), *up = AT(a->x, row, a->y->cols + from);
  float *y = AT(a->y, row, from);
  EACH(j, n) {
    vec g = get(gate + j, n - j);
    put(y + j, g * sigmoid(g) * get(up + j, n - j), n - j);
  }
}
static void swiglu_forward(struct device *device, const struct swiglu_forward_args *x)
{
  walk(device, walk_rows(x->y, x, some_swiglu));
}

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g) */
SOME(some_swiglu_backward)
{
  (void)part;
  const struct swiglu_backward_args *a = args;
  const long width = a->dy->cols;
  const float *gate = AT(a->x, row, from), *up = AT(a->x, row, width + from), *dy = AT(a->dy, row, from);
  float *dgate = AT(a->dx, row, from), *dup = AT(a->dx, row, width + from);
  EACH(j, n) {
    SOON(gate + j, a->x, 0);
    SOON(up + j, a->x, 0);
    SOON(dgate + j, a->dx, 1);
    SOON(dup + j, a->dx, 1);
    vec g = get(gate + j, n - j), s = sigmoid(g), d = get(dy + j, n - j), u = get(up + j, n - j);
    put(dgate + j, d * u * s * fused(g, 1.0f - s, ALL(1.0f)), n - j);
    put(dup + j, d * g * s, n - j);
  }
}
static void swiglu_backward(struct device *device, const struct swiglu_backward_args *x)
{
  walk(device, walk_rows(x->dy, x, some_swiglu_backward));
}

#ifdef __AVX512F__
/* One head in one vector: its halves swapped, times -sin | sin. */
INLINE void rope_vector(const float *x, float *y, vec cosine, vec sine, int add)
{
  vec turned = VEC(x), swapped = HALVES(turned);
  turned = fused(swapped, sine, turned * cosine);
  if (add) turned += VEC(y);
  VEC(y) = turned;
}
#endif

SOME(some_rope)
{
  (void)part, (void)from;
  const struct rope_args *a = args;
  const long half = a->dim / 2;
  const float *c = AT(a->table, INTS(a->position)[row], 0), *s = c + half, sign = (float)a->sign;
#ifdef __AVX512F__
  if (a->dim == LANES) {
    const float *x = AT(a->x, row, 0);
    float *y = AT(a->y, row, 0);
    vec table = VEC(c), cosine = PICK(table, table, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    vec sine = sign * PICK(-table, table, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    /* not SOON: the stores of vectors may alias ld, which it would read again for each head */
    const long x_soon = AHEAD * a->x->ld, y_soon = AHEAD * a->y->ld;
    const int add = a->add != 0;
    EACH(head, n) {
      __builtin_prefetch(x + head + x_soon, 0);
      __builtin_prefetch(y + head + y_soon, 1);
      rope_vector(x + head, y + head, cosine, sine, add);
    }
    return;
  }
#endif
  for (long head = 0; head < n; head += a->dim) {
    const float *x = AT(a->x, row, head);
    float *y = AT(a->y, row, head);
    SOON(x, a->x, 0);
    SOON(y, a->y, 1);
    EACH(i, half) {
      const long left = half - i;
      vec first = get(x + i, left), second = get(x + half + i, left);
      vec cosine = get(c + i, left), sine = sign * get(s + i, left);
      vec up = fused(-second, sine, first * cosine), down = fused(first, sine, second * cosine);
      if (a->add) up += get(y + i, left), down += get(y + half + i, left);
      put(y + i, up, left);
      put(y + half + i, down, left);
    }
  }
}
static void rope(struct device *device, const struct rope_args *x)
{
  walk(device, walk_rows(x->x, x, some_rope));
}

/* --- loss ---------------------------------------------------------------------------------------------- */
/* ml of rows [row, row + rows), as many as a vector has lanes for, side by side. A NaN among the logits makes the sum
   NaN, whatever the maximum missed: then it is NaN too. */
static void maxima_and_sums(const struct tensor *logits, const struct tensor *ml, long row, long rows)
{
  const long n = logits->cols, whole = n / LANES * LANES, first = n / PARTS * PARTS;
  float m[LANES];
  vec all[LANES];
  for (long r = 0; r < LANES; r++) all[r] = ALL(-INFINITY);
  for (long r = 0; r < rows; r++)
    EACH(j, whole) all[r] = larger(VEC(AT(logits, row + r, j)), all[r]);
  VEC(m) = lane_maxima(all);
  for (long r = 0; r < LANES; r++) all[r] = (vec){0};
  for (long r = 0; r < rows; r++) {
    vec sum[SPLIT] = {{0}};
    const float *x = AT(logits, row + r, 0);
    for (long j = whole; j < n; j++) m[r] = x[j] > m[r] ? x[j] : m[r];
    EACH_PART(j, part, first) sum[part] += vec_exp(VEC(x + j + part * LANES) - m[r]);
    if (first < n) UNROLL
    for (int part = 0; part < SPLIT; part++) {
      const long left = n - first - part * LANES;
      vec last = vec_exp(get(x + first + part * LANES, left) - m[r]);
      sum[part] += where_above(ALL((float)left), LANE, last, (vec){0});
    }
    all[r] = sum_of_parts(sum);
  }
  const vec l = lane_sums(all), high = VEC(m) + (l - l);
  for (long r = 0; r < rows; r++) *AT(ml, row + r, 0) = high[r], *AT(ml, row + r, 1) = l[r];
}

static void cross_entropy_rows(void *context, long piece, int worker)
{
  (void)worker;
  const struct row_walk *w = context;
  const struct cross_entropy_args *x = w->args;
  double loss = 0, square = 0;
  for (long row = piece * w->rows_each, end = min_long(row + w->rows_each, w->rows), ready = row; row < end;
       row++) {
    if (row == ready) {
      const long rows = min_long(LANES, end - row);
      maxima_and_sums(x->logits, x->ml, row, rows);
      ready += rows;
    }
    const double weight = (double)REALS(x->weight)[row];
    const float *ml = AT(x->ml, row, 0);
    if (weight == 0) continue;
    /* m less the target's logit first: the large numbers */
    const double rest = same_log((double)ml[1]), top = (double)ml[0], lse = top + rest;
    loss += weight * (top - (double)*AT(x->logits, row, INTS(x->targets)[row]) + rest);
    square += weight * lse * lse;
  }
  w->parts[2 * piece] = loss, w->parts[2 * piece + 1] = square;
}
PARTS_SCRATCH(cross_entropy, logits, 2)
static void cross_entropy(struct device *device, const struct cross_entropy_args *x)
{
  double total[2], z = number(x->z);
  struct row_walk w = walk_rows(x->logits, x, NULL);
  w.piece = cross_entropy_rows;
  walk_summing(device, w, 2, total);
  *AT(x->loss, 0, 0) = (float)total[0];
  *AT(x->loss, 0, 1) = (float)(z != 0 ? z * total[1] : 0);
}

SOME(some_cross_entropy_backward)
{
  (void)part, (void)from;
  const struct cross_entropy_backward_args *x = args;
  const float weight = REALS(x->weight)[row], *ml = AT(x->ml, row, 0), *logits = AT(x->logits, row, 0);
  const double z = number(x->z);
  /* without z it is 1, unless the logarithm, which costs most, is not a number */
  const int plain = z == 0 && fabsf(ml[0]) <= FLT_MAX && ml[1] > 0 && ml[1] <= FLT_MAX;
  const double by = plain ? 1 : 1 + 2 * z * ((double)ml[0] + same_log((double)ml[1]));
  const float slope = (float)((double)weight * by / (double)ml[1]);
  float *d = AT(x->dlogits, row, 0);
  if (weight == 0) {
    memset(d, 0, (size_t)n * sizeof *d);
    return;
  }
  EACH(j, n) put(d + j, slope * vec_exp(get(logits + j, n - j) - ml[0]), n - j);
  d[INTS(x->targets)[row]] -= weight;
}
static void cross_entropy_backward(struct device *device, const struct cross_entropy_backward_args *x)
{
  walk(device, walk_rows(x->logits, x, some_cross_entropy_backward));
}

void EXPORT(ops_cpu_rows)(struct ops *ops)
{
  ops->scratch[OP_norm] = norm_scratch;
  ops->squares = squares_of, ops->squared = PIECE;
  ops->scratch[OP_max_abs] = max_abs_scratch;
  ops->scratch[OP_scale_columns_backward] = scale_columns_backward_scratch;
  ops->scratch[OP_reparam] = reparam_scratch;
  ops->scratch[OP_reparam_backward] = reparam_backward_scratch;
  ops->scratch[OP_cross_entropy] = cross_entropy_scratch;
  ops->scratch[OP_embed_backward] = embed_backward_scratch;
  ops->scratch[OP_rmsnorm_backward] = rmsnorm_backward_scratch;
#define SET(name) ops->name = name
  SET(fill), SET(copy), SET(axpby), SET(scale), SET(norm), SET(max_abs);
  SET(embed_forward), SET(embed_backward), SET(rmsnorm_forward), SET(rmsnorm_backward);
  SET(add_bias), SET(sum_rows), SET(scale_columns), SET(scale_columns_backward), SET(round_to);
  SET(join_heads), SET(join_heads_backward), SET(reparam), SET(reparam_backward);
  SET(swiglu_forward), SET(swiglu_backward), SET(rope), SET(cross_entropy), SET(cross_entropy_backward);
  SET(dispatch_tokens), SET(combine_tokens), SET(dot_rows);
#undef SET
  ops->transpose = transpose_all;
}
