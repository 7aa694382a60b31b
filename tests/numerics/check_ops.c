/* check_ops.c - every operation of ops.def on every device against its definition
   One loop: shapes of a case x strides x hostile inputs. Buffers lie between guard bands; outputs that an
   operation must not read hold NaN; the number of threads must not change a bit. The tolerance comes from the
   data: a kernel that is stable gives the exact result of inputs that are off by a few roundings, so the
   reference is run on inputs that are off by random relative amounts, and its spread, scaled down to one
   rounding and up by the growth of sums (square root of the longest dimension), is what a kernel may be off.
   An operation without a case does not compile. */
#include "base/memory.h"
#include "base/random.h"
#include "numerics/device.h"
#include "numerics/number_format.h"
#ifdef CUDA_ON_HOST
#include "cuda/launch.h"
#include "../cuda/cuda_device.h"
#endif
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef CUDA_ON_HOST
#include <unistd.h>
#endif

#ifdef MAXLOGIT_DOUBLE
#define HUGE_INPUT 1e300
#define SMALLEST DBL_MIN
#define LARGEST DBL_MAX
#define SPREAD 0x1p-24
#define SQUARE_OVERFLOWS 1.3407807929942596e154 /* the root of LARGEST */
#else
#define HUGE_INPUT 1e30
#define SMALLEST FLT_MIN
#define LARGEST FLT_MAX
#define SPREAD 0x1p-10
#define SQUARE_OVERFLOWS 1.8446743523953730e19
#endif

enum { GUARD = 16, MAX_TENSORS = 16, SAMPLES = 8, RUNS = SAMPLES + 4 };
static const real guard_value = (real)-12345.678;
static const int guard_int = -1234567;

enum hostile { TAME, NEGATIVE, TINY, ZERO, WITH_NAN, WITH_INF, WITH_MINUS_INF, WITH_HUGE, HOSTILES };
static const char *const hostile_names[] = {"tame", "all negative", "tiny", "zero",
                                            "NaN",  "Inf",          "-Inf", "huge"};

/* One case: tensors, the arguments made of them, and what each run has left in them. */
struct guarded {
  struct tensor t;
  char *memory;
  size_t bytes, before; /* of memory; of the guard in front */
  int read;             /* does the operation read the values? */
  int exact;            /* not disturbed: constants of which every device makes others */
  int work;             /* whatever is left there is nobody's business */
  int symmetric;
  char *result[RUNS];
};

struct made {
  struct guarded item[MAX_TENSORS];
  int items;
  int strided; /* rows further apart than they are wide */
  int rounds;  /* to a narrow format, inside */
  uint64_t seed;
  union op_args args;
  enum hostile hostile; /* what every value is like; what one value is like, see spoil */
  struct device *reference;
};

static double normal(const struct made *m, long i)
{
  return draw_normal((struct draw){m->seed, STREAM_TEST, (uint64_t)m->items}, (uint64_t)i);
}

static long below(const struct made *m, long i, long n)
{
  return (long)draw_below((struct draw){m->seed, STREAM_TEST, (uint64_t)m->items}, (uint64_t)i, (uint64_t)n);
}

static struct guarded *new_item(struct made *m, enum tensor_type type, long rows, long cols, long ld)
{
  if (m->items == MAX_TENSORS) ck_abort_msg("MAX_TENSORS is too small");
  struct guarded *g = &m->item[m->items];
  size_t size = type == TENSOR_INT ? sizeof(int) : sizeof(real);
  long shift = m->strided ? 1 : 0; /* views may begin anywhere */
  g->before = (size_t)(GUARD + shift) * size;
  g->bytes = (size_t)(rows * ld + 2 * GUARD + shift) * size;
  g->memory = memory_new(1, g->bytes);
  g->t = tensor_of(g->memory + g->before, rows, cols);
  g->t.ld = ld;
  g->t.type = type;
  g->t.name = "case";
  if (type == TENSOR_REAL)
    for (size_t i = 0; i < g->bytes / size; i++) ((real *)g->memory)[i] = guard_value;
  m->items++;
  return g;
}

static real value_like(const struct made *m, double x)
{
  if (m->hostile == NEGATIVE) return (real)-fabs(x);
  if (m->hostile == TINY) return (real)(x / HUGE_INPUT);
  return m->hostile == ZERO ? 0 : (real)x;
}

static struct tensor *new_real(struct made *m, long rows, long cols, long ld, int read)
{
  struct guarded *g = new_item(m, TENSOR_REAL, rows, cols, ld);
  g->read = read;
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < cols; j++)
      REALS(&g->t)[i * ld + j] = read ? value_like(m, normal(m, i * cols + j)) : (real)NAN;
  return &g->t;
}

static long stride(const struct made *m, long cols) { return cols + (m->strided ? 5 : 0); }

static struct tensor *in(struct made *m, long rows, long cols)
{
  return new_real(m, rows, cols, stride(m, cols), 1);
}

static struct tensor *out(struct made *m, long rows, long cols, long add)
{
  return new_real(m, rows, cols, stride(m, cols), add != 0);
}

static void now_read(struct tensor *t) { ((struct guarded *)t)->read = 1; }

static struct tensor *vector(struct made *m, long n) { return new_real(m, 1, n, n, 1); }

static struct tensor *positive(struct made *m, struct tensor *t)
{
  (void)m;
  for (long i = 0; i < t->rows; i++)
    for (long j = 0; j < t->cols; j++) REALS(t)[i * t->ld + j] = (real)fabs((double)REALS(t)[i * t->ld + j]);
  return t;
}

/* A NUMBER, or none. */
static struct tensor *number(struct made *m, int there, double value)
{
  if (!there) return NULL;
  struct tensor *t = vector(m, 1);
  REALS(t)[0] = (real)value;
  ((struct guarded *)t)->exact = 1;
  return t;
}

static struct tensor *integers(struct made *m, long n, long limit)
{
  struct guarded *g = new_item(m, TENSOR_INT, 1, n, n);
  for (long i = 0; i < n; i++) INTS(&g->t)[i] = (int)below(m, i, limit);
  g->read = 1;
  return &g->t;
}

/* Row n of a sequence of `length` sees from its document's begin: documents of `document` rows, 0: one. */
static struct tensor *starts(struct made *m, long rows, long length, long document)
{
  struct tensor *t = integers(m, rows, 1);
  for (long n = 0; n < rows; n++) INTS(t)[n] = (int)(document ? n % length / document * document : 0);
  return t;
}

/* Which keys rows see; of a window or a prefix `number` says how long. */
enum { UP_TO_ITSELF, ALL_KEYS, WINDOW, PREFIX, ANY_KEYS, ANY_OR_NONE, NO_KEYS };

/* What rows of attention see, over what `starts` has made for UP_TO_ITSELF; returns where ranges end. */
static struct tensor *ranges(struct made *m, struct tensor *start, long length, int kind, long number)
{
  struct tensor *end = kind == UP_TO_ITSELF || kind == WINDOW ? NULL : integers(m, start->cols, length + 1);
  for (long n = 0; n < start->cols; n++) {
    const long t = n % length, at = (long)below(m, 7 * n + 1, length + 1),
               wide =
                 kind == ANY_KEYS ? 1 + (long)below(m, 7 * n + 2, length) : (long)below(m, 7 * n + 2, 9) - 3;
    int *from = INTS(start) + n;
    if (kind == WINDOW) *from = (int)(t + 1 > number ? t + 1 - number : 0);
    if (!end) continue;
    int *to = INTS(end) + n;
    if (kind == ALL_KEYS) *to = (int)length;
    if (kind == PREFIX) *to = (int)(t + 1 > number ? t + 1 : number);
    if (kind < ANY_KEYS) continue;
    *from = (int)(kind == ANY_KEYS && at == length ? length - 1 : at);
    *to = (int)(kind == NO_KEYS         ? *from
                : *from + wide > length ? length
                : *from + wide < 0      ? 0
                                        : *from + wide);
  }
  return end;
}

/* --- cases: make_NAME fills the arguments of variant i; 0 when there is no such variant
 * ----------------------------------------- */

static const long sizes[][2] = {{1, 1},    {1, 7},  {3, 5},    {2, 64},    {5, 33},
                                {1, 1000}, {70, 3}, {130, 40}, {1, 20001}, {2, 17000}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int make_matmul(struct made *m, int i, union op_args *args)
{
  static const long shape[][3] = {{1, 1, 1},     {1, 7, 3},     {3, 1, 5},     {5, 4, 1},
                                  {17, 19, 23},  {64, 48, 33},  {33, 130, 65}, {8, 8, 300},
                                  {130, 65, 16}, {1, 20001, 2}, {100, 70, 37}, {520, 16, 260}};
  if (i >= 10 * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / 10];
  struct matmul_args *a = &args->matmul;
  *a = (struct matmul_args){.ta = i & 1, .tb = i >> 1 & 1, .alpha = i % 3 ? 1 : -0.5};
  a->add = i % 10 / 4 == 1;
  if (i % 10 / 4 == 2) a->d = in(m, s[0], s[1]);
  a->a = a->ta ? in(m, s[2], s[0]) : in(m, s[0], s[2]);
  a->b = a->tb ? in(m, s[1], s[2]) : in(m, s[2], s[1]);
  a->c = out(m, s[0], s[1], a->add);
  return 1;
}

static int make_gram(struct made *m, int i, union op_args *args)
{
  static const long shape[][2] = {{1, 1},    {2, 9},   {7, 1},     {16, 16}, {33, 20}, {70, 130},
                                  {130, 64}, {200, 3}, {1, 20001}, {56, 5},  {40, 300}};
  if (i >= 2 * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / 2];
  struct tensor *a = in(m, s[0], i % 2 ? s[0] : s[1]);
  for (long r = 0; i % 2 && r < s[0]; r++)
    for (long c = 0; c < r; c++) REALS(a)[c * a->ld + r] = REALS(a)[r * a->ld + c];
  m->item[0].symmetric = i % 2;
  args->gram =
    (struct gram_args){.c = out(m, s[0], s[0], 0), .a = a, .alpha = 2.0315, .beta = i % 2 ? -4.775 : 0};
  return 1;
}

/* They need not commute: what lies on and below the diagonal is the product's. */
static int make_symmetric_product(struct made *m, int i, union op_args *args)
{
  static const long side[] = {1, 2, 7, 16, 33, 56, 70, 130};
  if (i >= (int)(sizeof side / sizeof *side)) return 0;
  const long n = side[i];
  struct tensor *a = in(m, n, n), *b = in(m, n, n);
  for (long r = 0; r < n; r++)
    for (long c = 0; c < r; c++) {
      REALS(a)[c * a->ld + r] = REALS(a)[r * a->ld + c];
      REALS(b)[c * b->ld + r] = REALS(b)[r * b->ld + c];
    }
  m->item[0].symmetric = m->item[1].symmetric = 1;
  args->symmetric_product = (struct symmetric_product_args){.c = out(m, n, n, 0), .a = a, .b = b};
  return 1;
}

static int make_add_bias(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->add_bias = (struct add_bias_args){.y = in(m, sizes[i][0], sizes[i][1]), .b = vector(m, sizes[i][1])};
  return 1;
}

static int make_sum_rows(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->sum_rows = (struct sum_rows_args){.y = out(m, 1, s[1], i % 2), .x = in(m, s[0], s[1]), .add = i % 2};
  return 1;
}

static int make_embed_forward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->embed_forward = (struct embed_forward_args){.y = out(m, sizes[i][0], sizes[i][1], 0),
                                                    .tokens = integers(m, sizes[i][0], 11),
                                                    .w = in(m, 11, sizes[i][1])};
  return 1;
}

static int make_embed_backward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->embed_backward = (struct embed_backward_args){.dw = in(m, 11, sizes[i][1]),
                                                      .tokens = integers(m, sizes[i][0], 11),
                                                      .dy = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static const long norms[][3] = {{1, 1, 1},      {3, 5, 5},       {2, 64, 64}, {7, 24, 8},
                                {65, 40, 4},    {4, 300, 300},   {3, 6, 1},   {1, 20001, 20001},
                                {1, 20004, 12}, {2, 16400, 8200}};
enum { NORMS = sizeof norms / sizeof *norms };

static int make_rmsnorm_forward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * NORMS) return 0;
  const long *s = norms[i / 2];
  args->rmsnorm_forward = (struct rmsnorm_forward_args){.y = out(m, s[0], s[1], 0),
                                                        .rstd = out(m, s[0], s[1] / s[2], 0),
                                                        .x = in(m, s[0], s[1]),
                                                        .gain = i % 2 ? vector(m, s[2]) : NULL,
                                                        .group = s[2],
                                                        .eps = number(m, 1, 1e-6)};
  return 1;
}

static int make_rmsnorm_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * NORMS) return 0;
  const long *s = norms[i / 4];
  int gain = i & 1, add = i >> 1 & 1;
  struct rmsnorm_backward_args *a = &args->rmsnorm_backward;
  *a = (struct rmsnorm_backward_args){.dx = out(m, s[0], s[1], add),
                                      .dgain = gain ? vector(m, s[2]) : NULL,
                                      .dy = in(m, s[0], s[1]),
                                      .x = in(m, s[0], s[1]),
                                      .rstd = in(m, s[0], s[1] / s[2]),
                                      .gain = gain ? vector(m, s[2]) : NULL,
                                      .group = s[2],
                                      .add = add};
  union op_args forward = {.rmsnorm_forward = {.y = out(m, s[0], s[1], 0),
                                               .rstd = a->rstd,
                                               .x = a->x,
                                               .gain = a->gain,
                                               .group = s[2],
                                               .eps = number(m, 1, 1e-6)}};
  op_run(m->reference, OP_rmsnorm_forward, &forward);
  return 1;
}

static int make_swiglu_forward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->swiglu_forward = (struct swiglu_forward_args){.y = out(m, sizes[i][0], sizes[i][1], 0),
                                                      .x = in(m, sizes[i][0], 2 * sizes[i][1])};
  REALS(args->swiglu_forward.x)[0] *= 100; /* far into a tail of the sigmoid */
  return 1;
}

static int make_swiglu_backward(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->swiglu_backward = (struct swiglu_backward_args){.dx = out(m, sizes[i][0], 2 * sizes[i][1], 0),
                                                        .dy = in(m, sizes[i][0], sizes[i][1]),
                                                        .x = in(m, sizes[i][0], 2 * sizes[i][1])};
  REALS(args->swiglu_backward.x)[0] *= 100;
  return 1;
}

static int make_rope(struct made *m, int i, union op_args *args)
{
  static const long shape[][3] = {{1, 1, 2},  {5, 3, 4},     {9, 2, 6},    {33, 4, 16},
                                  {7, 1, 64}, {1, 1100, 16}, {1, 2, 16500}};
  if (i >= 6 * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / 6];
  long add = i % 3 == 1;
  struct tensor *x = in(m, s[0], s[1] * s[2]);
  args->rope = (struct rope_args){.y = i % 3 == 2 ? x : out(m, s[0], s[1] * s[2], add),
                                  .x = x,
                                  .position = integers(m, s[0], 12),
                                  .table = new_real(m, 12, s[2], s[2], 1),
                                  .dim = s[2],
                                  .sign = i / 3 % 2 ? 1 : -1,
                                  .add = add};
  return 1;
}

static int make_scale_columns(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->scale_columns = (struct scale_columns_args){
    .y = out(m, sizes[i][0], sizes[i][1], 0), .x = in(m, sizes[i][0], sizes[i][1]), .s = vector(m, 1)};
  return 1;
}

static int make_scale_columns_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->scale_columns_backward = (struct scale_columns_backward_args){.dx = out(m, s[0], s[1], i % 2),
                                                                      .ds = vector(m, 1),
                                                                      .dy = in(m, s[0], s[1]),
                                                                      .x = in(m, s[0], s[1]),
                                                                      .s = vector(m, 1),
                                                                      .add = i % 2};
  return 1;
}

/* rows, heads, Da, Db */
static const long joins[][4] = {{1, 1, 1, 1}, {3, 2, 4, 2}, {5, 4, 1, 6}, {17, 3, 16, 8}, {1, 300, 64, 8}};
enum { JOINS = sizeof joins / sizeof *joins };

static int make_join_heads(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * JOINS) return 0;
  const long *s = joins[i / 2], shared = i % 2;
  args->join_heads = (struct join_heads_args){.y = out(m, s[0], s[1] * (s[2] + s[3]), 0),
                                              .a = in(m, s[0], s[1] * s[2]),
                                              .b = in(m, s[0], (shared ? 1 : s[1]) * s[3]),
                                              .heads = s[1],
                                              .shared = shared};
  return 1;
}

static int make_join_heads_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * JOINS) return 0;
  const long *s = joins[i / 2], shared = i % 2;
  args->join_heads_backward =
    (struct join_heads_backward_args){.da = out(m, s[0], s[1] * s[2], 0),
                                      .db = out(m, s[0], (shared ? 1 : s[1]) * s[3], 0),
                                      .dy = in(m, s[0], s[1] * (s[2] + s[3])),
                                      .heads = s[1],
                                      .shared = shared};
  return 1;
}

static int make_reparam(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->reparam = (struct reparam_args){.y = out(m, s[0], s[1], 0),
                                        .sigma = out(m, 1, 1, 0),
                                        .w = in(m, s[0], s[1]),
                                        .u = vector(m, s[0]),
                                        .v = vector(m, s[1]),
                                        .gain = vector(m, 1)};
  return 1;
}

static int make_reparam_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2], add = i % 2;
  args->reparam_backward = (struct reparam_backward_args){.dw = out(m, s[0], s[1], add),
                                                          .dgain = vector(m, 1),
                                                          .dy = in(m, s[0], s[1]),
                                                          .w = in(m, s[0], s[1]),
                                                          .u = vector(m, s[0]),
                                                          .v = vector(m, s[1]),
                                                          .gain = vector(m, 1),
                                                          .sigma = vector(m, 1),
                                                          .add = add};
  return 1;
}

