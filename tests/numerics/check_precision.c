/* check_precision.c - rounding to narrow formats, for every number of them, and what attention does with it;
   sums over long contexts */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../long.h"
#include "base/memory.h"
#include "base/random.h"
#include "numerics/device.h"
#include "numerics/number_format.h"
#include "numerics/program.h"

/* --- the formats, bit by bit ------------------------------------------------------------------------------ */

/* Bits of exponent and fraction, and the code of the largest number. */
static const struct layout {
  enum number_format format;
  int exponent, fraction;
  long largest;
  int has_infinity;
} layouts[] = {
  {FORMAT_BF16, 8, 7, 0x7f7f, 1}, {FORMAT_FP16, 5, 10, 0x7bff, 1}, {FORMAT_FP8_E4M3, 4, 3, 0x7e, 0}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* The number that a code without sign stands for. */
static double decoded(const struct layout *l, long code)
{
  long fraction = code & ((1L << l->fraction) - 1);
  int exponent = (int)(code >> l->fraction), bias = (1 << (l->exponent - 1)) - 1;
  if (exponent == 0) return ldexp((double)fraction, 1 - bias - l->fraction);
  return ldexp((double)(fraction + (1L << l->fraction)), exponent - bias - l->fraction);
}

#define ROUNDS_TO(l, x, y) \
  do { \
    double got_ = number_round(x, (l)->format), back_ = number_round(-(x), (l)->format); \
    if (got_ != (y) || back_ != -(y) || !signbit(back_)) \
      ck_abort_msg("%s: %.17g gives %.17g, not %.17g", number_formats[(l)->format], x, got_, y); \
  } while (0)

START_TEST(every_number_and_every_tie)
{
  const struct layout *l = &layouts[_i];
  for (long code = 0; code < l->largest; code++) {
    double x = decoded(l, code), next = decoded(l, code + 1), tie = (x + next) / 2;
    ROUNDS_TO(l, x, x);
    ROUNDS_TO(l, tie, code % 2 ? next : x);
    ROUNDS_TO(l, nextafter(tie, 0), x);
    ROUNDS_TO(l, nextafter(tie, INFINITY), next);
  }
  ROUNDS_TO(l, decoded(l, l->largest), decoded(l, l->largest));
}
END_TEST

START_TEST(overflow)
{
  const struct layout *l = &layouts[_i];
  double largest = decoded(l, l->largest), step = largest - decoded(l, l->largest - 1);
  double tie = largest + step / 2, below = nextafter(tie, 0), above = nextafter(tie, INFINITY);
  const double beyond[] = {above, largest + step, 1e300, INFINITY};
  ROUNDS_TO(l, below, largest);
  if (l->largest % 2)
    ck_assert(isinf(number_round(tie, l->format)));
  else
    ROUNDS_TO(l, tie, largest);
  for (int i = 0; i < 4; i++)
    if (l->has_infinity)
      ROUNDS_TO(l, beyond[i], INFINITY);
    else
      ck_assert(isnan(number_round(beyond[i], l->format)) && isnan(number_round(-beyond[i], l->format)));
  ck_assert(isnan(number_round(NAN, l->format)));
}
END_TEST

START_TEST(known_limits)
{
  ck_assert(decoded(&layouts[1], layouts[1].largest) == 65504);
  ck_assert(decoded(&layouts[1], 1) == 0x1p-24);
  ck_assert(decoded(&layouts[2], layouts[2].largest) == 448);
  ck_assert(decoded(&layouts[2], 1) == 0x1p-9);
  ck_assert(decoded(&layouts[0], layouts[0].largest) == 0x1.fep127);
  ck_assert(isinf(number_round(65520, FORMAT_FP16)) && number_round(65519.99, FORMAT_FP16) == 65504);
  ck_assert(number_round(464, FORMAT_FP8_E4M3) == 448 && isnan(number_round(464.01, FORMAT_FP8_E4M3)));
  const double kept[] = {1.0 / 3, -1e300, 1e-310, INFINITY, -0.0};
  for (int i = 0; i < 5; i++) {
    double x = number_round(kept[i], FORMAT_F32);
    ck_assert(!memcmp(&x, &kept[i], sizeof x));
  }
}
END_TEST

#if defined __FLT16_MANT_DIG__ && !defined __clang__
START_TEST(as_the_compiler_does)
{
  for (uint64_t i = 0; i < 200000; i++) {
    struct draw d = {1, STREAM_TEST, 0};
    float x = (float)ldexp(draw_normal(d, i), (int)draw_below(d, 1000000 + i, 48) - 28);
    ck_assert(number_round((double)x, FORMAT_FP16) == (double)(float)(_Float16)x);
  }
}
END_TEST
#endif

/* Every level's rounding of arrays is that of single numbers, bit for bit: numbers all over the range, the numbers
   of the format and the ties between them, and what lies beside those. */
START_TEST(arrays_round_as_numbers)
{
  const struct layout *l = &layouts[_i];
  const char *level;
  long n = 0;
  float *x = memory_new(1 << 21, sizeof *x);
  for (uint32_t i = 0; i < 1 << 20; i++, n++) {
    uint32_t bits = i * 4096 + i % 4093;
    memcpy(&x[n], &bits, sizeof bits);
  }
  for (long code = 0; code < l->largest; code++) {
    const float tie = (float)((decoded(l, code) + decoded(l, code + 1)) / 2);
    const float near[] = {(float)decoded(l, code), tie, nextafterf(tie, 0), nextafterf(tie, INFINITY), -tie};
    for (int k = 0; k < 5; k++) x[n++] = near[k];
  }
  for (int k = 0; (level = ops_cpu_level_at(k)); k++) {
    struct device *device;
    ck_assert_int_eq(device_open(&device, "cpu", 1, NULL), STATUS_OK);
    ops_cpu_override_by(&device->ops, level);
    struct tensor tx = tensor_of(x, 1, n), *y = tensor_new(device, TENSOR_REAL, 1, n, "y");
    op_run(device, OP_round_to, &(union op_args){.round_to = {.y = y, .x = &tx, .format = l->format}});
    for (long i = 0; i < n; i++) {
      float exact = (float)number_round((double)x[i], l->format), got = REALS(y)[i];
      if (isnan(exact) ? !isnan(got) : memcmp(&got, &exact, sizeof got) != 0)
        ck_abort_msg("%s %s: %.9g gives %.9g, not %.9g", level, number_formats[l->format], x[i], got, exact);
    }
    tensor_free(device, y);
    device_close(device);
  }
  memory_free(x);
}
END_TEST

/* --- attention -------------------------------------------------------------------------------------------- */

enum { T = 12, H = 2, G = 1, DIM = 8, VALUE = 4, Q = T * H * DIM, K = T * G * DIM, V = T * G * VALUE };

struct seen {
  real o[T * H * VALUE], stats[H * 4], loss[2], dq[Q], dk[K], dv[V];
};

static struct tensor with_grad(real *values, struct tensor *grad, real *grads, long cols)
{
  struct tensor t = tensor_of(values, T, cols);
  *grad = tensor_of(grads, T, cols);
  t.grad = grad;
  return t;
}

/* Attention and its gradient under a loss, on the reference device or the fast one. */
static struct seen attended(const char *kind, real *q, real *k, real *v, long scores, long qk)
{
  struct seen x = {0};
  struct device *device;
  struct error e = {0};
  ck_assert_msg(!device_open(&device, kind, 1, &e), "%s", e.text);
  struct tensor dq, dk, dv, tq = with_grad(q, &dq, x.dq, H * DIM), tk = with_grad(k, &dk, x.dk, G * DIM),
                            tv = with_grad(v, &dv, x.dv, G * VALUE), *stats, *ml;
  struct program *p = program_new(device);
  struct tensor *start = program_input(p, TENSOR_INT, T, 1, "start");
  struct tensor *targets = program_input(p, TENSOR_INT, T, 1, "targets");
  struct tensor *weight = program_input(p, TENSOR_REAL, T, 1, "weight");
  struct attention_spec spec = {
    .score = {.batch = 1, .heads = H, .groups = G, .scale = 1, .scores_format = scores}, .qk_format = qk};
  double none = 0;
  struct tensor *o = op_attention(p, &tq, &tk, &tv, start, NULL, &spec, &stats);
  struct tensor *loss = op_cross_entropy(p, o, targets, weight, program_reals(p, 1, 1, &none, "z"), &ml);
  program_keep(p, o);
  program_backward(p, loss);
  program_plan(p);
  for (int i = 0; i < T; i++) {
    INTS(start)[i] = 0;
    INTS(targets)[i] = i % (H * VALUE);
    REALS(weight)[i] = 1;
  }
  program_run(p);
  memcpy(x.o, o->data, sizeof x.o);
  memcpy(x.stats, stats->data, sizeof x.stats);
  memcpy(x.loss, loss->data, sizeof x.loss);
  program_free(p);
  device_close(device);
  return x;
}

static void fill(real *x, long n, uint64_t key, double size, int whole)
{
  for (long i = 0; i < n; i++) {
    double z = size * draw_normal((struct draw){2, STREAM_TEST, key}, (uint64_t)i);
    x[i] = (real)(whole ? fmin(1, fmax(-1, rint(z))) : z);
  }
}

static const char *const kinds[] = {"reference", "cpu"};

/* Scores are whole numbers up to 8: every format has them. */
START_TEST(representable_scores_stay)
{
  real q[Q], k[K], v[V];
  fill(q, Q, 0, 1, 1);
  fill(k, K, 1, 1, 1);
  fill(v, V, 2, 1, 0);
  struct seen plain = attended("reference", q, k, v, FORMAT_F32, FORMAT_F32);
  for (long f = FORMAT_BF16; f < FORMAT_COUNT; f++) {
    struct seen scores = attended(kinds[_i], q, k, v, f, FORMAT_F32),
                both = attended(kinds[_i], q, k, v, f, f);
    ck_assert(!memcmp(&scores.o, &plain.o, sizeof plain.o) && !memcmp(&both, &scores, sizeof both));
    ck_assert(!memcmp(&scores.stats, &plain.stats, sizeof plain.stats));
    for (int i = 0; i < Q; i++)
      ck_assert_double_eq_tol((double)scores.dq[i], (double)plain.dq[i], 64 * REAL_EPS);
  }
}
END_TEST

/* Rounding queries and keys inside is attention over rounded queries and keys; gradients pass straight through. */
START_TEST(rounded_queries_and_keys)
{
  real q[Q], k[K], v[V];
  for (long f = FORMAT_BF16; f < FORMAT_COUNT; f++) {
    fill(q, Q, 3, 1, 0);
    fill(k, K, 4, 1, 0);
    fill(v, V, 5, 1, 0);
    struct seen inside = attended(kinds[_i], q, k, v, FORMAT_F32, f);
    struct seen plain = attended(kinds[_i], q, k, v, FORMAT_F32, FORMAT_F32);
    for (int i = 0; i < Q; i++) q[i] = (real)number_round((double)q[i], (enum number_format)f);
    for (int i = 0; i < K; i++) k[i] = (real)number_round((double)k[i], (enum number_format)f);
    struct seen before = attended(kinds[_i], q, k, v, FORMAT_F32, FORMAT_F32);
    ck_assert(!memcmp(&inside, &before, sizeof before));
    ck_assert(memcmp(&inside, &plain, sizeof plain));
  }
}
END_TEST

/* The softmax gets rounded scores, the recorded maxima are of scores before that. One query of one key: o = v. */
START_TEST(rounded_scores)
{
  real q[Q], k[K], v[V];
  fill(q, Q, 6, 2, 0);
  fill(k, K, 7, 2, 0);
  fill(v, V, 8, 1, 0);
  struct seen plain = attended(kinds[_i], q, k, v, FORMAT_F32, FORMAT_F32);
  for (long f = FORMAT_BF16; f < FORMAT_COUNT; f++) {
    struct seen x = attended(kinds[_i], q, k, v, f, FORMAT_F32);
    for (int h = 0; h < H; h++) {
      double top = (double)plain.stats[4 * h];
      ck_assert_double_eq_tol((double)x.stats[4 * h], top, 64 * REAL_EPS * fabs(top));
      ck_assert_double_eq((double)x.stats[4 * h + 2],
                          number_round((double)x.stats[4 * h], (enum number_format)f));
    }
    ck_assert(memcmp(x.o, plain.o, sizeof x.o));
    for (int c = 0; c < VALUE; c++) ck_assert_double_eq_tol((double)x.o[c], (double)v[c], 4 * REAL_EPS);
  }
}
END_TEST

/* A score beyond the format's range makes loss and entropy non-finite; the recorded maximum tells how large. */
START_TEST(overflowing_scores)
{
  const double limit[] = {[FORMAT_FP16] = 65520, [FORMAT_FP8_E4M3] = 465};
  real q[Q], k[K], v[V];
  fill(v, V, 9, 1, 0);
  for (int f = FORMAT_FP16; f <= FORMAT_FP8_E4M3; f++)
    for (int over = 0; over < 2; over++) {
      memset(q, 0, sizeof q);
      memset(k, 0, sizeof k);
      q[0] = 1;
      k[0] = (real)(over ? limit[f] : 0.99 * limit[f]);
      struct seen x = attended(kinds[_i], q, k, v, f, FORMAT_F32);
      ck_assert(x.stats[0] == k[0] && x.stats[1] == k[0]);
      ck_assert_int_eq(isfinite(x.loss[0]) != 0, !over);
      ck_assert_int_eq(isfinite(x.stats[3]) != 0, !over);
    }
}
END_TEST

/* --- long contexts ---------------------------------------------------------------------------------------- */
/* Equal terms are the worst: each addition to a long sum rounds alike. No row of the results may be off by more
   than a length-independent number of roundings; MAXLOGIT_TEST_LONG=1 goes to 64k. */

enum { LONG_DIM = 4, ROUNDINGS = 48 };

static long long_context(void) { return amount(8192, 65536); }

static struct device *opened(const char *kind, const char *level)
{
  struct device *device;
  ck_assert_int_eq(device_open(&device, kind, 1, NULL), STATUS_OK);
  if (level) ops_cpu_override_by(&device->ops, level);
  return device;
}

enum {
  LONG_Q,
  LONG_K,
  LONG_V,
  LONG_DO,
  LONG_O,
  LONG_ML,
  LONG_STATS,
  LONG_DQ,
  LONG_DK,
  LONG_DV,
  LONG_TENSORS
};

struct long_attention {
  struct device *device;
  struct tensor *t[LONG_TENSORS], *start;
};

static void long_attend(struct long_attention *x, struct device *device, long length)
{
  static const long cols[LONG_TENSORS] = {
    [LONG_Q] = LONG_DIM,  [LONG_K] = LONG_DIM, [LONG_V] = LONG_DIM, [LONG_DO] = LONG_DIM,
    [LONG_O] = LONG_DIM,  [LONG_ML] = 2,       [LONG_STATS] = 4,    [LONG_DQ] = LONG_DIM,
    [LONG_DK] = LONG_DIM, [LONG_DV] = LONG_DIM};
  x->device = device;
  for (int i = 0; i < LONG_TENSORS; i++)
    x->t[i] = tensor_new(device, TENSOR_REAL, i == LONG_STATS ? 1 : length, cols[i], "long");
  x->start = tensor_new(device, TENSOR_INT, 1, length, "start");
  for (long i = 0; i < length * LONG_DIM; i++) {
    REALS(x->t[LONG_Q])[i] = (real)0.01;
    REALS(x->t[LONG_K])[i] = REALS(x->t[LONG_V])[i] = (real)((1.0 + (double)(i / LONG_DIM % 2 * 4)) / 3);
    /* a row's weights are near 1 / (row + 1): all rows add the same to dv */
    REALS(x->t[LONG_DO])[i] = (real)(0.7 * (1 + (double)(i / LONG_DIM)) / (double)length);
  }
  struct tensor **t = x->t;
  op_run(device, OP_attention_forward,
         &(union op_args){.attention_forward = {.o = t[LONG_O],
                                                .ml = t[LONG_ML],
                                                .stats = t[LONG_STATS],
                                                .q = t[LONG_Q],
                                                .k = t[LONG_K],
                                                .v = t[LONG_V],
                                                .start = x->start,
                                                .batch = 1,
                                                .heads = 1,
                                                .groups = 1,
                                                .scale = 1}});
  op_run(device, OP_attention_backward,
         &(union op_args){.attention_backward = {.dq = t[LONG_DQ],
                                                 .dk = t[LONG_DK],
                                                 .dv = t[LONG_DV],
                                                 .do_ = t[LONG_DO],
                                                 .o = t[LONG_O],
                                                 .q = t[LONG_Q],
                                                 .k = t[LONG_K],
                                                 .v = t[LONG_V],
                                                 .ml = t[LONG_ML],
                                                 .start = x->start,
                                                 .batch = 1,
                                                 .heads = 1,
                                                 .groups = 1,
                                                 .scale = 1}});
}

static void long_free(struct long_attention *x)
{
  for (int i = 0; i < LONG_TENSORS; i++) tensor_free(x->device, x->t[i]);
  tensor_free(x->device, x->start);
  device_close(x->device);
}

/* Largest relative distance, in roundings. */
static double roundings(const struct tensor *a, const struct tensor *exact)
{
  double most = 0;
  for (long i = 0; i < a->rows * a->cols; i++) {
    double x = (double)REALS(a)[i], y = (double)REALS(exact)[i], off = fabs(x - y) / fabs(y) / REAL_EPS;
    if (x != y && !(off <= most)) most = off; /* 0 and 0 are near */
  }
  return most;
}

START_TEST(attention_over_a_long_context)
{
  static const struct {
    const char *name;
    int tensor;
  } result[] = {{"o", LONG_O},   {"ml", LONG_ML}, {"entropy and maxima", LONG_STATS},
                {"dq", LONG_DQ}, {"dk", LONG_DK}, {"dv", LONG_DV}};
  struct long_attention exact, x;
  const char *level;
  long_attend(&exact, opened("reference", NULL), long_context());
  for (int i = 0; (level = ops_cpu_level_at(i)); i++) {
    long_attend(&x, opened("cpu", level), long_context());
    for (size_t k = 0; k < sizeof result / sizeof *result; k++) {
      double off = roundings(x.t[result[k].tensor], exact.t[result[k].tensor]);
      if (is_long()) printf("%s %s: %.3g roundings\n", level, result[k].name, off);
      ck_assert_msg(off <= ROUNDINGS, "%s: %s is off by %.3g roundings", level, result[k].name, off);
    }
    long_free(&x);
  }
  long_free(&exact);
}
END_TEST

/* Gradients of an embedding, of a projection's weights, and of a norm's gain: sums over all positions. */
START_TEST(gradients_over_many_positions)
{
  enum { WIDTH = 20, POSITIONS = 131072 };
  const long n = POSITIONS;
  const char *level;
  for (int i = 0; (level = ops_cpu_level_at(i)); i++) {
    struct device *device = opened("cpu", level);
    struct tensor *dy = tensor_new(device, TENSOR_REAL, n, WIDTH, "dy");
    struct tensor *rstd = tensor_new(device, TENSOR_REAL, n, 1, "rstd");
    struct tensor *dx = tensor_new(device, TENSOR_REAL, n, WIDTH, "dx");
    struct tensor *token = tensor_new(device, TENSOR_INT, 1, n, "tokens");
    struct tensor *dw = tensor_new(device, TENSOR_REAL, 3, WIDTH, "dw"), *exact;
    struct tensor *square = tensor_new(device, TENSOR_REAL, WIDTH, WIDTH, "square");
    struct tensor *dgain = tensor_new(device, TENSOR_REAL, 1, WIDTH, "dgain");
    const double c = (double)(real)(1.0 / 3);
    for (long j = 0; j < n; j++) {
      INTS(token)[j] = (int)(j % 2);
      REALS(rstd)[j] = 1;
      for (long k = 0; k < WIDTH; k++) REALS(dy)[j * WIDTH + k] = (real)c;
    }
    op_run(device, OP_embed_backward, &(union op_args){.embed_backward = {dw, token, dy}});
    op_run(device, OP_matmul,
           &(union op_args){.matmul = {.c = square, .a = dy, .b = dy, .ta = 1, .alpha = 1}});
    op_run(device, OP_rmsnorm_backward,
           &(union op_args){.rmsnorm_backward = {
                              .dx = dx, .dgain = dgain, .dy = dy, .x = dy, .rstd = rstd, .group = WIDTH}});
    exact = tensor_new(device, TENSOR_REAL, WIDTH, WIDTH, "exact");
    for (long k = 0; k < WIDTH * WIDTH; k++) REALS(exact)[k] = (real)((double)n * c * c);
    double products = roundings(square, exact), gains = roundings(dgain, exact);
    for (long k = 0; k < WIDTH * WIDTH; k++) REALS(exact)[k] = (real)((double)n / 2 * c);
    dw->rows = 2;
    double embedding = roundings(dw, exact);
    ck_assert_msg(embedding <= ROUNDINGS && gains <= ROUNDINGS && products <= ROUNDINGS,
                  "%s: embedding %.3g, gains %.3g, weights %.3g roundings", level, embedding, gains,
                  products);
    struct tensor *all[] = {dy, rstd, dx, token, dw, square, dgain, exact};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_free(device, all[k]);
    device_close(device);
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("precision");
  TCase *c = tcase_create("formats");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, every_number_and_every_tie, 0, LAYOUTS);
  tcase_add_loop_test(c, overflow, 0, LAYOUTS);
  tcase_add_test(c, known_limits);
  tcase_add_loop_test(c, arrays_round_as_numbers, 0, LAYOUTS);
#if defined __FLT16_MANT_DIG__ && !defined __clang__
  tcase_add_test(c, as_the_compiler_does);
#endif
  suite_add_tcase(s, c);
  c = tcase_create("attention");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, representable_scores_stay, 0, 2);
  tcase_add_loop_test(c, rounded_queries_and_keys, 0, 2);
  tcase_add_loop_test(c, rounded_scores, 0, 2);
  tcase_add_loop_test(c, overflowing_scores, 0, 2);
  suite_add_tcase(s, c);
  c = tcase_create("long contexts");
  tcase_set_timeout(c, (double)amount(120, 3600));
  tcase_add_test(c, attention_over_a_long_context);
  tcase_add_test(c, gradients_over_many_positions);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
