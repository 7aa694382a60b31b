/* check_program.c - recorded programs in double precision: gradients against central differences, views,
   placement, replay */
#include "base/memory.h"
#include "base/random.h"
#include "numerics/exchange.h"
#include "numerics/levels.h"
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include "../kinds.h"

enum { BATCH = 2, LENGTH = 5, N = BATCH * LENGTH, VOCAB = 7, MAX_PARAMS = 16 };

/* One recorded program with parameters of its own. */
struct scene {
  struct device *device;
  struct program *program;
  struct tensor *param[MAX_PARAMS];
  int params;
  struct tensor *tokens, *targets, *weight, *position, *start, *table, *loss, *stats;
};

static void fill_normal(struct tensor *t, uint64_t key, double size)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)(size * draw_normal((struct draw){7, STREAM_TEST, key}, (uint64_t)i));
}

static struct tensor *param(struct scene *s, long rows, long cols)
{
  struct tensor *t = tensor_new(s->device, TENSOR_REAL, rows, cols, "param");
  t->grad = tensor_new(s->device, TENSOR_REAL, rows, cols, "gradient");
  fill_normal(t, (uint64_t)s->params, cols == 1 || rows == 1 ? 1 : 1.5 / sqrt((double)cols));
  ck_assert_int_lt(s->params, MAX_PARAMS);
  return s->param[s->params++] = t;
}

static void begin(struct scene *s)
{
  *s = (struct scene){0};
  ck_assert_int_eq(device_open(&s->device, "reference", 1, NULL), STATUS_OK);
  s->program = program_new(s->device);
  s->tokens = program_input(s->program, TENSOR_INT, 1, N, "tokens");
  s->targets = program_input(s->program, TENSOR_INT, N, 1, "targets");
  s->weight = program_input(s->program, TENSOR_REAL, N, 1, "weight");
  s->position = program_input(s->program, TENSOR_INT, 1, N, "position");
  s->start = program_input(s->program, TENSOR_INT, 1, N, "start");
  s->table = program_input(s->program, TENSOR_REAL, LENGTH, 4, "table");
  for (int n = 0; n < N; n++) {
    INTS(s->tokens)[n] = (3 * n + n / 4) % VOCAB;
    INTS(s->targets)[n] = (5 * n + 1) % VOCAB;
    REALS(s->weight)[n] = n == 3 ? 0 : 1.0 / (N - 1);
    INTS(s->position)[n] = n % LENGTH;
    INTS(s->start)[n] = n >= LENGTH + 3 ? 3 : 0; /* a second document in the second sequence */
  }
  for (int i = 0; i < LENGTH * 2; i++) {
    double angle = i / 2 * (i % 2 ? 0.3 : 1.0);
    REALS(s->table)[i / 2 * 4 + i % 2] = (real)cos(angle);
    REALS(s->table)[i / 2 * 4 + 2 + i % 2] = (real)sin(angle);
  }
}

static struct tensor *number(struct program *p, double value)
{
  return program_reals(p, 1, 1, &value, "number");
}

/* y, mixed by a random matrix, into the cross-entropy. */
static void finish(struct scene *s, struct tensor *y)
{
  struct tensor *logits = op_linear(s->program, y, param(s, VOCAB, y->cols), NULL, NULL);
  s->loss = op_cross_entropy(s->program, logits, s->targets, s->weight, number(s->program, 0.01), NULL);
  program_backward(s->program, s->loss);
  program_plan(s->program);
}

/* The loss of logits that exist for `rows` rows at a time; with token_loss, without a reverse. */
static void finish_split(struct scene *s, struct tensor *y, long rows, struct tensor *token_loss)
{
  s->loss = op_split_loss(s->program, y, param(s, VOCAB, y->cols), s->targets, s->weight,
                          number(s->program, 0.01), rows, token_loss);
  if (!token_loss) program_backward(s->program, s->loss);
  program_plan(s->program);
}

static void end(struct scene *s)
{
  program_free(s->program);
  for (int i = 0; i < s->params; i++) {
    tensor_free(s->device, s->param[i]->grad);
    tensor_free(s->device, s->param[i]);
  }
  device_close(s->device);
}

static double run(struct scene *s)
{
  for (int i = 0; i < s->params; i++)
    for (long j = 0; j < s->param[i]->rows * s->param[i]->cols; j++) REALS(s->param[i]->grad)[j] = 0;
  program_run(s->program);
  return (double)REALS(s->loss)[0] + REALS(s->loss)[1];
}

/* --- what is checked: a function of an embedding [N, 8] for each front operation -------------------------- */

static struct tensor *source(struct scene *s, long cols)
{
  return op_embed(s->program, s->tokens, param(s, VOCAB, cols));
}

static struct tensor *build_embed(struct scene *s) { return source(s, 8); }

static struct tensor *build_norm(struct scene *s)
{
  return op_rmsnorm(s->program, source(s, 8), param(s, 1, 8), 8, number(s->program, 1e-6));
}

static struct tensor *build_norm_heads(struct scene *s)
{
  return op_rmsnorm(s->program, source(s, 8), param(s, 1, 4), 4, number(s->program, 1e-2));
}

static struct tensor *build_norm_plain(struct scene *s)
{
  return op_rmsnorm(s->program, source(s, 8), NULL, 2, number(s->program, 1e-6));
}

static struct tensor *build_linear(struct scene *s)
{
  return op_linear(s->program, source(s, 8), param(s, 6, 8), param(s, 1, 6), NULL);
}

static struct tensor *build_residual(struct scene *s) /* two uses of one residual, then a fusion of them */
{
  struct tensor *x = source(s, 8);
  struct tensor *a = op_linear(s->program, x, param(s, 8, 8), NULL, x);
  struct tensor *b = op_linear(s->program, op_rmsnorm(s->program, a, NULL, 8, number(s->program, 1e-6)),
                               param(s, 8, 8), NULL, a);
  struct tensor *c = op_linear(s->program, b, param(s, 8, 8), NULL, a);
  return op_linear(s->program, op_swiglu(s->program, c), param(s, 8, 4), param(s, 1, 8), b);
}

static struct tensor *build_residual_param(struct scene *s)
{
  return op_linear(s->program, source(s, 8), param(s, 6, 8), NULL, param(s, N, 6));
}

