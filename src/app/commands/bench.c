/* bench.c - maxlogit bench: training steps against this machine's own limit, and what each recording costs
   Every cost is a ratio of steps taken in turn, so that a busy machine disturbs both sides alike. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/bench_cuda.h"
#include "app/command.h"
#include "analysis/json.h"
#include "run/trainer.h"
#include "analysis/statistics.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAX_ROUNDS = 400, LEAST_ROUNDS = 6, MAX_KEYS = 16 };

struct stack {
  const char *name, *keys[8];
};
static const struct stack stacks[] = {
  {"toy", {"model.width=64", "model.layers=2", "model.heads=4", "model.context=64", "train.batch=8"}},
  {"small", {"model.width=256", "model.layers=4", "model.heads=8", "model.context=256", "train.batch=8"}},
  {"medium", {"model.width=512", "model.layers=6", "model.heads=8", "model.context=512", "train.batch=4"}},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

struct options {
  struct request request;
  const char *stack;
  double seconds;
  long quick, json, products, runs, costs;
};

static const struct command_option options[] = {
  FLAG(quick, 'q', "only toy and small, two seconds a comparison"),
  TEXT(stack, 's', "NAME", NULL, "only this stack: toy, small or medium; on a GPU large, too"),
  WHOLE(runs, 'r', "N", "256", 1, INT_MAX, "on a GPU: at most so many runs together"),
  FLAG(costs, 'c', "on a GPU: only attention by itself, and what maxima, recording and stabilisers cost"),
  DECIMAL(seconds, 't', "SECONDS", "0", 1e-3, HUGE_VAL, "for each comparison, without it 6"),
  FLAG(products, 'p', "only the stacks' matrix products, shape by shape: ours against OpenBLAS"),
  FLAG(json, 'j', JSON_HELP),
  NO_OPTION,
};

/* --- timing every operation, also those that an optimiser calls by itself ------------------------------- */
static struct ops plain;
static struct {
  double seconds, flops;
  long calls;
} spent[OP_COUNT];
static double inside; /* seconds of operations that the one being timed is composed of */
static int depth;
static long calls_of_step;

static void account(enum op op, double began, double outside, const void *args)
{
  double seconds = clock_seconds() - began;
  spent[op].seconds += seconds - inside;
  spent[op].flops += op_flops(op, args);
  spent[op].calls++;
  inside = outside + seconds;
}
#define OP(name, what, fields) \
  static void timed_##name(struct device *d, const struct name##_args *args) \
  { \
    double began = clock_seconds(), outside = inside; \
    inside = 0; \
    calls_of_step += !depth++; \
    plain.name(d, args); \
    depth--; \
    account(OP_##name, began, outside, args); \
  }
#define OUT(n)
#define ADD(n)
#define IN(n)
#define MAY(n)
#define MAYADD(n)
#define SIZE(n)
#define SCALAR(n)
#include "numerics/ops.def"
#undef OP
static const struct ops timed = {
#define OP(name, what, fields) .name = timed_##name,
#include "numerics/ops.def"
#undef OP
};

/* --- a trainer of one configuration --------------------------------------------------------------------- */
struct engine {
  struct config *config;
  struct trainer *trainer;
};

static int engine_open(struct engine *g, const struct stack *stack, int record, const char *const *keys,
                       struct error *e)
{
  g->trainer = NULL;
  g->config = config_new();
  int status = config_assign(g->config, "train.steps=1000000", e);
  for (int i = 0; !status && bench_common[i]; i++) status = config_assign(g->config, bench_common[i], e);
  for (int i = 0; !status && stack->keys[i]; i++) status = config_assign(g->config, stack->keys[i], e);
  for (int i = 0; !status && keys[i]; i++) status = config_assign(g->config, keys[i], e);
  if (!status) status = config_finish(g->config, e);
  if (!status) status = trainer_init(&g->trainer, g->config, record ? 0 : TRAINER_NO_RECORD, e);
  return status;
}
static void engine_close(struct engine *g)
{
  if (g->trainer) trainer_abandon(g->trainer);
  config_free(g->config);
}

/* Seconds of one step; NaN after an error. */
static double step(struct engine *g, struct error *e)
{
  double began = clock_seconds();
  return trainer_step(g->trainer, e) ? NAN : clock_seconds() - began;
}

/* --- statistics ----------------------------------------------------------------------------------------- */
/* Of paired ratios, with the 95 % interval. */
static struct median ratio_of(const double *on, const double *off, int n)
{
  double r[MAX_ROUNDS];
  for (int i = 0; i < n; i++) r[i] = on[i] / off[i];
  return median_of(r, n);
}

static double least(const double *x, int n)
{
  double m = x[0];
  for (int i = 1; i < n; i++) m = x[i] < m ? x[i] : m;
  return m;
}

/* --- the limit: the best square product ----------------------------------------------------------------- */
struct limit {
  double gflops;
  int size;
};
static float *square[3];

static void measure_limit(struct limit *l)
{
  for (int n = 64; n <= 1024; n *= 2) {
    double flops = 2.0 * n * n * n;
    for (int round = 0; round < 3; round++) {
      int repeat = 1 + (int)(2e7 / flops);
      double began = clock_seconds();
      for (int i = 0; i < repeat; i++)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, square[0], n, square[1], n, 0,
                    square[2], n);
      double rate = flops * repeat / (clock_seconds() - began) * 1e-9;
      if (rate > l->gflops) *l = (struct limit){rate, n};
    }
  }
}