/* batch, length, heads, groups, Dqk, Dv, document, cap; scale, cap value and format of the scores with it, ranges */
static const struct {
  long batch, length, heads, groups, dim, value, document, cap;
  double scale, cap_value;
  enum number_format scores_format;
  int ranges;
} attentions_of[] = {
  {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, UP_TO_ITSELF},
  {2, 3, 2, 1, 4, 5, 0, 0, 0.5, 0, 0, UP_TO_ITSELF},
  {1, 17, 1, 1, 8, 8, 0, 0, 0.35, 0, 0, UP_TO_ITSELF},
  {2, 33, 4, 2, 16, 16, 0, 0, 0.25, 0, 0, UP_TO_ITSELF},
  {1, 70, 2, 2, 16, 8, 0, 0, 3, 0, 0, UP_TO_ITSELF},
  {3, 20, 3, 1, 6, 3, 7, 0, 0.4, 0, 0, UP_TO_ITSELF},
  {2, 40, 2, 2, 8, 16, 1, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 65, 4, 4, 16, 16, 16, 1, 1, 2, 0, UP_TO_ITSELF},
  {2, 19, 2, 1, 5, 7, 0, 1, 2, 0.5, 0, UP_TO_ITSELF},
  {1, 50, 2, 1, 12, 12, 0, 2, 1, 0.75, 0, UP_TO_ITSELF},
  {1, 130, 1, 1, 32, 32, 0, 0, 0.18, 0, 0, UP_TO_ITSELF},
  {1, 37, 6, 2, 64, 64, 0, 2, 2, 30, 0, UP_TO_ITSELF},
  {1, 1100, 1, 1, 8, 3, 0, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 1, 300, 1, 64, 64, 0, 0, 0.125, 0, 0, UP_TO_ITSELF},
  {1, 40, 2, 1, 12, 12, 0, 1, 1, 0.02, 0, UP_TO_ITSELF},
  {2, 21, 2, 1, 8, 6, 5, 0, 3, 0, FORMAT_BF16, UP_TO_ITSELF},
  {1, 30, 2, 2, 6, 8, 0, 1, 2, 3, FORMAT_FP16, UP_TO_ITSELF},
  {1, 33, 4, 2, 16, 8, 0, 2, 90, 400, FORMAT_FP8_E4M3, UP_TO_ITSELF},
  {1, 90, 1, 1, 4, 4, 40, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 420, 2, 1, 5, 6, 139, 0, 1, 0, 0, UP_TO_ITSELF},
  {1, 66, 1, 1, 128, 128, 0, 0, 0.09, 0, 0, UP_TO_ITSELF},
  {1, 20, 2, 1, 130, 136, 0, 1, 0.09, 1, 0, UP_TO_ITSELF},
  {2, 1, 2, 1, 3, 4, 0, 0, 1, 0, 0, NO_KEYS},
  {2, 26, 2, 2, 8, 6, 0, 0, 0.5, 0, 0, NO_KEYS},
  {2, 41, 2, 1, 16, 16, 0, 0, 0.25, 0, 0, ALL_KEYS},
  {1, 650, 1, 1, 5, 4, 0, 0, 1, 0, 0, ALL_KEYS},
  {2, 67, 4, 2, 8, 20, 16, 0, 1, 0, 0, WINDOW},
  {1, 90, 2, 1, 8, 8, 1, 0, 1, 0, 0, WINDOW},
  {1, 1100, 1, 1, 6, 3, 530, 0, 1, 0, 0, WINDOW},
  {1, 140, 2, 1, 24, 8, 37, 1, 1, 2, 0, WINDOW},
  {1, 77, 2, 2, 8, 8, 30, 0, 2, 0, 0, PREFIX},
  {2, 50, 2, 1, 12, 12, 9, 2, 1, 0.75, 0, PREFIX},
  {2, 70, 3, 1, 6, 3, 0, 0, 0.4, 0, 0, ANY_KEYS},
  {2, 45, 2, 2, 16, 8, 0, 0, 1, 0, 0, ANY_OR_NONE},
  {1, 300, 2, 1, 5, 7, 0, 1, 2, 0.5, 0, ANY_OR_NONE},
  {2, 33, 2, 1, 8, 6, 0, 0, 3, 0, FORMAT_BF16, ANY_OR_NONE},
};
enum { ATTENTIONS = sizeof attentions_of / sizeof *attentions_of };

static struct attention_score score_of(struct made *m, int i)
{
  return (struct attention_score){.batch = attentions_of[i].batch,
                                  .heads = attentions_of[i].heads,
                                  .groups = attentions_of[i].groups,
                                  .scale = attentions_of[i].scale,
                                  .cap = attentions_of[i].cap,
                                  .cap_value =
                                    number(m, attentions_of[i].cap > 0, attentions_of[i].cap_value),
                                  .scores_format = attentions_of[i].scores_format};
}

static void put_ranges(struct made *m, int i, struct tensor *start, struct tensor **end)
{
  const long number = attentions_of[i].document;
  if (attentions_of[i].ranges == UP_TO_ITSELF) return;
  *end = ranges(m, start, attentions_of[i].length, attentions_of[i].ranges, number);
}

static int make_attention_forward(struct made *m, int i, union op_args *args)
{
  if (i >= ATTENTIONS) return 0;
  long n = attentions_of[i].batch * attentions_of[i].length, heads = attentions_of[i].heads;
  long groups = attentions_of[i].groups, dim = attentions_of[i].dim, value = attentions_of[i].value;
  m->rounds = attentions_of[i].scores_format != FORMAT_F32;
  args->attention_forward =
    (struct attention_forward_args){.o = out(m, n, heads * value, 0),
                                    .ml = out(m, n, 2 * heads, 0),
                                    .stats = out(m, heads, 4, 0),
                                    .q = in(m, n, heads * dim),
                                    .k = in(m, n, groups * dim),
                                    .v = in(m, n, groups * value),
                                    .start = starts(m, n, attentions_of[i].length, attentions_of[i].document),
                                    .score = score_of(m, i)};
  put_ranges(m, i, args->attention_forward.start, &args->attention_forward.end);
  return 1;
}

static int make_attention_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_attention_forward(m, i, &forward)) return 0;
  const struct attention_forward_args *f = &forward.attention_forward;
  op_run(m->reference, OP_attention_forward, &forward);
  now_read(f->o);
  now_read(f->ml);
  args->attention_backward = (struct attention_backward_args){.dq = out(m, f->q->rows, f->q->cols, 0),
                                                              .dk = out(m, f->k->rows, f->k->cols, 0),
                                                              .dv = out(m, f->v->rows, f->v->cols, 0),
                                                              .do_ = in(m, f->o->rows, f->o->cols),
                                                              .o = f->o,
                                                              .q = f->q,
                                                              .k = f->k,
                                                              .v = f->v,
                                                              .ml = f->ml,
                                                              .start = f->start,
                                                              .end = f->end,
                                                              .score = f->score};
  return 1;
}

static int make_attention_cached(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * ATTENTIONS) return 0;
  int scaled = i % 2;
  i /= 2;
  long n = attentions_of[i].batch, length = attentions_of[i].length, heads = attentions_of[i].heads;
  long groups = attentions_of[i].groups, dim = attentions_of[i].dim, value = attentions_of[i].value;
  m->rounds = attentions_of[i].scores_format != FORMAT_F32;
  struct attention_cached_args *a = &args->attention_cached;
  *a = (struct attention_cached_args){.o = out(m, n, heads * value, 0),
                                      .ml = out(m, n, 2 * heads, 0),
                                      .stats = out(m, heads, 4, 0),
                                      .keys = in(m, n * length, groups * dim),
                                      .values = in(m, n * length, groups * value),
                                      .factors = scaled ? in(m, n * length, heads) : NULL,
                                      .q = in(m, n, heads * dim),
                                      .k = in(m, n, groups * dim),
                                      .v = in(m, n, groups * value),
                                      .factor = scaled ? in(m, n, heads) : NULL,
                                      .slot = integers(m, n, length),
                                      .start = integers(m, n, 1),
                                      .scaled = scaled * (dim + 1) / 2,
                                      .score = score_of(m, i)};
  for (long b = 0; b < n; b++)
    INTS(a->start)[b] = INTS(a->slot)[b] / 3 + (attentions_of[i].ranges >= ANY_OR_NONE ? (int)length : 0);
  return 1;
}

static int make_heads_product(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * JOINS) return 0;
  const long *s = joins[i / 4], transposed = i & 1;
  args->heads_product =
    (struct heads_product_args){.y = out(m, s[0], s[1] * s[3], 0),
                                .x = in(m, s[0], s[1] * s[2]),
                                .w = transposed ? in(m, s[1] * s[3], s[2]) : in(m, s[1] * s[2], s[3]),
                                .gain = i & 2 ? vector(m, s[2]) : NULL,
                                .heads = s[1],
                                .transposed = transposed};
  return 1;
}

static int make_attention_look(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_attention_forward(m, i, &forward)) return 0;
  const struct attention_forward_args *f = &forward.attention_forward;
  args->attention_look = (struct attention_look_args){.look = out(m, f->heads, 5, 0),
                                                      .q = f->q,
                                                      .k = f->k,
                                                      .start = f->start,
                                                      .end = f->end,
                                                      .level = number(m, i % 2, 0.5),
                                                      .score = f->score};
  return 1;
}

static int make_cross_entropy(struct made *m, int i, union op_args *args)
{
  static const long many_rows[] = {17000, 2};
  if (i >= 2 * SIZES + 1) return 0;
  const long *s = i < 2 * SIZES ? sizes[i / 2] : many_rows;
  args->cross_entropy = (struct cross_entropy_args){.loss = out(m, 1, 2, 0),
                                                    .ml = out(m, s[0], 2, 0),
                                                    .logits = in(m, s[0], s[1]),
                                                    .targets = integers(m, s[0], s[1]),
                                                    .weight = positive(m, vector(m, s[0])),
                                                    .z = number(m, i % 4 != 3, i % 2 ? 0.1 : 0)};
  if (s[0] > 1) REALS(args->cross_entropy.weight)[1] = 0;
  return 1;
}

static int make_cross_entropy_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_cross_entropy(m, i, &forward)) return 0;
  const struct cross_entropy_args *f = &forward.cross_entropy;
  op_run(m->reference, OP_cross_entropy, &forward);
  now_read(f->ml);
  args->cross_entropy_backward =
    (struct cross_entropy_backward_args){.dlogits = out(m, f->logits->rows, f->logits->cols, 0),
                                         .logits = f->logits,
                                         .ml = f->ml,
                                         .targets = f->targets,
                                         .weight = f->weight,
                                         .z = f->z};
  return 1;
}

static int make_token_loss(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->token_loss = (struct token_loss_args){.y = out(m, s[0], 1, 0),
                                              .logits = in(m, s[0], s[1]),
                                              .ml = positive(m, in(m, s[0], 2)),
                                              .targets = integers(m, s[0], s[1])};
  return 1;
}

static int make_fill(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->fill = (struct fill_args){.y = out(m, sizes[i][0], sizes[i][1], 0), .value = i % 2 ? 0 : -1.5};
  return 1;
}

