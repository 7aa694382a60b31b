/* bench_products.c - matrix products: the machine's limit, and ours shape by shape against OpenBLAS's; Newton-Schulz on
   the matrix against that on its Gram matrix */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/clock.h"
#include "base/memory.h"
#include "numerics/blas.h"
#include "training/optimizer.h"

/* Three matrices of so many numbers, one after another; for memory_free. */
static float *matrices(long numbers, float *x[3])
{
  float *all = memory_new(3 * (size_t)numbers, sizeof *all);
  for (long j = 0; j < 3 * numbers; j++) all[j] = (float)(j % numbers % 7) / 8;
  for (int i = 0; i < 3; i++) x[i] = all + i * numbers;
  return all;
}

void bench_limit(struct limit *l)
{
  enum { LARGEST_SQUARE = 1024 };
  float *x[3], *all = matrices(LARGEST_SQUARE * LARGEST_SQUARE, x);
  for (int n = 64; n <= LARGEST_SQUARE; n *= 2) {
    double flops = 2.0 * n * n * n;
    for (int round = 0; round < 3; round++) {
      int repeat = 1 + (int)(2e7 / flops);
      double began = clock_seconds();
      for (int i = 0; i < repeat; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x[0], n, x[1], n, 0, x[2], n);
      double rate = flops * repeat / (clock_seconds() - began) * 1e-9;
      if (rate > l->gflops) *l = (struct limit){rate, n};
    }
  }
  memory_free(all);
}

/* c [m,n] = a b, or a^T b (tn: gradients of weights), or a b^T (nt: forward), as the stacks' steps have them. */
static const struct product_shape {
  const char *stack, *what;
  int m, n, k, ta, tb;
} shapes[] = {
  {"toy", "queries, keys, values", 512, 192, 64, 0, 1},
  {"toy", "gate and up", 512, 352, 64, 0, 1},
  {"toy", "down", 512, 64, 176, 0, 1},
  {"toy", "back through gate and up", 512, 64, 352, 0, 0},
  {"toy", "gradient of w_q, w_k, w_v", 192, 64, 512, 1, 0},
  {"toy", "gradient of w_o", 64, 64, 512, 1, 0},
  {"toy", "Newton-Schulz", 64, 64, 64, 0, 0},
  {"toy", "Newton-Schulz, wide", 64, 176, 64, 0, 0},
  {"small", "queries, keys, values", 2048, 768, 256, 0, 1},
  {"small", "down", 2048, 256, 688, 0, 1},
  {"small", "back through gate and up", 2048, 256, 1376, 0, 0},
  {"small", "gradient of w_q, w_k, w_v", 768, 256, 2048, 1, 0},
  {"small", "gradient of w_down", 256, 688, 2048, 1, 0},
  {"small", "Newton-Schulz", 256, 256, 256, 0, 0},
  {"medium", "queries, keys, values", 2048, 1536, 512, 0, 1},
  {"medium", "gradient of w_q, w_k, w_v", 1536, 512, 2048, 1, 0},
  {"medium", "Newton-Schulz", 512, 512, 512, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, LARGEST = 2048 * 1536 };

static double time_product(struct device *device, const struct product_shape *s, float *const x[3], int blas,
                           int repeat)
{
  struct tensor a = s->ta ? tensor_of(x[0], s->k, s->m) : tensor_of(x[0], s->m, s->k);
  struct tensor b = s->tb ? tensor_of(x[1], s->n, s->k) : tensor_of(x[1], s->k, s->n);
  struct tensor c = tensor_of(x[2], s->m, s->n);
  double began = clock_seconds();
  for (int i = 0; i < repeat; i++)
    if (blas)
      cblas_sgemm(CblasRowMajor, s->ta ? CblasTrans : CblasNoTrans, s->tb ? CblasTrans : CblasNoTrans, s->m,
                  s->n, s->k, 1, x[0], (int)a.ld, x[1], (int)b.ld, 0, x[2], s->n);
    else
      op_run(device, OP_matmul,
             &(union op_args){.matmul = {.c = &c, .a = &a, .b = &b, .ta = s->ta, .tb = s->tb, .alpha = 1}});
  return (clock_seconds() - began) / repeat;
}

/* Matrices [m,n] that Muon orthogonalizes in the stacks: projections, those of one head, and the blocks' wide ones. */
static const struct orthogonal {
  const char *stack;
  long m, n;
} orthogonals[] = {{"toy", 64, 64},      {"toy", 16, 64},     {"toy", 64, 176},
                   {"small", 256, 256},  {"small", 32, 256},  {"small", 256, 688},
                   {"medium", 512, 512}, {"medium", 64, 512}, {"medium", 512, 1376}};
enum { ORTHOGONALS = sizeof orthogonals / sizeof *orthogonals, PAIRS = 15 };

struct two_ways {
  struct tensor *x;
  struct program *program[2];
  int repeat;
};
static double seconds_orthogonal(void *context, int which)
{
  struct two_ways *w = context;
  for (long j = 0; j < w->x->cols; j++) REALS(w->x)[j] = (real)((j * 7 + j / 64) % 13 - 6);
  double began = clock_seconds();
  for (int i = 0; i < w->repeat; i++) program_run(w->program[which]);
  return (clock_seconds() - began) / w->repeat;
}

/* Keller's five steps, each way in turn: how many times as long the standard iteration takes. */
static void bench_orthogonal(struct device *device, const struct orthogonal *o, json_t *all)
{
  static const enum ns_iteration way[] = {NS_STANDARD, NS_GRAM};
  struct two_ways w = {.x = tensor_new(device, TENSOR_REAL, 1, o->m * o->n, "momentum"),
                       .repeat = 1 + (int)(1e8 / (20. * (double)(o->m * o->m * o->n)))};
  struct contrast c;
  for (int k = 0; k < 2; k++) {
    w.program[k] = program_new(device);
    newton_schulz_record(w.program[k], w.x, &(long){0}, 1, o->m, o->n, &ns_sets[NS_KELLER], way[k], 0, 1e-7,
                         NULL, 1);
    program_plan(w.program[k]);
  }
  bench_contrast(0, PAIRS, seconds_orthogonal, &w, &c);
  if (all)
    json_array_append_new(all,
                          json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "stack", o->stack, "product",
                                    "Newton-Schulz, standard over gram", "m", (json_int_t)o->m, "n",
                                    (json_int_t)o->n, "standard_seconds", json_number(c.least[0]),
                                    "gram_seconds", json_number(c.least[1]), "ratio", bench_ratio(&c.ratio)));
  else
    printf("%-8s %5ld %5ld  %10.1f %10.1f  %6.3f   (95 %%: %.3f to %.3f)\n", o->stack, o->m, o->n,
           1e6 * c.least[0], 1e6 * c.least[1], c.ratio.middle, c.ratio.low, c.ratio.high);
  for (int k = 0; k < 2; k++) program_free(w.program[k]);
  tensor_free(device, w.x);
}