/* --- products, shape by shape ---------------------------------------------------------------------------- */
/* c [m,n] = a b, or a^T b (tn: gradients of weights), or a b^T (nt: forward), as the stacks' steps have them. */
static const struct shape {
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

static double time_product(struct device *device, const struct shape *s, float *const x[3], int blas,
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

static int bench_products(const struct options *a, struct error *e)
{
  struct device *device;
  float *x[3];
  if (device_open(&device, "cpu", 1, e)) return e->status;
  json_t *all = json_array();
  for (int i = 0; i < 3; i++) {
    x[i] = memory_new(LARGEST, sizeof(float));
    for (long j = 0; j < LARGEST; j++) x[i][j] = (float)(j % 7) / 8;
  }
  if (!a->json)
    printf("kernels %s, OpenBLAS (%s), one thread, GFLOP/s\n%-8s %-28s %5s %5s %5s    %6s %8s %6s\n",
           ops_cpu_level(), device_blas_core(), "stack", "product", "m", "n", "k", "ours", "OpenBLAS",
           "ratio");
  for (int i = 0; i < SHAPES; i++) {
    const struct shape *s = &shapes[i];
    if (a->stack && strcmp(a->stack, s->stack) != 0) continue;
    double best[2] = {INFINITY, INFINITY}, flops = 2.0 * s->m * s->n * s->k;
    for (int round = 0; round < 7; round++)
      for (int blas = 0; blas < 2; blas++)
        best[blas] = fmin(best[blas], time_product(device, s, x, blas, 1 + (int)(2e7 / flops)));
    const double ours = flops / best[0] * 1e-9, theirs = flops / best[1] * 1e-9;
    if (a->json)
      json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:o, s:o}", "stack", s->stack,
                                           "product", s->what, "m", s->m, "n", s->n, "k", s->k, "ta", s->ta,
                                           "tb", s->tb, "gflops", json_number(ours), "openblas_gflops",
                                           json_number(theirs)));
    else
      printf("%-8s %-28s %5d %5d %5d %c%c %6.1f %8.1f %6.2f\n", s->stack, s->what, s->m, s->n, s->k,
             s->ta ? 't' : 'n', s->tb ? 't' : 'n', ours, theirs, ours / theirs);
  }
  if (a->json)
    json_print(all);
  else
    json_decref(all);
  for (int i = 0; i < 3; i++) memory_free(x[i]);
  device_close(device);
  return STATUS_OK;
}

/* --- one stack under one optimiser ---------------------------------------------------------------------- */
struct result {
  const char *stack, *optimizer;
  double seconds, flops, tokens, op_seconds[OP_COUNT], op_flops[OP_COUNT];
  long op_calls[OP_COUNT], calls,
    waits; /* of a step: calls of its programs, times that the host waits for them */
  size_t allocations;
  struct median maxima, record, spectra, two;
  double two_least; /* of the least steps: what two cores do while nobody else is on them */
  int same_bits;
  struct limit limit;
};