static int make_copy(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->copy =
    (struct copy_args){.y = out(m, sizes[i][0], sizes[i][1], 0), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_round_to(struct made *m, int i, union op_args *args)
{
  if (i >= FORMAT_COUNT * SIZES) return 0;
  const long *s = sizes[i / FORMAT_COUNT];
  args->round_to =
    (struct round_to_args){.y = out(m, s[0], s[1], 0), .x = in(m, s[0], s[1]), .format = i % FORMAT_COUNT};
  return 1;
}

static int make_axpby(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * SIZES) return 0;
  const long *s = sizes[i / 4];
  int given = i / 2 % 2;
  args->axpby = (struct axpby_args){.y = out(m, s[0], s[1], i % 2),
                                    .x = in(m, s[0], s[1]),
                                    .a = number(m, given, 1.5),
                                    .b = number(m, given, -0.3),
                                    .alpha = -1.25,
                                    .beta = i % 2 ? 0.75 : 0};
  return 1;
}

static int make_scale(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  args->scale = (struct scale_args){
    .y = in(m, s[0], s[1]), .by = number(m, i % 2, i % 6 == 1 ? 1 / 0.25 : -0.7), .alpha = i % 4 ? 0.25 : 1};
  return 1;
}

static int make_norm(struct made *m, int i, union op_args *args)
{
  static const long many[] = {33,
                              16400}; /* of so many pieces the sums pass the least scratch that there is */
  if (i > SIZES) return 0;
  const long *s = i < SIZES ? sizes[i] : many;
  args->norm = (struct norm_args){.y = out(m, 1, 1, 0), .x = in(m, s[0], s[1])};
  return 1;
}

static int make_max_abs(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->max_abs = (struct max_abs_args){.y = out(m, 1, 1, 0), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_transpose(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->transpose = (struct transpose_args){.y = out(m, s[1], s[0], 0), .x = in(m, s[0], s[1])};
  return 1;
}

static int make_adam(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SIZES) return 0;
  const long *s = sizes[i / 2];
  int given = i % 2 == 0;
  args->adam = (struct adam_args){.direction = out(m, s[0], s[1], 0),
                                  .m = in(m, s[0], s[1]),
                                  .v = positive(m, in(m, s[0], s[1])),
                                  .g = in(m, s[0], s[1]),
                                  .b1 = number(m, 1, 0.9),
                                  .b2 = number(m, 1, 0.95),
                                  .c1 = number(m, given, 1 - pow(0.9, i + 1)),
                                  .c2 = number(m, given, 1 - pow(0.95, i + 1)),
                                  .eps = number(m, given, 1e-8)};
  return 1;
}

static int make_momentum(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * SIZES) return 0;
  const long *s = sizes[i / 4];
  args->momentum = (struct momentum_args){.direction = out(m, s[0], s[1], 0),
                                          .m = in(m, s[0], s[1]),
                                          .g = in(m, s[0], s[1]),
                                          .mu = number(m, i / 2 % 2, 0.9),
                                          .nesterov = i % 2};
  return 1;
}

/* Matrices one after another with gaps, more or fewer of them than threads; one matrix takes every row of work. */
static int make_newton_schulz(struct made *m, int i, union op_args *args)
{
  static const long shape[][7] = {
    /* rows, cols, places, lanes, steps, on the Gram matrix at first, then */
    {1, 1, 1, 1, 1, 1, 1},   {1, 9, 2, 1, 3, 1, 1},    {7, 1, 3, 3, 2, 2, 1},    {4, 6, 5, 4, 5, 1, 1},
    {17, 11, 2, 2, 1, 3, 2}, {24, 24, 4, 3, 2, 1, 1},  {12, 40, 3, 1, 5, 3, 2},  {65, 33, 1, 1, 2, 1, 1},
    {9, 20, 3, 2, 5, 1, 2},  {20, 9, 2, 2, 4, 2, 1},   {24, 24, 2, 2, 3, 3, 3},  {70, 75, 2, 1, 3, 3, 1},
    {75, 70, 1, 1, 2, 1, 1}, {40, 610, 1, 1, 1, 1, 1}, {131, 130, 2, 1, 2, 2, 1}};
  static const double coefficient[][3] = {{3.4445, -4.775, 2.0315}, {2, -1.5, 0.5}, {1.5, -0.5, 0}};
  if (i >= 2 * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / 2], least = s[0] < s[1] ? s[0] : s[1], apart = s[0] * s[1] + 3,
             squares = s[5] > 1 || s[6] > 1 ? 4 : 2;
  struct newton_schulz_args *a = &args->newton_schulz;
  *a = (struct newton_schulz_args){.x = vector(m, s[2] * apart),
                                   .work =
                                     out(m, s[3], 2 * s[0] * s[1] + squares * least * least + least + 1, 0),
                                   .place = integers(m, s[2], 1),
                                   .coefficients = vector(m, 9),
                                   .by = number(m, i % 2, 0.8),
                                   .rows = s[0],
                                   .cols = s[1],
                                   .steps = s[4],
                                   .first = s[5],
                                   .then = s[6],
                                   .norm_scale = i % 2 ? 1 : 1.01,
                                   .eps = i % 4 < 2 ? 1e-7 : 0,
                                   .scale = i % 3 ? 1 : 0.2};
  ((struct guarded *)a->work)->work = 1;
  for (long k = 0; k < s[2]; k++) INTS(a->place)[k] = (int)((s[2] - 1 - k) * apart + 1);
  *a->coefficients = tensor_of(a->coefficients->data, 3, 3);
  ((struct guarded *)a->coefficients)->exact = 1;
  for (int k = 0; k < 9; k++) REALS(a->coefficients)[k] = (real)coefficient[k / 3][k % 3];
  return 1;
}

/* --- small tensors: rows and columns do not matter, only the order of the elements ------------------------ */

static struct tensor *turned(struct made *m, const long *s, int i)
{
  return i % 2 ? in(m, s[0] * s[1], 1) : in(m, s[0], s[1]);
}

static struct tensor *turned_out(struct made *m, const long *s, int i)
{
  return i % 2 ? out(m, 1, s[0] * s[1], 0) : out(m, s[0], s[1], 0);
}

static int make_multiply(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->multiply = (struct multiply_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_divide(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->divide = (struct divide_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  REALS(args->divide.x)[0] = 0;
  return 1;
}

static int make_power(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->power = (struct power_args){.y = positive(m, in(m, sizes[i][0], sizes[i][1])),
                                    .by = number(m, i % 2, 0.7),
                                    .exponent = i % 3 == 2 ? -1.5 : 0.5};
  return 1;
}

static int make_sign(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  struct tensor *x = in(m, sizes[i][0], sizes[i][1]);
  args->sign = (struct sign_args){.y = i % 3 == 2 ? x : turned_out(m, sizes[i], i), .x = x};
  REALS(x)[0] = 0;
  return 1;
}

static int make_larger(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->larger = (struct larger_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_clip_factor(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->clip_factor = (struct clip_factor_args){.y = turned_out(m, sizes[i], i),
                                                .x = in(m, sizes[i][0], sizes[i][1]),
                                                .limit = number(m, i % 3 != 0, 0.4)};
  return 1;
}

static int make_above(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->above = (struct above_args){.y = turned_out(m, sizes[i], i),
                                    .x = in(m, sizes[i][0], sizes[i][1]),
                                    .limit = number(m, i % 3 != 0, 0.4)};
  return 1;
}

static int make_one_unless_finite(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->one_unless_finite =
    (struct one_unless_finite_args){.y = in(m, sizes[i][0], sizes[i][1]), .x = turned(m, sizes[i], i)};
  return 1;
}

static int make_all_finite(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_finite = (struct all_finite_args){.y = vector(m, 1), .x = in(m, sizes[i][0], sizes[i][1])};
  return 1;
}

static int make_take(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  const long *s = sizes[i];
  args->take =
    (struct take_args){.y = turned_out(m, s, i), .x = in(m, 3, 5), .index = integers(m, s[0] * s[1], 16)};
  for (long j = 0; j < s[0] * s[1]; j++) INTS(args->take.index)[j]--; /* -1: none */
  return 1;
}

static int make_reduce(struct made *m, int i, union op_args *args)
{
  static const int most[] = {1, 2, 5, 40};
  if (i >= 16) return 0;
  long n = 1 + 3 * (i / 4), members = 0;
  struct tensor *first = integers(m, n + 1, most[i / 4] + 1);
  for (long j = 0; j <= n; j++) { /* lengths, 0 among them, to their sums */
    long length = j ? INTS(first)[j] : 0;
    INTS(first)[j] = (int)(members += length);
  }
  args->reduce = (struct reduce_args){.y = i % 2 ? out(m, n, 1, 0) : out(m, 1, n, 0),
                                      .x = in(m, 4, 6),
                                      .member = integers(m, members + 1, 24),
                                      .first = first,
                                      .kind = i % 4};
  return 1;
}

static int make_see(struct made *m, int i, union op_args *args)
{
  if (i >= 10) return 0;
  args->see =
    (struct see_args){.seen = in(m, 3 * i + 1, 4), .stats = in(m, 3 * i + 1, 4), .share = i % 2 ? 1 : 0.25};
  return 1;
}

static int make_see_pairs(struct made *m, int i, union op_args *args)
{
  if (i >= 10) return 0;
  struct see_pairs_args *a = &args->see_pairs;
  *a = (struct see_pairs_args){.seen = in(m, 3 * i + 1, 5),
                               .look = in(m, 3 * i + 1, 5),
                               .stats = in(m, 3 * i + 1, 4),
                               .largest = in(m, 3 * i + 1, 4)};
  for (long n = 0; n < 3 * i + 1; n++) { /* numbers of pairs, some 0 */
    REALS(a->seen)[n * a->seen->ld + 1] = (real)(n % 3 * 7);
    REALS(a->look)[n * a->look->ld + 1] = (real)(n % 4 * 5);
  }
  return 1;
}

/* --- between ranks, of which there is one here; and what two parts have seen ------------------------------------ */

static int make_all_sum(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_sum = (struct all_sum_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_all_max(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->all_max = (struct all_max_args){.y = vector(m, sizes[i][0] * sizes[i][1])};
  return 1;
}

static int make_pass_on(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->pass_on = (struct pass_on_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n)};
  return 1;
}

static int make_trade(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->trade = (struct trade_args){.y = new_real(m, 1, n, n, 0), .x = vector(m, n), .bit = i % 3};
  return 1;
}

/* Kinds by turns; some follow a number that is summed, some one that is the larger, some themselves. */
static int make_merge(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  long n = sizes[i][0] * sizes[i][1];
  args->merge = (struct merge_args){.y = vector(m, n), .x = vector(m, n), .kind = integers(m, n, 1)};
  for (long k = 0; k < n; k++)
    INTS(args->merge.kind)[k] = (int)(k % 6 == 4 ? k - 3 : k % 6 == 5 ? k : -1 - k % 6);
  return 1;
}

/* --- segments: of all lengths, in any order, with gaps ------------------------------------------------------ */

static struct tensor *segments(struct made *m, int i, long *total)
{
  static const int length[][5] = {{1},           {3, 5}, {0, 7, 1}, {64, 33, 16, 31, 1}, {1000, 16384, 2},
                                  {20001, 40000}};
  if (i >= 12) return NULL;
  const int *l = length[i / 2];
  long n = 0, at = i % 2;
  while (n < 5 && (l[n] || n == 0)) n++;
  struct tensor *t = integers(m, 2 * n, 1);
  *t = tensor_of(t->data, n, 2);
  t->type = TENSOR_INT;
  for (long k = 0; k < n; k++) {
    long row = i % 2 ? n - 1 - k : k;
    INTS(t)[2 * row] = (int)at, INTS(t)[2 * row + 1] = l[k];
    at += l[k] + 3 * (i % 2);
  }
  *total = at;
  return t;
}

static int make_apply_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->apply_segments = (struct apply_segments_args){.w = vector(m, total),
                                                      .direction = vector(m, total),
                                                      .segment = segment,
                                                      .keep = vector(m, segment->rows),
                                                      .rate = vector(m, segment->rows)};
  return 1;
}

static int make_scale_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->scale_segments = (struct scale_segments_args){
    .x = vector(m, total), .segment = segment, .factor = vector(m, segment->rows)};
  REALS(args->scale_segments.factor)[0] = 1;
  return 1;
}

static int make_norm_segments(struct made *m, int i, union op_args *args)
{
  long total;
  struct tensor *segment = segments(m, i, &total);
  if (!segment) return 0;
  args->norm_segments = (struct norm_segments_args){.y = out(m, 1, segment->rows, 0), .segment = segment};
  args->norm_segments.x = vector(m, total);
  return 1;
}

static int make_normalise(struct made *m, int i, union op_args *args)
{
  if (i >= SIZES) return 0;
  args->normalise = (struct normalise_args){.y = in(m, sizes[i][0], sizes[i][1]), .size = out(m, 1, 1, 0)};
  return 1;
}

/* --- experts ------------------------------------------------------------------------------------------------ */

/* A matrix of integers that the operation writes. */
static struct tensor *out_ints(struct made *m, long rows, long cols)
{
  struct guarded *g = new_item(m, TENSOR_INT, rows, cols, stride(m, cols));
  for (size_t i = 0; i < g->bytes / sizeof(int); i++) ((int *)g->memory)[i] = guard_int;
  return &g->t;
}

/* Integers [rows, cols] of `values`. */
static struct tensor *in_ints(struct made *m, long rows, long cols, const int *values)
{
  struct guarded *g = new_item(m, TENSOR_INT, rows, cols, stride(m, cols));
  for (long i = 0; i < rows * cols; i++) INTS(&g->t)[i / cols * g->t.ld + i % cols] = values[i];
  g->read = 1;
  return &g->t;
}

/* tokens, experts, chosen, groups, kept */
static const long routings[][5] = {{1, 1, 1, 1, 1},   {3, 4, 2, 1, 1},   {7, 8, 2, 1, 1},  {5, 12, 4, 3, 2},
                                   {70, 16, 4, 4, 2}, {33, 64, 6, 1, 1}, {9, 8, 1, 1, 1},  {40, 32, 8, 8, 4},
                                   {6, 6, 3, 3, 2},   {4, 5, 5, 1, 1},   {300, 3, 2, 1, 1}};
enum { ROUTINGS = sizeof routings / sizeof *routings };

static int make_route(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * ROUTINGS) return 0;
  const long *s = routings[i / 4];
  args->route = (struct route_args){.score = out(m, s[0], s[1], 0),
                                    .gate = out(m, s[0], s[2], 0),
                                    .chosen = out_ints(m, s[0], s[2]),
                                    .told = out(m, s[0], s[1] + 2, 0),
                                    .logits = in(m, s[0], s[1]),
                                    .bias = i & 2 ? vector(m, s[1]) : NULL,
                                    .scale = number(m, i / 4 % 2, 2.5),
                                    .softmax = i & 1,
                                    .groups = s[3],
                                    .kept = s[4]};
  return 1;
}

static int make_route_backward(struct made *m, int i, union op_args *args)
{
  union op_args forward;
  if (!make_route(m, i, &forward)) return 0;
  const struct route_args *f = &forward.route;
  op_run(m->reference, OP_route, &forward);
  now_read(f->score), now_read(f->chosen);
  args->route_backward =
    (struct route_backward_args){.dlogits = out(m, f->score->rows, f->score->cols, 0),
                                 .dgate = in(m, f->gate->rows, f->gate->cols),
                                 .dscore = i & 2 ? in(m, f->score->rows, f->score->cols) : NULL,
                                 .score = f->score,
                                 .chosen = f->chosen,
                                 .scale = f->scale,
                                 .softmax = f->softmax};
  return 1;
}

static int make_sort_choices(struct made *m, int i, union op_args *args)
{
  if (i >= ROUTINGS) return 0;
  const long *s = routings[i];
  int *chosen = memory_new((size_t)(s[0] * s[2]), sizeof *chosen);
  for (long c = 0; c < s[0] * s[2]; c++) chosen[c] = (int)below(m, c, s[1] > 2 ? s[1] - 1 : s[1]);
  args->sort_choices = (struct sort_choices_args){.first = out_ints(m, 1, s[1] + 1),
                                                  .order = out_ints(m, 1, s[0] * s[2]),
                                                  .place = out_ints(m, s[0], s[2]),
                                                  .chosen = in_ints(m, s[0], s[2], chosen)};
  memory_free(chosen);
  return 1;
}

/* A permutation of n numbers as [rows, cols]. */
static struct tensor *permutation(struct made *m, long rows, long cols)
{
  long n = rows * cols;
  int *p = memory_new((size_t)n, sizeof *p);
  for (long i = 0; i < n; i++) p[i] = (int)i;
  for (long i = n - 1; i > 0; i--) {
    long j = below(m, i, i + 1);
    int swap = p[i];
    p[i] = p[j], p[j] = swap;
  }
  struct tensor *t = in_ints(m, rows, cols, p);
  memory_free(p);
  return t;
}

/* tokens, chosen, columns */
static const long spreads[][3] = {{1, 1, 1},   {1, 3, 7},  {3, 2, 5},     {9, 4, 33},
                                  {33, 8, 16}, {70, 2, 3}, {2, 2, 17000}, {5, 1, 300}};
enum { SPREADS = sizeof spreads / sizeof *spreads };

static int make_spread_rows(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * SPREADS) return 0;
  const long *s = spreads[i / 2];
  args->spread_rows = (struct spread_rows_args){.y = out(m, s[0] * s[1], s[2], 0),
                                                .x = in(m, s[0], s[2]),
                                                .gate = i % 2 ? in(m, s[0], s[1]) : NULL,
                                                .order = permutation(m, 1, s[0] * s[1])};
  return 1;
}

static int make_gather_rows(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * SPREADS) return 0;
  const long *s = spreads[i / 4];
  args->gather_rows = (struct gather_rows_args){.y = out(m, s[0], s[2], i & 1),
                                                .x = in(m, s[0] * s[1], s[2]),
                                                .gate = i & 2 ? in(m, s[0], s[1]) : NULL,
                                                .place = permutation(m, s[0], s[1]),
                                                .add = i & 1};
  return 1;
}

static int make_dot_rows(struct made *m, int i, union op_args *args)
{
  if (i >= SPREADS) return 0;
  const long *s = spreads[i];
  args->dot_rows = (struct dot_rows_args){.y = out(m, s[0], s[1], 0),
                                          .x = in(m, s[0], s[2]),
                                          .z = in(m, s[0] * s[1], s[2]),
                                          .place = permutation(m, s[0], s[1])};
  return 1;
}

/* rows of all experts, experts, columns in and out */
static const long products[][4] = {{1, 1, 1, 1},     {5, 3, 7, 2},      {64, 4, 33, 17},
                                   {40, 8, 16, 48},  {600, 2, 9, 65},   {7, 12, 5, 5},
                                   {3, 4, 130, 200}, {330, 3, 20, 150}, {150, 1, 300, 9}};
enum { PRODUCTS = sizeof products / sizeof *products };

/* Where experts begin: some have no row, the last of four variants gives all of them to one. */
static struct tensor *begins(struct made *m, int i, long rows, long experts)
{
  int *first = memory_new((size_t)experts + 1, sizeof *first);
  for (long e = 1; e < experts; e++)
    first[e] = i % 4 == 3 ? (int)rows * (e > experts / 2) : (int)below(m, e, rows + 1);
  for (long e = 1; e < experts; e++)
    for (long k = e; k > 1 && first[k - 1] > first[k]; k--) {
      int swap = first[k];
      first[k] = first[k - 1], first[k - 1] = swap;
    }
  first[experts] = (int)rows;
  struct tensor *t = in_ints(m, 1, experts + 1, first);
  memory_free(first);
  return t;
}

static int make_expert_matmul(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * PRODUCTS) return 0;
  const long *s = products[i / 4], tb = i & 1;
  args->expert_matmul =
    (struct expert_matmul_args){.y = out(m, s[0], s[3], i >> 1 & 1),
                                .x = in(m, s[0], s[2]),
                                .w = tb ? in(m, s[1] * s[3], s[2]) : in(m, s[1] * s[2], s[3]),
                                .first = begins(m, i, s[0], s[1]),
                                .tb = tb,
                                .add = i >> 1 & 1};
  return 1;
}

static int make_expert_outer(struct made *m, int i, union op_args *args)
{
  if (i >= 4 * PRODUCTS) return 0;
  const long *s = products[i / 4];
  args->expert_outer = (struct expert_outer_args){.dw = out(m, s[1] * s[3], s[2], i & 1),
                                                  .dy = in(m, s[0], s[3]),
                                                  .x = in(m, s[0], s[2]),
                                                  .first = begins(m, i, s[0], s[1]),
                                                  .add = i & 1};
  return 1;
}

/* sequences, tokens of each, experts, chosen */
static const long balances[][4] = {{1, 1, 1, 1}, {2, 3, 4, 2}, {3, 7, 8, 3}, {1, 40, 12, 4}, {5, 9, 33, 1}};
enum { BALANCES = sizeof balances / sizeof *balances };

static int make_balance_loss(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * BALANCES) return 0;
  const long *s = balances[i / 2];
  args->balance_loss = (struct balance_loss_args){.loss = out(m, 1, 1, 0),
                                                  .share = out(m, s[0], s[2], 0),
                                                  .score = positive(m, in(m, s[0] * s[1], s[2])),
                                                  .alpha = number(m, i % 2, 0.01),
                                                  .active = s[3],
                                                  .weight = i % 2 ? 0.25 : 1};
  return 1;
}

static int make_balance_loss_backward(struct made *m, int i, union op_args *args)
{
  if (i >= 2 * BALANCES) return 0;
  const long *s = balances[i / 2];
  args->balance_loss_backward =
    (struct balance_loss_backward_args){.dscore = out(m, s[0] * s[1], s[2], 0),
                                        .share = positive(m, in(m, s[0], s[2])),
                                        .score = positive(m, in(m, s[0] * s[1], s[2])),
                                        .alpha = number(m, i % 2, 0.01),
                                        .weight = i % 2 ? 0.25 : 1};
  return 1;
}

static int (*const make[OP_COUNT])(struct made *, int, union op_args *) = {
#define OP(name, what, fields) make_##name,
#include "numerics/ops.def"
#undef OP
};

/* --- the loop ----------------------------------------- */

static void free_made(struct made *m)
{
  for (int i = 0; i < m->items; i++) {
    memory_free(m->item[i].memory);
    for (int r = 0; r < RUNS; r++) memory_free(m->item[i].result[r]);
  }
}

/* Uniform in [-1, 1]: many are wanted, of no great quality (the finaliser of splitmix64). */
static double noise(uint64_t i)
{
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
  i = (i ^ i >> 27) * 0x94d049bb133111ebu;
  return (double)(int64_t)(i ^ i >> 31) * 0x1p-63;
}

/* Every other sample of an operation that rounds scores inside: a score at a midpoint may go either way, in a kernel as
   under disturbances of a few roundings. */
static int is_flip(const struct made *m, int sample) { return m->rounds && sample % 2; }

/* Off by a relative amount of up to `spread`; sample < 0: as they are. */
static void disturb(const struct guarded *g, int item, char *memory, int sample, double spread)
{
  if (sample < 0 || !g->read || g->exact || g->t.type == TENSOR_INT) return;
  for (long i = 0; i < g->t.rows * g->t.ld; i++) {
    double u = noise((uint64_t)(sample * MAX_TENSORS + item) << 32 | (uint64_t)i);
    ((real *)(memory + g->before))[i] *= (real)(1 + spread * u);
  }
}

/* So that the next call has what its own operation declares, and no more. */
static void forget_scratch(struct device *device)
{
  if (device->scratch) device->put_back(device, device->scratch);
  device->scratch = NULL;
  device->scratch_bytes = device->scratch_wanted = device->worker_wanted = 0;
  for (int i = 0; i < pool_threads(device->pool); i++) device->workers[i].scratch_bytes = 0;
}

/* Where run r of the launch has what item i is for run 0. */
static char *in_run(const struct device *device, void *place, int r)
{
  return (char *)place + (size_t)r * device->stride;
}

/* What run 0 of several holds: its guard is 0, so nobody may read or change it; numbers of its own, and no index. */
static void forbid(struct guarded *g, char *memory)
{
  size_t count = g->bytes / (g->t.type == TENSOR_INT ? sizeof(int) : sizeof(real));
  for (size_t i = 0; i < count; i++)
    if (g->t.type == TENSOR_INT)
      ((int *)memory)[i] = 1 << 30;
    else
      ((real *)memory)[i] = (real)(1 + 0.37 * (double)(i % 1000));
}

/* A library of products does not: there what is guarded is computed by the device's own kernels, with other bits. */
static int knows_guards(const struct device *device)
{
#ifdef CUDA_ON_HOST
  return ((const struct cuda_launch *)device->private_state)->blas == NULL;
#else
  (void)device;
  return 1;
#endif
}

