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

struct timed_product {
  const struct product_shape *s;
  struct device *device;
  float *x[3];
  int repeat;
};
static double seconds_of_product(void *context, int blas)
{
  const struct timed_product *p = context;
  const struct product_shape *s = p->s;
  struct tensor a = s->ta ? tensor_of(p->x[0], s->k, s->m) : tensor_of(p->x[0], s->m, s->k);
  struct tensor b = s->tb ? tensor_of(p->x[1], s->n, s->k) : tensor_of(p->x[1], s->k, s->n);
  struct tensor c = tensor_of(p->x[2], s->m, s->n);
  const union op_args ours = {.matmul = {.c = &c, .a = &a, .b = &b, .ta = s->ta, .tb = s->tb, .alpha = 1}};
  double began = clock_seconds();
  for (int i = 0; i < p->repeat; i++)
    if (blas)
      cblas_sgemm(CblasRowMajor, s->ta ? CblasTrans : CblasNoTrans, s->tb ? CblasTrans : CblasNoTrans, s->m,
                  s->n, s->k, 1, p->x[0], (int)a.ld, p->x[1], (int)b.ld, 0, p->x[2], s->n);
    else
      op_run(p->device, OP_matmul, &ours);
  return clock_seconds() - began;
}

static void bench_product(struct timed_product *p, json_t *all)
{
  const struct product_shape *s = p->s;
  const double flops = 2.0 * s->m * s->n * s->k;
  struct contrast c;
  p->repeat = 1 + (int)(2e7 / flops);
  bench_contrast(0, 7, seconds_of_product, p, &c);
  const double ours = flops * p->repeat / c.least[0] * 1e-9, theirs = flops * p->repeat / c.least[1] * 1e-9;
  if (all)
    json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:o, s:o}", "stack", s->stack,
                                         "product", s->what, "m", s->m, "n", s->n, "k", s->k, "ta", s->ta,
                                         "tb", s->tb, "gflops", json_number(ours), "openblas_gflops",
                                         json_number(theirs)));
  else
    printf("%-8s %-28s %5d %5d %5d %c%c %6.1f %8.1f %6.2f\n", s->stack, s->what, s->m, s->n, s->k,
           s->ta ? 't' : 'n', s->tb ? 't' : 'n', ours, theirs, ours / theirs);
}

/* Matrices [m,n] that Muon orthogonalizes in the stacks: projections, those of one head, and the blocks' wide ones. */
static const struct orthogonal {
  const char *stack;
  long m, n;
} orthogonals[] = {{"toy", 64, 64},      {"toy", 16, 64},     {"toy", 64, 176},
                   {"small", 256, 256},  {"small", 32, 256},  {"small", 256, 688},
                   {"medium", 512, 512}, {"medium", 64, 512}, {"medium", 512, 1376}};
enum { ORTHOGONALS = sizeof orthogonals / sizeof *orthogonals };

/* Keller's five steps, each way in turn: how many times as long the standard iteration takes. */
static void bench_orthogonal(struct device *device, const struct orthogonal *o, json_t *all)
{
  static const enum ns_iteration way[] = {NS_STANDARD, NS_GRAM};
  struct bench_programs w = {.repeat = 1 + (int)(1e8 / (20. * (double)(o->m * o->m * o->n)))};
  struct tensor *x = tensor_new(device, TENSOR_REAL, 1, o->m * o->n, "momentum");
  struct contrast c;
  for (long j = 0; j < x->cols; j++) REALS(x)[j] = (real)((j * 7 + j / 64) % 13 - 6);
  for (int k = 0; k < 2; k++) {
    w.of[k] = program_new(device);
    newton_schulz_record(w.of[k], x, &(long){0}, 1, o->m, o->n, &ns_sets[NS_KELLER], way[k], 0, 1e-7, NULL,
                         1);
    program_plan(w.of[k]);
  }
  bench_contrast(0, 15, bench_seconds_of, &w, &c);
  const double standard = c.least[0] / w.repeat, gram = c.least[1] / w.repeat;
  if (all)
    json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "stack", o->stack, "product",
                                         "Newton-Schulz, standard over gram", "m", (json_int_t)o->m, "n",
                                         (json_int_t)o->n, "standard_seconds", json_number(standard),
                                         "gram_seconds", json_number(gram), "ratio", bench_ratio(&c.ratio)));
  else
    printf("%-8s %5ld %5ld  %10.1f %10.1f  %6.3f   (95 %%: %.3f to %.3f)\n", o->stack, o->m, o->n,
           1e6 * standard, 1e6 * gram, c.ratio.middle, c.ratio.low, c.ratio.high);
  for (int k = 0; k < 2; k++) program_free(w.of[k]);
  tensor_free(device, x);
}

int bench_products(const struct bench *b, struct error *e)
{
  struct timed_product p;
  if (device_open(&p.device, "cpu", 1, e)) return e->status;
  float *numbers = matrices(LARGEST, p.x);
  json_t *all = b->json ? json_array() : NULL;
  if (!all)
    printf("kernels %s, OpenBLAS (%s), one thread, GFLOP/s\n%-8s %-28s %5s %5s %5s    %6s %8s %6s\n",
           ops_cpu_level(), device_blas_core(), "stack", "product", "m", "n", "k", "ours", "OpenBLAS",
           "ratio");
  for (p.s = shapes; p.s < shapes + SHAPES; p.s++)
    if (!b->stack || !strcmp(b->stack, p.s->stack)) bench_product(&p, all);
  memory_free(numbers);
  if (!all)
    printf("Newton-Schulz, keller, microseconds\n%-8s %5s %5s  %10s %10s  %6s\n", "stack", "m", "n",
           "standard", "gram", "ratio");
  for (int i = 0; i < ORTHOGONALS; i++)
    if (!b->stack || !strcmp(b->stack, orthogonals[i].stack))
      bench_orthogonal(p.device, &orthogonals[i], all);
  device_close(p.device);
  return bench_print(all, STATUS_OK);
}