struct bench {
  const struct options *arguments;
  char folder[64];
  struct limit limit;
};

/* Steps in turn: `a` as it is, then `b` (the same engine where the tables differ). */
static int compare(struct bench *b, struct engine *x, const struct ops *x_ops, struct engine *y,
                   const struct ops *y_ops, double *on, double *off, struct error *e)
{
  double end = clock_seconds() + b->arguments->seconds;
  int n = 0;
  for (; n < MAX_ROUNDS && (n < LEAST_ROUNDS || clock_seconds() < end); n++) {
    for (int turn = 0; turn < 2; turn++) { /* the order changes every round */
      int first = turn == n % 2;
      struct engine *g = first ? x : y;
      trainer_device(g->trainer)->ops = first ? *x_ops : *y_ops;
      *(first ? on + n : off + n) = step(g, e);
    }
    if (isnan(on[n]) || isnan(off[n])) return 0;
  }
  return n;
}

static int same_weights(struct engine *x, struct engine *y, struct error *e)
{
  while (trainer_step_count(x->trainer) < trainer_step_count(y->trainer))
    if (isnan(step(x, e))) return 0;
  while (trainer_step_count(y->trainer) < trainer_step_count(x->trainer))
    if (isnan(step(y, e))) return 0;
  const struct tensor *a = &trainer_model(x->trainer)->params.values,
                      *c = &trainer_model(y->trainer)->params.values;
  return a->cols == c->cols && !memcmp(a->data, c->data, (size_t)a->cols * sizeof(real));
}

static int bench_one(struct bench *b, const struct stack *stack, const char *optimizer, struct result *r,
                     struct error *e)
{
  static double on[MAX_ROUNDS], off[MAX_ROUNDS];
  char name[64], path[2][128];
  snprintf(name, sizeof name, "optimizer=%s", optimizer);
  for (int i = 0; i < 2; i++)
    snprintf(path[i], sizeof path[i], "record.path=%s/%s-%s-%d.h5", b->folder, stack->name, optimizer, i);
  *r = (struct result){.stack = stack->name, .optimizer = optimizer};
  struct engine one = {0}, two = {0}, record = {0}, spectra = {0};
  int status = engine_open(&one, stack, 0, (const char *[]){name, "device.threads=1", NULL}, e);
  if (!status) status = engine_open(&two, stack, 0, (const char *[]){name, "device.threads=2", NULL}, e);
  if (!status)
    status = engine_open(&record, stack, 1, (const char *[]){name, "device.threads=1", path[0], NULL}, e);
  if (!status)
    status =
      engine_open(&spectra, stack, 1,
                  (const char *[]){name, "device.threads=1", path[1], "record.spectra_every=1", NULL}, e);
  struct engine *all[] = {&one, &two, &record, &spectra};
  for (int i = 0; !status && i < 4; i++)
    if (isnan(step(all[i], e))) status = STATUS_FAIL;
  if (status) goto out;

  plain = trainer_device(one.trainer)->ops;
  struct ops bare = plain;
  ops_cpu_without_maxima(&bare);
  size_t calls = memory_calls();
  long waits = trainer_device(one.trainer)->waits;
  status = isnan(step(&one, e)) ? STATUS_FAIL : STATUS_OK;
  r->allocations = memory_calls() - calls;
  r->waits = trainer_device(one.trainer)->waits - waits;

  measure_limit(&b->limit);
  int n = compare(b, &one, &plain, &one, &bare, on, off, e);
  if (!n) goto failed;
  r->maxima = ratio_of(on, off, n);
  r->seconds = least(on, n);
  measure_limit(&b->limit);
  if (!(n = compare(b, &one, &plain, &two, &plain, on, off, e))) goto failed;
  r->two = ratio_of(on, off, n);
  r->seconds = fmin(r->seconds, least(on, n));
  r->two_least = least(on, n) / least(off, n);
  r->same_bits = same_weights(&one, &two, e);
  if (!(n = compare(b, &record, &plain, &one, &plain, on, off, e))) goto failed;
  r->record = ratio_of(on, off, n);
  r->seconds = fmin(r->seconds, least(off, n));
  if (!(n = compare(b, &spectra, &plain, &record, &plain, on, off, e))) goto failed;
  r->spectra = ratio_of(on, off, n);
  r->spectra.middle = 1 + (r->spectra.middle - 1) / 10; /* one step in ten */
  r->spectra.low = 1 + (r->spectra.low - 1) / 10;
  r->spectra.high = 1 + (r->spectra.high - 1) / 10;

