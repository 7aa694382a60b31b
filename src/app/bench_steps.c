/* bench_steps.c - training steps on the processor against its own limit, and the cost of each recording
   Every cost is a ratio of steps taken in turn, so that a busy machine disturbs both sides alike. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/clock.h"
#include "base/memory.h"
#include "config/plugin.h"
#include "numerics/blas.h"

struct two_engines {
  struct engine *of[2];
  struct error *error;
};
static double step_of(void *context, int which)
{
  struct two_engines *x = context;
  return engine_step(x->of[which], x->error);
}

static int contrast(const struct bench *b, struct engine *x, struct engine *y, struct contrast *c,
                    struct error *e)
{
  struct two_engines both = {{x, y}, e};
  return bench_contrast(b->seconds, BENCH_ROUNDS, step_of, &both, c) ? STATUS_OK : e->status;
}

/* After the same number of steps. */
static int same_weights(const struct engine *x, const struct engine *y)
{
  const struct tensor *a = &trainer_model(x->trainer)->params.values,
                      *c = &trainer_model(y->trainer)->params.values;
  return a->cols == c->cols && !memcmp(a->data, c->data, (size_t)a->cols * sizeof(real));
}

struct step_times {
  const char *stack, *optimizer;
  double seconds, flops, tokens;      /* seconds: the least */
  struct bench_operations operations; /* of a step, each at its least */
  long calls, waits; /* of a step: calls of its programs, times that the host waits for them */
  size_t allocations;
  struct median maxima, record, spectra, against;
  double sgemm;         /* of now, times that of then */
  struct contrast both; /* one thread's steps, and two threads' */
  int same_bits;
  struct limit limit;
};

/* --- against an earlier bench --------------------------------------------------------------------------- */

/* Both intervals are of a median; that of the ratio has, of logarithms, the root of the sum of their squares. */
static struct median over(const struct median *a, const struct median *b)
{
  const double below = hypot(log(a->middle / a->low), log(b->high / b->middle)),
               above = hypot(log(a->high / a->middle), log(b->middle / b->low)),
               middle = a->middle / b->middle;
  return (struct median){middle, middle * exp(-below), middle * exp(above)};
}

/* How many times as fast a step is now as in r's stack then, with the noise of both; NaN where it was not there. */
static void compare_with(const json_t *earlier, struct step_times *r)
{
  size_t i;
  json_t *then;
  json_array_foreach(json_object_get(earlier, "stacks"), i, then)
  {
    const char *stack, *optimizer;
    struct median was;
    double limit;
    if (json_unpack(then, "{s:s, s:s, s:[F, F, F], s:F}", "stack", &stack, "optimizer", &optimizer,
                    "step_seconds", &was.middle, &was.low, &was.high, "sgemm_gflops", &limit) ||
        strcmp(stack, r->stack) != 0 || strcmp(optimizer, r->optimizer) != 0)
      continue;
    r->sgemm = r->limit.gflops / limit;
    r->against = over(&was, &r->both.seconds[0]);
  }
}

/* --- one stack under one optimizer ---------------------------------------------------------------------- */

/* Allocations and waits of one step, and the time of every operation: the least of two steps or more. */
static int look_at_step(const struct bench *b, struct engine *g, struct step_times *r, struct error *e)
{
  const struct device *d = trainer_device(g->trainer);
  const size_t allocations = memory_calls();
  const long waits = d->waits;
  if (isnan(engine_step(g, e))) return e->status;
  r->allocations = memory_calls() - allocations;
  r->waits = d->waits - waits;
  double end = clock_seconds() + b->seconds / 2;
  for (int i = 0; i < 2 || clock_seconds() < end; i++) {
    struct bench_operations now;
    if (bench_step(g->trainer, &now, e)) return e->status;
    for (int op = 0; op < OP_COUNT && i; op++)
      now.seconds[op] = fmin(now.seconds[op], r->operations.seconds[op]);
    r->operations = now;
  }
  for (int op = 0; op < OP_COUNT; op++) r->calls += r->operations.calls[op];
  r->flops = bench_sum(r->operations.work);
  return STATUS_OK;
}

enum { ONE, TWO, RECORD, SPECTRA, ENGINES }; /* one and two threads; one that records, one with all spectra */

/* The costs of maxima, of recording, and of spectra every 10 steps. */
static int measure_costs(const struct bench *b, struct engine g[ENGINES], struct step_times *r,
                         struct error *e)
{
  struct engine bare = g[ONE];
  struct contrast maxima, record, spectra;
  ops_cpu_without_maxima(&bare.ops);
  if (contrast(b, &g[ONE], &bare, &maxima, e) || contrast(b, &g[RECORD], &g[ONE], &record, e) ||
      contrast(b, &g[SPECTRA], &g[RECORD], &spectra, e))
    return e->status;
  const struct median *s = &spectra.ratio;
  r->maxima = maxima.ratio, r->record = record.ratio;
  r->spectra = (struct median){1 + (s->middle - 1) / 10, 1 + (s->low - 1) / 10, 1 + (s->high - 1) / 10};
  r->seconds = fmin(r->seconds, fmin(maxima.least[0], record.least[1]));
  bench_limit(&r->limit);
  return STATUS_OK;
}

