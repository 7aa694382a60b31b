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

/* Of six pairs the smallest and the largest ratio are the ends of a 95 % interval; of steps that are looked at inside,
   each operation's least counts, and two do. */
enum { LEAST_ROUNDS = 6, LEAST_LOOKS = 2 };

/* --- trainers ------------------------------------------------------------------------------------------- */

struct engine {
  struct config *config;
  struct trainer *trainer;
  struct ops ops; /* memory that its steps use */
};

static int engine_open(struct engine *g, const struct bench *b, const struct bench_stack *stack, int file,
                       const char *const *keys, struct error *e)
{
  *g = (struct engine){.config = bench_config(b, stack, keys, file, e)};
  if (!g->config || trainer_init(&g->trainer, g->config, file < 0 ? TRAINER_NO_RECORD : 0, e))
    return e->status;
  g->ops = trainer_device(g->trainer)->ops;
  return trainer_step(g->trainer, e);
}

static void engine_close(struct engine *g)
{
  if (g->trainer) trainer_abandon(g->trainer);
  if (g->config) config_free(g->config);
}

/* Seconds of one step; NaN after an error. */
static double step(struct engine *g, struct error *e)
{
  trainer_device(g->trainer)->ops = g->ops;
  double began = clock_seconds();
  return trainer_step(g->trainer, e) ? NAN : clock_seconds() - began;
}

struct two_engines {
  struct engine *of[2];
  struct error *error;
};
static double step_of(void *context, int which)
{
  struct two_engines *x = context;
  return step(x->of[which], x->error);
}

static int contrast(const struct bench *b, struct engine *x, struct engine *y, struct contrast *c,
                    struct error *e)
{
  struct two_engines both = {{x, y}, e};
  return bench_contrast(b->seconds, LEAST_ROUNDS, step_of, &both, c) ? STATUS_OK : e->status;
}

static int same_weights(struct engine *x, struct engine *y, struct error *e)
{
  while (trainer_status(x->trainer).done != trainer_status(y->trainer).done)
    if (isnan(step(trainer_status(x->trainer).done < trainer_status(y->trainer).done ? x : y, e))) return 0;
  const struct tensor *a = &trainer_model(x->trainer)->params.values,
                      *c = &trainer_model(y->trainer)->params.values;
  return a->cols == c->cols && !memcmp(a->data, c->data, (size_t)a->cols * sizeof(real));
}

struct step_times {
  const char *stack, *optimizer;
  double seconds, flops, tokens;
  struct bench_operations operations; /* of a step, each at its least */
  long calls, waits; /* of a step: calls of its programs, times that the host waits for them */
  size_t allocations;
  struct median step; /* its seconds, as they come */
  struct median maxima, record, spectra, two, against;
  double sgemm;     /* of now, times that of then */
  double two_least; /* of the fastest steps: two cores without other load */
  int same_bits;
  struct limit limit;
};

/* --- against an earlier bench --------------------------------------------------------------------------- */

static double number_at(const json_t *list, size_t i)
{
  const json_t *x = json_array_get(list, i);
  return json_is_number(x) ? json_number_value(x) : NAN;
}

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
    const char *name = json_string_value(json_object_get(then, "stack")),
               *by = json_string_value(json_object_get(then, "optimizer"));
    if (!name || !by || strcmp(name, r->stack) != 0 || strcmp(by, r->optimizer) != 0) continue;
    const json_t *step = json_object_get(then, "step_seconds"),
                 *limit = json_object_get(then, "sgemm_gflops");
    const struct median seconds = {number_at(step, 0), number_at(step, 1), number_at(step, 2)};
    r->sgemm = json_is_number(limit) ? r->limit.gflops / json_number_value(limit) : NAN;
    r->against = over(&seconds, &r->step);
    return;
  }
}

/* --- one stack under one optimizer ---------------------------------------------------------------------- */