  trainer_device(one.trainer)->ops = timed;
  double end = clock_seconds() + b->arguments->seconds / 2;
  for (int i = 0; i < LEAST_ROUNDS / 2 || clock_seconds() < end; i++) { /* each operation at its least */
    memset(spent, 0, sizeof spent);
    calls_of_step = 0;
    step(&one, e);
    for (int op = 0; op < OP_COUNT; op++)
      if (i == 0 || spent[op].seconds < r->op_seconds[op]) r->op_seconds[op] = spent[op].seconds;
  }
  for (int op = 0; op < OP_COUNT; op++) {
    r->op_flops[op] = spent[op].flops;
    r->op_calls[op] = spent[op].calls;
    r->flops += spent[op].flops;
  }
  r->calls = calls_of_step;
  measure_limit(&b->limit);
  r->limit = b->limit;
  const struct model_options *m = &trainer_model(one.trainer)->options;
  const struct train_options *t = config_section(one.config, "train");
  r->tokens = (double)(m->context * t->batch);
  goto out;
failed:
  status = STATUS_FAIL;
out:
  for (int i = 0; i < 4; i++)
    if (all[i]->config) engine_close(all[i]);
  return status;
}

/* --- stabilisers, experts: steps with them against steps without ------------------------------------------ */
struct cost {
  const char *name;
  struct median ratio;
};

static int bench_keys(struct bench *b, const struct stack *stack, const char *const *keys,
                      const char *const *others, const char *name, struct cost *c, struct error *e)
{
  static double on[MAX_ROUNDS], off[MAX_ROUNDS];
  struct engine with = {0}, without = {0};
  int status = engine_open(&with, stack, 0, keys, e);
  if (!status) status = engine_open(&without, stack, 0, others, e);
  if (!status) {
    struct ops ops = trainer_device(with.trainer)->ops;
    int n = compare(b, &with, &ops, &without, &ops, on, off, e);
    if (n)
      *c = (struct cost){name, ratio_of(on, off, n)};
    else
      status = STATUS_FAIL;
  }
  engine_close(&with);
  if (without.config) engine_close(&without);
  return status;
}

static int bench_stabilizer(struct bench *b, const char *name, struct cost *c, struct error *e)
{
  char key[96];
  snprintf(key, sizeof key, "stabilizers=%s", name);
  return bench_keys(b, &stacks[0], (const char *[]){"optimizer=muon", "device.threads=1", key, NULL},
                    (const char *[]){"optimizer=muon", "device.threads=1", NULL}, name, c, e);
}

/* 2 of 8 experts, each of half the dense block's width: the same operations a token. */
static int bench_experts(struct bench *b, const struct stack *stack, const char *optimizer, const char *name,
                         struct cost *c, struct error *e)
{
  const char *experts[] = {
    optimizer, "device.threads=1", "model.ffn=moe", "moe.experts=8", "moe.active=2", "moe.shared=0", NULL};
  return bench_keys(b, stack, experts, (const char *[]){optimizer, "device.threads=1", NULL}, name, c, e);
}

/* --- output --------------------------------------------------------------------------------------------- */
static void print_ratio(const char *what, const struct median *r)
{
  printf("  %-34s %+.2f %%   (95 %%: %+.2f to %+.2f)\n", what, 100 * (r->middle - 1), 100 * (r->low - 1),
         100 * (r->high - 1));
}