/* Run on the device; what lies in each buffer afterwards, guards included, goes to result[slot]. A device that
   computes several runs gets them in slabs, scratch included: the first is guarded off, the others are the case. */
static void run_on(struct device *device, enum op op, struct made *m, int slot, int sample)
{
  enum { APART = 64, NUMBERS = 64 };
  void *place[MAX_TENSORS], *host[MAX_TENSORS];
  int runs = device->runs;
  size_t bytes = NUMBERS;
  for (int i = 0; i < m->items; i++) bytes += (m->item[i].bytes + APART - 1) / APART * APART;
  size_t scratch = runs > 1 ? op_scratch_bytes(device, op, &m->args) : 0;
  bytes += (scratch + APART - 1) / APART * APART;
  char *slab = device->get(device, (size_t)runs * bytes), *at = slab + NUMBERS;
  device->stride = runs > 1 ? bytes : 0;
  struct tensor guard = tensor_of(slab, 1, 1);
  for (int r = 0; r < runs; r++)
    device->upload(device, in_run(device, slab, r), &(real){r > 0}, sizeof(real));
  for (int i = 0; i < m->items; i++) {
    struct guarded *g = &m->item[i];
    g->result[slot] = memory_new(1, g->bytes);
    memcpy(g->result[slot], g->memory, g->bytes);
    disturb(g, i, g->result[slot], sample, is_flip(m, sample) ? 4 * REAL_EPS : SPREAD);
    place[i] = runs > 1 ? at : device->get(device, g->bytes);
    at += (g->bytes + APART - 1) / APART * APART;
    for (int r = runs > 1; r < runs; r++)
      device->upload(device, in_run(device, place[i], r), g->result[slot], g->bytes);
    if (runs > 1) forbid(g, g->result[slot]), device->upload(device, place[i], g->result[slot], g->bytes);
    host[i] = g->t.data;
    g->t.data = (char *)place[i] + g->before;
  }
  if (device->workers) forget_scratch(device);
  if (runs > 1) {
    device->scratch = at, device->scratch_bytes = scratch;
    op_run_if(device, knows_guards(device) ? &guard : NULL, op, &m->args);
    device->scratch = NULL, device->scratch_bytes = 0;
  } else {
    op_run(device, op, &m->args);
  }
  ck_assert_msg(!device->undeclared, "%s on %s takes more scratch than it declares", op_name(op),
                device->name);
  for (int i = 0; i < m->items; i++) {
    struct guarded *g = &m->item[i];
    char *wanted = memory_new(1, g->bytes);
    forbid(g, wanted);
    for (int r = runs > 1 && !knows_guards(device); r < runs; r++) {
      device->download(device, g->result[slot], in_run(device, place[i], r), g->bytes);
      if (runs == 1 || (r && g->work)) break;
      ck_assert_msg(r == 1 || !memcmp(wanted, g->result[slot], g->bytes),
                    r ? "%s: run %d of a launch differs" : "%s: a guarded run changed", op_name(op), r);
      memcpy(wanted, g->result[slot], g->bytes);
    }
    memory_free(wanted);
    if (runs == 1) device->put_back(device, place[i]);
    g->t.data = host[i];
  }
  device->put_back(device, slab);
}

static int is_output(enum op op, const struct made *m, const struct tensor *t)
{
  int count;
  const struct op_field *field = op_fields(op, &count);
  struct tensor *const *value = (struct tensor *const *)&m->args;
  for (int i = 0; i < count; i++)
    if ((field[i].kind == FIELD_OUT || field[i].kind == FIELD_ADD || field[i].kind == FIELD_MAYADD) &&
        value[i] == t)
      return 1;
  return 0;
}

/* Sums over at most this many terms. */
static double longest(const struct made *m)
{
  long n = 1;
  for (int i = 0; i < m->items; i++) {
    if (m->item[i].t.rows > n) n = m->item[i].t.rows;
    if (m->item[i].t.cols > n) n = m->item[i].t.cols;
  }
  return (double)n;
}

static double element(const struct guarded *g, int slot, long i, long j)
{
  return ((const real *)(g->result[slot] + g->before))[i * g->t.ld + j];
}

/* slots: 0..SAMPLES-1 disturbed, then the reference, the device, the device with other threads, the first of those
   whose bits are to be the same */
enum { EXACT = SAMPLES, DEVICE = SAMPLES + 1, THREADS = SAMPLES + 2, FIRST = SAMPLES + 3 };

static double tolerance(const struct made *m, const struct guarded *g, long i, long j)
{
  double exact = element(g, EXACT, i, j), spread = 0, flip = 0;
  for (int s = 0; s < SAMPLES; s++) {
    double off = fabs(element(g, s, i, j) - exact), *most = is_flip(m, s) ? &flip : &spread;
    if (off > *most || isnan(off)) *most = off;
  }
  return (4 + 2 * sqrt(longest(m))) * REAL_EPS * (spread / SPREAD + fabs(exact)) + flip + SMALLEST / REAL_EPS;
}

/* A call in words, so that a kernel that is wrong on a machine elsewhere can be found: shapes, sizes, scalars. */
static const char *call_in_words(enum op op, const union op_args *args)
{
  static char text[1024];
  int count, n = 0;
  const struct op_field *field = op_fields(op, &count);
  for (int i = 0; i < count && n < (int)sizeof text - 100; i++) {
    const struct tensor *t = ((struct tensor *const *)args)[i];
    if (field[i].kind == FIELD_SIZE)
      n += sprintf(text + n, " %.40s=%ld", field[i].name, ((const long *)args)[i]);
    else if (field[i].kind == FIELD_SCALAR)
      n += sprintf(text + n, " %.40s=%g", field[i].name, ((const double *)args)[i]);
    else if (t)
      n += sprintf(text + n, " %.40s[%ld,%ld]", field[i].name, t->rows, t->cols);
  }
  return text;
}

/* Is `got` what the definition's `exact` allows? Class first: what is not finite must stay so. Where an input
   is huge a kernel may overflow on the way, but not to a finite number. An attention kernel may spread what
   is not finite to rows that the mask keeps apart (0 * NaN). */
static int agrees(enum op op, enum hostile hostile, double exact, double got, double allowed)
{
  int masked = op == OP_attention_forward || op == OP_attention_backward;
  if (isnan(exact) && hostile == WITH_NAN) return isnan(got);
  if (!isfinite(exact)) return !isfinite(got);
  if (!isfinite(got)) return hostile == WITH_HUGE || (masked && hostile >= WITH_NAN);
  return isnan(allowed) || fabs(got - exact) <= allowed;
}

/* ck_assert_msg tells the runner of every success: too slow for every element. */
#define DEMAND(condition, ...) \
  do { \
    if (!(condition)) ck_abort_msg(__VA_ARGS__); \
  } while (0)

/* What is chosen, counted or sorted is the same everywhere, to the bit. */
static void compare_ints(const char *device, enum op op, int variant, const struct made *m, int k)
{
  const struct guarded *g = &m->item[k];
  const int *got = (const int *)(const void *)g->result[DEVICE],
            *exact = (const int *)(const void *)g->result[EXACT];
  for (long i = 0; i < (long)(g->bytes / sizeof *got); i++) {
    long at = i - (long)(g->before / sizeof *got), row = at / g->t.ld;
    int inside = at >= 0 && row < g->t.rows && at % g->t.ld < g->t.cols;
    DEMAND(got[i] == (inside ? exact[i] : guard_int),
           "%s %s variant %d: integer %ld of output %d is %d, not %d", device, op_name(op), variant, at, k,
           got[i], inside ? exact[i] : guard_int);
  }
  DEMAND(!memcmp(g->result[DEVICE], g->result[THREADS], g->bytes),
         "%s %s %d: threads, or other runs, change the bits", device, op_name(op), variant);
}

static void compare(const char *device, enum op op, int variant, enum hostile hostile, const struct made *m)
{
  for (int k = 0; k < m->items; k++) {
    const struct guarded *g = &m->item[k];
    if (!is_output(op, m, &g->t)) {
      DEMAND(!memcmp(g->result[DEVICE], g->memory, g->bytes), "%s %s %d: an input changed", device,
             op_name(op), variant);
      continue;
    }
    if (g->t.type == TENSOR_INT) {
      compare_ints(device, op, variant, m, k);
      continue;
    }
    for (long i = 0; i < g->t.rows && !g->work; i++)
      for (long j = 0; j < g->t.cols; j++) {
        double exact = element(g, EXACT, i, j), got = element(g, DEVICE, i, j),
               allowed = tolerance(m, g, i, j);
        if (hostile == WITH_HUGE) allowed += HUGE_INPUT * SMALLEST; /* huge times underflow */
        DEMAND(agrees(op, hostile, exact, got, allowed),
               "%s %s variant %d (%s%s): output %d [%ld,%ld] of [%ld,%ld] is %.9g, not %.9g (+- %.3g); the "
               "call:%s",
               device, op_name(op), variant, hostile_names[hostile], m->strided ? ", strided" : "", k, i, j,
               g->t.rows, g->t.cols, got, exact, allowed, call_in_words(op, &m->args));
      }
    DEMAND(g->work || !memcmp(g->result[DEVICE], g->result[THREADS], g->bytes),
           "%s %s %d: threads, or other runs, change the bits", device, op_name(op), variant);
    for (long e = 0; e < (long)(g->bytes / sizeof(real)); e++) {
      long at = e - (long)(g->before / sizeof(real)), row = at / g->t.ld;
      int inside = at >= 0 && row < g->t.rows && at % g->t.ld < g->t.cols;
      DEMAND(inside || ((const real *)g->result[DEVICE])[e] == guard_value,
             "%s %s variant %d wrote beside output %d", device, op_name(op), variant, k);
    }
    for (long i = 0; (op == OP_gram || op == OP_symmetric_product) && i < g->t.rows; i++)
      for (long j = 0; j < i; j++) {
        double a = element(g, DEVICE, i, j), b = element(g, DEVICE, j, i);
        DEMAND(a == b || (isnan(a) && isnan(b)), "%s %s is not symmetric", device, op_name(op));
      }
  }
}

/* Spoil one value of input `which`. */
static void spoil(struct made *m, enum hostile hostile, int which)
{
  static const double value[HOSTILES] = {
    [WITH_NAN] = NAN, [WITH_INF] = INFINITY, [WITH_MINUS_INF] = -INFINITY, [WITH_HUGE] = HUGE_INPUT};
  for (int k = 0; k < m->items; k++) {
    struct guarded *g = &m->item[k];
    if (!g->read || g->t.type == TENSOR_INT) continue;
    long i = below(m, 1000 + k, g->t.rows), j = below(m, 2000 + k, g->t.cols);
    if (k == which) {
      REALS(&g->t)[i * g->t.ld + j] = (real)value[hostile];
      if (g->symmetric) REALS(&g->t)[j * g->t.ld + i] = (real)value[hostile];
    }
  }
}

#ifdef CUDA_ON_HOST
/* The reference, and a GPU's kernels on the CPU: in one order of threads; in another, three runs in a launch. The last
   has a library of products. */
enum { HOSTS = 2, KINDS = 3 };

static struct device *open_kind(int kind, int threads)
{
  struct device *device;
  if (kind == HOSTS) return cuda_on_host_open_with_library(threads > 1, threads);
  if (kind > 0) return cuda_on_host_open(threads > 1, threads);
  return device_open(&device, "reference", threads, NULL) ? NULL : device;
}
#else
/* The reference, the CPU's kernels at each level that this machine has, and a GPU. */
enum { LEVELS = 3, HOSTS = 1 + LEVELS, KINDS = HOSTS + 1 };

/* NULL: this build or machine does not have it. */
static struct device *open_kind(int kind, int threads)
{
  const char *level = kind > 0 && kind < HOSTS ? ops_cpu_level_at(kind - 1) : NULL;
  struct device *device;
  if (kind > 0 && kind < HOSTS && !level) return NULL;
  if (device_open(&device, kind == 0 ? "reference" : kind < HOSTS ? "cpu" : "cuda", threads, NULL))
    return NULL;
  if (level) {
    device->name = level;
    ops_cpu_override_by(&device->ops, level);
  }
  return device;
}

#endif

/* Every kind that there is, alone and with other threads. */
struct bench {
  struct device *device[KINDS], *threads[KINDS];
};

static void open_bench(struct bench *b)
{
  for (int kind = 0; kind < KINDS; kind++) {
    b->device[kind] = open_kind(kind, 1);
    b->threads[kind] = b->device[kind] ? open_kind(kind, 3) : NULL;
  }
  ck_assert(b->device[0] && b->device[1]); /* the reference and one level are always there */
}

static void close_bench(struct bench *b)
{
  for (int kind = 0; kind < KINDS; kind++) {
    if (b->device[kind]) device_close(b->device[kind]);
    if (b->threads[kind]) device_close(b->threads[kind]);
  }
}

#ifndef CUDA_ON_HOST
/* Levels with a fused multiply-add. */
static int has_everyones_bits(int kind)
{
  const char *level = kind > 0 && kind < HOSTS ? ops_cpu_level_at(kind - 1) : NULL;
  return level && strcmp(level, "base") != 0;
}

/* As the first of them to the bit, but for a NaN's sign and payload. */
static void compare_levels(const char *device, enum op op, int variant, enum hostile hostile, struct made *m)
{
  for (int k = 0; k < m->items; k++) {
    struct guarded *g = &m->item[k];
    if (!is_output(op, m, &g->t) || g->t.type != TENSOR_REAL || g->work) continue;
    if (!g->result[FIRST]) {
      g->result[FIRST] = memory_new(1, g->bytes);
      memcpy(g->result[FIRST], g->result[DEVICE], g->bytes);
    }
    for (long i = 0; i < g->t.rows; i++)
      for (long j = 0; j < g->t.cols; j++) {
        const double first = element(g, FIRST, i, j), got = element(g, DEVICE, i, j);
        /* with an input spoilt, ml is not that of these scores: powers overflow as they never do in a step */
        const int apart =
          op == OP_attention_backward && hostile >= WITH_NAN && !isfinite(first) && !isfinite(got);
        DEMAND(!memcmp(&first, &got, sizeof got) || (isnan(first) && isnan(got)) || apart,
               "%s %s variant %d (%s): output %d [%ld,%ld] of [%ld,%ld] is %a, but %a at the first level",
               device, op_name(op), variant, hostile_names[hostile], k, i, j, g->t.rows, g->t.cols, got,
               first);
      }
  }
}
#endif

static void compare_kinds(const struct bench *b, enum op op, int variant, enum hostile hostile,
                          struct made *m)
{
  for (int s = 0; s < SAMPLES; s++) run_on(b->device[0], op, m, s, s);
  run_on(b->device[0], op, m, EXACT, -1);
  /* the reference, compared with itself, could only write where it should not */
  for (int kind = hostile == TAME ? 0 : 1; kind < KINDS; kind++) {
    if (!b->device[kind]) continue;
#ifdef CUDA_ON_HOST
    if (kind == HOSTS && op != OP_matmul) continue;
#endif
    run_on(b->device[kind], op, m, DEVICE, -1);
    run_on(b->threads[kind], op, m, THREADS, -1);
    compare(b->device[kind]->name, op, variant, hostile, m);
#ifndef CUDA_ON_HOST
    if (has_everyones_bits(kind)) compare_levels(b->device[kind]->name, op, variant, hostile, m);
#endif
    for (int i = 0; i < m->items; i++) {
      memory_free(m->item[i].result[DEVICE]);
      memory_free(m->item[i].result[THREADS]);
      m->item[i].result[DEVICE] = m->item[i].result[THREADS] = NULL;
    }
  }
}

/* The case, where it exists, is compared when `wanted`. Returns the number of its tensors, 0: no such case. */
static int try_case(const struct bench *b, enum op op, int variant, int strided, enum hostile hostile,
                    int which, int wanted)
{
  struct made m = {.strided = strided,
                   .seed = (uint64_t)(100 * op + variant),
                   .hostile = hostile,
                   .reference = b->device[0]};
  if (!make[op](&m, variant, &m.args)) return 0;
  struct guarded *spoilt = &m.item[which];
  if (hostile != TAME && longest(&m) > 1000) wanted = 0; /* large cases are there for their size */
  if (wanted && (hostile < WITH_NAN || (spoilt->read && spoilt->t.type == TENSOR_REAL))) {
    if (hostile >= WITH_NAN) spoil(&m, hostile, which);
    compare_kinds(b, op, variant, hostile, &m);
  }
  free_made(&m);
  return wanted ? m.items : 1;
}

/* Every third variant for each kind of hostility: together they meet all. Threads of a GPU, one after another, are
   slow in products: there it is every ninth. */
static int every(enum op op)
{
  (void)op;
#ifdef CUDA_ON_HOST
  if (op == OP_matmul || op == OP_attention_forward || op == OP_attention_backward) return 9;
#endif
  return 3;
}

static void try_hostile(const struct bench *b, enum op op, enum hostile hostile)
{
  int items = 1;
  for (int variant = 0; items; variant++)
    for (int which = 0; which == 0 || (hostile >= WITH_NAN && which < items); which++)
      items = try_case(b, op, variant, (variant + which) & 1, hostile, which,
                       (variant + (int)hostile) % every(op) == 0);
}

START_TEST(every_operation)
{
  struct bench b;
  enum op op = (enum op)_i;
  const char *only = getenv("CHECK_OPERATION"); /* by itself, to find what is wrong with it */
  if (only && strcmp(only, op_name(op))) return;
  open_bench(&b);
  int cases = 0;
  for (int strided = 0; strided < 2; strided++)
    for (int variant = 0; try_case(&b, op, variant, strided, TAME, 0, 1); variant++) cases++;
  for (int hostile = TAME + 1; hostile < HOSTILES; hostile++) try_hostile(&b, op, (enum hostile)hostile);
  ck_assert_int_ge(cases, 8);
  close_bench(&b);
}
END_TEST

/* --- identities, on every device ----------------------------------------- */

enum { T = 24, H = 4, DIM = 8, VALUE = 6 };