static struct tensor *build_tied(struct scene *s) /* a matrix used twice; also as its own input's factor */
{
  struct tensor *x = source(s, 8);
  struct tensor *logits = op_linear(s->program, x, s->param[0], NULL, NULL);
  return op_linear(s->program, logits, param(s, 5, VOCAB), NULL, NULL);
}

static struct tensor *build_rope(struct scene *s)
{
  struct tensor *x = source(s, 8), *y = op_rope(s->program, x, s->position, s->table, 4);
  return op_linear(s->program, y, param(s, 8, 8), NULL, x);
}

static struct tensor *build_scale(struct scene *s)
{
  return op_scale(s->program, source(s, 8), param(s, 1, 1));
}

static struct tensor *join_heads(struct scene *s, int shared) /* of views, and of a tensor used elsewhere */
{
  struct program *p = s->program;
  struct tensor *x = op_linear(p, source(s, 4), param(s, 12, 4), NULL, NULL);
  struct tensor *a = op_columns(p, x, 1, 4), *b = op_columns(p, x, shared ? 4 : 5, shared ? 3 : 6);
  return op_linear(p, op_join_heads(p, a, b, 2, shared), param(s, 4, 10), NULL, a);
}

static struct tensor *build_join_heads(struct scene *s) { return join_heads(s, 0); }
static struct tensor *build_join_shared(struct scene *s) { return join_heads(s, 1); }

static struct tensor *build_join_rows(struct scene *s) /* of a parameter, a result, and one of both */
{
  struct program *p = s->program;
  struct tensor *x = source(s, 8), *w = param(s, 3, 8);
  struct tensor *y = op_linear(p, param(s, 2, 4), param(s, 8, 4), NULL, NULL);
  struct tensor *all = op_join_rows(p, (struct tensor *const[]){w, y, w}, 3);
  struct tensor *beside = op_linear(p, x, param(s, 4, 8), NULL, NULL);
  return op_linear(p, op_linear(p, x, all, NULL, NULL), param(s, 4, 8), NULL, beside);
}

static struct tensor *build_reparam(struct scene *s)
{
  struct program *p = s->program;
  struct tensor *w = param(s, 4, 8), *gain = param(s, 1, 1);
  static real ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static struct tensor u, v;
  u = tensor_of(ones, 1, 4);
  v = tensor_of(ones, 1, 8);
  struct tensor *x = source(s, 8), *plain = op_linear(p, x, w, NULL, NULL);
  return op_linear(p, x, op_reparam(p, w, &u, &v, gain), NULL, plain);
}

static struct tensor *build_swiglu(struct scene *s) { return op_swiglu(s->program, source(s, 8)); }

static struct tensor *build_swiglu_shared(struct scene *s) /* an overwriting operation that has to add */
{
  struct tensor *x = source(s, 8), *y = op_swiglu(s->program, x);
  return op_linear(s->program, y, param(s, 8, 4), NULL, x);
}

static struct tensor *build_columns(struct scene *s) /* overlapping views, a view of a view, unused columns */
{
  struct program *p = s->program;
  struct tensor *x = op_linear(p, source(s, 4), param(s, 12, 4), NULL, NULL);
  struct tensor *a = op_columns(p, x, 1, 4), *b = op_columns(p, x, 3, 6), *c = op_columns(p, b, 1, 4);
  struct tensor *y = op_linear(p, a, param(s, 4, 4), NULL, NULL);
  y = op_linear(p, c, param(s, 4, 4), NULL, y);
  y = op_linear(p, b, param(s, 4, 6), NULL, y);
  return op_linear(p, a, param(s, 4, 4), NULL, y);
}

static struct tensor *build_columns_whole(struct scene *s) /* the owner and its views are used */
{
  struct program *p = s->program;
  struct tensor *x = op_linear(p, source(s, 4), param(s, 8, 4), NULL, NULL);
  struct tensor *y = op_linear(p, op_columns(p, x, 0, 3), param(s, 4, 3), NULL, op_columns(p, x, 2, 4));
  y = op_linear(p, x, param(s, 4, 8), NULL, y);
  return op_linear(p, op_columns(p, x, 5, 3), param(s, 4, 3), NULL, y);
}

static struct tensor *attention(struct scene *s, long heads, long groups, long cap, double value)
{
  struct program *p = s->program;
  long dim = 4, value_dim = 3, q = heads * dim, k = groups * dim;
  struct tensor *x = op_linear(p, source(s, 8), param(s, q + k + groups * value_dim, 8), NULL, NULL);
  struct attention_spec spec = {.score = {.batch = BATCH,
                                          .heads = heads,
                                          .groups = groups,
                                          .scale = 0.9,
                                          .cap = cap,
                                          .cap_value = cap ? number(p, value) : NULL}};
  return op_attention(p, op_columns(p, x, 0, q), op_columns(p, x, q, k),
                      op_columns(p, x, q + k, groups * value_dim), s->start, NULL, &spec, &s->stats);
}

static struct tensor *build_mha(struct scene *s) { return attention(s, 2, 2, 0, 0); }
static struct tensor *build_gqa(struct scene *s) { return attention(s, 4, 2, 0, 0); }
static struct tensor *build_soft_cap(struct scene *s) { return attention(s, 2, 1, 1, 1.5); }
static struct tensor *build_hard_cap(struct scene *s) { return attention(s, 2, 2, 2, 0.7); }

static struct tensor *spared(struct scene *s, long pointwise, long cap, struct tensor *sink)
{
  struct program *p = s->program;
  struct tensor *x = op_linear(p, source(s, 8), param(s, 16 + 8 + 6, 8), NULL, NULL);
  struct attention_spec spec = {.score = {.batch = BATCH,
                                          .heads = 4,
                                          .groups = 2,
                                          .scale = 0.9,
                                          .cap = cap,
                                          .cap_value = cap ? number(p, 1.5) : NULL},
                                .sink = sink,
                                .pointwise = pointwise};
  return op_attention(p, op_columns(p, x, 0, 16), op_columns(p, x, 16, 8), op_columns(p, x, 24, 6), s->start,
                      NULL, &spec, &s->stats);
}