static int measure(const struct bench *b, struct engine g[ENGINES], struct step_times *r, struct error *e)
{
  const struct train_options *t = config_section(g[ONE].config, "train");
  r->tokens = (double)(trainer_model(g[ONE].trainer)->options.context * t->batch);
  bench_limit(&r->limit);
  if (contrast(b, &g[ONE], &g[TWO], &r->both, e)) return e->status;
  r->seconds = r->both.least[0];
  r->same_bits = same_weights(&g[ONE], &g[TWO]);
  bench_limit(&r->limit);
  if (look_at_step(b, &g[ONE], r, e)) return e->status;
  return g[RECORD].trainer ? measure_costs(b, g, r, e) : STATUS_OK;
}

static int bench_one(const struct bench *b, const struct bench_stack *stack, const char *optimizer,
                     struct step_times *r, struct error *e)
{
  char name[64];
  snprintf(name, sizeof name, "optimizer=%s", optimizer);
  const struct median none = {NAN, NAN, NAN};
  *r = (struct step_times){.stack = stack->name, .optimizer = optimizer, .limit = r->limit};
  r->maxima = r->record = r->spectra = r->against = none;
  struct engine all[ENGINES] = {0};
  /* for steps of seconds, the cost of recording is measured only if that stack is requested */
  const int engines = b->stack || stack < &bench_stacks[BENCH_QUICK] ? ENGINES : RECORD;
  int status = STATUS_OK;
  bench_doing(stack->name, optimizer);
  for (int i = 0; !status && i < engines; i++) {
    const char *const keys[] = {name, i == TWO ? "device.threads=2" : "device.threads=1",
                                i == SPECTRA ? "record.spectra_every=1" : NULL, NULL};
    status = engine_open(&all[i], bench_config(b, stack, keys, i < RECORD ? -1 : i, e),
                         i < RECORD ? TRAINER_NO_RECORD : 0, e);
  }
  if (!status) status = measure(b, all, r, e);
  if (!status) compare_with(b->earlier, r);
  for (int i = 0; i < ENGINES; i++) {
    engine_close(&all[i]);
    bench_forget(b, i);
  }
  bench_doing(NULL, NULL);
  return status;
}

static void print_result(const struct step_times *r)
{
  const struct median *a = &r->against, *two = &r->both.ratio;
  double gflops = r->flops / r->seconds * 1e-9;
  printf("%s, %s: %.2f steps/s, %.0f tokens/s, %.1f GFLOP/s = %.0f %% of sgemm (%.1f at %d)\n", r->stack,
         r->optimizer, 1 / r->seconds, r->tokens / r->seconds, gflops, 100 * gflops / r->limit.gflops,
         r->limit.gflops, r->limit.size);
  if (!isnan(a->middle))
    printf("  %-34s %.3f times   (95 %%: %.3f to %.3f), sgemm %.3f times\n", "as fast as then", a->middle,
           a->low, a->high, r->sgemm);
  bench_put(NULL, NULL, "maxima and entropy", &r->maxima);
  bench_put(NULL, NULL, "recording every step", &r->record);
  bench_put(NULL, NULL, "spectra every 10 steps", &r->spectra);
  printf("  %-34s %.2f times   (95 %%: %.2f to %.2f), %.2f at the least steps, bits %s\n", "two threads",
         two->middle, two->low, two->high, r->both.least[0] / r->both.least[1],
         r->same_bits ? "the same" : "DIFFERENT");
  printf("  %-34s %zu\n  %-34s %ld, %ld\n", "allocations in a step", r->allocations,
         "calls of a step, waits of the host", r->calls, r->waits);
  bench_print_operations(&r->operations, 0.002);
}

static json_t *json_result(const struct step_times *r)
{
  double gflops = r->flops / r->seconds * 1e-9;
  return json_pack(
    "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}",
    "stack", r->stack, "optimizer", r->optimizer, "step_seconds", bench_ratio(&r->both.seconds[0]), "against",
    bench_ratio(&r->against), "steps_per_second", json_number(1 / r->seconds), "tokens_per_second",
    json_number(r->tokens / r->seconds), "gflops", json_number(gflops), "sgemm_gflops",
    json_number(r->limit.gflops), "fraction", json_number(gflops / r->limit.gflops), "allocations",
    (json_int_t)r->allocations, "calls", (json_int_t)r->calls, "waits", (json_int_t)r->waits, "same_bits",
    r->same_bits, "maxima", bench_ratio(&r->maxima), "recording", bench_ratio(&r->record), "spectra",
    bench_ratio(&r->spectra), "two_threads", bench_ratio(&r->both.ratio), "two_threads_least",
    json_number(r->both.least[0] / r->both.least[1]), "operations", bench_operations(&r->operations));
}