/* One attention call on a device's memory (the host's here). */
struct attention_case {
  struct device *device;
  struct tensor *q, *k, *v, *start, *o, *ml, *stats;
  struct attention_forward_args args;
};

static void draw(struct tensor *t, uint64_t key)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)draw_normal((struct draw){3, STREAM_TEST, key}, (uint64_t)i);
}

static void attention_begin(struct attention_case *c, struct device *device, long batch, long groups)
{
  *c = (struct attention_case){.device = device};
  c->q = tensor_new(device, TENSOR_REAL, T, H * DIM, "q");
  c->k = tensor_new(device, TENSOR_REAL, T, groups * DIM, "k");
  c->v = tensor_new(device, TENSOR_REAL, T, groups * VALUE, "v");
  c->start = tensor_new(device, TENSOR_INT, 1, T, "start");
  c->o = tensor_new(device, TENSOR_REAL, T, H * VALUE, "o");
  c->ml = tensor_new(device, TENSOR_REAL, T, 2 * H, "ml");
  c->stats = tensor_new(device, TENSOR_REAL, H, 4, "stats");
  draw(c->q, 1);
  draw(c->k, 2);
  draw(c->v, 3);
  c->args =
    (struct attention_forward_args){.o = c->o,
                                    .ml = c->ml,
                                    .stats = c->stats,
                                    .q = c->q,
                                    .k = c->k,
                                    .v = c->v,
                                    .start = c->start,
                                    .score = {.batch = batch, .heads = H, .groups = groups, .scale = 0.5}};
}

static void attention_run(struct attention_case *c)
{
  op_run(c->device, OP_attention_forward,
         (const union op_args *)&(union op_args){.attention_forward = c->args});
}

static void attention_end(struct attention_case *c)
{
  tensor_free(c->device, c->q);
  tensor_free(c->device, c->k);
  tensor_free(c->device, c->v);
  tensor_free(c->device, c->start);
  tensor_free(c->device, c->o);
  tensor_free(c->device, c->ml);
  tensor_free(c->device, c->stats);
}

/* Numbers of order one that took fewer than a thousand roundings. */
static void ck_near(const struct tensor *a, const struct tensor *b, long row, const char *what)
{
  for (long i = row; i < a->rows; i++)
    for (long j = 0; j < a->cols; j++) {
      double x = REALS(a)[i * a->ld + j], y = REALS(b)[i * b->ld + j];
      ck_assert_msg(fabs(x - y) <= 64 * REAL_EPS * (1 + fabs(x)), "%s: [%ld,%ld] %.9g and %.9g", what, i, j,
                    x, y);
    }
}

/* The best level stands in for those that this machine does not have. */
static struct device *host_device(int i)
{
  struct device *device = open_kind(i, 1);
  if (!device) device = open_kind(1, 1);
  ck_assert_ptr_nonnull(device);
  return device;
}

static void look(struct device *device, struct attention_look_args *args, double level)
{
  real number = (real)level;
  struct tensor t = tensor_of(&number, 1, 1);
  args->level = &t;
  op_run(device, OP_attention_look, &(union op_args){.attention_look = *args});
}

/* All pairs are above -infinity, one is above a little less than the largest score; its q and k make it. */
START_TEST(look_at_pairs)
{
  struct device *device = host_device(_i);
  struct attention_case a;
  attention_begin(&a, device, 2, 2);
  attention_run(&a);
  struct tensor *result = tensor_new(device, TENSOR_REAL, H, 5, "look");
  struct attention_look_args args = {.look = result,
                                     .q = a.q,
                                     .k = a.k,
                                     .start = a.start,
                                     .batch = 2,
                                     .heads = H,
                                     .groups = 2,
                                     .scale = a.args.scale};
  for (long h = 0; h < H; h++) {
    const real *x = REALS(result) + 5 * h;
    double top = REALS(a.stats)[4 * h], near = 64 * REAL_EPS * top;
    ck_assert(top > 0);
    look(device, &args, -INFINITY);
    ck_assert(x[0] == 1 && x[1] == T * (T / 2 + 1) / 2);
    ck_assert_double_eq_tol(args.scale * (double)x[2] * (double)x[3] * (double)x[4], top, near);
    look(device, &args, top - near);
    ck_assert_double_eq_tol((double)x[0] * (double)x[1], 1, near);
    look(device, &args, top + near);
    ck_assert(x[0] == 0);
  }
  tensor_free(device, result);
  attention_end(&a);
  device_close(device);
}
END_TEST

/* The softmax does not see a constant: keys k + u move the scores of a query by q.u. */
START_TEST(shift_of_all_keys)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++)
    for (long j = 0; j < H * DIM; j++) REALS(b.k)[i * H * DIM + j] += (real)(0.25 * (double)(j % 5));
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "shifted keys");
  ck_assert(REALS(a.stats)[0] != REALS(b.stats)[0]);
  for (long h = 0; h < H; h++)
    ck_assert_double_eq_tol(REALS(a.stats)[4 * h + 3], REALS(b.stats)[4 * h + 3], 64 * REAL_EPS);
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* The last row sees every key: their order does not matter. */
START_TEST(order_of_keys)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++) {
    long from = (5 * i + 3) % T;
    memcpy(REALS(b.k) + i * b.k->ld, REALS(a.k) + from * a.k->ld, (size_t)(H * DIM) * sizeof(real));
    memcpy(REALS(b.v) + i * b.v->ld, REALS(a.v) + from * a.v->ld, (size_t)(H * VALUE) * sizeof(real));
  }
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, T - 1, "permuted keys");
  ck_near(a.ml, b.ml, T - 1, "permuted keys, ml");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Two heads that share a key/value head, and two with copies of it. */
START_TEST(grouped_equals_repeated)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H / 2);
  attention_begin(&b, device, 1, H);
  for (long i = 0; i < T; i++)
    for (long h = 0; h < H; h++) {
      memcpy(REALS(b.k) + i * b.k->ld + h * DIM, REALS(a.k) + i * a.k->ld + h / 2 * DIM, DIM * sizeof(real));
      memcpy(REALS(b.v) + i * b.v->ld + h * VALUE, REALS(a.v) + i * a.v->ld + h / 2 * VALUE,
             VALUE * sizeof(real));
    }
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "grouped");
  ck_near(a.ml, b.ml, 0, "grouped, ml");
  ck_near(a.stats, b.stats, 0, "grouped, statistics");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Documents of 8 in one row of 24, and a batch of three sequences of 8. */
START_TEST(documents_equal_sequences)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 3, H);
  for (long n = 0; n < T; n++) INTS(a.start)[n] = (int)(n / 8 * 8);
  attention_run(&a);
  attention_run(&b);
  ck_near(a.o, b.o, 0, "documents");
  ck_near(a.ml, b.ml, 0, "documents, ml");
  ck_near(a.stats, b.stats, 0, "documents, statistics");
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

static struct tensor *with_end(struct attention_case *c)
{
  return c->args.end = tensor_new(c->device, TENSOR_INT, 1, T, "end");
}

/* A window as long as the row, a prefix of one, and ends that are said are causal. In a full mask every row is as the
   last one is, whose keys it sees: with one query for all, the last row of a causal mask. */
START_TEST(masks_meet_in_the_causal_one)
{
  struct device *device = host_device(_i);
  struct attention_case a, b;
  attention_begin(&a, device, 1, H);
  attention_begin(&b, device, 1, H);
  struct tensor *end = with_end(&b);
  attention_run(&a);
  for (int n = 0; n < T; n++) INTS(end)[n] = n + 1;
  attention_run(&b);
  ck_near(a.o, b.o, 0, "causal");
  ck_near(a.ml, b.ml, 0, "causal, ml");
  ck_near(a.stats, b.stats, 0, "causal, statistics");
  for (int n = 0; n < T; n++) {
    INTS(end)[n] = T;
    for (long c = 0; c < H * DIM; c++)
      REALS(a.q)[n * a.q->ld + c] = REALS(b.q)[n * b.q->ld + c] = (real)(c % 5);
  }
  attention_run(&a);
  attention_run(&b);
  for (long n = 0; n < T; n++)
    for (long c = 0; c < H * VALUE; c++)
      ck_assert_double_eq_tol((double)REALS(b.o)[n * b.o->ld + c], (double)REALS(a.o)[(T - 1) * a.o->ld + c],
                              32 * REAL_EPS);
  tensor_free(device, end);
  attention_end(&a);
  attention_end(&b);
  device_close(device);
}
END_TEST

/* Do tiles of a device pass what is no number to rows that do not see it (0 * NaN)? */
static int tiles_mix(int kind)
{
#ifdef CUDA_ON_HOST
  return kind > 0;
#else
  (void)kind;
  return 0;
#endif
}

static int is_near(double got, double expected) { return got == expected || fabs(got - expected) < 1e-5; }

/* Rows that see nothing make zeros and are in no maximum, sum or gradient; where no row sees anything neither is the
   head. What is not seen may be what it likes. */
START_TEST(nothing_seen_is_nothing)
{
  struct device *device = host_device(_i);
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  struct tensor *end = with_end(&c), *dq = tensor_new(device, TENSOR_REAL, T, H * DIM, "dq"),
                *dk = tensor_new(device, TENSOR_REAL, T, H * DIM, "dk"),
                *dv = tensor_new(device, TENSOR_REAL, T, H * VALUE, "dv"),
                *look_at = tensor_new(device, TENSOR_REAL, H, 5, "look");
  for (int pass = 0; pass < 2; pass++) { /* the second time one row sees one key */
    draw(c.k, 2);
    draw(c.v, 3);
    for (int n = 0; n < T; n++) {
      INTS(c.start)[n] = n % 3 ? n : T;
      INTS(end)[n] = pass && n == 13 ? 14 : n % 3 ? n - 1 : T;
    }
    if (pass) INTS(c.start)[13] = 13;
    const int mixes = pass && tiles_mix(_i);
    for (long n = 0; n < T && !mixes; n++) /* but for that one, nothing is a number */
      for (long i = 0; i < H * DIM; i++)
        if (n != 13) REALS(c.k)[n * c.k->ld + i] = n % 2 ? (real)NAN : (real)INFINITY;
    for (long n = 0; n < T && !mixes; n++)
      for (long i = 0; i < H * VALUE; i++)
        if (n != 13) REALS(c.v)[n * c.v->ld + i] = (real)NAN;
    attention_run(&c);
    op_run(device, OP_attention_backward,
           &(union op_args){.attention_backward = {.dq = dq,
                                                   .dk = dk,
                                                   .dv = dv,
                                                   .do_ = c.o,
                                                   .o = c.o,
                                                   .q = c.q,
                                                   .k = c.k,
                                                   .v = c.v,
                                                   .ml = c.ml,
                                                   .start = c.start,
                                                   .end = end,
                                                   .score = c.args.score}});
    op_run(device, OP_attention_look,
           &(union op_args){
             .attention_look = {
               .look = look_at, .q = c.q, .k = c.k, .start = c.start, .end = end, .score = c.args.score}});
    for (long h = 0; h < H; h++) {
      const real *stats = &REALS(c.stats)[h * 4];
      double s = 0;
      for (long i = 0; i < DIM; i++)
        s += 0.5 * (double)REALS(c.q)[13 * c.q->ld + h * DIM + i] *
             (double)REALS(c.k)[13 * c.k->ld + h * DIM + i];
      ck_assert(is_near((double)stats[0], pass ? s : -INFINITY));
      ck_assert(is_near((double)stats[1], pass ? fabs(s) : 0));
      ck_assert(is_near((double)stats[2], pass ? s : -INFINITY));
      ck_assert(is_near((double)stats[3], 0));
      ck_assert_double_eq((double)REALS(look_at)[h * 5 + 1], pass);
      if (!pass)
        for (int i = 0; i < 5; i++) ck_assert_double_eq((double)REALS(look_at)[h * 5 + i], 0);
      for (long n = 0; n < T; n++) {
        const int sees = pass && n == 13;
        ck_assert(is_near((double)REALS(c.ml)[n * c.ml->ld + 2 * h], sees ? s : -INFINITY));
        ck_assert_double_eq((double)REALS(c.ml)[n * c.ml->ld + 2 * h + 1], sees);
        for (long i = 0; i < VALUE; i++) {
          double value = sees ? (double)REALS(c.v)[n * c.v->ld + h * VALUE + i] : 0;
          ck_assert_double_eq((double)REALS(c.o)[n * c.o->ld + h * VALUE + i], value);
          ck_assert(is_near((double)REALS(dv)[n * dv->ld + h * VALUE + i], value));
        }
        for (long i = 0; i < DIM; i++) { /* one key has the weight 1 whatever its score */
          ck_assert_double_eq_tol((double)REALS(dq)[n * dq->ld + h * DIM + i], 0, 1e-5);
          ck_assert_double_eq_tol((double)REALS(dk)[n * dk->ld + h * DIM + i], 0, 1e-5);
        }
      }
    }
  }
  tensor_free(device, end), tensor_free(device, dq), tensor_free(device, dk), tensor_free(device, dv);
  tensor_free(device, look_at);
  attention_end(&c);
  device_close(device);
}
END_TEST

/* Maxima, log-sum-exp and entropy against the whole matrix of scores. */
START_TEST(by_products_equal_the_matrix)
{
  struct device *device = host_device(_i);
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  c.args.cap = 1;
  real limit = 1.25;
  struct tensor cap_value = tensor_of(&limit, 1, 1);
  c.args.cap_value = &cap_value;
  attention_run(&c);
  for (long h = 0; h < H; h++) {
    double stats[4] = {-INFINITY, 0, -INFINITY, 0};
    for (long i = 0; i < T; i++) {
      double f[T], sum = 0, entropy = 0;
      for (long j = 0; j <= i; j++) {
        double s = 0;
        for (long d = 0; d < DIM; d++)
          s += 0.5 * REALS(c.q)[i * H * DIM + h * DIM + d] * REALS(c.k)[j * H * DIM + h * DIM + d];
        f[j] = 1.25 * tanh(s / 1.25);
        sum += exp(f[j]);
        stats[0] = fmax(stats[0], s);
        stats[1] = fmax(stats[1], fabs(s));
        stats[2] = fmax(stats[2], f[j]);
      }
      for (long j = 0; j <= i; j++) entropy -= exp(f[j]) / sum * log(exp(f[j]) / sum);
      stats[3] += entropy / T;
      const real *ml = REALS(c.ml) + 2 * (i * H + h);
      ck_assert_double_eq_tol((double)ml[0] + log((double)ml[1]), log(sum),
                              64 * REAL_EPS * (1 + fabs(log(sum))));
    }
    for (int k = 0; k < 4; k++)
      ck_assert_double_eq_tol(REALS(c.stats)[4 * h + k], stats[k], 64 * REAL_EPS * (1 + stats[1]));
  }
  attention_end(&c);
  device_close(device);
}
END_TEST

/* One logit of head 1 is not finite: its statistics say so, the other heads' are untouched. */
START_TEST(what_is_not_finite_surfaces)
{
  static const double value[] = {NAN, INFINITY, -INFINITY};
  struct device *device = host_device(_i % HOSTS);
  struct attention_case clean, c;
  attention_begin(&clean, device, 1, H);
  attention_begin(&c, device, 1, H);
  for (long d = 0; d < DIM; d++) REALS(c.q)[5 * H * DIM + DIM + d] = 1;
  REALS(c.k)[2 * H * DIM + DIM] = (real)value[_i / HOSTS];
  attention_run(&clean);
  attention_run(&c);
  const real *stats = REALS(c.stats) + 4;
  ck_assert(!isfinite(stats[1]));
  ck_assert(!isfinite(stats[3]));
  if (_i / HOSTS == 0) ck_assert(isnan(stats[0]) && isnan(stats[1]) && isnan(stats[2]) && isnan(stats[3]));
  if (_i / HOSTS == 1) ck_assert(!isfinite(stats[0]) && !isfinite(stats[2]));
  for (long h = 0; h < H; h++)
    for (int k = 0; h != 1 && k < 4; k++)
      ck_assert(REALS(c.stats)[4 * h + k] == REALS(clean.stats)[4 * h + k]);
  attention_end(&clean);
  attention_end(&c);
  device_close(device);
}
END_TEST

/* A row that sees nothing in its first 512 keys, all of score -infinity, and -100 in the others. */
START_TEST(a_row_may_begin_with_nothing)
{
  enum { LENGTH = 640, BEGINS = 512, ROW = 600 };
  struct device *device = host_device(_i);
  real *q = memory_new(4 * LENGTH, sizeof *q), *k = q + LENGTH, *v = k + LENGTH, *o = v + LENGTH;
  real *ml = memory_new(2 * LENGTH, sizeof *ml), stats[4];
  int *first = memory_new(LENGTH, sizeof *first);
  for (long i = 0; i < LENGTH; i++) q[i] = 10, k[i] = i < BEGINS ? (real)-LARGEST : -10, v[i] = 1;
  struct tensor tensor[] = {tensor_of(q, LENGTH, 1), tensor_of(k, LENGTH, 1),  tensor_of(v, LENGTH, 1),
                            tensor_of(o, LENGTH, 1), tensor_of(ml, LENGTH, 2), tensor_of(stats, 1, 4)};
  struct tensor start = {.data = first, .rows = 1, .cols = LENGTH, .ld = LENGTH, .type = TENSOR_INT};
  const union op_args args = {
    .attention_forward = {.o = &tensor[3],
                          .ml = &tensor[4],
                          .stats = &tensor[5],
                          .q = &tensor[0],
                          .k = &tensor[1],
                          .v = &tensor[2],
                          .start = &start,
                          .score = {.batch = 1, .heads = 1, .groups = 1, .scale = 1}}};
  op_run(device, OP_attention_forward, &args);
  ck_assert(ml[2 * ROW] == -100);
  ck_assert(ml[2 * ROW + 1] == ROW + 1 - BEGINS);
  ck_assert_double_eq_tol(o[ROW], 1, 4 * REAL_EPS);
  memory_free(first);
  memory_free(ml);
  memory_free(q);
  device_close(device);
}
END_TEST