static struct tensor *build_sink(struct scene *s) { return spared(s, 0, 0, param(s, 1, 4)); }
static struct tensor *build_pointwise(struct scene *s) { return spared(s, 1, 0, NULL); }
static struct tensor *build_sigmoid(struct scene *s) { return spared(s, POINTWISE_SIGMOID, 1, NULL); }
static struct tensor *build_softpick(struct scene *s) { return spared(s, POINTWISE_SOFTPICK, 0, NULL); }
static struct tensor *build_softpick_cap(struct scene *s) { return spared(s, POINTWISE_SOFTPICK, 1, NULL); }
static struct tensor *build_pointwise_cap(struct scene *s) { return spared(s, 1, 1, NULL); }

static struct tensor *gated(struct scene *s, long gates)
{
  struct tensor *x = source(s, 8),
                *y = op_gate(s->program, x, op_linear(s->program, x, param(s, gates, 8), NULL, NULL));
  return op_linear(s->program, y, param(s, 8, 8), NULL, x);
}

static struct tensor *build_gate(struct scene *s) { return gated(s, 8); }
static struct tensor *build_gate_heads(struct scene *s) { return gated(s, 2); }

static struct tensor *build_ssmax_scale(struct scene *s)
{
  struct tensor *x = source(s, 8),
                *y = op_ssmax_scale(s->program, x, param(s, 1, 2), s->start, NULL, NULL, BATCH);
  return op_linear(s->program, y, param(s, 8, 8), NULL, x);
}

static struct tensor *build_same_qkv(struct scene *s) /* one tensor in three places */
{
  struct tensor *x = source(s, 8);
  struct attention_spec spec = {.score = {.batch = BATCH, .heads = 2, .groups = 2, .scale = 0.3}};
  return op_attention(s->program, x, x, x, s->start, NULL, &spec, NULL);
}

static struct tensor *build_computed(struct scene *s) /* table, gain and scale are results themselves */
{
  struct program *p = s->program;
  struct tensor *w = op_linear(p, param(s, VOCAB, 4), param(s, 8, 4), NULL, NULL);
  struct tensor *x = op_embed(p, s->tokens, w);
  struct tensor *gain = op_linear(p, param(s, 1, 3), param(s, 8, 3), NULL, NULL);
  struct tensor *size = op_linear(p, param(s, 1, 3), param(s, 1, 3), NULL, NULL);
  return op_linear(p, op_scale(p, op_rmsnorm(p, x, gain, 8, number(p, 1e-6)), size), w, NULL, NULL);
}

