/* bench_cuda.c - maxlogit bench device=cuda: runs together on a GPU, against that device's own measured limits */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "numerics/cuda_plugin.h"
#include "run/batched_run.h"

enum { WARM_UP = 8, TRIAL = 12, FEWEST = 20, MOST_STEPS = 100000 };
static const int together[] = {1, 8, 64, 128, 256};

/* The runs that are measured: a stack with additional keys. */
struct bench_setting {
  const struct bench_stack *stack;
  const char *keys[2];
  int runs, records;
};

static struct config *configured(const struct bench *b, const struct bench_setting *s, int run, long steps,
                                 struct error *e)
{
  char told[2][48];
  const char *keys[8] = {"device=cuda", told[0], told[1], s->keys[0], s->keys[1]};
  snprintf(told[0], sizeof told[0], "train.steps=%ld", steps);
  snprintf(told[1], sizeof told[1], "train.seed=%d", run + 1);
  return bench_config(b, s->stack, keys, s->records ? run : -1, e);
}

/* Seconds of a step of all runs, and the share of them in which the host waits for the device: above 0 the device, not
   the host, bounds the speed. */
struct pace {
  double seconds, idle;
};

/* The clock after WARM_UP reported steps and before the last step, and the host's waiting time in between. The device
   lags by the same number of steps at both; the last step also includes validation and files. */
struct stopwatch {
  const struct cuda_plugin *plugin;
  double from, to, waited_from, waited_to;
};

static void after_step(void *context, int run, const struct trainer *t)
{
  struct stopwatch *w = context;
  if (run) return;
  const double now = clock_seconds(), waited = w->plugin->waited(trainer_device(t));
  if (trainer_status(t).done == WARM_UP) w->from = now, w->waited_from = waited;
  if (trainer_status(t).done == trainer_status(t).steps - 1) w->to = now, w->waited_to = waited;
}

static int time_steps(const struct bench *b, const struct bench_setting *s, long steps, struct pace *pace,
                      struct error *e)
{
  struct batched_run *run = memory_new((size_t)s->runs, sizeof *run);
  struct stopwatch w = {.plugin = cuda_plugin(e)};
  int status = w.plugin ? STATUS_OK : e->status;
  for (int i = 0; !status && i < s->runs; i++) {
    run[i].flags = s->records ? 0 : TRAINER_NO_RECORD;
    run[i].config = configured(b, s, i, WARM_UP + steps + 1, e);
    if (!run[i].config) status = e->status;
  }
  if (!status)
    batched_run_drive(run, s->runs, thread_cores(),
                      &(struct batched_run_hooks){.step = after_step, .context = &w});
  for (int i = 0; i < s->runs; i++) {
    if (!status && run[i].status) *e = run[i].error, status = run[i].status;
    config_free(run[i].config);
    if (s->records) bench_forget(b, i);
  }
  memory_free(run);
  pace->seconds = (w.to - w.from) / (double)steps;
  pace->idle = (w.waited_to - w.waited_from) / (w.to - w.from);
  return status;
}

static int measure(const struct bench *b, const struct bench_setting *s, struct pace *pace, struct error *e)
{
  int status = time_steps(b, s, TRIAL, pace, e);
  if (status || TRIAL * pace->seconds >= b->seconds) return status;
  return time_steps(b, s, (long)fmin(MOST_STEPS, fmax(FEWEST, b->seconds / pace->seconds)), pace, e);
}

/* --- one run by itself: work, waits, and the time of every operation ------------------------------------------ */
struct alone {
  struct bench_operations operations;
  double bytes;
  long waits, nodes, path; /* of a step: launches, and of these as many as wait one for another */
};

static int look_alone(const struct bench *b, const struct bench_setting *s, struct alone *a, struct error *e)
{
  struct engine g;
  int status = engine_open(&g, configured(b, s, 0, 1000000, e), TRAINER_NO_RECORD, e);
  if (!status) {
    const struct device *d = trainer_device(g.trainer);
    a->bytes = (double)d->given;
    for (int i = 0; !status && i < WARM_UP; i++) status = trainer_step(g.trainer, e);
    const long before = d->waits, nodes = d->nodes, path = d->path;
    for (int i = 0; !status && i < WARM_UP; i++) status = trainer_step(g.trainer, e);
    a->waits = (d->waits - before) / WARM_UP;
    a->nodes = (d->nodes - nodes) / WARM_UP, a->path = (d->path - path) / WARM_UP;
    if (!status) status = bench_step(g.trainer, &a->operations, e);
  }
  engine_close(&g);
  return status;
}

/* --- output ---------------------------------------------------------------------------------------------------- */

static double limit_of(const struct cuda_limits *l, const char *math)
{
  return !strcmp(math, "bf16") ? l->bf16 : !strcmp(math, "tf32") ? l->tf32 : l->fp32;
}