/* Cross-entropy of logits + c: the loss stays, the maximum moves by c. */
START_TEST(shift_of_all_logits)
{
  enum { ROWS = 3, V = 11 };
  struct device *device = host_device(_i);
  struct tensor *logits = tensor_new(device, TENSOR_REAL, ROWS, V, "logits");
  struct tensor *targets = tensor_new(device, TENSOR_INT, 1, ROWS, "targets");
  struct tensor *weight = tensor_new(device, TENSOR_REAL, 1, ROWS, "weight");
  struct tensor *loss = tensor_new(device, TENSOR_REAL, 1, 2, "loss");
  struct tensor *ml = tensor_new(device, TENSOR_REAL, ROWS, 2, "ml");
  real none = 0;
  struct tensor z = tensor_of(&none, 1, 1);
  draw(logits, 5);
  for (int n = 0; n < ROWS; n++) {
    INTS(targets)[n] = 4 * n;
    REALS(weight)[n] = (real)(1.0 / ROWS);
  }
  union op_args args = {
    .cross_entropy = {
      .loss = loss, .ml = ml, .logits = logits, .targets = targets, .weight = weight, .z = &z}};
  op_run(device, OP_cross_entropy, &args);
  double before = REALS(loss)[0], max_before = REALS(ml)[2];
  for (int i = 0; i < ROWS * V; i++) REALS(logits)[i] += 32;
  op_run(device, OP_cross_entropy, &args);
  ck_assert_double_eq_tol(REALS(loss)[0], before, 4 * 36 * REAL_EPS);
  ck_assert_double_eq_tol(REALS(ml)[2], max_before + 32, 4 * 36 * REAL_EPS);
  tensor_free(device, logits);
  tensor_free(device, targets);
  tensor_free(device, weight);
  tensor_free(device, loss);
  tensor_free(device, ml);
  device_close(device);
}
END_TEST

/* --- edges of the range ----------------------------------------- */

static int same_or_near(double got, double exact)
{
  if (isnan(exact)) return isnan(got);
  return got == exact || fabs(got - exact) <= 8 * REAL_EPS * fabs(exact);
}

/* A norm is out of range only where its value is. */
START_TEST(norm_at_the_edges)
{
  enum { N = 37 };
  static const double c[][3] = {/* two values among zeros; the norm */
                                {0.3 * LARGEST, 0.4 * LARGEST, 0.5 * LARGEST},
                                {-3 / SMALLEST * REAL_EPS, 0, 3 / SMALLEST * REAL_EPS},
                                {6 * SMALLEST, 8 * SMALLEST, 10 * SMALLEST},
                                {LARGEST, 0, LARGEST},
                                {LARGEST, LARGEST, INFINITY},
                                {1, -INFINITY, INFINITY},
                                {NAN, INFINITY, NAN},
                                {INFINITY, NAN, NAN},
                                {0, 0, 0}};
  struct device *device = host_device(_i);
  struct tensor *x = tensor_new(device, TENSOR_REAL, 1, N, "x"),
                *y = tensor_new(device, TENSOR_REAL, 1, 1, "y");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    REALS(x)[3] = (real)c[i][0];
    REALS(x)[N - 1] = (real)c[i][1];
    op_run(device, OP_norm, &(union op_args){.norm = {.y = y, .x = x}});
    ck_assert_msg(same_or_near(REALS(y)[0], c[i][2]), "case %d: %g, not %g", (int)i, (double)REALS(y)[0],
                  c[i][2]);
  }
  tensor_free(device, x);
  tensor_free(device, y);
  device_close(device);
}
END_TEST

/* Squares, corrections and quotients that fit give the definition's value; a v that does not is never a
   direction of 0, neither in its step nor in the next. */
START_TEST(adam_at_the_edges)
{
  enum { N = 19 };
  static const struct edge {
    double g, m, v, b2, c1, c2, direction;
  } c[] = {
    {2 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, 1},
    {-2 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, -1},
    {0, 0.5 * LARGEST, 0.5 * LARGEST, 1, 0.01, 1e-4, 0.9 * SQUARE_OVERFLOWS / 1.4142135623730951},
    {1e3 * SQUARE_OVERFLOWS, 0, 0, 0.95, 0.1, 0.05, NAN},
    {1, 1, INFINITY, 0.95, 0.1, 0.05, NAN},
    {NAN, 1, 1, 0.95, 0.1, 0.05, NAN},
    {0, 0, 0, 0.95, 0.1, 0.05, 0},
  };
  struct device *device = host_device(_i);
  struct tensor *t[4], *number[5];
  for (int k = 0; k < 4; k++) t[k] = tensor_new(device, TENSOR_REAL, 1, N, "adam");
  for (int k = 0; k < 5; k++) number[k] = tensor_new(device, TENSOR_REAL, 1, 1, "number");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    for (int j = 0; j < N; j++) {
      REALS(t[1])[j] = (real)c[i].m;
      REALS(t[2])[j] = (real)c[i].v;
      REALS(t[3])[j] = (real)c[i].g;
    }
    const double value[] = {0.9, c[i].b2, c[i].c1, c[i].c2, 1e-8};
    for (int k = 0; k < 5; k++) REALS(number[k])[0] = (real)value[k];
    struct adam_args args = {t[0], t[1], t[2], t[3], number[0], number[1], number[2], number[3], number[4]};
    op_run(device, OP_adam, &(union op_args){.adam = args});
    for (int j = 0; j < N; j++) {
      double got = REALS(t[0])[j];
      ck_assert_msg(same_or_near(got, c[i].direction), "case %d: %g, not %g", (int)i, got, c[i].direction);
    }
  }
  for (int k = 0; k < 4; k++) tensor_free(device, t[k]);
  for (int k = 0; k < 5; k++) tensor_free(device, number[k]);
  device_close(device);
}
END_TEST

/* --- small operations by hand ----------------------------------------- */

static struct tensor *row(struct device *device, int n, const double *values)
{
  struct tensor *t = tensor_new(device, TENSOR_REAL, 1, n, "row");
  for (int i = 0; i < n; i++) REALS(t)[i] = (real)values[i];
  return t;
}

static void ck_row(const struct tensor *t, const double *expected, const char *what)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    ck_assert_msg(same_or_near(REALS(t)[i], expected[i]), "%s: element %ld is %g, not %g", what, i,
                  (double)REALS(t)[i], expected[i]);
}

/* y is `before`, then op of x and the number; the whole of what each promises where something is not finite. */
START_TEST(small_operations_by_hand)
{
  enum { N = 8 };
  static const double before[N] = {2, -2, 0, 5, NAN, 1, 4, 9};
  static const double from[N] = {3, -4, 0, NAN, 7, INFINITY, -INFINITY, -0.0};
  static const struct {
    enum op op;
    double y[N];
  } c[] = {
    {OP_multiply, {6, 8, 0, NAN, NAN, INFINITY, -INFINITY, 0}},
    {OP_divide, {2 / 3., 0.5, 1, NAN, NAN, 0, 0, 1}},
    {OP_sign, {1, -1, 0, NAN, 1, 1, -1, 0}},
    {OP_larger, {3, -2, 0, NAN, NAN, INFINITY, 4, 9}},
    {OP_clip_factor, {0.5 / 3, 1, 1, 1, 0.5 / 7, 1, 1, 1}},
    {OP_above, {1, 0, 0, 0, 1, 1, 0, 0}},
    {OP_one_unless_finite, {2, -2, 0, 1, NAN, 1, 1, 9}},
  };
  static const double half = 0.5, roots[N] = {1.4142135623730951, NAN, 0, 2.23606797749979, NAN, 1, 2, 3};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, N, from), *y = row(device, N, before), *limit = row(device, 1, &half);
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    union op_args args = {.clip_factor = {.y = y, .x = x}}; /* y and x come first in all of them */
    if (c[i].op == OP_clip_factor) args.clip_factor.limit = limit;
    if (c[i].op == OP_above) args.above.limit = limit;
    for (int j = 0; j < N; j++) REALS(y)[j] = (real)before[j];
    op_run(device, c[i].op, &args);
    ck_row(y, c[i].y, op_name(c[i].op));
  }
  for (int j = 0; j < N; j++) REALS(y)[j] = (real)before[j];
  op_run(device, OP_power, &(union op_args){.power = {.y = y, .by = limit, .exponent = 1}});
  ck_row(y, roots, "power");
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, limit);
  device_close(device);
}
END_TEST

/* 1 stays 1, 0 stays 0, until something is not finite: then 0. */
START_TEST(all_finite_by_hand)
{
  static const double value[] = {0, LARGEST, NAN, INFINITY, -INFINITY};
  struct device *device = host_device(_i);
  struct tensor *x = tensor_new(device, TENSOR_REAL, 3, 7, "x"),
                *y = tensor_new(device, TENSOR_REAL, 1, 1, "y");
  for (int i = 0; i < 5; i++)
    for (int was = 0; was < 2; was++) {
      REALS(x)[20] = (real)value[i];
      REALS(y)[0] = (real)was;
      op_run(device, OP_all_finite, &(union op_args){.all_finite = {.y = y, .x = x}});
      ck_assert(REALS(y)[0] == (i < 2 ? was : 0));
    }
  tensor_free(device, x), tensor_free(device, y);
  device_close(device);
}
END_TEST

START_TEST(reductions_by_hand)
{
  static const double values[] = {3, -1, 2, NAN, 0.5};
  static const int member[] = {0, 1, 2, 3, 0, 1, 4}, first[] = {0, 3, 3, 5, 7}, at[] = {4, -1, 0};
  static const double expected[4][4] = {
    {-1, INFINITY, NAN, -1}, {3, -INFINITY, NAN, 0.5}, {4, 0, NAN, -0.5}, {-6, 1, NAN, -0.5}};
  static const double taken[] = {0.5, 1, 3};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, 5, values), *y = tensor_new(device, TENSOR_REAL, 4, 1, "y");
  struct tensor *z = tensor_new(device, TENSOR_REAL, 1, 3, "z");
  struct tensor members = tensor_of((void *)member, 1, 7), firsts = tensor_of((void *)first, 1, 5);
  struct tensor index = tensor_of((void *)at, 1, 3);
  for (int kind = 0; kind < 4; kind++) {
    op_run(device, OP_reduce,
           &(union op_args){.reduce = {.y = y, .x = x, .member = &members, .first = &firsts, .kind = kind}});
    ck_row(y, expected[kind], "reduce");
  }
  op_run(device, OP_take, &(union op_args){.take = {.y = z, .x = x, .index = &index}});
  ck_row(z, taken, "take");
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, z);
  device_close(device);
}
END_TEST

/* Two micro-batches seen one after another are the batch: maxima, entropy, shares and the pair on top. */
START_TEST(seen_by_hand)
{
  enum { HEADS_SEEN = 4 };
  static const double none[4] = {-INFINITY, 0, -INFINITY, 0};
  static const double stats[2][HEADS_SEEN][4] = {
    {{1, 2, 1, 0.5}, {5, 5, 4, 1}, {NAN, NAN, NAN, NAN}, {1, 1, 1, 2}},
    {{3, 3, 2, 1.5}, {4, 6, 3, 2}, {7, 7, 7, 1}, {NAN, NAN, NAN, 1}}};
  static const double looks[2][HEADS_SEEN][5] = {
    {{0.5, 10, 1, 2, 3}, {0.1, 10, 4, 5, 6}, {0, 10, 7, 8, 9}, {0, 0, 1, 1, 1}},
    {{0.2, 30, 11, 12, 13}, {0.3, 10, 14, 15, 16}, {1, 10, 17, 18, 19}, {0.4, 20, 2, 2, 2}}};
  static const double seen_stats[HEADS_SEEN][4] = {
    {3, 3, 2, 1}, {5, 6, 4, 1.5}, {NAN, NAN, NAN, NAN}, {NAN, NAN, NAN, 1.5}};
  static const double seen_looks[HEADS_SEEN][5] = {
    {11, 40, 11, 12, 13}, {4, 20, 4, 5, 6}, {10, 20, 7, 8, 9}, {8, 20, 2, 2, 2}};
  struct device *device = host_device(_i);
  struct tensor *all = tensor_new(device, TENSOR_REAL, HEADS_SEEN, 4, "seen");
  struct tensor *pairs = tensor_new(device, TENSOR_REAL, HEADS_SEEN, 5, "pairs");
  for (int n = 0; n < HEADS_SEEN * 4; n++) REALS(all)[n] = (real)none[n % 4];
  for (int batch = 0; batch < 2; batch++) {
    struct tensor *now = row(device, HEADS_SEEN * 4, stats[batch][0]);
    struct tensor *look = row(device, HEADS_SEEN * 5, looks[batch][0]);
    *now = tensor_of(now->data, HEADS_SEEN, 4), *look = tensor_of(look->data, HEADS_SEEN, 5);
    op_run(device, OP_see_pairs,
           &(union op_args){.see_pairs = {.seen = pairs, .look = look, .stats = now, .largest = all}});
    op_run(device, OP_see, &(union op_args){.see = {.seen = all, .stats = now, .share = 0.5}});
    tensor_free(device, now), tensor_free(device, look);
  }
  ck_row(all, seen_stats[0], "see");
  ck_row(pairs, seen_looks[0], "see_pairs");
  tensor_free(device, all), tensor_free(device, pairs);
  device_close(device);
}
END_TEST

/* Zero keeps its place, with eps or without; what is not finite spreads over its own matrix, and that alone. */
START_TEST(newton_schulz_at_the_edges)
{
  enum { ROWS = 3, COLS = 5, SIZE = ROWS * COLS };
  static const double keller[] = {3.4445, -4.775, 2.0315}, value[] = {NAN, INFINITY, -INFINITY, LARGEST};
  static const int places[] = {SIZE, 0, 2 * SIZE};
  struct device *device = host_device(_i);
  struct tensor *x = tensor_new(device, TENSOR_REAL, 1, 3 * SIZE, "x"),
                *coefficients = row(device, 3, keller);
  struct tensor *work = tensor_new(device, TENSOR_REAL, 1, 2 * SIZE + 4 * ROWS * ROWS + ROWS + 1, "work");
  struct tensor place = tensor_of((void *)places, 1, 3);
  for (int k = 0; k < 8; k++) {
    draw(x, 1);
    memset(REALS(x) + SIZE, 0, SIZE * sizeof(real));
    REALS(x)[2 * SIZE + 4] = (real)value[k / 2];
    if (k / 2 == 3) REALS(x)[2 * SIZE + 5] = LARGEST; /* the norm of both is not finite */
    op_run(device, OP_newton_schulz,
           &(union op_args){.newton_schulz = {.x = x,
                                              .work = work,
                                              .place = &place,
                                              .coefficients = coefficients,
                                              .rows = ROWS,
                                              .cols = COLS,
                                              .steps = 5,
                                              .first = k % 2 ? 3 : 1,
                                              .then = k % 2 ? 2 : 1,
                                              .norm_scale = 1,
                                              .eps = k % 2 ? 1e-7 : 0,
                                              .scale = 1}});
    for (int j = 0; j < SIZE; j++) {
      ck_assert(isfinite(REALS(x)[j]) && REALS(x)[j] != 0);
      ck_assert(REALS(x)[SIZE + j] == 0);
      ck_assert(isnan(REALS(x)[2 * SIZE + j]));
    }
  }
  tensor_free(device, x), tensor_free(device, coefficients), tensor_free(device, work);
  device_close(device);
}
END_TEST

/* A direction of length 1, and what has none stays as it is. */
START_TEST(normalise_at_the_edges)
{
  static const double c[][4] = {{3, 4, 0, 5},
                                {0, 0, 0, 0},
                                {0.3 * LARGEST, 0.4 * LARGEST, 0, 0.5 * LARGEST},
                                {6 * SMALLEST, 8 * SMALLEST, 0, 10 * SMALLEST},
                                {1, NAN, 2, NAN}};
  struct device *device = host_device(_i);
  struct tensor *size = tensor_new(device, TENSOR_REAL, 1, 1, "size");
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    struct tensor *y = row(device, 3, c[i]);
    op_run(device, OP_normalise, &(union op_args){.normalise = {.y = y, .size = size}});
    ck_assert(same_or_near(REALS(size)[0], c[i][3]));
    for (int j = 0; j < 3; j++)
      ck_assert(same_or_near(REALS(y)[j], c[i][3] == 0 ? 0 : isnan(c[i][3]) ? NAN : c[i][j] / c[i][3]));
    tensor_free(device, y);
  }
  tensor_free(device, size);
  device_close(device);
}
END_TEST

/* A factor of 1 does not touch its segment, not even a NaN's bits; a beta of 0 does not read y. */
START_TEST(what_is_left_alone)
{
  static const double values[] = {1, NAN, 3, 4}, factors[] = {1, 2};
  static const int segments_of[] = {0, 2, 2, 2};
  struct device *device = host_device(_i);
  struct tensor *x = row(device, 4, values), *factor = row(device, 2, factors), *y = row(device, 4, values);
  struct tensor segment = tensor_of((void *)segments_of, 2, 2);
  op_run(device, OP_scale_segments,
         &(union op_args){.scale_segments = {.x = x, .segment = &segment, .factor = factor}});
  ck_assert(!memcmp(x->data, y->data, 2 * sizeof(real)) && REALS(x)[2] == 6 && REALS(x)[3] == 8);
  op_run(device, OP_scale, &(union op_args){.scale = {.y = x, .by = factor, .alpha = 1}});
  ck_assert(!memcmp(x->data, y->data, 2 * sizeof(real)) && REALS(x)[2] == 6);
  REALS(x)[1] = 2;
  for (int by_number = 0; by_number < 2; by_number++) {
    double zero = 0;
    struct tensor *b = row(device, 1, &zero);
    for (int j = 0; j < 4; j++) REALS(y)[j] = (real)NAN;
    op_run(device, OP_axpby,
           &(union op_args){
             .axpby = {.y = y, .x = x, .b = by_number ? b : NULL, .alpha = 1, .beta = by_number ? 1 : 0}});
    for (int j = 0; j < 4; j++) ck_assert(REALS(y)[j] == REALS(x)[j]);
    tensor_free(device, b);
  }
  tensor_free(device, x), tensor_free(device, y), tensor_free(device, factor);
  device_close(device);
}
END_TEST