static const struct {
  const char *name;
  struct tensor *(*build)(struct scene *);
  int kinks; /* of the second derivative: a step must not go over many of them */
} cases[] = {
  {"embed", build_embed, 0},
  {"rmsnorm", build_norm, 0},
  {"rmsnorm by head", build_norm_heads, 0},
  {"rmsnorm without gain", build_norm_plain, 0},
  {"linear", build_linear, 0},
  {"residual", build_residual, 0},
  {"residual from a parameter", build_residual_param, 0},
  {"tied", build_tied, 0},
  {"rope", build_rope, 0},
  {"scale", build_scale, 0},
  {"join heads", build_join_heads, 0},
  {"join heads, one shared", build_join_shared, 0},
  {"join rows", build_join_rows, 0},
  {"reparam", build_reparam, 0},
  {"swiglu", build_swiglu, 0},
  {"swiglu shared", build_swiglu_shared, 0},
  {"columns", build_columns, 0},
  {"columns and owner", build_columns_whole, 0},
  {"mha", build_mha, 0},
  {"gqa", build_gqa, 0},
  {"soft cap", build_soft_cap, 0},
  {"hard cap", build_hard_cap, 0},
  {"sink", build_sink, 0},
  {"pointwise", build_pointwise, 1},
  {"pointwise under a cap", build_pointwise_cap, 1},
  {"sigmoid under a cap", build_sigmoid, 0},
  {"softpick", build_softpick, 1},
  {"softpick under a cap", build_softpick_cap, 1},
  {"gate", build_gate, 0},
  {"gate by head", build_gate_heads, 0},
  {"by keys", build_ssmax_scale, 0},
  {"same qkv", build_same_qkv, 0},
  {"computed", build_computed, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* --- gradients ----------------------------------------- */

static void move(struct tensor *t, const struct tensor *start, const struct tensor *update, double h)
{
  for (long i = 0; i < t->rows * t->cols; i++) REALS(t)[i] = (real)(REALS(start)[i] + h * REALS(update)[i]);
}

/* (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h: its error is h^4 f'''''/30 */
static double slope(struct scene *s, struct tensor *t, const struct tensor *start,
                    const struct tensor *update, double h)
{
  double f[5];
  for (int i = -2; i <= 2; i++) {
    move(t, start, update, i * h);
    f[i + 2] = run(s);
  }
  move(t, start, update, 0);
  return (8 * (f[3] - f[1]) - (f[4] - f[0])) / (12 * h);
}

START_TEST(gradient_is_the_slope)
{
  struct scene s;
  begin(&s);
  finish(&s, cases[_i].build(&s));
  for (int i = 0; i < s.params; i++) {
    struct tensor *t = s.param[i];
    struct tensor *start = tensor_new(s.device, TENSOR_REAL, t->rows, t->cols, "start");
    struct tensor *update = tensor_new(s.device, TENSOR_REAL, t->rows, t->cols, "direction");
    fill_normal(update, 100 + (uint64_t)i, 1);
    move(start, t, update, 0);
    run(&s);
    double claimed = 0;
    for (long j = 0; j < t->rows * t->cols; j++) claimed += (double)REALS(t->grad)[j] * REALS(update)[j];
    double measured = slope(&s, t, start, update, cases[_i].kinks ? 1e-6 : 2e-4);
    ck_assert_msg(fabs(claimed - measured) <= 1e-7 * fabs(measured),
                  "%s, parameter %d: gradient %.12g, slope %.12g", cases[_i].name, i, claimed, measured);
    tensor_free(s.device, start);
    tensor_free(s.device, update);
  }
  end(&s);
}
END_TEST

/* --- placement and replay ----------------------------------------- */

static int has_own_memory(const struct tensor *t) { return !t->base && t->first >= 0; }

START_TEST(live_tensors_never_overlap)
{
  struct scene s;
  begin(&s);
  finish(&s, cases[_i].build(&s));
  size_t sum = 0;
  const struct tensor *a, *b;
  for (int i = 0; (a = program_tensor(s.program, i)); i++) {
    if (!has_own_memory(a)) continue;
    const char *from = a->data, *to = from + (size_t)(a->rows * a->cols) * sizeof(real);
    ck_assert_uint_eq((uintptr_t)a->data % 64, 0);
    sum += (size_t)(to - from) + 63;
    for (int j = 0; j < i; j++) {
      b = program_tensor(s.program, j);
      if (!has_own_memory(b) || a->first > b->last || b->first > a->last) continue;
      const char *other = b->data, *end_of_other = other + (size_t)(b->rows * b->cols) * sizeof(real);
      ck_assert_msg(to <= other || end_of_other <= from, "%s and %s overlap", a->name, b->name);
    }
  }
  ck_assert_uint_le(program_bytes(s.program), sum);
  end(&s);
}
END_TEST

/* Nothing of an earlier run is used: after NaN everywhere, the same bits. And a run allocates nothing. */
START_TEST(replay_gives_the_same_bits)
{
  struct scene s;
  begin(&s);
  finish(&s, cases[_i].build(&s));
  double first = run(&s);
  ck_assert(isfinite(first));
  const struct tensor *t;
  for (int i = 0; (t = program_tensor(s.program, i)); i++)
    for (long j = 0; has_own_memory(t) && j < t->rows * t->cols; j++) REALS(t)[j] = NAN;
  size_t calls = memory_calls();
  double again = run(&s);
  ck_assert_uint_eq(memory_calls(), calls);
  ck_assert_double_eq(first, again);
  for (int i = 0; i < s.params; i++)
    for (long j = 0; j < s.param[i]->rows * s.param[i]->cols; j++)
      ck_assert(isfinite(REALS(s.param[i]->grad)[j]));
  end(&s);
}
END_TEST

START_TEST(kept_tensors_survive_the_run)
{
  struct scene s;
  begin(&s);
  finish(&s, build_mha(&s));
  run(&s);
  for (int h = 0; h < 2; h++) {
    ck_assert(isfinite(REALS(s.stats)[4 * h]));
    ck_assert(REALS(s.stats)[4 * h + 1] >= fabs(REALS(s.stats)[4 * h]));
  }
  const struct tensor *t;
  for (int i = 0; (t = program_tensor(s.program, i)); i++)
    if (t != s.stats && has_own_memory(t) && t->first > s.stats->first)
      ck_assert((char *)t->data >= (char *)s.stats->data + s.stats->rows * 4 * (long)sizeof(real) ||
                (char *)t->data + t->rows * t->cols * (long)sizeof(real) <= (char *)s.stats->data);
  end(&s);
}
END_TEST

/* Parameters gather over micro-batches: two runs without zeroing give twice the gradient. */
START_TEST(parameter_gradients_add)
{
  struct scene s;
  begin(&s);
  finish(&s, build_linear(&s));
  run(&s);
  double once = REALS(s.param[1]->grad)[5];
  program_run(s.program);
  ck_assert_double_eq_tol(REALS(s.param[1]->grad)[5], 2 * once, 1e-15 * fabs(once));
  ck_assert(once != 0);
  end(&s);
}
END_TEST

/* Multiplications and additions, counted one by one. */
START_TEST(work_is_counted)
{
  long pairs = 0, products = 0, lower = 0;
  struct tensor q = tensor_of(NULL, N, 4 * 6), k = tensor_of(NULL, N, 2 * 6), v = tensor_of(NULL, N, 2 * 5);
  struct tensor a = tensor_of(NULL, 7, 3), b = tensor_of(NULL, 7, 4), c = tensor_of(NULL, 3, 4);
  struct tensor square = tensor_of(NULL, 7, 7), narrow = tensor_of(NULL, 3, 3);
  for (int i = 0; i < BATCH; i++)
    for (int t = 0; t < LENGTH; t++)
      for (int j = 0; j <= t; j++) pairs++;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++)
      for (int p = 0; p < 7; p++) products++;
  for (int i = 0; i < 7; i++)
    for (int j = 0; j <= i; j++) lower += 3;
  union op_args args = {
    .attention_forward = {.q = &q, .k = &k, .v = &v, .batch = BATCH, .heads = 4, .groups = 2}};
  double forward = op_flops(OP_attention_forward, &args);
  ck_assert_double_eq(forward, (double)(2 * pairs * 4 * (6 + 5)));
  args = (union op_args){
    .attention_backward = {.q = &q, .k = &k, .v = &v, .batch = BATCH, .heads = 4, .groups = 2}};
  ck_assert_double_eq(op_flops(OP_attention_backward, &args), 2 * forward);
  args = (union op_args){.matmul = {.c = &c, .a = &a, .b = &b, .ta = 1, .alpha = 1}};
  ck_assert_double_eq(op_flops(OP_matmul, &args), (double)(2 * products));
  args = (union op_args){.gram = {.c = &square, .a = &a, .alpha = 1}};
  ck_assert_double_eq(op_flops(OP_gram, &args), (double)(2 * lower));
  args = (union op_args){.gram = {.c = &narrow, .a = &a, .ta = 1, .alpha = 1}};
  ck_assert_double_eq(op_flops(OP_gram, &args), (double)(2 * (1 + 2 + 3) * 7));
  /* of 64 x 176, five steps: X is multiplied after each, or after the third and the last */
  struct tensor place = tensor_of(NULL, 1, 3);
  for (int gram = 0; gram < 2; gram++) {
    const double short_side = 64 * 65 * 64, with_x = 64 * 65 * 176 + 2 * 64 * 64 * 176;
    args = (union op_args){
      .newton_schulz = {
        .place = &place, .rows = 176, .cols = 64, .steps = 5, .first = gram ? 3 : 1, .then = gram ? 2 : 1}};
    ck_assert_double_eq(op_flops(OP_newton_schulz, &args),
                        3 * (gram ? 2 * with_x + 14 * short_side : 5 * with_x + 5 * short_side));
  }
}
END_TEST

START_TEST(reading_before_writing_is_a_bug)
{
  struct scene s;
  begin(&s);
  struct tensor *t = program_temporary(s.program, 2, 2, "never written"),
                *y = program_temporary(s.program, 2, 2, "y");
  program_call(s.program, OP_copy, &(struct copy_args){.y = y, .x = t});
}
END_TEST

START_TEST(shapes_that_do_not_fit_are_a_bug)
{
  struct scene s;
  begin(&s);
  op_linear(s.program, source(&s, 8), param(&s, 4, 9), NULL, NULL);
}
END_TEST

START_TEST(a_shape_that_does_not_fit_is_named)
{
  struct scene s;
  begin(&s);
  struct tensor *row = program_temporary(s.program, 1, 4, NULL);
  struct tensor *column = program_temporary(s.program, 4, 1, "counts");
  struct error e = {0}, missing = {0}, number = {0};
  ck_assert_int_ne(op_check(OP_copy, &(union op_args){.copy = {.y = row, .x = column}}, &e), STATUS_OK);
  ck_assert_str_eq(e.text, "copy: x must be [1,4], got [4,1] (counts)");
  ck_assert_int_ne(op_check(OP_copy, &(union op_args){.copy = {.y = row}}, &missing), STATUS_OK);
  ck_assert_str_eq(missing.text, "copy: x is missing");
  ck_assert_int_ne(op_check(OP_scale, &(union op_args){.scale = {.y = row, .by = row}}, &number), STATUS_OK);
  ck_assert_str_eq(number.text, "scale: by must be 1 number, got [1,4]");
  end(&s);
}
END_TEST

START_TEST(a_column_copied_into_a_row_is_a_bug)
{
  struct scene s;
  begin(&s);
  PROGRAM_CALL(s.program, copy, .y = program_temporary(s.program, 1, 4, "row"),
               .x = program_input(s.program, TENSOR_REAL, 4, 1, "column"));
}
END_TEST

/* --- guards, host steps, memory from outside --------------------------------------------------------------- */

static struct device *open_kind(int i)
{
  struct device *device;
  ck_assert_int_eq(device_open(&device, kinds[i], 2, NULL), STATUS_OK);
  return device;
}

static struct tensor *row(struct device *device, long n, const double *values)
{
  struct tensor *t = tensor_new(device, TENSOR_REAL, 1, n, "row");
  for (long i = 0; i < n; i++) {
    real x = (real)values[i];
    device->upload(device, REALS(t) + i, &x, sizeof x);
  }
  return t;
}

static double at(struct device *device, const struct tensor *t, long i)
{
  struct tensor one = tensor_of(REALS(t) + i, 1, 1);
  return device_number(device, &one);
}

static void put(struct device *device, struct tensor *t, long i, double value)
{
  real x = (real)value;
  device->upload(device, REALS(t) + i, &x, sizeof x);
}

static void add_one(struct program *p, struct tensor *y, struct tensor *one)
{
  PROGRAM_CALL(p, axpby, .y = y, .x = one, .alpha = 1, .beta = 1);
}

static void host_adds_one(struct device *device, void *context)
{
  struct tensor *y = *(struct tensor **)context;
  put(device, y, 0, at(device, y, 0) + 1);
}

/* Counters of: no guard, outer, inner, outer again, a host step under outer. A guard that is not a number counts as
   not 0. The inner guard is computed by the program itself, from the outer and its own. */
START_TEST(guards)
{
  static const double tried[][7] = {
    /* outer, inner; what is added */
    {1, 1, 1, 1, 1, 1, 1},    {1, 0, 1, 1, 0, 1, 1},   {0, 1, 1, 0, 0, 0, 0},       {0, 0, 1, 0, 0, 0, 0},
    {-2, 0.5, 1, 1, 1, 1, 1}, {NAN, 0, 1, 1, 1, 1, 1}, {INFINITY, 1, 1, 1, 1, 1, 1}};
  struct device *device = open_kind(_i);
  struct tensor *outer = tensor_new(device, TENSOR_REAL, 1, 1, "outer"),
                *own = tensor_new(device, TENSOR_REAL, 1, 1, "inner"), *one = row(device, 1, (double[]){1});
  struct tensor *counter[5];
  for (int k = 0; k < 5; k++) counter[k] = tensor_new(device, TENSOR_REAL, 1, 1, "counter");
  struct program *p = program_new(device);
  ck_assert_ptr_null(program_guard_of(p));
  add_one(p, counter[0], one);
  program_guard(p, outer);
  ck_assert_ptr_eq(program_guard_of(p), outer);
  add_one(p, counter[1], one);
  struct tensor *inner = program_temporary(p, 1, 1, "both");
  program_guard(p, NULL);
  PROGRAM_CALL(p, copy, .y = inner, .x = own);
  PROGRAM_CALL(p, multiply, .y = inner, .x = outer);
  program_guard(p, inner);
  add_one(p, counter[2], one);
  struct tensor *others = program_temporary(p, 40, 40, "what may not lie where the guard is");
  PROGRAM_CALL(p, fill, .y = others, .value = 0);
  program_guard(p, outer);
  add_one(p, counter[3], one);
  program_host(p, host_adds_one, &counter[4], sizeof counter[4]);
  program_guard(p, inner);
  PROGRAM_CALL(p, fill, .y = others, .value = 1);
  program_guard(p, NULL);
  program_plan(p);
  ck_assert_int_eq(program_host_steps(p), 1);
  double expected[5] = {0};
  for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
    put(device, outer, 0, tried[i][0]);
    put(device, own, 0, tried[i][1]);
    program_run(p);
    for (int k = 0; k < 5; k++) {
      expected[k] += tried[i][2 + k];
      ck_assert_msg(at(device, counter[k], 0) == expected[k], "case %d, counter %d: %g, not %g", (int)i, k,
                    at(device, counter[k], 0), expected[k]);
    }
  }
  program_free(p);
  for (int k = 0; k < 5; k++) tensor_free(device, counter[k]);
  tensor_free(device, outer), tensor_free(device, own), tensor_free(device, one);
  device_close(device);
}
END_TEST