/* Allocations and waits of one step, and the time of every operation. */
static int look_at_step(const struct bench *b, struct engine *g, struct step_times *r, struct error *e)
{
  const struct device *d = trainer_device(g->trainer);
  size_t allocations = memory_calls();
  long waits = d->waits;
  if (isnan(step(g, e))) return e->status;
  r->allocations = memory_calls() - allocations;
  r->waits = d->waits - waits;
  double end = clock_seconds() + b->seconds / 2;
  for (int i = 0; i < LEAST_LOOKS || clock_seconds() < end; i++) {
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

static int measure(const struct bench *b, struct engine *one, struct engine *two, struct engine *record,
                   struct engine *spectra, struct step_times *r, struct error *e)
{
  struct contrast c;
  struct engine bare = *one;
  ops_cpu_without_maxima(&bare.ops);
  bench_limit(&r->limit);
  if (contrast(b, one, two, &c, e)) return e->status;
  r->two = c.ratio, r->two_least = c.least[0] / c.least[1], r->seconds = c.least[0], r->step = c.x;
  r->same_bits = same_weights(one, two, e);
  bench_limit(&r->limit);
  if (look_at_step(b, one, r, e)) return e->status;
  if (!record->trainer) return STATUS_OK;
  if (contrast(b, one, &bare, &c, e)) return e->status;
  r->maxima = c.ratio, r->seconds = fmin(r->seconds, c.least[0]);
  trainer_device(one->trainer)->ops = one->ops;
  if (contrast(b, record, one, &c, e)) return e->status;
  r->record = c.ratio, r->seconds = fmin(r->seconds, c.least[1]);
  if (contrast(b, spectra, record, &c, e)) return e->status;
  r->spectra = (struct median){1 + (c.ratio.middle - 1) / 10, 1 + (c.ratio.low - 1) / 10,
                               1 + (c.ratio.high - 1) / 10}; /* one step in ten */
  bench_limit(&r->limit);
  return STATUS_OK;
}

static int bench_one(const struct bench *b, const struct bench_stack *stack, const char *optimizer,
                     struct step_times *r, struct error *e)
{
  char name[64];
  snprintf(name, sizeof name, "optimizer=%s", optimizer);
  const char *const keys[][4] = {{name, "device.threads=1"},
                                 {name, "device.threads=2"},
                                 {name, "device.threads=1"},
                                 {name, "device.threads=1", "record.spectra_every=1"}};
  const struct median none = {NAN, NAN, NAN};
  *r = (struct step_times){.stack = stack->name, .optimizer = optimizer, .limit = r->limit};
  r->maxima = r->record = r->spectra = r->against = none;
  struct engine all[4] = {0};
  /* for steps of seconds, the cost of recording is measured only if that stack is requested */
  const int engines = b->stack || stack < &bench_stacks[BENCH_QUICK] ? 4 : 2;
  int status = STATUS_OK;
  bench_doing(stack->name, optimizer);
  for (int i = 0; !status && i < engines; i++)
    status = engine_open(&all[i], b, stack, i < 2 ? -1 : i, keys[i], e);
  if (!status) {
    const struct train_options *t = config_section(all[0].config, "train");
    r->tokens = (double)(trainer_model(all[0].trainer)->options.context * t->batch);
    status = measure(b, &all[0], &all[1], &all[2], &all[3], r, e);
  }
  if (!status && b->earlier) compare_with(b->earlier, r);
  for (int i = 0; i < 4; i++) {
    engine_close(&all[i]);
    if (i >= 2) bench_forget(b, i);
  }
  bench_doing(NULL, NULL);
  return status;
}

static void print_result(const struct step_times *r)
{
  const struct bench_operations *o = &r->operations;
  double total = bench_sum(o->seconds), gflops = r->flops / r->seconds * 1e-9;
  printf("%s, %s: %.2f steps/s, %.0f tokens/s, %.1f GFLOP/s = %.0f %% of sgemm (%.1f at %d)\n", r->stack,
         r->optimizer, 1 / r->seconds, r->tokens / r->seconds, gflops, 100 * gflops / r->limit.gflops,
         r->limit.gflops, r->limit.size);
  if (!isnan(r->against.middle))
    printf("  %-34s %.3f times   (95 %%: %.3f to %.3f), sgemm %.3f times\n", "as fast as then",
           r->against.middle, r->against.low, r->against.high, r->sgemm);
  bench_put(NULL, NULL, "maxima and entropy", &r->maxima);
  bench_put(NULL, NULL, "recording every step", &r->record);
  bench_put(NULL, NULL, "spectra every 10 steps", &r->spectra);
  printf("  %-34s %.2f times   (95 %%: %.2f to %.2f), %.2f at the least steps, bits %s\n", "two threads",
         r->two.middle, r->two.low, r->two.high, r->two_least, r->same_bits ? "the same" : "DIFFERENT");
  printf("  %-34s %zu\n", "allocations in a step", r->allocations);
  printf("  %-34s %ld, %ld\n", "calls of a step, waits of the host", r->calls, r->waits);
  for (int op = 0; op < OP_COUNT; op++)
    if (o->seconds[op] > 0.002 * total) {
      printf("    %-24s %5.1f %%  %6ld calls", op_name(op), 100 * o->seconds[op] / total, o->calls[op]);
      if (o->work[op] > 0) printf("  %6.1f GFLOP/s", o->work[op] / o->seconds[op] * 1e-9);
      printf("\n");
    }
  fflush(stdout);
}

static json_t *json_result(const struct step_times *r)
{
  double gflops = r->flops / r->seconds * 1e-9;
  return json_pack(
    "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}",
    "stack", r->stack, "optimizer", r->optimizer, "step_seconds", bench_ratio(&r->step), "against",
    bench_ratio(&r->against), "steps_per_second", json_number(1 / r->seconds), "tokens_per_second",
    json_number(r->tokens / r->seconds), "gflops", json_number(gflops), "sgemm_gflops",
    json_number(r->limit.gflops), "fraction", json_number(gflops / r->limit.gflops), "allocations",
    (json_int_t)r->allocations, "calls", (json_int_t)r->calls, "waits", (json_int_t)r->waits, "same_bits",
    r->same_bits, "maxima", bench_ratio(&r->maxima), "recording", bench_ratio(&r->record), "spectra",
    bench_ratio(&r->spectra), "two_threads", bench_ratio(&r->two), "two_threads_least",
    json_number(r->two_least), "operations", bench_operations(&r->operations, 1));
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
  struct engine with = {0}, without = {0};
  struct contrast c;
  bench_doing(what, name);
  int status = engine_open(&without, b, stack, -1, keys, e);
  for (int i = 0; more[i]; i++) keys[2 + i] = more[i];
  if (!status) status = engine_open(&with, b, stack, -1, keys, e);
  if (!status) status = contrast(b, &with, &without, &c, e);
  engine_close(&with);
  engine_close(&without);
  bench_doing(NULL, NULL);
  if (!status) bench_put(out, name, name, &c.ratio);
  return status;
}

/* All plug-ins of a kind on the toy stack, by the key that names them, but the one that they are held against. */
static int bench_plugins(const struct bench *b, const char *kind, const char *what, const char *key,
                         const char *optimizer, const char *but, json_t *out, struct error *e)
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
        bench_keys(&half, &bench_stacks[0], what, names[i], optimizer, (const char *[]){more, NULL}, out,
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
    status = bench_plugins(b, "optimizer", "optimizers", "optimizer", "optimizer=adam", "adam",
                           json_object_get(all, "optimizers"), e);
  if (!status && !all) printf("stabilizers, toy stack under muon, against none:\n");
  if (!status)
    status = bench_plugins(b, "stabilizer", "stabilizers", "stabilizers", "optimizer=muon", "none",
                           json_object_get(all, "stabilizers"), e);
  if (!status && !all)
    printf("8 experts, 2 active, against dense blocks of the same operations a token: passes alone, and "
           "steps of adam, "
           "which has four times the weights of the blocks to update:\n");
  if (!status) status = bench_experts(b, json_object_get(all, "experts"), e);
  if (all && !status)
    json_print(all);
  else
    json_decref(all);
  return status;
}