int bench_products(const struct bench *b, struct error *e)
{
  struct device *device;
  if (device_open(&device, "cpu", 1, e)) return e->status;
  float *x[3], *numbers = matrices(LARGEST, x);
  json_t *all = b->json ? json_array() : NULL;
  if (!all)
    printf("kernels %s, OpenBLAS (%s), one thread, GFLOP/s\n%-8s %-28s %5s %5s %5s    %6s %8s %6s\n",
           ops_cpu_level(), device_blas_core(), "stack", "product", "m", "n", "k", "ours", "OpenBLAS",
           "ratio");
  for (int i = 0; i < SHAPES; i++) {
    const struct product_shape *s = &shapes[i];
    if (b->stack && strcmp(b->stack, s->stack) != 0) continue;
    double best[2] = {INFINITY, INFINITY}, flops = 2.0 * s->m * s->n * s->k;
    for (int round = 0; round < 7; round++)
      for (int blas = 0; blas < 2; blas++)
        best[blas] = fmin(best[blas], time_product(device, s, x, blas, 1 + (int)(2e7 / flops)));
    const double ours = flops / best[0] * 1e-9, theirs = flops / best[1] * 1e-9;
    if (all)
      json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:o, s:o}", "stack", s->stack,
                                           "product", s->what, "m", s->m, "n", s->n, "k", s->k, "ta", s->ta,
                                           "tb", s->tb, "gflops", json_number(ours), "openblas_gflops",
                                           json_number(theirs)));
    else
      printf("%-8s %-28s %5d %5d %5d %c%c %6.1f %8.1f %6.2f\n", s->stack, s->what, s->m, s->n, s->k,
             s->ta ? 't' : 'n', s->tb ? 't' : 'n', ours, theirs, ours / theirs);
  }
  memory_free(numbers);
  if (!all)
    printf("Newton-Schulz, keller, microseconds\n%-8s %5s %5s  %10s %10s  %6s\n", "stack", "m", "n",
           "standard", "gram", "ratio");
  for (int i = 0; i < ORTHOGONALS; i++)
    if (!b->stack || !strcmp(b->stack, orthogonals[i].stack)) bench_orthogonal(device, &orthogonals[i], all);
  if (all) json_print(all);
  device_close(device);
  return STATUS_OK;
}