/* A host step waits for what is before it, and what is after it sees what it left. */
START_TEST(host_steps_keep_their_place)
{
  struct device *device = open_kind(_i);
  struct tensor *y = tensor_new(device, TENSOR_REAL, 1, 1, "y"), *one = row(device, 1, (double[]){1});
  struct program *p = program_new(device);
  PROGRAM_CALL(p, fill, .y = y, .value = 5);
  program_host(p, host_adds_one, &y, sizeof y);
  PROGRAM_CALL(p, axpby, .y = y, .x = one, .alpha = 1, .beta = 2);
  program_host(p, host_adds_one, &y, sizeof y);
  program_plan(p);
  for (int run = 0; run < 2; run++) {
    long waits = device->waits;
    program_run(p);
    ck_assert(device->waits == waits + 2 && at(device, y, 0) == 14);
  }
  program_free(p);
  tensor_free(device, y), tensor_free(device, one);
  device_close(device);
}
END_TEST

/* Who reads what a call may add to comes after it, however soon all else is there: the gradient of a gain is added to
   at the third level, and copied. */
START_TEST(what_may_be_added_to_is_read_behind)
{
  struct device *device = open_kind(_i);
  struct tensor *gain = row(device, 2, (double[]){1, 1}), *x = row(device, 2, (double[]){3, 4}),
                *rstd = row(device, 1, (double[]){0.5}), *dy = row(device, 2, (double[]){1, 2}),
                *sum = row(device, 2, (double[]){0, 0}), *seen = row(device, 2, (double[]){0, 0}),
                *dx = row(device, 2, (double[]){0, 0});
  struct program *p = program_new(device);
  PROGRAM_CALL(p, fill, .y = sum, .value = 1);
  PROGRAM_CALL(p, axpby, .y = dy, .x = dy, .alpha = 0, .beta = 2);
  PROGRAM_CALL(p, axpby, .y = dy, .x = dy, .alpha = 0, .beta = 0.5);
  PROGRAM_CALL(p, rmsnorm_backward, .dx = dx, .dgain = sum, .dy = dy, .x = x, .rstd = rstd, .gain = gain,
               .group = 2);
  PROGRAM_CALL(p, copy, .y = seen, .x = sum);
  program_plan(p);
  for (int run = 0; run < 2; run++) {
    program_run(p);
    ck_assert_msg(at(device, seen, 0) == 2.5 && at(device, seen, 1) == 5, "%g %g", at(device, seen, 0),
                  at(device, seen, 1));
  }
  program_free(p);
  struct tensor *all[] = {gain, x, rstd, dy, sum, seen, dx};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_free(device, all[i]);
  device_close(device);
}
END_TEST

