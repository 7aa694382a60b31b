/* check_cuda.c - what the GPU's kernels do besides the operations' definitions: rounded inputs, a library of products,
   words of tensor cores; and, on the CPU, whether every kernel was launched. With ON_A_GPU: the same on a GPU, and
   products of the sizes from which others of its kernels are taken. With REAL_SIZES: those sizes on the CPU */
#include "check_ops.h"
#ifdef ON_A_GPU
/* One order of threads, its own, and a library for large products. */
static struct device *kernels(unsigned order) { return (void)order, mirror_open(); }
static struct device *kernels_with_library(unsigned order) { return kernels(order); }
static void leave_out_maxima(struct device *device) { mirror_without_maxima(device); }
#else
#include "cuda/launch.h"
#include "../cuda/cuda_device.h"
static struct device *kernels(unsigned order) { return cuda_on_host_open(order, 1); }
static struct device *kernels_with_library(unsigned order)
{
  return cuda_on_host_open_with_library(order, 1);
}
static void leave_out_maxima(struct device *device) { ops_cuda_without_maxima(&device->ops); }
#endif
#include "numerics/number_format.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* The root mean square of their difference. */
static double usual(const struct tensor *a, const struct tensor *b)
{
  double sum = 0;
  for (long i = 0; i < a->rows * a->cols; i++) {
    const double off = (double)REALS(a)[i] - (double)REALS(b)[i];
    sum += off * off;
  }
  return sqrt(sum / (double)(a->rows * a->cols));
}

/* The definition takes long for large products: there the CPU's kernels. */
static struct device *reference_for(double products)
{
  struct device *device;
  if (products < 1e7) return open_kind(0, 1);
  ck_assert(!device_open(&device, "cpu", 1, NULL));
  return device;
}

/* device.math in products: what comes out is that of inputs rounded before, summed as before, whichever way they
   lie, in tiles of every size. In two orders of threads: the same bits. NVIDIA's library rounds to the nearest, too,
   but a tie in its own way: one of 8192 inputs. */
static const struct rounded_product {
  long m, n, k;
} rounded_products[] = {
#if defined ON_A_GPU || defined REAL_SIZES
  {700, 700, 700}, {760, 750, 130}, {1500, 1490, 64}, {760, 752, 128}, {1500, 1492, 96},
#endif
  {33, 29, 70},    {65, 40, 40},    {150, 70, 20},    {1, 3, 1},       {32, 24, 40},
  {28, 36, 64},    {72, 40, 96},    {152, 68, 32}};
#ifdef ON_A_GPU
enum { LIBRARIES = 1 };
#else
enum { LIBRARIES = 2 }; /* without, and with */
#endif
enum { ROUNDED_PRODUCTS = sizeof rounded_products / sizeof *rounded_products, WAYS = 8 * LIBRARIES };