struct output {
  const struct bench *bench;
  const struct cuda_plugin *plugin;
  struct cuda_limits limits;
  struct gpu gpu;
  json_t *all; /* NULL: text */
};

static void put_row(const struct output *o, const struct bench_setting *s, const struct alone *a,
                    const struct pace *pace)
{
  double seconds = pace->seconds, rate = bench_sum(a->operations.work) * s->runs / seconds,
         limit = limit_of(&o->limits, s->stack->math);
  if (o->all)
    json_array_append_new(
      json_object_get(o->all, "stacks"),
      json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "stack", s->stack->name, "math",
                s->stack->math, "runs", s->runs, "run_steps_per_second", json_number(s->runs / seconds),
                "flops", json_number(rate), "fraction_of_limit", json_number(rate / limit), "waits_per_step",
                (json_int_t)a->waits, "nodes", (json_int_t)a->nodes, "critical_path", (json_int_t)a->path,
                "host_waits", json_number(pace->idle)));
  else
    printf("%-7s %-5s %5d %14.1f %10.2f %9.1f %% %7ld %9.1f %%\n", s->stack->name, s->stack->math, s->runs,
           s->runs / seconds, rate * 1e-12, 100 * rate / limit, a->waits, 100 * pace->idle),
      fflush(stdout);
}

static void put_operations(const struct output *o, const struct bench_setting *s, const struct alone *a)
{
  if (o->all) {
    json_object_set_new(json_object_get(o->all, "operations"), s->stack->name,
                        bench_operations(&a->operations));
    return;
  }
  printf("%s, one run: %ld launches a step, %ld of them one after another; call by call by the device's "
         "clock:\n",
         s->stack->name, a->nodes, a->path);
  bench_print_operations(&a->operations, 0.01);
}

static int bench_stack(const struct output *o, const struct bench_stack *stack, struct error *e)
{
  char math[32];
  snprintf(math, sizeof math, "device.math=%s", stack->math);
  struct bench_setting s = {.stack = stack, .keys = {"optimizer=muon", math}, .runs = 1};
  struct alone a;
  int status = look_alone(o->bench, &s, &a, e);
  for (size_t i = 0; !status && i < sizeof together / sizeof *together; i++) {
    struct pace pace;
    s.runs = together[i];
    if (s.runs == 128 && stack != &bench_stacks[0])
      continue; /* runs that a sweep gives to one batch, of the toy */
    if (s.runs > o->bench->most_runs) break;
    if (a.bytes * s.runs > 0.9e9 * o->gpu.free_gigabytes) {
      if (!o->all)
        printf("%-7s %-5s %5d  %.0f GB: more than the device has\n", stack->name, stack->math, s.runs,
               a.bytes * s.runs * 1e-9);
      break;
    }
    status = measure(o->bench, &s, &pace, e);
    if (!status) put_row(o, &s, &a, &pace);
  }
  if (!status) put_operations(o, &s, &a);
  return status;
}

static void put_cost(const struct output *o, const char *what, int runs, const struct pace *slow,
                     const struct pace *quick)
{
  const double with = slow->seconds, without = quick->seconds;
  char name[96];
  snprintf(name, sizeof name, "%s, %d run%s", what, runs, text_s(runs));
  if (o->all)
    json_object_set_new(json_object_get(o->all, "costs_on_toy"), name, json_number(with / without));
  else
    printf("  %-40s %+.1f %%\n", name, 100 * (with / without - 1)), fflush(stdout);
}

/* The costs of recording and of every stabilizer, on the toy stack. */
static int bench_costs(const struct output *o, int runs, struct error *e)
{
  struct bench_setting plain = {.stack = &bench_stacks[0], .keys = {"optimizer=muon"}, .runs = runs},
                       s = plain;
  struct pace without, with;
  if (measure(o->bench, &plain, &without, e)) return e->status;
  s.records = 1;
  if (measure(o->bench, &s, &with, e)) return e->status;
  put_cost(o, "recording every step", runs, &with, &without);
  for (int i = 0; stabilizers[i]; i++) {
    char key[96];
    struct error refused = {0};
    if (!strcmp(stabilizers[i]->name, "none")) continue;
    s = plain;
    snprintf(key, sizeof key, "stabilizers=%s", stabilizers[i]->name);
    s.keys[1] = key;
    if (measure(o->bench, &s, &with, &refused)) continue; /* it does not go with this stack */
    put_cost(o, stabilizers[i]->name, runs, &with, &without);
  }
  return STATUS_OK;
}

/* --- attention alone: against the device's limits, and the cost of its maxima ---------------------------------- */