/* What ranks send each other goes in the order of recording on all of them, whatever is ready first: of two messages
   the first waits for two calls. */
static const struct tensor *sent[2];
static int sent_count;
#define SPY(op) \
  static void spy_##op(struct device *d, const struct op##_args *x) \
  { \
    (void)d; \
    sent[sent_count++ % 2] = x->y; \
  }
SPY(all_reduce_sum)
SPY(all_reduce_max)
SPY(ring_shift)
SPY(pairwise_exchange)
SPY(all_gather)
SPY(reduce_scatter)
#undef SPY

static void send_one(struct program *p, int kind, struct tensor *y, struct tensor *x)
{
  if (kind == 0) PROGRAM_CALL(p, all_reduce_sum, .y = y);
  if (kind == 1) PROGRAM_CALL(p, all_reduce_max, .y = y);
  if (kind == 2) PROGRAM_CALL(p, ring_shift, .y = y, .x = x);
  if (kind == 3) PROGRAM_CALL(p, pairwise_exchange, .y = y, .x = x);
  if (kind == 4) PROGRAM_CALL(p, all_gather, .y = y, .x = x);
  if (kind == 5) PROGRAM_CALL(p, reduce_scatter, .y = y, .x = x);
}

START_TEST(messages_keep_their_order)
{
  struct device *device = open_kind(1);
  device->ops.all_reduce_sum = spy_all_reduce_sum, device->ops.all_reduce_max = spy_all_reduce_max,
  device->ops.ring_shift = spy_ring_shift;
  device->ops.pairwise_exchange = spy_pairwise_exchange, device->ops.all_gather = spy_all_gather;
  device->ops.reduce_scatter = spy_reduce_scatter;
  struct tensor *t[4];
  for (int i = 0; i < 4; i++) t[i] = row(device, 2, (double[]){1, 2});
  struct program *p = program_new(device);
  for (int i = 0; i < 2; i++) {
    PROGRAM_CALL(p, axpby, .y = t[0], .x = t[1], .alpha = 1, .beta = 1);
    PROGRAM_CALL(p, axpby, .y = t[1], .x = t[0], .alpha = 1, .beta = 1);
  }
  send_one(p, _i, t[0], t[1]);
  send_one(p, _i, t[2], t[3]);
  program_plan(p);
  sent_count = 0;
  program_run(p);
  ck_assert(sent_count == 2 && sent[0] == t[0] && sent[1] == t[2]);
  program_free(p);
  for (int i = 0; i < 4; i++) tensor_free(device, t[i]);
  device_close(device);
}
END_TEST

/* Parts of a tensor from outside lie in its memory, rows apart as its rows are. */
START_TEST(views_of_memory_from_outside)
{
  struct device *device = open_kind(_i);
  double values[12];
  for (int i = 0; i < 12; i++) values[i] = i;
  struct tensor *t = row(device, 12, values);
  *t = tensor_of(t->data, 3, 4);
  struct program *p = program_new(device);
  struct tensor *cols = program_view(p, t, 1, 2), *rows = program_rows(p, t, 2, 1);
  struct tensor *both = program_rows(p, cols, 1, 1), *y = program_temporary(p, 3, 2, "y");
  ck_assert(cols->ld == 4 && cols->rows == 3 && cols->cols == 2 && rows->rows == 1 && rows->cols == 4);
  program_keep(p, y);
  PROGRAM_CALL(p, copy, .y = y, .x = cols);
  PROGRAM_CALL(p, fill, .y = rows, .value = -1);
  PROGRAM_CALL(p, fill, .y = both, .value = -2);
  program_plan(p);
  program_run(p);
  for (int i = 0; i < 12; i++) ck_assert(at(device, t, i) == (i >= 8 ? -1 : i == 5 || i == 6 ? -2 : i));
  for (int i = 0; i < 6; i++) ck_assert(at(device, y, i) == i / 2 * 4 + 1 + i % 2);
  program_free(p);
  *t = tensor_of(t->data, 1, 12);
  tensor_free(device, t);
  device_close(device);
}
END_TEST

