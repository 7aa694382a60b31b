/* bench_attention.c - attention by itself on a GPU: against that device's limits, and the cost of its maxima */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "analysis/json.h"
#include "app/bench.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

enum { FEWEST_ROUNDS = 5, MOST_CALLS = 1000, INPUTS = 4, OUTPUTS = 6 };

static const struct attention_shape {
  long batch, length, heads, size;
} shapes[] = {{8, 64, 4, 16}, {4, 4096, 16, 64}, {4, 4096, 16, 128}}, tiny_shape = {1, 4, 1, 8};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* One attention layer: its tensors and its calls. */
struct lone_layer {
  struct device *device;
  struct tensor *in[INPUTS], *start, *out[OUTPUTS]; /* q, k, v, do; o, ml, stats, dq, dk, dv */
  union op_args forward, backward;
};

static void layer_open(struct lone_layer *l, struct device *device, const struct attention_shape *s)
{
  const long rows = s->batch * s->length, cols = s->heads * s->size;
  const struct attention_score score = {
    .batch = s->batch, .heads = s->heads, .groups = s->heads, .scale = 1 / sqrt((double)s->size)};
  const size_t count = (size_t)(rows * cols);
  real *drawn = memory_new(count, sizeof *drawn);
  *l = (struct lone_layer){.device = device};
  for (int i = 0; i < INPUTS; i++) {
    for (size_t j = 0; j < count; j++) /* of unit variance, and quickly made */
      drawn[j] = (real)(3.46 * (draw_uniform((struct draw){1, 0, (uint64_t)i}, j % 65536) - 0.5));
    l->in[i] = tensor_new(device, TENSOR_REAL, rows, cols, "in");
    device->upload(device, l->in[i]->data, drawn, count * sizeof *drawn);
  }
  memory_free(drawn);
  l->start = tensor_new(device, TENSOR_INT, 1, rows, "start");
  for (int i = 0; i < OUTPUTS; i++)
    l->out[i] = tensor_new(device, TENSOR_REAL, i == 2 ? s->heads : rows,
                           i == 1   ? 2 * s->heads
                           : i == 2 ? 4
                                    : cols,
                           "out");
  struct attention_forward_args *f = &l->forward.attention_forward;
  f->q = l->in[0], f->k = l->in[1], f->v = l->in[2], f->start = l->start, f->score = score;
  f->o = l->out[0], f->ml = l->out[1], f->stats = l->out[2];
  struct attention_backward_args *g = &l->backward.attention_backward;
  g->q = f->q, g->k = f->k, g->v = f->v, g->start = f->start, g->score = score, g->o = f->o, g->ml = f->ml;
  g->do_ = l->in[3], g->dq = l->out[3], g->dk = l->out[4], g->dv = l->out[5];
}

static void layer_close(struct lone_layer *l)
{
  for (int i = 0; i < INPUTS; i++) tensor_free(l->device, l->in[i]);
  for (int i = 0; i < OUTPUTS; i++) tensor_free(l->device, l->out[i]);
  tensor_free(l->device, l->start);
}

/* So many calls, kept to be replayed. The first is made at once, so that scratch is there. */
static void *keep(struct lone_layer *l, enum op op, const struct ops *ops, int calls)
{
  const union op_args *args = op == OP_attention_forward ? &l->forward : &l->backward;
  const struct ops whole = l->device->ops;
  l->device->ops = *ops;
  op_run(l->device, op, args);
  l->device->wait(l->device);
  l->device->begin(l->device);
  for (int i = 0; i < calls; i++) op_run(l->device, op, args);
  l->device->ops = whole;
  return l->device->end(l->device);
}

static double seconds_of(struct lone_layer *l, void *kept)
{
  double began = clock_seconds();
  l->device->replay(l->device, kept);
  l->device->wait(l->device);
  return clock_seconds() - began;
}

struct two_kept {
  struct lone_layer *layer;
  void *kept[2];
};
static double seconds_kept(void *context, int which)
{
  struct two_kept *x = context;
  return seconds_of(x->layer, x->kept[which]);
}

/* Seconds of one call by the first table, the least of all rounds; and the ratio of both, in turn. */
static double compare(struct lone_layer *l, enum op op, const struct ops *a, const struct ops *b,
                      double seconds, struct median *ratio)
{
  struct contrast c;
  void *one = keep(l, op, a, 1);
  int calls = (int)fmin(MOST_CALLS, fmax(1, 0.1 * seconds / seconds_of(l, one)));
  l->device->forget(l->device, one);
  struct two_kept x = {l, {keep(l, op, a, calls), keep(l, op, b, calls)}};
  bench_contrast(seconds, FEWEST_ROUNDS, seconds_kept, &x, &c);
  for (int i = 0; i < 2; i++) l->device->forget(l->device, x.kept[i]);
  *ratio = c.ratio;
  return c.least[0] / calls;
}

static void put(const struct attention_shape *s, const char *math, double forward, double backward,
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

int bench_attention(struct device *device, const struct cuda_limits *limits, int tiny, double seconds,
                    json_t *rows, struct error *e)
{
  const double limit[] = {limits->fma, limits->tf32, limits->bf16};
  const struct cuda_plugin *plugin = cuda_plugin(e);
  const struct ops whole = device->ops;
  struct ops quiet = whole;
  int status = plugin ? STATUS_OK : e->status;
  if (status) return status;
  plugin->without_maxima(&quiet);
  if (!rows)
    printf(
      "attention alone, TFLOP/s and share of the limit: forward, backward; cost of maxima and entropy in "
      "the forward pass (95 %%)\n");
  for (int i = 0; !status && i < (tiny ? 1 : SHAPES); i++) {
    const struct attention_shape *s = tiny ? &tiny_shape : &shapes[i];
    struct lone_layer l;
    layer_open(&l, device, s);
    for (int math = MATH_FP32; !status && math <= MATH_BF16; math++) {
      struct median maxima, none;
      if ((status = device_set_math(device, (enum device_math)math, e))) break;
      double forward = compare(&l, OP_attention_forward, &whole, &quiet, seconds, &maxima);
      double backward = compare(&l, OP_attention_backward, &whole, &whole, seconds, &none);
      put(s, device_math_names[math], op_flops(OP_attention_forward, &l.forward) / forward,
          op_flops(OP_attention_backward, &l.backward) / backward, limit[math], &maxima, rows);
    }
    layer_close(&l);
  }
  int back = device_set_math(device, MATH_FP32, e);
  return status ? status : back;
}