static int is_chosen(const struct bench *b, int stack)
{
  return b->stack ? !strcmp(b->stack, bench_stacks[stack].name) : !b->quick || stack < BENCH_QUICK;
}

static int bench_stacks_alone(const struct bench *b, json_t *out, struct error *e)
{
  struct step_times r = {0};
  for (int s = 0; s < BENCH_ON_CPU; s++)
    for (int o = 0; o < 2 && is_chosen(b, s); o++) {
      if (bench_one(b, &bench_stacks[s], o ? "muon" : "adam", &r, e)) return e->status;
      if (out)
        json_array_append_new(out, json_result(&r));
      else
        print_result(&r);
    }
  return STATUS_OK;
}

/* --- optimizers, stabilizers, experts: steps with them against steps without ------------------------------ */

/* `more`: keys that come after those of both, NULL-terminated. */
static int bench_keys(const struct bench *b, const struct bench_stack *stack, const char *what,
                      const char *name, const char *optimizer, const char *const *more, json_t *out,
                      struct error *e)
{
  const char *keys[8] = {optimizer, "device.threads=1"};
  struct engine with = {0}, without;
  struct contrast c;
  bench_doing(what, name);
  int status = engine_open(&without, bench_config(b, stack, keys, -1, e), TRAINER_NO_RECORD, e);
  for (int i = 0; more[i]; i++) keys[2 + i] = more[i];
  if (!status) status = engine_open(&with, bench_config(b, stack, keys, -1, e), TRAINER_NO_RECORD, e);
  if (!status) status = contrast(b, &with, &without, &c, e);
  engine_close(&with), engine_close(&without);
  bench_doing(NULL, NULL);
  if (!status) bench_put(out, name, name, &c.ratio);
  return status;
}

/* All plug-ins of a kind on the toy stack, but the one that they are held against. */
static int bench_plugins(const struct bench *b, const char *kind, const char *key, const char *optimizer,
                         const char *but, json_t *out, struct error *e)
{
  struct bench half = *b;
  const char *names[64];
  size_t count = plugin_names(kind, names, sizeof names / sizeof *names);
  half.seconds /= 2;
  for (size_t i = 0; i < count; i++) {
    char more[96];
    struct error refused = {0};
    snprintf(more, sizeof more, "%s=%s", key, names[i]);
    if (strcmp(names[i], but) != 0 &&
        bench_keys(&half, &bench_stacks[0], kind, names[i], optimizer, (const char *[]){more, NULL}, out,
                   &refused) &&
        refused.status != STATUS_USAGE) /* which does not go with this stack */
      return *e = refused, e->status;
  }
  return STATUS_OK;
}

/* 2 of 8 experts, each of half the dense block's width: the same operations a token. */
static int bench_experts(const struct bench *b, json_t *out, struct error *e)
{
  static const char *const experts[] = {"model.ffn=moe", "moe.experts=8", "moe.active=2", "moe.shared=0",
                                        NULL};
  for (int s = 0; s < 2 * BENCH_ON_CPU; s++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", bench_stacks[s / 2].name, s % 2 ? ", adam" : "");
    if (!is_chosen(b, s / 2) || (!b->stack && s / 2 > 0)) continue; /* the others by name alone */
    if (bench_keys(b, &bench_stacks[s / 2], "experts", name, s % 2 ? "optimizer=adam" : "optimizer=none",
                   experts, out, e))
      return e->status;
  }
  return STATUS_OK;
}

int bench_steps(const struct bench *b, struct error *e)
{
  json_t *all = !b->json ? NULL
                         : json_pack("{s:s, s:s, s:[], s:{}, s:{}, s:{}}", "kernels", ops_cpu_level(), "blas",
                                     device_blas_core(), "stacks", "optimizers", "stabilizers", "experts");
  if (!all)
    printf("kernels %s; the limit is OpenBLAS (%s), one thread\n", ops_cpu_level(), device_blas_core());
  int status = bench_stacks_alone(b, json_object_get(all, "stacks"), e);
  if (!status && !all) printf("optimizers, toy stack, against adam:\n");
  if (!status)
    status = bench_plugins(b, "optimizer", "optimizer", "optimizer=adam", "adam",
                           json_object_get(all, "optimizers"), e);
  if (!status && !all) printf("stabilizers, toy stack under muon, against none:\n");
  if (!status)
    status = bench_plugins(b, "stabilizer", "stabilizers", "optimizer=muon", "none",
                           json_object_get(all, "stabilizers"), e);
  if (!status && !all)
    printf("8 experts, 2 active, against dense blocks of the same operations a token: passes alone, and "
           "steps of adam, which has four times the weights of the blocks to update:\n");
  if (!status) status = bench_experts(b, json_object_get(all, "experts"), e);
  return bench_print(all, status);
}