/* Heads of the toy stack, and of 64 and 128 on 4096 tokens; the last is of the stack tiny. */
static const struct attention_shape {
  long batch, length, heads, size;
} shapes[] = {{8, 64, 4, 16}, {4, 4096, 16, 64}, {4, 4096, 16, 128}, {1, 4, 1, 8}};
enum { SHAPES = sizeof shapes / sizeof *shapes - 1, INPUTS = 4, OUTPUTS = 6, MOST_CALLS = 1000 };

struct lone_layer {
  struct device *device;
  struct ops ops, quiet;                            /* quiet: without maxima */
  struct tensor *in[INPUTS], *start, *out[OUTPUTS]; /* q, k, v, do; o, ml, stats, dq, dk, dv */
  union op_args forward, backward;
};

static void layer_open(struct lone_layer *l, const struct attention_shape *s)
{
  struct device *device = l->device;
  const long rows = s->batch * s->length, cols = s->heads * s->size;
  const struct attention_score score = {
    .batch = s->batch, .heads = s->heads, .groups = s->heads, .scale = 1 / sqrt((double)s->size)};
  const size_t count = (size_t)(rows * cols);
  real *drawn = memory_new(count, sizeof *drawn);
  for (int i = 0; i < INPUTS; i++) {
    for (size_t j = 0; j < count; j++) /* of unit variance, and quickly made */
      drawn[j] = (real)(3.46 * (draw_uniform((struct draw){1, 0, (uint64_t)i}, j % 65536) - 0.5));
    l->in[i] = tensor_new(device, TENSOR_REAL, rows, cols, "in");
    device->upload(device, l->in[i]->data, drawn, count * sizeof *drawn);
  }
  memory_free(drawn);
  l->start = tensor_new(device, TENSOR_INT, 1, rows, "start");
  for (int i = 0; i < OUTPUTS; i++) {
    const long wide = i == 1 ? 2 * s->heads : i == 2 ? 4 : cols;
    l->out[i] = tensor_new(device, TENSOR_REAL, i == 2 ? s->heads : rows, wide, "out");
  }
  struct tensor *const *in = l->in, *const *out = l->out;
  l->forward.attention_forward = (struct attention_forward_args){.q = in[0],
                                                                 .k = in[1],
                                                                 .v = in[2],
                                                                 .start = l->start,
                                                                 .score = score,
                                                                 .o = out[0],
                                                                 .ml = out[1],
                                                                 .stats = out[2]};
  l->backward.attention_backward = (struct attention_backward_args){.q = in[0],
                                                                    .k = in[1],
                                                                    .v = in[2],
                                                                    .start = l->start,
                                                                    .score = score,
                                                                    .o = out[0],
                                                                    .ml = out[1],
                                                                    .do_ = in[3],
                                                                    .dq = out[3],
                                                                    .dk = out[4],
                                                                    .dv = out[5]};
}

static void layer_close(struct lone_layer *l)
{
  for (int i = 0; i < INPUTS; i++) tensor_free(l->device, l->in[i]);
  for (int i = 0; i < OUTPUTS; i++) tensor_free(l->device, l->out[i]);
  tensor_free(l->device, l->start);
}

/* So many calls with the operations of a table, which the device has kept: it keeps them in the second run. */
static struct program *keep(struct lone_layer *l, enum op op, const struct ops *ops, int calls)
{
  struct program *p = program_new(l->device);
  for (int i = 0; i < calls; i++)
    program_call(p, op, op == OP_attention_forward ? &l->forward : &l->backward);
  program_plan(p);
  l->device->ops = *ops;
  for (int i = 0; i < 2; i++) program_run(p);
  l->device->ops = l->ops;
  l->device->wait(l->device);
  return p;
}

/* FLOP/s of the layer's calls, at the least of all rounds; and the ratio to those of another table, in turn. */
static double flops_of(struct lone_layer *l, enum op op, const struct ops *other, double seconds,
                       struct median *ratio)
{
  struct contrast c;
  struct bench_programs x = {{keep(l, op, &l->ops, 1)}, 1};
  const int calls = (int)fmin(MOST_CALLS, fmax(1, 0.1 * seconds / bench_seconds_of(&x, 0)));
  program_free(x.of[0]);
  x.of[0] = keep(l, op, &l->ops, calls), x.of[1] = keep(l, op, other, calls);
  bench_contrast(seconds, BENCH_ROUNDS, bench_seconds_of, &x, &c);
  for (int i = 0; i < 2; i++) program_free(x.of[i]);
  *ratio = c.ratio;
  return op_flops(op, op == OP_attention_forward ? &l->forward : &l->backward) * calls / c.least[0];
}

