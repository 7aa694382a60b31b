/* check_ops_product.c - operations of ops.def in product.c: products of matrices */
#include "check_ops.h"

static int make_matmul(struct made *m, int i, union op_args *args)
{
  static const long shape[][3] = {{1, 1, 1},     {1, 7, 3},      {3, 1, 5},      {5, 4, 1},     {17, 19, 23},
                                  {64, 48, 33},  {33, 130, 65},  {8, 8, 300},    {130, 65, 16}, {1, 20001, 2},
                                  {100, 70, 37}, {520, 16, 260}, {60, 150, 260}, {24, 40, 700}};
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
  enum { PLAIN, SQUARE, TURNED, GRAMS } kind = i % GRAMS;
  if (i >= GRAMS * (int)(sizeof shape / sizeof *shape)) return 0;
  const long *s = shape[i / GRAMS];
  struct tensor *a = kind == TURNED ? in(m, s[1], s[0]) : in(m, s[0], kind == SQUARE ? s[0] : s[1]);
  for (long r = 0; kind == SQUARE && r < s[0]; r++)
    for (long c = 0; c < r; c++) REALS(a)[c * a->ld + r] = REALS(a)[r * a->ld + c];
  m->item[0].symmetric = kind == SQUARE;
  args->gram = (struct gram_args){.c = out(m, s[0], s[0], 0),
                                  .a = a,
                                  .ta = kind == TURNED,
                                  .alpha = 2.0315,
                                  .beta = kind == SQUARE ? -4.775 : 0};
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

/* --- identities, on every device */

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

static const struct operation_case cases[] = {CASE(matmul), CASE(gram), CASE(symmetric_product),
                                              CASE(heads_product), CASE(newton_schulz)};

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, newton_schulz_at_the_edges, 0, HOSTS);
}

OPERATIONS(cases, sizeof cases / sizeof *cases, add_identities)