/* --- large scores ----------------------------------------- */

/* Scores and logits of this size, which differ by a few: the digits that are left tell them apart exactly. */
static const double levels_of[] = {0, 1000, 10000, 131072};
enum { SIZES_OF_SCORES = sizeof levels_of / sizeof *levels_of };

static double step_of(long j) { return (double)(j * 7 % 24) / 16; }

/* The weights that the reverse pass makes anew: dv under a gradient of 1 for the last row. */
START_TEST(softmax_of_large_scores)
{
  struct device *device = host_device(_i % HOSTS);
  const double size = levels_of[_i / HOSTS], tolerance = 16 * REAL_EPS;
  struct attention_case c;
  attention_begin(&c, device, 1, H);
  c.args.scale = 1;
  for (long t = 0; t < T; t++)
    for (long h = 0; h < H; h++)
      for (long d = 0; d < DIM; d++) {
        REALS(c.q)[t * c.q->ld + h * DIM + d] = (real)(d == 0 ? size : d == 1);
        REALS(c.k)[t * c.k->ld + h * DIM + d] = (real)(d == 0 ? 1 : d == 1 ? step_of(t) : 0);
      }
  attention_run(&c);
  struct tensor *dq = tensor_new(device, TENSOR_REAL, T, H * DIM, "dq");
  struct tensor *dk = tensor_new(device, TENSOR_REAL, T, H * DIM, "dk");
  struct tensor *dv = tensor_new(device, TENSOR_REAL, T, H * VALUE, "dv");
  struct tensor *do_ = tensor_new(device, TENSOR_REAL, T, H * VALUE, "do");
  for (long j = 0; j < H * VALUE; j++) REALS(do_)[(T - 1) * H * VALUE + j] = 1;
  op_run(device, OP_attention_backward,
         &(union op_args){.attention_backward = {.dq = dq,
                                                 .dk = dk,
                                                 .dv = dv,
                                                 .do_ = do_,
                                                 .o = c.o,
                                                 .q = c.q,
                                                 .k = c.k,
                                                 .v = c.v,
                                                 .ml = c.ml,
                                                 .start = c.start,
                                                 .batch = 1,
                                                 .heads = H,
                                                 .groups = H,
                                                 .scale = 1}});
  double sum = 0;
  for (long j = 0; j < T; j++) sum += exp(step_of(j));
  for (long column = 0; column < H * VALUE; column++) {
    double total = 0;
    for (long j = 0; j < T; j++) {
      double p = REALS(dv)[j * H * VALUE + column], exact = exp(step_of(j)) / sum;
      ck_assert_msg(fabs(p - exact) <= tolerance * exact, "scores near %g: p %.9g, not %.9g", size, p, exact);
      total += p;
    }
    ck_assert_double_eq_tol(total, 1, tolerance);
  }
  tensor_free(device, dq);
  tensor_free(device, dk);
  tensor_free(device, dv);
  tensor_free(device, do_);
  attention_end(&c);
  device_close(device);
}
END_TEST

START_TEST(loss_of_large_logits)
{
  enum { V = 37, TARGET = 5 };
  struct device *device = host_device(_i % HOSTS);
  const double size = levels_of[_i / HOSTS], tolerance = 16 * REAL_EPS;
  struct tensor *logits = tensor_new(device, TENSOR_REAL, 1, V, "logits");
  struct tensor *dlogits = tensor_new(device, TENSOR_REAL, 1, V, "dlogits");
  struct tensor *targets = tensor_new(device, TENSOR_INT, 1, 1, "targets");
  struct tensor *weight = tensor_new(device, TENSOR_REAL, 1, 1, "weight");
  struct tensor *loss = tensor_new(device, TENSOR_REAL, 1, 2, "loss"), *each;
  struct tensor *ml = tensor_new(device, TENSOR_REAL, 1, 2, "ml");
  each = tensor_new(device, TENSOR_REAL, 1, 1, "loss of a token");
  double sum = 0, total = 0;
  for (long j = 0; j < V; j++) {
    REALS(logits)[j] = (real)(size + step_of(j));
    sum += exp(step_of(j));
  }
  real none = 0;
  struct tensor z = tensor_of(&none, 1, 1);
  INTS(targets)[0] = TARGET;
  REALS(weight)[0] = 1;
  op_run(device, OP_cross_entropy,
         &(union op_args){.cross_entropy = {loss, ml, logits, targets, weight, &z}});
  op_run(device, OP_cross_entropy_backward,
         &(union op_args){.cross_entropy_backward = {dlogits, logits, ml, targets, weight, &z}});
  op_run(device, OP_token_loss, &(union op_args){.token_loss = {each, logits, ml, targets}});
  const double exact = log(sum) - step_of(TARGET);
  ck_assert_double_eq_tol(REALS(loss)[0], exact, tolerance * exact);
  ck_assert_double_eq_tol(REALS(each)[0], exact, tolerance * exact);
  for (long j = 0; j < V; j++) {
    double d = exp(step_of(j)) / sum - (j == TARGET);
    ck_assert_double_eq_tol(REALS(dlogits)[j], d, tolerance * fabs(d));
    total += REALS(dlogits)[j];
  }
  ck_assert_double_eq_tol(total, 0, tolerance);
  tensor_free(device, logits);
  tensor_free(device, dlogits);
  tensor_free(device, targets);
  tensor_free(device, weight);
  tensor_free(device, loss);
  tensor_free(device, ml);
  tensor_free(device, each);
  device_close(device);
}
END_TEST

#ifdef CUDA_ON_HOST
/* To 11 digits, ties away from zero. */
static double to_tf32(double x)
{
  int e;
  double digits = frexp(x, &e);
  return ldexp(round(ldexp(digits, 11)), e - 11);
}

/* What math makes of every number of a tensor. */
static void round_all(struct tensor *t, enum device_math math)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)(math == MATH_BF16 ? number_round(REALS(t)[i], FORMAT_BF16) : to_tf32(REALS(t)[i]));
}

static double largest_of(const struct tensor *t)
{
  double m = 0;
  for (long i = 0; i < t->rows * t->cols; i++) m = fmax(m, fabs((double)REALS(t)[i]));
  return m;
}

static double farthest(const struct tensor *a, const struct tensor *b)
{
  double m = 0;
  for (long i = 0; i < a->rows * a->cols; i++) m = fmax(m, fabs((double)REALS(a)[i] - (double)REALS(b)[i]));
  return m;
}

/* device.math in products: what comes out is that of inputs rounded before, summed as before, whichever way they
   lie, in tiles of every size. In two orders of threads: the same bits. */
static const struct rounded_product {
  long m, n, k;
} rounded_products[] = {{33, 29, 70}, {65, 40, 40}, {150, 70, 20}, {1, 3, 1}, {32, 24, 40}};
enum { ROUNDED_PRODUCTS = sizeof rounded_products / sizeof *rounded_products };

START_TEST(products_of_rounded_inputs)
{
  const struct rounded_product *r = &rounded_products[_i / 16];
  const enum device_math math = _i % 2 ? MATH_BF16 : MATH_TF32;
  const int ta = _i / 2 % 2, tb = _i / 4 % 2, library = _i / 8 % 2;
  struct device *device[] = {library ? cuda_on_host_open_with_library(0, 1) : cuda_on_host_open(0, 1),
                             library ? cuda_on_host_open_with_library(1, 1) : cuda_on_host_open(1, 1),
                             open_kind(0, 1)},
                *reference = device[2];
  struct tensor *a = tensor_new(reference, TENSOR_REAL, ta ? r->k : r->m, ta ? r->m : r->k, "a");
  struct tensor *b = tensor_new(reference, TENSOR_REAL, tb ? r->n : r->k, tb ? r->k : r->n, "b");
  struct tensor *c[4];
  device[0]->math = device[1]->math = math;
  draw(a, 11), draw(b, 12);
  for (int w = 0; w < 4; w++) { /* rounded inside, twice; not at all; before */
    c[w] = tensor_new(reference, TENSOR_REAL, r->m, r->n, "c");
    draw(c[w], 13);
    if (w == 3) round_all(a, math), round_all(b, math);
    op_run(
      device[w < 2 ? w : 2], OP_matmul,
      &(union op_args){.matmul = {.c = c[w], .a = a, .b = b, .ta = ta, .tb = tb, .alpha = 0.5, .add = 1}});
  }
  ck_assert_double_le(farthest(c[0], c[3]), 64 * REAL_EPS * sqrt((double)r->k));
  ck_assert_double_gt(farthest(c[0], c[2]), (math == MATH_BF16 ? 1.0 / 256 : 1.0 / 2048) / 64);
  ck_assert(!memcmp(c[0]->data, c[1]->data, (size_t)(r->m * r->n) * sizeof(real)));
  draw(a, 11), draw(b, 12), draw(c[0], 13); /* and in full where the call asks for it */
  op_run(device[0], OP_matmul,
         &(union op_args){
           .matmul = {.c = c[0], .a = a, .b = b, .ta = ta, .tb = tb, .alpha = 0.5, .add = 1, .full = 1}});
  ck_assert_double_le(farthest(c[0], c[2]), 64 * REAL_EPS * sqrt((double)r->k));
  tensor_free(reference, a), tensor_free(reference, b);
  for (int w = 0; w < 4; w++) tensor_free(reference, c[w]);
  for (int i = 0; i < 3; i++) device_close(device[i]);
}
END_TEST

/* The library makes products of its own bits; where it refuses one, the project's own kernels do. */
START_TEST(products_that_a_library_refuses)
{
  enum { M = 21, N = 30, K = 40 };
  struct device *device[] = {cuda_on_host_open_with_library(0, 1), cuda_on_host_open_with_library(0, 1),
                             cuda_on_host_open(0, 1)};
  struct tensor *a = tensor_new(device[2], TENSOR_REAL, M, K, "a"),
                *b = tensor_new(device[2], TENSOR_REAL, K, N, "b"),
                *d = tensor_new(device[2], TENSOR_REAL, M, N, "d"), *c[3];
  draw(a, 11), draw(b, 12), draw(d, 13);
  for (int w = 0; w < 3; w++) {
    c[w] = tensor_new(device[2], TENSOR_REAL, M, N, "c");
    cuda_on_host_refuse(w == 1 ? 0 : -1); /* of two the first */
    for (int i = 0; i < 2; i++)
      op_run(
        device[w], OP_matmul,
        &(union op_args){.matmul = {.c = c[w], .a = a, .b = b, .alpha = 0.5, .add = i, .d = i ? NULL : d}});
  }
  ck_assert(memcmp(c[0]->data, c[2]->data, M * N * sizeof(real)) != 0);
  ck_assert(memcmp(c[0]->data, c[1]->data, M * N * sizeof(real)) != 0);
  ck_assert_double_le(farthest(c[0], c[2]), 64 * REAL_EPS * sqrt(K));
  ck_assert_double_le(farthest(c[1], c[2]), 64 * REAL_EPS * sqrt(K));
  tensor_free(device[2], a), tensor_free(device[2], b), tensor_free(device[2], d);
  for (int w = 0; w < 3; w++) tensor_free(device[2], c[w]);
  for (int w = 0; w < 3; w++) device_close(device[w]);
}
END_TEST

/* A product with itself: its inputs are rounded, what is added of it is not; and it is symmetric to the bit. */
START_TEST(gram_of_rounded_inputs)
{
  const long m = _i / 2 ? 70 : 17, n = 45; /* twice a matrix, and its product */
  const enum device_math math = _i % 2 ? MATH_BF16 : MATH_TF32;
  struct device *device = cuda_on_host_open(0, 1), *reference = open_kind(0, 1);
  struct tensor *a[2], *c[2];
  device->math = math;
  for (int w = 0; w < 2; w++) {
    a[w] = tensor_new(reference, TENSOR_REAL, m, n, "a"),
    c[w] = tensor_new(reference, TENSOR_REAL, m, m, "c");
    draw(a[w], 14);
    if (w) round_all(a[w], math);
    op_run(w ? reference : device, OP_gram, &(union op_args){.gram = {.c = c[w], .a = a[w], .alpha = 0.5}});
  }
  ck_assert_double_le(farthest(c[0], c[1]), 64 * REAL_EPS * sqrt((double)n));
  for (long i = 0; i < m; i++)
    for (long j = 0; j < i; j++) ck_assert(REALS(c[0])[i * m + j] == REALS(c[0])[j * m + i]);
  for (int w = 0; w < 2; w++) tensor_free(reference, a[w]), tensor_free(reference, c[w]);
  device_close(device), device_close(reference);
}
END_TEST

/* Newton-Schulz with device.math is made of such products: near that of single precision, and not the same; many
   matrices in one launch are what each is by itself. */
START_TEST(newton_schulz_of_rounded_inputs)
{
  enum { ROWS = 40, COLS = 24, SIZE = ROWS * COLS, PLACES = 3, LANE = 2 * SIZE + 2 * COLS * COLS + COLS + 1 };
  static const double keller[] = {3.4445, -4.775, 2.0315};
  static const int places[] = {SIZE, 0, 2 * SIZE};
  const enum device_math math = _i ? MATH_BF16 : MATH_TF32;
  struct device *device = cuda_on_host_open(0, 1);
  struct tensor *coefficients = row(device, 3, keller), *x[3];
  for (int w = 0; w < 3; w++) { /* in company, alone, in single precision */
    const long lanes = w == 1 ? 1 : PLACES;
    struct tensor *work = tensor_new(device, TENSOR_REAL, lanes, LANE, "work");
    struct tensor place = tensor_of((void *)places, 1, PLACES);
    x[w] = tensor_new(device, TENSOR_REAL, 1, PLACES * SIZE, "x");
    draw(x[w], 15);
    device->math = w == 2 ? MATH_FP32 : math;
    op_run(device, OP_newton_schulz,
           &(union op_args){.newton_schulz = {.x = x[w],
                                              .work = work,
                                              .place = &place,
                                              .coefficients = coefficients,
                                              .rows = ROWS,
                                              .cols = COLS,
                                              .steps = 5,
                                              .first = 1,
                                              .then = 1,
                                              .norm_scale = 1,
                                              .eps = 1e-7,
                                              .scale = 1}});
    tensor_free(device, work);
  }
  const double off = farthest(x[0], x[2]), digit = _i ? 1.0 / 256 : 1.0 / 2048;
  ck_assert(!memcmp(x[0]->data, x[1]->data, PLACES * SIZE * sizeof(real)));
  ck_assert_double_gt(off, digit / 64);
  ck_assert_double_le(off, 32 * digit);
  for (int w = 0; w < 3; w++) tensor_free(device, x[w]);
  tensor_free(device, coefficients);
  device_close(device);
}
END_TEST

/* Heads of attention that tensor cores take, and some that are too wide for them. */
static const struct rounded_attention {
  long heads, groups, dim, value_dim, batch, length, cap;
} rounded_attentions[] = {{2, 2, 16, 16, 1, 70, 0},  {2, 1, 40, 24, 1, 70, 1}, {1, 1, 64, 128, 1, 66, 0},
                          {1, 1, 128, 64, 1, 65, 2}, {3, 1, 8, 40, 2, 33, 0},  {1, 1, 136, 130, 1, 20, 0}};
enum { ROUNDED = sizeof rounded_attentions / sizeof *rounded_attentions, OUTPUTS = 5 };

static void rounded_attention_run(struct device *device, const struct rounded_attention *r,
                                  struct tensor *const in[5], struct tensor *const to[OUTPUTS],
                                  struct tensor *stats)
{
  real limit = 2;
  struct tensor cap = tensor_of(&limit, 1, 1);
  const struct attention_score score = {.batch = r->batch,
                                        .heads = r->heads,
                                        .groups = r->groups,
                                        .scale = 1 / sqrt((double)r->dim),
                                        .cap = r->cap,
                                        .cap_value = &cap};
  op_run(device, OP_attention_forward,
         &(union op_args){.attention_forward = {.o = to[0],
                                                .ml = to[1],
                                                .stats = stats,
                                                .q = in[0],
                                                .k = in[1],
                                                .v = in[2],
                                                .start = in[4],
                                                .score = score}});
  op_run(device, OP_attention_backward,
         &(union op_args){.attention_backward = {.dq = to[2],
                                                 .dk = to[3],
                                                 .dv = to[4],
                                                 .do_ = in[3],
                                                 .o = to[0],
                                                 .q = in[0],
                                                 .k = in[1],
                                                 .v = in[2],
                                                 .ml = to[1],
                                                 .start = in[4],
                                                 .score = score}});
}

/* device.math in attention: what it tells of scores is that of rounded queries and keys; outputs and gradients are
   those of rounded inputs, but for the rounding of weights (half a last digit each), which nothing outside can tell.
   In two orders of threads: the same bits. */