static void print_result(const struct result *r)
{
  double total = 0;
  printf("%s, %s: %.2f steps/s, %.0f tokens/s, %.1f GFLOP/s = %.0f %% of sgemm (%.1f at %d)\n", r->stack,
         r->optimizer, 1 / r->seconds, r->tokens / r->seconds, r->flops / r->seconds * 1e-9,
         100 * r->flops / r->seconds * 1e-9 / r->limit.gflops, r->limit.gflops, r->limit.size);
  print_ratio("maxima and entropy", &r->maxima);
  print_ratio("recording every step", &r->record);
  print_ratio("spectra every 10 steps", &r->spectra);
  printf("  %-34s %.2f times   (95 %%: %.2f to %.2f), %.2f at the least steps, bits %s\n", "two threads",
         r->two.middle, r->two.low, r->two.high, r->two_least, r->same_bits ? "the same" : "DIFFERENT");
  printf("  %-34s %zu\n", "allocations in a step", r->allocations);
  printf("  %-34s %ld, %ld\n", "calls of a step, waits of the host", r->calls, r->waits);
  for (int op = 0; op < OP_COUNT; op++) total += r->op_seconds[op];
  for (int op = 0; op < OP_COUNT; op++)
    if (r->op_seconds[op] > 0.002 * total) {
      printf("    %-24s %5.1f %%  %6ld calls", op_name(op), 100 * r->op_seconds[op] / total, r->op_calls[op]);
      if (r->op_flops[op] > 0) printf("  %6.1f GFLOP/s", r->op_flops[op] / r->op_seconds[op] * 1e-9);
      printf("\n");
    }
}

static json_t *json_ratio(const struct median *r)
{
  return json_pack("[o, o, o]", json_number(r->middle), json_number(r->low), json_number(r->high));
}

static json_t *json_result(const struct result *r)
{
  json_t *operations = json_object();
  for (int op = 0; op < OP_COUNT; op++)
    if (r->op_calls[op])
      json_object_set_new(operations, op_name(op),
                          json_pack("{s:o, s:o, s:I}", "seconds", json_number(r->op_seconds[op]), "flops",
                                    json_number(r->op_flops[op]), "calls", (json_int_t)r->op_calls[op]));
  return json_pack(
    "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "stack",
    r->stack, "optimizer", r->optimizer, "steps_per_second", json_number(1 / r->seconds), "tokens_per_second",
    json_number(r->tokens / r->seconds), "gflops", json_number(r->flops / r->seconds * 1e-9), "sgemm_gflops",
    json_number(r->limit.gflops), "fraction", json_number(r->flops / r->seconds * 1e-9 / r->limit.gflops),
    "allocations", (json_int_t)r->allocations, "calls", (json_int_t)r->calls, "waits", (json_int_t)r->waits,
    "same_bits", r->same_bits, "maxima", json_ratio(&r->maxima), "recording", json_ratio(&r->record),
    "spectra", json_ratio(&r->spectra), "two_threads", json_ratio(&r->two), "two_threads_least",
    json_number(r->two_least), "operations", operations);
}

static int is_chosen(const struct bench *b, int stack)
{
  const struct options *a = b->arguments;
  return a->stack ? !strcmp(a->stack, stacks[stack].name) : !a->quick || stack < STACKS - 1;
}

static int bench_stacks(struct bench *b, json_t *out, struct error *e)
{
  const struct options *a = b->arguments;
  for (int s = 0; s < STACKS; s++) {
    if (!is_chosen(b, s)) continue;
    for (int o = 0; o < 2; o++) {
      struct result r;
      if (bench_one(b, &stacks[s], o ? "muon" : "adam", &r, e)) return e->status;
      if (a->json)
        json_array_append_new(out, json_result(&r));
      else
        print_result(&r), fflush(stdout);
    }
  }
  return STATUS_OK;
}

static void bench_stabilizers(struct bench *b, json_t *out)
{
  for (int i = 0; stabilizers[i]; i++) {
    struct cost c = {0};
    struct error refused = {0};
    if (!strcmp(stabilizers[i]->name, "none")) continue;
    if (bench_stabilizer(b, stabilizers[i]->name, &c, &refused))
      continue; /* it does not go with this stack */
    if (b->arguments->json)
      json_object_set_new(out, c.name, json_ratio(&c.ratio));
    else
      print_ratio(c.name, &c.ratio), fflush(stdout);
  }
}

static int bench_all_experts(struct bench *b, json_t *out, struct error *e)
{
  for (int s = 0; s < 2 * STACKS; s++) {
    struct cost c = {0};
    char name[64];
    snprintf(name, sizeof name, "%s%s", stacks[s / 2].name, s % 2 ? ", adam" : "");
    if (!is_chosen(b, s / 2)) continue;
    if (bench_experts(b, &stacks[s / 2], s % 2 ? "optimizer=adam" : "optimizer=none", name, &c, e))
      return e->status;
    if (b->arguments->json)
      json_object_set_new(out, name, json_ratio(&c.ratio));
    else
      print_ratio(name, &c.ratio), fflush(stdout);
  }
  return STATUS_OK;
}