/* Programs over the same memory are told apart by a constant, a tensor, a call. */
START_TEST(differences)
{
  struct device *device = open_kind(_i);
  double values[4] = {1, 2, 3, 4};
  struct tensor *t[2] = {row(device, 4, values), row(device, 4, values)};
  struct program *p[5];
  for (int i = 0; i < 5; i++) {
    p[i] = program_new(device);
    PROGRAM_CALL(p[i], fill, .y = t[i == 3], .value = i == 2 ? 2 : 1);
    if (i == 4) PROGRAM_CALL(p[i], copy, .y = t[1], .x = t[0]);
    program_plan(p[i]);
  }
  ck_assert_ptr_null(program_difference(p[0], p[1], 0));
  ck_assert_str_eq(program_difference(p[0], p[2], 0), "fill");
  ck_assert_str_eq(program_difference(p[0], p[3], 0), "fill");
  ck_assert_str_eq(program_difference(p[0], p[4], 0), "the number of calls");
  for (int i = 0; i < 5; i++) program_free(p[i]);
  for (int i = 0; i < 2; i++) tensor_free(device, t[i]);
  device_close(device);
}
END_TEST

/* A view of a view of what the program itself places. */
START_TEST(views_of_views)
{
  struct device *device = open_kind(_i);
  struct program *p = program_new(device);
  struct tensor *t = program_temporary(p, 3, 4, "t");
  struct tensor *cell = program_rows(p, program_view(p, program_view(p, t, 1, 3), 1, 2), 1, 1);
  program_keep(p, t);
  PROGRAM_CALL(p, fill, .y = t, .value = 1);
  PROGRAM_CALL(p, fill, .y = cell, .value = 2);
  program_plan(p);
  program_run(p);
  for (int i = 0; i < 12; i++) ck_assert_double_eq(at(device, t, i), i == 6 || i == 7 ? 2 : 1);
  program_free(p);
  device_close(device);
}
END_TEST

/* --- numbers and report ------------------------------------------------------------------------------------ */

static double rate_times(const void *context, const struct step_scalars *now)
{
  return *(const double *)context * now->rate + (double)now->step + 100 * now->share;
}

/* Numbers have the values of the moment told last; the context was copied. What a program writes is in the report
   after a read; what it does not write, is empty after a clear and stays otherwise. */
START_TEST(numbers_and_report)
{
  struct device *device = open_kind(_i);
  struct numbers *n = numbers_new(device, 16);
  struct report *r = report_new(device);
  double factor = 2;
  struct tensor *fixed = numbers_constant(n, 0.75),
                *moving = numbers_varying(n, rate_times, &factor, sizeof factor);
  real known = 0;
  device->download(device, &known, fixed->data, sizeof known);
  ck_assert((double)known == 0.75);
  factor = 1000;
  struct tensor *a = report_add(r, 1, 1, NAN, "a"), *b = report_add(r, 2, 3, -1, "b");
  struct tensor *far = report_add(r, 3, 16000, 5, "far"),
                *next = report_add(r, 1, 1, 6, "next"); /* another page */
  struct tensor *guard = tensor_new(device, TENSOR_REAL, 1, 1, "guard");
  report_column(r, b, 1, -INFINITY, MERGE_MAX);
  report_column(r, far, 2, -5, MERGE_NOT);
  struct program *clear = program_new(device), *write = program_new(device);
  report_record_clear(r, clear);
  program_plan(clear);
  PROGRAM_CALL(write, copy, .y = a, .x = moving);
  PROGRAM_CALL(write, copy, .y = program_view(write, program_rows(write, far, 2, 1), 15999, 1), .x = moving);
  program_guard(write, guard);
  PROGRAM_CALL(write, copy, .y = program_view(write, program_rows(write, b, 1, 1), 2, 1), .x = fixed);
  program_plan(write);
  program_run(clear);
  report_read(r);
  ck_assert(isnan(*report_of(r, a)) && (double)*report_of(r, next) == 6);
  for (long i = 0; i < 3 * 16000; i++) ck_assert((double)report_of(r, far)[i] == (i % 16000 == 2 ? -5 : 5));
  for (int i = 0; i < 6; i++) ck_assert((double)report_of(r, b)[i] == (i % 3 == 1 ? -INFINITY : -1));
  for (int step = 0; step < 4; step++) {
    scalars_upload(n, &(struct step_scalars){step, 0.5, 0.25});
    ck_assert_int_eq(numbers_scalars(n)->step, step);
    put(device, guard, 0, step == 1);
    if (step == 3) program_run(clear);
    program_run(write);
    report_read(r);
    ck_assert((double)*report_of(r, a) == 1 + step + 25);
    ck_assert((double)report_of(r, far)[3 * 16000 - 1] == 1 + step + 25);
    ck_assert((double)report_of(r, b)[5] == (step == 1 || step == 2 ? 0.75 : -1));
    ck_assert((double)report_of(r, b)[4] == -INFINITY && (double)report_of(r, b)[2] == -1);
  }
  program_free(clear), program_free(write);
  numbers_free(n), report_free(r);
  tensor_free(device, guard);
  device_close(device);
}
END_TEST

/* --- memory that the host may not touch --------------------------------------------------------------------- */

static struct device *isolated(void)
{
  struct device *device;
  ck_assert_int_eq(device_open(&device, "isolated", 2, NULL), STATUS_OK);
  return device;
}

START_TEST(a_wrong_device_is_refused)
{
  struct device *device;
  struct error e = {0};
  ck_assert_int_eq(device_open(&device, "abacus", 1, &e), STATUS_USAGE);
  ck_assert_ptr_null(device);
  ck_assert_ptr_nonnull(strstr(e.text, "abacus"));
  ck_assert_int_eq(device_open(&device, "cpu", -1, NULL), STATUS_USAGE);
}
END_TEST

START_TEST(isolated_memory_works_through_its_device)
{
  struct device *device = isolated();
  struct tensor *x = row(device, 3, (double[]){1, -2, 3}), *y = tensor_new(device, TENSOR_REAL, 1, 3, "y");
  for (int i = 0; i < 3; i++) ck_assert(at(device, y, i) == 0);
  op_run(device, OP_copy, &(union op_args){.copy = {.y = y, .x = x}});
  op_run(device, OP_scale, &(union op_args){.scale = {.y = y, .alpha = 2}});
  for (int i = 0; i < 3; i++) ck_assert(at(device, y, i) == 2 * at(device, x, i));
  real host[3];
  device->fetch(device, host, y->data, sizeof host);
  ck_assert(host[0] == 2 && host[1] == -4 && host[2] == 6);
  tensor_free(device, x), tensor_free(device, y);
  device_close(device);
}
END_TEST