START_TEST(products_of_rounded_inputs)
{
  const struct rounded_product *r = &rounded_products[_i / WAYS];
  const enum device_math math = _i % 2 ? MATH_BF16 : MATH_TF32;
  const int ta = _i / 2 % 2, tb = _i / 4 % 2, library = _i / 8 % LIBRARIES;
  struct device *device[] = {library ? kernels_with_library(0) : kernels(0),
                             library ? kernels_with_library(1) : kernels(1),
                             reference_for((double)r->m * (double)r->n * (double)r->k)},
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
  if (math == MATH_TF32 && r->m * r->n * r->k > 1L << 28) {
    ck_assert_double_le(usual(c[0], c[3]), usual(c[2], c[3]) / 16);
    ck_assert_double_le(farthest(c[0], c[3]), largest_of(a) * largest_of(b) / 1024);
  } else {
    ck_assert_double_le(farthest(c[0], c[3]), 64 * REAL_EPS * sqrt((double)r->k));
  }
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

/* Products of so many runs that another tile serves them have the bits of one run. All runs are at one place here. */
static const struct crowded_product {
  long m, n, k;
} crowded_products[] = {{64, 64, 64}, {40, 64, 100}, {60, 36, 32}, {4, 4, 4}, {33, 31, 35}};
enum { CROWDED_PRODUCTS = sizeof crowded_products / sizeof *crowded_products };
#if defined ON_A_GPU || defined REAL_SIZES
enum { CROWD = 600 };
#else
enum { CROWD = 8 };
#endif

START_TEST(products_of_many_runs)
{
  const struct crowded_product *r = &crowded_products[_i / 4];
  const int ta = _i % 2, tb = _i / 2 % 2;
  struct device *device = kernels(_i % 3);
  struct tensor *a = tensor_new(device, TENSOR_REAL, ta ? r->k : r->m, ta ? r->m : r->k, "a");
  struct tensor *b = tensor_new(device, TENSOR_REAL, tb ? r->n : r->k, tb ? r->k : r->n, "b");
  struct tensor *c[2];
  draw(a, 21), draw(b, 22);
  for (int w = 0; w < 2; w++) {
    c[w] = tensor_new(device, TENSOR_REAL, r->m, r->n, "c");
    device->runs = w ? CROWD : 1;
    op_run(device, OP_matmul,
           &(union op_args){.matmul = {.c = c[w], .a = a, .b = b, .ta = ta, .tb = tb, .alpha = 1}});
  }
  device->runs = 1;
  ck_assert_double_gt(largest_of(c[0]), 0);
  ck_assert(!memcmp(c[0]->data, c[1]->data, (size_t)(r->m * r->n) * sizeof(real)));
  tensor_free(device, a), tensor_free(device, b);
  for (int w = 0; w < 2; w++) tensor_free(device, c[w]);
  device_close(device);
}
END_TEST

#if !defined ON_A_GPU && !defined REAL_SIZES
/* The library makes products of its own bits; where it refuses one, the project's own kernels do. */
START_TEST(products_that_a_library_refuses)
{
  enum { M = 21, N = 30, K = 40 };
  struct device *device[] = {kernels_with_library(0), kernels_with_library(0), kernels(0)};
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
#endif

/* A product with itself: its inputs are rounded, what is added of it is not; and it is symmetric to the bit. */
#if defined ON_A_GPU || defined REAL_SIZES
static const long grams[] = {17, 70, 740, 1500};
#else
static const long grams[] = {17, 70};
#endif
enum { GRAMS = sizeof grams / sizeof *grams };

START_TEST(gram_of_rounded_inputs)
{
  const long m = grams[_i / 2], n = 45;
  const enum device_math math = _i % 2 ? MATH_BF16 : MATH_TF32;
  struct device *device = kernels(0), *reference = open_kind(0, 1);
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
  struct device *device = kernels(0);
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

/* The library multiplies large matrices, and a kernel makes the products symmetric. The result is near the
   definition's, for tall matrices and wide ones, with steps on the Gram matrix and without. */
START_TEST(newton_schulz_of_large_matrices)
{
#if defined ON_A_GPU || defined REAL_SIZES
  enum { SIDE = 300, LONG = 420 };
#else
  enum { SIDE = 24, LONG = 40 };
#endif
  enum { PLACES = 3, SIZE = SIDE * LONG, LANE = 2 * SIZE + 4 * SIDE * SIDE + SIDE + 1 };
  static const double quintic[] = {15.0 / 8, -10.0 / 8, 3.0 / 8};
  static const int places[] = {SIZE, 0, 2 * SIZE};
  const enum device_math math = (enum device_math)(_i % 3);
  const int tall = _i / 3 % 2, on_gram = _i / 6 ? 2 : 1;
  struct device *device[] = {kernels_with_library(0), reference_for(PLACES * (double)SIDE * SIZE)};
  struct tensor *coefficients = row(device[1], 3, quintic), place = tensor_of((void *)places, 1, PLACES),
                *x[2];
  device[0]->math = math;
  for (int w = 0; w < 2; w++) {
    struct tensor *work = tensor_new(device[1], TENSOR_REAL, PLACES, LANE, "work");
    x[w] = tensor_new(device[1], TENSOR_REAL, 1, PLACES * SIZE, "x");
    draw(x[w], 16);
    op_run(device[w], OP_newton_schulz,
           &(union op_args){.newton_schulz = {.x = x[w],
                                              .work = work,
                                              .place = &place,
                                              .coefficients = coefficients,
                                              .rows = tall ? LONG : SIDE,
                                              .cols = tall ? SIDE : LONG,
                                              .steps = 4,
                                              .first = on_gram,
                                              .then = on_gram,
                                              .norm_scale = 1,
                                              .eps = 1e-7,
                                              .scale = 1}});
    tensor_free(device[1], work);
  }
  const double digit = math == MATH_FP32 ? 16 * REAL_EPS : math == MATH_TF32 ? 1.0 / 2048 : 1.0 / 256;
  ck_assert_double_le(farthest(x[0], x[1]), 8 * digit * largest_of(x[1]));
  for (int w = 0; w < 2; w++) tensor_free(device[1], x[w]);
  tensor_free(device[1], coefficients);
  device_close(device[0]), device_close(device[1]);
}
END_TEST

/* Heads of attention that tensor cores take, and some that are too wide for them. */
static const struct rounded_attention {
  long heads, groups, dim, value_dim, batch, length, cap;
} rounded_attentions[] = {{2, 2, 16, 16, 1, 70, 0},  {2, 1, 40, 24, 1, 70, 1}, {1, 1, 64, 128, 1, 66, 0},
                          {1, 1, 128, 64, 1, 65, 2}, {3, 1, 8, 40, 2, 33, 0},  {1, 1, 136, 130, 1, 20, 0},
                          {2, 1, 128, 128, 1, 70, 0}};
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
  struct device *device = kernels(0), *other = kernels(1), *reference = open_kind(0, 1);
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

#ifndef ON_A_GPU
/* Which kernel has served which heads: a size of shared memory that grows would send some back to fused multiply-adds,
   with the same results. o, dq, dk, dv. */
static const struct serving {
  long dim, value_dim;
  enum device_math math;
  int each[4], per[4];
} servings[] = {
  {16, 16, MATH_TF32, {2, 2, 2, 2}, {1, 1, 1, 1}},    {64, 64, MATH_FP32, {4, 4, 4, 4}, {0, 0, 0, 0}},
  {64, 64, MATH_BF16, {4, 4, 4, 4}, {2, 2, 2, 2}},    {128, 128, MATH_TF32, {8, 8, 8, 8}, {1, 1, 1, 1}},
  {128, 128, MATH_BF16, {8, 8, 8, 8}, {2, 2, 2, 2}},  {192, 128, MATH_BF16, {8, 16, 16, 8}, {2, 0, 0, 2}},
  {192, 128, MATH_TF32, {8, 16, 16, 8}, {1, 0, 0, 1}}};
enum { SERVINGS = sizeof servings / sizeof *servings };

START_TEST(which_serves_which_heads)
{
  enum { N = 70 };
  const struct serving *s = &servings[_i];
  const struct rounded_attention r = {1, 1, s->dim, s->value_dim, 1, N, 0};
  const long cols[] = {s->dim, s->dim, s->value_dim, s->value_dim},
             to_cols[OUTPUTS] = {s->value_dim, 2, s->dim, s->dim, s->value_dim};
  struct device *device = cuda_on_host_open(0, 1);
  struct tensor *in[5], *to[OUTPUTS], *stats = tensor_new(device, TENSOR_REAL, 1, 4, "stats");
  for (int i = 0; i < 4; i++)
    in[i] = tensor_new(device, TENSOR_REAL, N, cols[i], "in"), draw(in[i], 70 + (uint64_t)i);
  in[4] = tensor_new(device, TENSOR_INT, 1, N, "start");
  for (int i = 0; i < OUTPUTS; i++) to[i] = tensor_new(device, TENSOR_REAL, N, to_cols[i], "out");
  device->math = s->math;
  cuda_on_host_note_launches(); /* from here on, of this process */
  rounded_attention_run(device, &r, in, to, stats);
  for (int made = 0; made < 4; made++) {
    const void *kernel = cuda_on_host_attention(made, s->each[made], s->per[made]);
    ck_assert_msg(kernel && cuda_on_host_was_launched(kernel),
                  "%ld x %ld, math %d: output %d by another kernel", s->dim, s->value_dim, (int)s->math,
                  made);
  }
  for (int i = 0; i < 5; i++) tensor_free(device, in[i]);
  for (int i = 0; i < OUTPUTS; i++) tensor_free(device, to[i]);
  tensor_free(device, stats);
  device_close(device);
}
END_TEST
#endif

/* Decoding rounds as training does: queries, keys, values; and weights, half a last digit. */
START_TEST(decoding_of_rounded_inputs)
{
  enum { B = 3, L = 5, SIZE = 24 };
  const enum device_math math = _i ? MATH_BF16 : MATH_TF32;
  const double digit = math == MATH_BF16 ? 1.0 / 256 : 1.0 / 2048;
  struct device *device = kernels(0), *reference = open_kind(0, 1);
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
  struct device *device = kernels(0);
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
    if (w) leave_out_maxima(device);
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
  struct device *device = kernels(0);
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

#ifndef ON_A_GPU
/* Of the kernels in this program, those that no test has launched: a branch of a choice that no shape reaches. */
int kernels_left_out(void)
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

static void add_identities(TCase *identities)
{
  tcase_add_loop_test(identities, products_of_rounded_inputs, 0, WAYS * ROUNDED_PRODUCTS);
  tcase_add_loop_test(identities, products_of_many_runs, 0, 4 * CROWDED_PRODUCTS);
#ifndef ON_A_GPU
  tcase_add_loop_test(identities, which_serves_which_heads, 0, SERVINGS);
#ifndef REAL_SIZES
  tcase_add_test(identities, products_that_a_library_refuses);
#endif
#endif
  tcase_add_loop_test(identities, gram_of_rounded_inputs, 0, 2 * GRAMS);
  tcase_add_loop_test(identities, newton_schulz_of_rounded_inputs, 0, 2);
  tcase_add_loop_test(identities, newton_schulz_of_large_matrices, 0, 12);
  tcase_add_loop_test(identities, attention_of_rounded_inputs, 0, 2 * ROUNDED);
  tcase_add_loop_test(identities, what_is_not_finite_in_words, 0, 8);
  tcase_add_loop_test(identities, decoding_of_rounded_inputs, 0, 2);
  tcase_add_loop_test(identities, attention_without_maxima, 0, 3 * ROUNDED);
}

OPERATIONS(NULL, 0, add_identities)
