/* check_program.c - recorded programs in double precision: gradients against central differences, views,
   placement, replay */
#include "base/memory.h"
#include "base/random.h"
#include "numerics/program.h"
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

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
  s->targets = program_input(s->program, TENSOR_INT, 1, N, "targets");
  s->weight = program_input(s->program, TENSOR_REAL, 1, N, "weight");
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

/* y, mixed by a random matrix, into the cross-entropy. */
static void finish(struct scene *s, struct tensor *y)
{
  struct tensor *logits = op_linear(s->program, y, param(s, VOCAB, y->cols), NULL, NULL);
  s->loss = op_cross_entropy(s->program, logits, s->targets, s->weight, 0.01, NULL);
  program_backward(s->program, s->loss);
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
  return op_rmsnorm(s->program, source(s, 8), param(s, 1, 8), 8, 1e-6);
}

static struct tensor *build_norm_heads(struct scene *s)
{
  return op_rmsnorm(s->program, source(s, 8), param(s, 1, 4), 4, 1e-2);
}

static struct tensor *build_norm_plain(struct scene *s)
{
  return op_rmsnorm(s->program, source(s, 8), NULL, 2, 1e-6);
}

static struct tensor *build_linear(struct scene *s)
{
  return op_linear(s->program, source(s, 8), param(s, 6, 8), param(s, 1, 6), NULL);
}

static struct tensor *build_residual(struct scene *s) /* two uses of one residual, then a chain of them */
{
  struct tensor *x = source(s, 8);
  struct tensor *a = op_linear(s->program, x, param(s, 8, 8), NULL, x);
  struct tensor *b = op_linear(s->program, op_rmsnorm(s->program, a, NULL, 8, 1e-6), param(s, 8, 8), NULL, a);
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
  struct attention_spec spec = {
    .batch = BATCH, .heads = heads, .groups = groups, .scale = 0.9, .cap = cap, .cap_value = value};
  return op_attention(p, op_columns(p, x, 0, q), op_columns(p, x, q, k),
                      op_columns(p, x, q + k, groups * value_dim), s->start, &spec, &s->stats);
}

static struct tensor *build_mha(struct scene *s) { return attention(s, 2, 2, 0, 0); }
static struct tensor *build_gqa(struct scene *s) { return attention(s, 4, 2, 0, 0); }
static struct tensor *build_soft_cap(struct scene *s) { return attention(s, 2, 1, 1, 1.5); }
static struct tensor *build_hard_cap(struct scene *s) { return attention(s, 2, 2, 2, 0.7); }

static struct tensor *build_same_qkv(struct scene *s) /* one tensor in three places */
{
  struct tensor *x = source(s, 8);
  struct attention_spec spec = {.batch = BATCH, .heads = 2, .groups = 2, .scale = 0.3};
  return op_attention(s->program, x, x, x, s->start, &spec, NULL);
}

static struct tensor *build_computed(struct scene *s) /* table, gain and scale are results themselves */
{
  struct program *p = s->program;
  struct tensor *w = op_linear(p, param(s, VOCAB, 4), param(s, 8, 4), NULL, NULL);
  struct tensor *x = op_embed(p, s->tokens, w);
  struct tensor *gain = op_linear(p, param(s, 1, 3), param(s, 8, 3), NULL, NULL);
  struct tensor *size = op_linear(p, param(s, 1, 3), param(s, 1, 3), NULL, NULL);
  return op_linear(p, op_scale(p, op_rmsnorm(p, x, gain, 8, 1e-6), size), w, NULL, NULL);
}

static const struct {
  const char *name;
  struct tensor *(*build)(struct scene *);
} cases[] = {
  {"embed", build_embed},
  {"rmsnorm", build_norm},
  {"rmsnorm by head", build_norm_heads},
  {"rmsnorm without gain", build_norm_plain},
  {"linear", build_linear},
  {"residual", build_residual},
  {"residual from a parameter", build_residual_param},
  {"tied", build_tied},
  {"rope", build_rope},
  {"scale", build_scale},
  {"join heads", build_join_heads},
  {"join heads, one shared", build_join_shared},
  {"join rows", build_join_rows},
  {"reparam", build_reparam},
  {"swiglu", build_swiglu},
  {"swiglu shared", build_swiglu_shared},
  {"columns", build_columns},
  {"columns and owner", build_columns_whole},
  {"mha", build_mha},
  {"gqa", build_gqa},
  {"soft cap", build_soft_cap},
  {"hard cap", build_hard_cap},
  {"same qkv", build_same_qkv},
  {"computed", build_computed},
};
enum { CASES = sizeof cases / sizeof *cases };

/* --- gradients ----------------------------------------- */

static void move(struct tensor *t, const struct tensor *start, const struct tensor *direction, double h)
{
  for (long i = 0; i < t->rows * t->cols; i++)
    REALS(t)[i] = (real)(REALS(start)[i] + h * REALS(direction)[i]);
}

/* (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h: its error is h^4 f'''''/30 */
static double slope(struct scene *s, struct tensor *t, const struct tensor *start,
                    const struct tensor *direction)
{
  const double h = 2e-4;
  double f[5];
  for (int i = -2; i <= 2; i++) {
    move(t, start, direction, i * h);
    f[i + 2] = run(s);
  }
  move(t, start, direction, 0);
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
    struct tensor *direction = tensor_new(s.device, TENSOR_REAL, t->rows, t->cols, "direction");
    fill_normal(direction, 100 + (uint64_t)i, 1);
    move(start, t, direction, 0);
    run(&s);
    double claimed = 0;
    for (long j = 0; j < t->rows * t->cols; j++) claimed += (double)REALS(t->grad)[j] * REALS(direction)[j];
    double measured = slope(&s, t, start, direction);
    ck_assert_msg(fabs(claimed - measured) <= 1e-7 * fabs(measured),
                  "%s, parameter %d: gradient %.12g, slope %.12g", cases[_i].name, i, claimed, measured);
    tensor_free(s.device, start);
    tensor_free(s.device, direction);
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
  struct tensor square = tensor_of(NULL, 7, 7);
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

int main(void)
{
  Suite *suite = suite_create("program");
  TCase *t = tcase_create("program");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, gradient_is_the_slope, 0, CASES);
  tcase_add_loop_test(t, live_tensors_never_overlap, 0, CASES);
  tcase_add_loop_test(t, replay_gives_the_same_bits, 0, CASES);
  tcase_add_test(t, kept_tensors_survive_the_run);
  tcase_add_test(t, parameter_gradients_add);
  tcase_add_test(t, work_is_counted);
  tcase_add_test_raise_signal(t, reading_before_writing_is_a_bug, SIGABRT);
  tcase_add_test_raise_signal(t, shapes_that_do_not_fit_are_a_bug, SIGABRT);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