/* 0: reads at once; 1: writes; 2: reads after an operation has let the device in; 3: after an upload. */
START_TEST(isolated_memory_crashes_on_the_host)
{
  struct device *device = isolated();
  struct tensor *x = tensor_new(device, TENSOR_REAL, 1, 4, "x");
  if (_i == 2) op_run(device, OP_fill, &(union op_args){.fill = {.y = x, .value = 1}});
  if (_i == 3) put(device, x, 0, 1);
  volatile real *memory = REALS(x);
  signal(SIGSEGV, SIG_DFL); /* a sanitizer would answer in its own way */
  if (_i == 1)
    memory[0] = 1;
  else
    ck_assert(memory[0] == 7);
}
END_TEST

/* --- levels -------------------------------------------------------------------------------------------------- */

/* Three columns of one matrix, a whole other one, and the first again: who must wait for whom. */
START_TEST(waves_follow_the_memory)
{
  real memory[48], other[8];
  struct tensor a = tensor_of(memory, 4, 12), column[3], b = tensor_of(other, 2, 4),
                row = tensor_of(memory + 12, 1, 12);
  int level[8];
  for (int i = 0; i < 3; i++) {
    column[i] = tensor_of(memory + 4 * i, 4, 4);
    column[i].ld = a.ld;
  }
#define TOUCHES(...) \
  .access = (const struct access[]){__VA_ARGS__}, \
  .count = sizeof(const struct access[]){__VA_ARGS__} / sizeof(struct access)
  const struct footprint calls[] = {
    {TOUCHES({&column[0], 1, 0})},             /* 0 */
    {TOUCHES({&column[1], 1, 0}, {&b, 0, 0})}, /* 0: beside it */
    {TOUCHES({&column[2], 1, 0}, {&b, 0, 0})}, /* 0: reads what is only read */
    {TOUCHES({&b, 1, 0}, {&column[0], 0, 0})}, /* 1: after its readers, and after column 0 */
    {TOUCHES({&row, 1, 0})},                   /* 2: a row of all columns, after column 0's reader */
    {TOUCHES({&b, 0, 0})},                     /* 2: after its writer */
    {.barrier = 1},                            /* 3 */
    {TOUCHES({&column[1], 0, 0})},             /* 4 */
  };
#undef TOUCHES
  const int expected[] = {0, 0, 0, 1, 2, 2, 3, 4};
  ck_assert_int_eq(levels_find(calls, 8, level), 5);
  for (int i = 0; i < 8; i++) ck_assert_msg(level[i] == expected[i], "call %d is in level %d", i, level[i]);
}
END_TEST

/* Rows at a time: one, some with a rest, all. */
START_TEST(a_split_loss_is_the_loss)
{
  static const long rows[] = {1, 3, N, N + 1};
  struct scene whole, split, forward;
  begin(&whole), begin(&split), begin(&forward);
  finish(&whole, build_linear(&whole));
  finish_split(&split, build_linear(&split), rows[_i], NULL);
  struct tensor *y = build_linear(&forward);
  struct tensor *token_loss = program_temporary(forward.program, N, 1, "token losses");
  program_keep(forward.program, token_loss);
  finish_split(&forward, y, rows[_i], token_loss);
  const double loss = run(&whole);
  ck_assert_double_eq_tol(run(&split), loss, 1e-14);
  ck_assert_double_eq_tol(run(&forward), loss, 1e-14);
  double sum = 0;
  for (int n = 0; n < N; n++) sum += REALS(forward.weight)[n] * REALS(token_loss)[n];
  ck_assert_double_eq_tol(sum, REALS(whole.loss)[0], 1e-14);
  for (int i = 0; i < whole.params; i++)
    for (long j = 0; j < whole.param[i]->rows * whole.param[i]->cols; j++)
      ck_assert_double_eq_tol(REALS(split.param[i]->grad)[j], REALS(whole.param[i]->grad)[j], 1e-14);
  end(&whole), end(&split), end(&forward);
}
END_TEST

/* It lies in the midst of all workers' scratch, and cannot grow. */
START_TEST(a_worker_that_takes_more_than_was_declared_is_a_bug)
{
  struct device *device;
  ck_assert_int_eq(device_open(&device, "cpu", 2, NULL), STATUS_OK);
  device_wants_scratch(device, 0, 512);
  device_settle_scratch(device);
  device_scratch(device_worker(device, 0), 512);
  device_scratch(device_worker(device, 0), 513);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("program");
  TCase *t = tcase_create("program");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, gradient_is_the_slope, 0, CASES);
  tcase_add_loop_test(t, live_tensors_never_overlap, 0, CASES);
  tcase_add_loop_test(t, replay_gives_the_same_bits, 0, CASES);
  tcase_add_loop_test(t, a_split_loss_is_the_loss, 0, 4);
  tcase_add_test(t, kept_tensors_survive_the_run);
  tcase_add_test(t, parameter_gradients_add);
  tcase_add_test(t, work_is_counted);
  tcase_add_test_raise_signal(t, reading_before_writing_is_a_bug, SIGABRT);
  tcase_add_test_raise_signal(t, shapes_that_do_not_fit_are_a_bug, SIGABRT);
  tcase_add_test_raise_signal(t, a_column_copied_into_a_row_is_a_bug, SIGABRT);
  tcase_add_test(t, a_shape_that_does_not_fit_is_named);
  tcase_add_test_raise_signal(t, a_worker_that_takes_more_than_was_declared_is_a_bug, SIGABRT);
  tcase_add_test(t, waves_follow_the_memory);
  tcase_add_loop_test(t, guards, 0, KINDS);
  tcase_add_loop_test(t, host_steps_keep_their_place, 0, KINDS);
  tcase_add_loop_test(t, what_may_be_added_to_is_read_behind, 0, KINDS);
  tcase_add_loop_test(t, messages_keep_their_order, 0, 6);
  tcase_add_loop_test(t, views_of_memory_from_outside, 0, KINDS);
  tcase_add_loop_test(t, views_of_views, 0, KINDS);
  tcase_add_loop_test(t, differences, 0, KINDS);
  tcase_add_loop_test(t, numbers_and_report, 0, KINDS);
  tcase_add_test(t, a_wrong_device_is_refused);
  tcase_add_test(t, isolated_memory_works_through_its_device);
  tcase_add_loop_test_raise_signal(t, isolated_memory_crashes_on_the_host, SIGSEGV, 0, 4);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