static void put_attention(const struct attention_shape *s, const char *math, double forward, double backward,
                          double limit, const struct median *maxima, json_t *rows)
{
  if (rows)
    json_array_append_new(rows, json_pack("{s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o}", "batch",
                                          (json_int_t)s->batch, "length", (json_int_t)s->length, "heads",
                                          (json_int_t)s->heads, "size", (json_int_t)s->size, "math", math,
                                          "forward_flops", json_number(forward), "backward_flops",
                                          json_number(backward), "limit", json_number(limit), "maxima",
                                          bench_ratio(maxima)));
  else
    printf("  %ld x %ld tokens, %ld heads of %-4ld %-5s %8.2f %6.1f %% %8.2f %6.1f %%  %+6.2f %% (%+.2f to "
           "%+.2f)\n",
           s->batch, s->length, s->heads, s->size, math, forward * 1e-12, 100 * forward / limit,
           backward * 1e-12, 100 * backward / limit, 100 * (maxima->middle - 1), 100 * (maxima->low - 1),
           100 * (maxima->high - 1)),
      fflush(stdout);
}

static int bench_layer(const struct output *o, struct lone_layer *l, const struct attention_shape *s,
                       struct error *e)
{
  const double limit[] = {o->limits.fma, o->limits.tf32, o->limits.bf16}, seconds = o->bench->seconds / 4;
  int status = STATUS_OK;
  layer_open(l, s);
  for (int math = MATH_FP32; !status && math <= MATH_BF16; math++) {
    struct median maxima, none;
    if ((status = device_set_math(l->device, (enum device_math)math, e))) break;
    double forward = flops_of(l, OP_attention_forward, &l->quiet, seconds, &maxima);
    double backward = flops_of(l, OP_attention_backward, &l->ops, seconds, &none);
    put_attention(s, device_math_names[math], forward, backward, limit[math], &maxima,
                  json_object_get(o->all, "attention"));
  }
  layer_close(l);
  return status;
}

static int bench_attention(const struct output *o, int tiny, struct error *e)
{
  struct lone_layer l;
  if (device_open(&l.device, "cuda", 1, e)) return e->status;
  l.ops = l.quiet = l.device->ops;
  o->plugin->without_maxima(&l.quiet);
  if (!o->all)
    printf("attention alone, TFLOP/s and share of the limit: forward, backward; cost of maxima and entropy "
           "in the forward pass (95 %%)\n");
  int status = STATUS_OK;
  for (int i = tiny ? SHAPES : 0; !status && i < SHAPES + tiny; i++)
    status = bench_layer(o, &l, &shapes[i], e);
  device_close(l.device);
  return status;
}

static int measure_limits(struct output *o, struct error *e)
{
  struct device *device;
  if (!(o->plugin = cuda_plugin(e))) return error_prefix(e, "device = cuda");
  if (device_open(&device, "cuda", 1, e)) return e->status;
  o->plugin->look(&o->gpu);
  o->plugin->limits(device, &o->limits);
  const struct cuda_limits *l = &o->limits;
  if (o->bench->json)
    o->all = json_pack("{s:s, s:{s:o, s:o, s:o, s:o, s:o}, s:[], s:{}, s:{}, s:[]}", "gpu", o->gpu.name,
                       "limits", "fma", json_number(l->fma), "fp32", json_number(l->fp32), "tf32",
                       json_number(l->tf32), "bf16", json_number(l->bf16), "bytes", json_number(l->bytes),
                       "stacks", "operations", "costs_on_toy", "attention");
  else
    printf("%s\nlimits: FMA %.1f TFLOP/s; products of 8192 x 8192: fp32 %.1f, tf32 %.1f, bf16 %.1f TFLOP/s; "
           "copy %.0f GB/s\n\n",
           device->description, l->fma * 1e-12, l->fp32 * 1e-12, l->tf32 * 1e-12, l->bf16 * 1e-12,
           l->bytes * 1e-9);
  device_close(device);
  return STATUS_OK;
}

int bench_cuda(const struct bench *b, struct error *e)
{
  struct output o = {.bench = b};
  int status = measure_limits(&o, e);
  if (!status && !b->json && !b->costs)
    printf("%-7s %-5s %5s %14s %10s %11s %7s %11s\n", "stack", "math", "runs", "run-steps/s", "TFLOP/s",
           "of limit", "waits", "host idle");
  for (int i = 0; !status && i < BENCH_STACKS && !b->costs; i++)
    if (b->stack ? !strcmp(b->stack, bench_stacks[i].name) : i < BENCH_ON_GPU)
      status = bench_stack(&o, &bench_stacks[i], e);
  const int tiny = b->stack && !strcmp(b->stack, bench_stacks[BENCH_ON_GPU].name);
  if (!status && (tiny || !b->stack)) status = bench_attention(&o, tiny, e);
  if (!status && !b->json && !b->stack) printf("costs, toy stack under muon:\n");
  if (!status && !b->stack) status = bench_costs(&o, 1, e);
  if (!status && !b->stack && b->most_runs >= 64) status = bench_costs(&o, 64, e);
  return bench_print(o.all, status);
}