START_TEST(attention_of_rounded_inputs)
{
  const struct rounded_attention *r = &rounded_attentions[_i / 2];
  const enum device_math math = _i % 2 ? MATH_BF16 : MATH_TF32;
  const double digit = math == MATH_BF16 ? 1.0 / 256 : 1.0 / 2048;
  const long rows = r->batch * r->length, q = r->heads * r->dim, k = r->groups * r->dim,
             v = r->groups * r->value_dim, o = r->heads * r->value_dim;
  struct device *device = cuda_on_host_open(0, 1), *other = cuda_on_host_open(1, 1),
                *reference = open_kind(0, 1);
  struct device *by[] = {device, other, reference, reference}; /* the last with inputs rounded before */
  const long in_cols[] = {q, k, v, o}, to_cols[OUTPUTS] = {o, 2 * r->heads, q, k, v};
  struct tensor *in[5], *to[4][OUTPUTS], *stats[4];
  device->math = other->math = math;
  for (int i = 0; i < 4; i++) in[i] = tensor_new(reference, TENSOR_REAL, rows, in_cols[i], "in");
  in[4] = tensor_new(reference, TENSOR_INT, 1, rows, "start");
  for (int i = 0; i < 4; i++) draw(in[i], 20 + (uint64_t)i);
  for (long n = 0; n < rows; n++) /* documents of 48 */
    ((int *)in[4]->data)[n] = (int)(n % r->length / 48 * 48);
  for (int w = 0; w < 4; w++) {
    for (int i = 0; i < OUTPUTS; i++) to[w][i] = tensor_new(reference, TENSOR_REAL, rows, to_cols[i], "out");
    stats[w] = tensor_new(reference, TENSOR_REAL, r->heads, 4, "stats");
    for (int i = 0; w == 3 && i < 4; i++) round_all(in[i], math);
    rounded_attention_run(by[w], r, in, to[w], stats[w]);
  }
  ck_near(stats[0], stats[3], 0, "stats"), ck_near(to[0][1], to[3][1], 0, "ml");
  ck_assert_double_gt(farthest(stats[0], stats[2]), digit / 64); /* as it would be without rounding */
  for (int i = 0; i < OUTPUTS; i++) {
    if (i == 1) continue;
    const double off = farthest(to[0][i], to[3][i]), most = largest_of(to[3][i]);
    ck_assert_msg(off <= 8 * digit * most, "output %d is off by %g of %g", i, off, most);
    ck_assert(!memcmp(to[0][i]->data, to[1][i]->data, (size_t)(rows * to_cols[i]) * sizeof(real)));
  }
  ck_assert(!memcmp(stats[0]->data, stats[1]->data, (size_t)r->heads * 4 * sizeof(real)));
  for (int i = 0; i < 5; i++) tensor_free(reference, in[i]);
  for (int w = 0; w < 4; w++) {
    for (int i = 0; i < OUTPUTS; i++) tensor_free(reference, to[w][i]);
    tensor_free(reference, stats[w]);
  }
  device_close(device), device_close(other), device_close(reference);
}
END_TEST

/* Decoding rounds as training does: queries, keys, values; and weights, half a last digit. */
START_TEST(decoding_of_rounded_inputs)
{
  enum { B = 3, L = 5, SIZE = 24 };
  const enum device_math math = _i ? MATH_BF16 : MATH_TF32;
  const double digit = math == MATH_BF16 ? 1.0 / 256 : 1.0 / 2048;
  struct device *device = cuda_on_host_open(0, 1), *reference = open_kind(0, 1);
  struct tensor *o[2], *ml[2], *stats[2];
  device->math = math;
  for (int w = 0; w < 2; w++) {
    const long rows[] = {B * L, B * L, B, B, B};
    struct tensor *in[5], *slot = tensor_new(reference, TENSOR_INT, 1, B, "slot"),
                          *start = tensor_new(reference, TENSOR_INT, 1, B, "start");
    for (int i = 0; i < 5; i++) { /* keys, values, q, k, v */
      in[i] = tensor_new(reference, TENSOR_REAL, rows[i], SIZE, "in");
      draw(in[i], 50 + (uint64_t)i);
      if (w) round_all(in[i], math);
    }
    for (int b = 0; b < B; b++) ((int *)slot->data)[b] = 1 + b;
    o[w] = tensor_new(reference, TENSOR_REAL, B, SIZE, "o");
    ml[w] = tensor_new(reference, TENSOR_REAL, B, 2, "ml");
    stats[w] = tensor_new(reference, TENSOR_REAL, 1, 4, "stats");
    op_run(
      w ? reference : device, OP_attention_cached,
      &(union op_args){.attention_cached = {.o = o[w],
                                            .ml = ml[w],
                                            .stats = stats[w],
                                            .keys = in[0],
                                            .values = in[1],
                                            .q = in[2],
                                            .k = in[3],
                                            .v = in[4],
                                            .slot = slot,
                                            .start = start,
                                            .score = {.batch = B, .heads = 1, .groups = 1, .scale = 0.25}}});
    for (int i = 0; i < 5; i++) tensor_free(reference, in[i]);
    tensor_free(reference, slot), tensor_free(reference, start);
  }
  ck_near(stats[0], stats[1], 0, "stats"), ck_near(ml[0], ml[1], 0, "ml");
  ck_assert_double_le(farthest(o[0], o[1]), digit * largest_of(o[1]) * 2);
  for (int w = 0; w < 2; w++)
    tensor_free(reference, o[w]), tensor_free(reference, ml[w]), tensor_free(reference, stats[w]);
  device_close(device), device_close(reference);
}
END_TEST

/* What is left out to measure what maxima cost is only what is told of scores. */
START_TEST(attention_without_maxima)
{
  const struct rounded_attention *r = &rounded_attentions[_i / 3];
  struct device *device = cuda_on_host_open(0, 1);
  const struct ops whole = device->ops;
  const long rows = r->batch * r->length, q = r->heads * r->dim, o = r->heads * r->value_dim;
  const long cols[] = {q, r->groups * r->dim, r->groups * r->value_dim, o, 2 * r->heads};
  struct tensor *t[5], *again[2], *stats[2], *start = tensor_new(device, TENSOR_INT, 1, rows, "start");
  real limit = 2;
  struct tensor cap = tensor_of(&limit, 1, 1);
  device->math = (enum device_math)(_i % 3);
  for (int i = 0; i < 5; i++)
    t[i] = tensor_new(device, TENSOR_REAL, rows, cols[i], "t"), draw(t[i], 60 + (uint64_t)i);
  for (int w = 0; w < 2; w++) {
    again[w] = tensor_new(device, TENSOR_REAL, rows, cols[3 + w], "again");
    stats[w] = tensor_new(device, TENSOR_REAL, r->heads, 4, "stats");
  }
  for (int w = 0; w < 2; w++) {
    const struct attention_score score = {.batch = r->batch,
                                          .heads = r->heads,
                                          .groups = r->groups,
                                          .scale = 0.5,
                                          .cap = r->cap,
                                          .cap_value = &cap};
    if (w) ops_cuda_without_maxima(&device->ops);
    op_run(device, OP_attention_forward,
           &(union op_args){.attention_forward = {.o = w ? again[0] : t[3],
                                                  .ml = w ? again[1] : t[4],
                                                  .stats = stats[w],
                                                  .q = t[0],
                                                  .k = t[1],
                                                  .v = t[2],
                                                  .start = start,
                                                  .score = score}});
  }
  device->ops = whole;
  for (int w = 0; w < 2; w++)
    ck_assert(!memcmp(t[3 + w]->data, again[w]->data, (size_t)(rows * cols[3 + w]) * sizeof(real)));
  for (int i = 0; i < r->heads * 4; i++) ck_assert(REALS(stats[0])[i] != 0 && REALS(stats[1])[i] == 0);
  for (int i = 0; i < 5; i++) tensor_free(device, t[i]);
  for (int w = 0; w < 2; w++) tensor_free(device, again[w]), tensor_free(device, stats[w]);
  tensor_free(device, start);
  device_close(device);
}
END_TEST

/* What is not finite passes through words of tensor cores: every NaN, whatever its bits, and infinities. */
START_TEST(what_is_not_finite_in_words)
{
  enum { N = 20, D = 16 };
  const struct rounded_attention r = {1, 1, D, D, 1, N, 0};
  struct device *device = cuda_on_host_open(0, 1);
  struct tensor *in[5], *to[OUTPUTS], *stats = tensor_new(device, TENSOR_REAL, 1, 4, "stats");
  device->math = _i % 2 ? MATH_BF16 : MATH_TF32;
  for (int i = 0; i < 4; i++)
    in[i] = tensor_new(device, TENSOR_REAL, N, D, "in"), draw(in[i], 30 + (uint64_t)i);
  in[4] = tensor_new(device, TENSOR_INT, 1, N, "start");
  for (int i = 0; i < OUTPUTS; i++) to[i] = tensor_new(device, TENSOR_REAL, N, i == 1 ? 2 : D, "out");
  const uint32_t small_nan = 0x7f800001; /* of which a cut leaves infinity */
  const int where = _i / 2;              /* q, k, v, do */
  memcpy(&REALS(in[where])[7 * D + 3], &small_nan, 4);
  rounded_attention_run(device, &r, in, to, stats);
  if (where < 2) ck_assert(isnan(REALS(stats)[0]) && isnan(REALS(stats)[1]));
  const int reached = where < 3 ? 0 : 4; /* o; dv */
  ck_assert(isnan(REALS(to[reached])[7 * D + 3]));
  for (int i = 0; i < 5; i++) tensor_free(device, in[i]);
  for (int i = 0; i < OUTPUTS; i++) tensor_free(device, to[i]);
  tensor_free(device, stats);
  device_close(device);
}
END_TEST
#endif

/* --- experts: numbers worked out apart --------------------------------------------------------------------------- */

static void near(const struct tensor *t, const double *wanted, double off)
{
  for (long i = 0; i < t->rows * t->cols; i++) ck_assert_double_eq_tol(REALS(t)[i], wanted[i], off);
}

/* 12 experts in 3 groups of which 2 are kept, 4 chosen, scale 2.5: expert 0 has the best score and is out. */
START_TEST(a_choice_by_hand)
{
  static const double logit[] = {2, -1, .5, 0, 1, 1, -2, .2, 1.8, -3, -3, 1.5},
                      bias[] = {-.3, 0, 0, 0, 0, .05, 0, 0, 0, 0, 0, .1};
  static const double gate[] = {.651383, .683710, .582454, .582454}, dgate[] = {1, -1, .5, 0};
  static const int chosen[] = {11, 8, 5, 4}, alone[] = {0, 8, 11, 2};
  static const double dlogit[12] = {[11] = .106523, [8] = -.107029, [5] = .062101, [4] = -.016222};
  struct device *device = open_kind(_i, 1);
  if (!device) return;
  struct device *host = open_kind(0, 1);
  struct tensor *x = tensor_new(host, TENSOR_REAL, 1, 12, "x"),
                *b = tensor_new(host, TENSOR_REAL, 1, 12, "b");
  struct tensor *score = tensor_new(host, TENSOR_REAL, 1, 12, "score"),
                *g = tensor_new(host, TENSOR_REAL, 1, 4, "gate");
  struct tensor *told = tensor_new(host, TENSOR_REAL, 1, 14, "told"),
                *at = tensor_new(host, TENSOR_INT, 1, 4, "at");
  struct tensor *by = tensor_new(host, TENSOR_REAL, 1, 1, "by"),
                *dg = tensor_new(host, TENSOR_REAL, 1, 4, "dg");
  struct tensor *d = tensor_new(host, TENSOR_REAL, 1, 12, "d");
  for (int i = 0; i < 12; i++) REALS(x)[i] = (real)logit[i], REALS(b)[i] = (real)bias[i];
  for (int i = 0; i < 4; i++) REALS(dg)[i] = (real)dgate[i];
  *REALS(by) = (real)2.5;
  union op_args a = {.route = {score, g, at, told, x, b, by, 0, 3, 2}};
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], chosen[k]);
  near(g, gate, 1e-6);
  for (int e = 0; e < 12; e++) ck_assert_double_eq(REALS(told)[e], e == 11 || e == 8 || e == 5 || e == 4);
  ck_assert_double_eq(REALS(told)[13], 1);
  union op_args back = {.route_backward = {d, dg, NULL, score, at, by, 0}};
  op_run(device, OP_route_backward, &back);
  near(d, dlogit, 1e-6);
  a.route.bias = NULL;
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], alone[k]);
  ck_assert_double_eq(REALS(told)[13], 0);
  for (int e = 0; e < 12; e++) REALS(x)[e] = 0; /* all equal: the first of the first groups, entropy ln 12 */
  op_run(device, OP_route, &a);
  for (int k = 0; k < 4; k++) ck_assert_int_eq(INTS(at)[k], k);
  ck_assert_double_eq_tol(REALS(told)[12], log(12), 1e-6);
  struct tensor *all[] = {x, b, score, g, told, at, by, dg, d};
  for (int i = 0; i < 9; i++) tensor_free(host, all[i]);
  device_close(device), device_close(host);
}
END_TEST

/* Two tokens, sigmoid, 2 of 4 chosen (arXiv 2412.19437 eq. 17 to 20). */
START_TEST(a_balance_by_hand)
{
  static const double logit[] = {1, 0, -1, .5, 2, 0, 1, -1}, f[] = {2, 0, 1, 1};
  struct device *device = open_kind(_i, 1);
  if (!device) return;
  struct device *host = open_kind(0, 1);
  struct tensor *score = tensor_new(host, TENSOR_REAL, 2, 4, "score"),
                *loss = tensor_new(host, TENSOR_REAL, 1, 1, "loss");
  struct tensor *share = tensor_new(host, TENSOR_REAL, 1, 4, "share"),
                *alpha = tensor_new(host, TENSOR_REAL, 1, 1, "alpha");
  *REALS(alpha) = 1;
  for (int i = 0; i < 8; i++) REALS(score)[i] = (real)(1 / (1 + exp(-logit[i])));
  union op_args a = {.balance_loss = {loss, share, score, alpha, 2, 1}};
  op_run(device, OP_balance_loss, &a);
  near(share, f, 1e-6);
  ck_assert_double_eq_tol(*REALS(loss), 1.134404, 1e-6);
  struct tensor *all[] = {score, loss, share, alpha};
  for (int i = 0; i < 4; i++) tensor_free(host, all[i]);
  device_close(device), device_close(host);
}
END_TEST

START_TEST(a_wrong_device_is_refused)
{
  struct device *device;
  struct error e = {0};
  ck_assert_int_eq(device_open(&device, "abacus", 1, &e), STATUS_USAGE);
  ck_assert_ptr_null(device);
  ck_assert_ptr_nonnull(strstr(e.text, "abacus"));
  ck_assert_int_eq(device_open(&device, "cpu", -1, NULL), STATUS_USAGE);
}
END_TEST

#ifdef CUDA_ON_HOST
/* Of the kernels in this program, those that no test has launched: a branch of a choice that no shape reaches. */
static int kernels_left_out(void)
{
  extern char __executable_start[];
  char line[4096], command[64];
  int left = 0, all = 0;
  snprintf(command, sizeof command, "nm -C /proc/%d/exe", (int)getpid());
  FILE *symbols = popen(command, "r");
  if (!symbols) return 1;
  while (fgets(line, sizeof line, symbols)) {
    char *end, *kernel = strstr(line, "_kernel");
    const size_t at = strtoul(line, &end, 16);
    if (!kernel || strncmp(end, " t ", 3) || strstr(line, "::") || strstr(line, "[clone")) continue;
    if (strstr(line, "fma_kernel") || strstr(line, "noise_kernel"))
      continue; /* the bench's, which tests/cuda runs */
    all++;
    if (cuda_on_host_was_launched(__executable_start + at)) continue;
    printf("no test launches %s", end + 3);
    left++;
  }
  printf("%d kernels, %d of them never launched\n", all, left);
  return pclose(symbols) || all < 50 ? 1 : left;
}
#endif

int main(void)
{
  Suite *suite = suite_create("operations");
  TCase *table = tcase_create("table"), *identities = tcase_create("identities");
  tcase_set_timeout(table, 120);
  tcase_add_loop_test(table, every_operation, 0, OP_COUNT);
  suite_add_tcase(suite, table);
  tcase_add_loop_test(identities, shift_of_all_keys, 0, HOSTS);
  tcase_add_loop_test(identities, look_at_pairs, 0, HOSTS);
  tcase_add_loop_test(identities, order_of_keys, 0, HOSTS);
  tcase_add_loop_test(identities, a_row_may_begin_with_nothing, 0, HOSTS);
  tcase_add_loop_test(identities, grouped_equals_repeated, 0, HOSTS);
  tcase_add_loop_test(identities, documents_equal_sequences, 0, HOSTS);
  tcase_add_loop_test(identities, masks_meet_in_the_causal_one, 0, HOSTS);
  tcase_add_loop_test(identities, nothing_seen_is_nothing, 0, HOSTS);
  tcase_add_loop_test(identities, by_products_equal_the_matrix, 0, HOSTS);
  tcase_add_loop_test(identities, what_is_not_finite_surfaces, 0, 3 * HOSTS);
  tcase_add_loop_test(identities, shift_of_all_logits, 0, HOSTS);
  tcase_add_loop_test(identities, norm_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, adam_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, softmax_of_large_scores, 0, SIZES_OF_SCORES * HOSTS);
  tcase_add_loop_test(identities, loss_of_large_logits, 0, SIZES_OF_SCORES * HOSTS);
  tcase_add_loop_test(identities, small_operations_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, all_finite_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, reductions_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, seen_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, newton_schulz_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, normalise_at_the_edges, 0, HOSTS);
  tcase_add_loop_test(identities, what_is_left_alone, 0, HOSTS);
  tcase_add_loop_test(identities, a_choice_by_hand, 0, HOSTS);
  tcase_add_loop_test(identities, a_balance_by_hand, 0, HOSTS);
  tcase_add_test(identities, a_wrong_device_is_refused);
#ifdef CUDA_ON_HOST
  tcase_add_loop_test(identities, products_of_rounded_inputs, 0, 16 * ROUNDED_PRODUCTS);
  tcase_add_test(identities, products_that_a_library_refuses);
  tcase_add_loop_test(identities, gram_of_rounded_inputs, 0, 4);
  tcase_add_loop_test(identities, newton_schulz_of_rounded_inputs, 0, 2);
  tcase_add_loop_test(identities, attention_of_rounded_inputs, 0, 2 * ROUNDED);
  tcase_add_loop_test(identities, what_is_not_finite_in_words, 0, 8);
  tcase_add_loop_test(identities, decoding_of_rounded_inputs, 0, 2);
  tcase_add_loop_test(identities, attention_without_maxima, 0, 3 * ROUNDED);
#endif
  suite_add_tcase(suite, identities);
  SRunner *runner = srunner_create(suite);
#ifdef CUDA_ON_HOST
  cuda_on_host_note_launches();
#endif
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
#ifdef CUDA_ON_HOST
  if (!getenv("CK_RUN_CASE")) failed += kernels_left_out();
#endif
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