static int bench_all(struct bench *b, struct error *e)
{
  int json = b->arguments->json;
  json_t *of_stacks = json_array(), *of_stabilizers = json_object(), *of_experts = json_object();
  json_t *all = json_pack("{s:s, s:s, s:o, s:o, s:o}", "kernels", ops_cpu_level(), "blas", device_blas_core(),
                          "stacks", of_stacks, "stabilizers", of_stabilizers, "experts", of_experts);
  if (!json)
    printf("kernels %s; the limit is OpenBLAS (%s), one thread\n", ops_cpu_level(), device_blas_core());
  int status = bench_stacks(b, of_stacks, e);
  if (!status && !json) printf("stabilisers, toy stack under muon, against none:\n");
  if (!status) bench_stabilizers(b, of_stabilizers);
  if (!status && !json)
    printf("8 experts, 2 active, against dense blocks of the same operations a token: passes alone, and "
           "steps of adam, which "
           "has four times the weights of the blocks to update:\n");
  if (!status) status = bench_all_experts(b, of_experts, e);
  if (!status && json)
    json_print(all);
  else
    json_decref(all);
  return status;
}

/* Remove what the recording trainers have left. */
static void clean(const struct bench *b)
{
  for (int s = 0; s < STACKS; s++)
    for (int o = 0; o < 2; o++)
      for (int i = 0; i < 2; i++) {
        static const char *const ends[] = {"h5", "live.tsv", "lock", "h5.lock"};
        for (int k = 0; k < 4; k++) {
          char path[160];
          snprintf(path, sizeof path, "%s/%s-%s-%d.%s", b->folder, stacks[s].name, o ? "muon" : "adam", i,
                   ends[k]);
          file_remove(path);
        }
      }
  rmdir(b->folder);
}

static int bench_stacks_here(const struct options *r, struct error *e)
{
  struct bench b = {.arguments = r};
  snprintf(b.folder, sizeof b.folder, "/tmp/maxlogit-bench-XXXXXX");
  if (!mkdtemp(b.folder)) return error_set(e, STATUS_FAIL, "no folder for the bench in /tmp");
  for (int i = 0; i < 3; i++) {
    square[i] = memory_new(1024 * 1024, sizeof(float));
    for (long j = 0; j < 1024 * 1024; j++) square[i][j] = 1 + (float)(j % 7) / 8;
  }
  int status = bench_all(&b, e);
  for (int i = 0; i < 3; i++) memory_free(square[i]);
  clean(&b);
  return status;
}

static int bench(void *request, struct error *e)
{
  struct options *r = request;
  const char *device = r->request.settings ? r->request.setting[r->request.settings - 1] : "device=cpu";
  if (strcmp(device, "device=cuda") && strcmp(device, "device=cpu"))
    return error_set(e, STATUS_USAGE, "bench: %s: only device=cpu or device=cuda can be said here", device);
  if (!r->seconds) r->seconds = r->quick ? 2 : 6;
  if (!strcmp(device, "device=cuda")) {
    struct bench_cuda b = {r->stack, r->seconds / 2, r->json, r->runs, r->costs};
    return bench_cuda(&b, e);
  }
  int known = r->stack == NULL;
  for (int s = 0; s < STACKS; s++) known |= r->stack && !strcmp(r->stack, stacks[s].name);
  if (!known) return error_set(e, STATUS_USAGE, "--stack=%s: toy, small or medium is wanted", r->stack);
  return r->products ? bench_products(r, e) : bench_stacks_here(r, e);
}

const struct command command_bench = {
  .name = "bench",
  .arguments = "[device=cpu|cuda]",
  .help = "speed, against the machine's own measured limit",
  .about =
    "Speed of training steps as a fraction of this machine's own matrix product, and what every kind of "
    "recording costs.",
  .options = options,
  .size = sizeof(struct options),
  .once = "only device=cpu or device=cuda can be said here",
  .settings = 1,
  .run = bench,
};
