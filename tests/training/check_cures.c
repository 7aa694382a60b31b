/* check_cures.c - stabilizers that act on spectra and learning rates: what each promises of the weights */
#include <stdio.h>
#include "../kinds.h"
#include "../model/model_fixture.h"
#include "training/optimizer.h"
#include "training/sphere.h"

enum { HEADS = 4 };
#define STACK "layers=2 width=12 heads=4 context=6 ffn_width=16 vocab=11 "
static const char *const shapes[] = {
  STACK "attention=mha head_dim=2",
  STACK "attention=mha head_dim=4",
  STACK "attention=gqa kv_heads=2 head_dim=4",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void ck_values(const struct fixture *f, const real *expected)
{
  real *now = fixture_copy(f, &f->model.params.values);
  ck_assert_mem_eq(now, expected, fixture_bytes(&f->model.params.values));
  memory_free(now);
}

static void after_step(struct fixture *f, long step, double rate)
{
  fixture_run(f, 0, f->stack[0]->after_step, &(struct step_scalars){step, rate, 1});
}

static struct tensor rows_of(const struct qk_block *b)
{
  return tensor_rows(&b->weight->value, b->row, b->rows);
}

/* A decomposition back to numbers, on the host; the caller frees them. */
static real *composed(const struct svd *s)
{
  struct device *host;
  ck_assert(!device_open(&host, "reference", 1, NULL));
  struct tensor w = tensor_of(memory_new((size_t)(s->rows * s->cols), sizeof(real)), s->rows, s->cols);
  svd_compose(s, host, &w);
  device_close(host);
  return w.data;
}

/* --- the decomposition ------------------------------------------------------------------------------------ */
START_TEST(decomposition)
{
  struct device *device;
  ck_assert(!device_open(&device, "reference", 1, NULL));
  static const long shape[][2] = {{5, 9}, {9, 5}, {6, 6}, {1, 4}, {4, 1}};
  for (int k = 0; k < 5; k++) {
    struct tensor *w = tensor_new(device, TENSOR_REAL, shape[k][0], shape[k][1], "w");
    long size = w->rows * w->cols;
    for (long i = 0; i < size; i++)
      REALS(w)[i] = (real)draw_normal((struct draw){1, STREAM_TEST, 0}, (uint64_t)i);
    real *old = memcpy(memory_new(1, fixture_bytes(w)), w->data, fixture_bytes(w));
    struct svd s;
    ck_assert(!svd_of(&s, device, w));
    for (long a = 0; a < s.n; a++)
      for (long b = 0; b < s.n; b++) {
        double u = 0, v = 0;
        for (long i = 0; i < s.rows; i++) u += s.u[i * s.n + a] * s.u[i * s.n + b];
        for (long i = 0; i < s.cols; i++) v += s.v[i * s.n + a] * s.v[i * s.n + b];
        ck_assert_double_eq_tol(u, a == b, 1e-13);
        ck_assert_double_eq_tol(v, a == b, 1e-13);
        ck_assert(a == 0 || s.sigma[a] <= s.sigma[a - 1]);
      }
    svd_compose(&s, device, w);
    for (long i = 0; i < size; i++) ck_assert_double_eq_tol(REALS(w)[i], old[i], 4 * REAL_EPS * s.sigma[0]);
    svd_free(&s);
    REALS(w)[0] = (real)NAN;
    ck_assert_int_eq(svd_of(&s, device, w), STATUS_FAIL);
    svd_free(&s);
    memory_free(old);
    tensor_free(device, w);
  }
  device_close(device);
}
END_TEST

/* --- spectral_clip ---------------------------------------------------------------------------------------- */
/* Singular values are min(sigma, bound), vectors stay: the whole block equals U min(S, bound) V^T; blocks below
   keep their bits. Rounding of the msign form: numbers of size |W|^2 / bound^2 in float, times bound. */
static void check_clip(const char *device, const char *shape, const char *options, double bound,
                       double tolerance)
{
  char stack[128];
  snprintf(stack, sizeof stack, "spectral_clip bound=%g %s", bound, options);
  struct fixture *f = fixture_open_on(device, shape, stack, NULL);
  int count, touched = 0, spared = 0;
  struct qk_block *block = qk_blocks(&f->model, strstr(options, "scope=tensor") == NULL, &count);
  struct svd *before = memory_new((size_t)count, sizeof *before);
  real **old = memory_new((size_t)count, sizeof *old);
  for (int i = 0; i < count; i++) {
    struct tensor w = rows_of(&block[i]);
    fixture_scale(f, &w, 0, w.rows * w.cols, i % 3 == 0 ? 3 : i % 3 == 1 ? 0.1 : 1);
    old[i] = fixture_copy(f, &w);
    ck_assert(!svd_of(&before[i], f->device, &w));
  }
  after_step(f, 0, 0.1);
  for (int i = 0; i < count; i++) {
    struct tensor w = rows_of(&block[i]);
    real *now = fixture_copy(f, &w);
    struct svd *s = &before[i];
    if (s->sigma[0] <= bound * (strstr(options, "msign") ? 0.1 : 1)) {
      ck_assert_mem_eq(now, old[i], fixture_bytes(&w));
      spared++;
    } else {
      touched += s->sigma[0] > bound;
      for (long k = 0; k < s->n; k++) s->sigma[k] = fmin(s->sigma[k], bound);
      real *expected = composed(s);
      for (long j = 0; j < w.rows * w.cols; j++)
        ck_assert_double_eq_tol(now[j], expected[j], tolerance * bound);
      memory_free(expected);
    }
    svd_free(s);
    memory_free(old[i]), memory_free(now);
  }
  ck_assert_int_gt(touched, 0);
  ck_assert(spared > 0 || strstr(options, "msign"));
  for (int l = 0; l < 2; l++) ck_assert(fixture_series(f, 0, 0)[l] < 1 && fixture_series(f, 0, 0)[l] > 0);
  memory_free(before), memory_free(old);
  fixture_close(f);
}

START_TEST(clip_of_singular_values)
{
  for (int s = 0; s < SHAPES; s++) {
    check_clip(kinds[_i], shapes[s], "scope=head method=svd", 0.9, 8 * REAL_EPS);
    check_clip(kinds[_i], shapes[s], "scope=tensor method=svd", 0.9, 8 * REAL_EPS);
    check_clip(kinds[_i], shapes[s], "scope=head method=msign", 0.9, 2e-4);
    check_clip(kinds[_i], shapes[s], "scope=tensor method=msign", 0.9, 2e-4);
  }
}
END_TEST

START_TEST(clip_waits)
{
  struct fixture *f = fixture_open(
    shapes[1],
    _i ? "spectral_clip bound=0.5 every=3 method=msign" : "spectral_clip bound=0.5 every=3 method=svd", NULL);
  for (long step = 0; step < 7; step++) {
    struct param *p = model_param(&f->model, 0, "attn.w_q");
    fixture_put_at(f, &p->value, 0, 3);
    real *old = fixture_copy(f, &f->model.params.values);
    after_step(f, step, 0.1);
    real *now = fixture_copy(f, &f->model.params.values);
    ck_assert_int_eq(memcmp(old, now, fixture_bytes(&f->model.params.values)) != 0, (step + 1) % 3 == 0);
    memory_free(old), memory_free(now);
  }
  fixture_close(f);
}
END_TEST

/* --- spectral_decay --------------------------------------------------------------------------------------- */
/* sigma_1 falls by lr strength, the rest stays: W - lr strength sigma_1 u_1 v_1^T. After 500 iterations the pair
   is exact where the gap between the first two exceeds 3 %; float rounds it to about eps. */
START_TEST(decay_of_the_largest)
{
  for (int s = 0; s < SHAPES; s++)
    for (int by_head = 0; by_head < 2; by_head++) {
      char stack[96];
      snprintf(stack, sizeof stack, "spectral_decay strength=2 iterations=500 scope=%s",
               by_head ? "head" : "tensor");
      struct fixture *f = fixture_open_on(kinds[_i], shapes[s], stack, NULL);
      int count;
      struct qk_block *block = qk_blocks(&f->model, by_head, &count);
      struct svd *before = memory_new((size_t)count, sizeof *before);
      for (int i = 0; i < count; i++) {
        struct tensor w = rows_of(&block[i]);
        ck_assert(!svd_of(&before[i], f->device, &w));
      }
      after_step(f, 0, 0.05);
      double largest[2] = {0};
      for (int i = 0; i < count; i++) {
        struct tensor w = rows_of(&block[i]);
        largest[block[i].layer] = fmax(largest[block[i].layer], before[i].sigma[0]);
        before[i].sigma[0] *= 1 - 0.05 * 2;
        real *expected = composed(&before[i]), *now = fixture_copy(f, &w);
        for (long j = 0; j < w.rows * w.cols; j++) ck_assert_double_eq_tol(now[j], expected[j], 1e-4);
        svd_free(&before[i]);
        memory_free(expected), memory_free(now);
      }
      for (int l = 0; l < 2; l++) ck_assert_double_eq_tol(fixture_series(f, 0, 0)[l], largest[l], 1e-4);
      memory_free(before);
      fixture_close(f);
    }
}
END_TEST

/* Two iterations a step, going on from step to step, find the same pair. */
START_TEST(decay_remembers)
{
  struct fixture *f = fixture_open(shapes[1], "spectral_decay strength=0", NULL);
  struct tensor w = model_param(&f->model, 1, "attn.w_k")->value,
                q = model_param(&f->model, 1, "attn.w_q")->value;
  struct svd k, s;
  ck_assert(!svd_of(&k, f->device, &w) && !svd_of(&s, f->device, &q));
  for (int step = 0; step < 300; step++) after_step(f, step, 0.05);
  ck_assert_double_eq_tol(fixture_series(f, 0, 0)[1], fmax(k.sigma[0], s.sigma[0]), 1e-4);
  svd_free(&k), svd_free(&s);
  fixture_close(f);
}
END_TEST

/* --- quack ------------------------------------------------------------------------------------------------ */
static void scale_head(struct fixture *f, const char *name, long head, double factor)
{
  struct param *p = model_param(&f->model, 1, name);
  long size = p->head_rows * p->value.cols;
  fixture_scale(f, &p->value, head * size, (head + 1) * size, factor);
}

static void begin(struct fixture *f) { fixture_run(f, 0, f->stack[0]->begin, &(struct step_scalars){0}); }

static void before_update(struct fixture *f)
{
  fixture_run(f, 0, f->stack[0]->before_update, &(struct step_scalars){0, 0.1, 1});
}

/* The factor on the learning rate of a head's rows, on top of one that was there. */
static double rate(struct fixture *f, const char *name, long head)
{
  struct param *p = model_param(&f->model, 1, name);
  struct update_block block[] = {{model_param(&f->model, 1, "attn.norm"), 0, 1},
                                 {p, head * p->head_rows, p->head_rows}};
  struct program *program = program_new(f->device);
  struct tensor *factor = program_input(program, TENSOR_REAL, 1, 2, "factors");
  fixture_put(f, factor, (const real[]){3, 2});
  f->stack[0]->on_update(&f->model.context[0], program, block, 2, factor);
  program_plan(program);
  scalars_upload(f->model.numbers, &(struct step_scalars){0, 0.1, 1});
  program_run(program);
  ck_assert_double_eq(fixture_at(f, factor, 0), 3);
  double result = fixture_at(f, factor, 1) / 2;
  program_free(program);
  return result;
}

START_TEST(quack_rates)
{
  const double eps = 8 * REAL_EPS;
  struct fixture *f = fixture_open_on(kinds[_i], shapes[1], "quack tau=0.5", NULL);
  begin(f);
  before_update(f);
  for (int h = 0; h < HEADS; h++) { /* at the start: tau */
    ck_assert_double_eq_tol(rate(f, "attn.w_q", h), 0.5, eps);
    ck_assert_double_eq_tol(rate(f, "attn.w_k", h), 0.5, eps);
    ck_assert_double_eq(rate(f, "attn.w_v", h), 1);
  }
  scale_head(f, "attn.w_k", 2, 4); /* a key grows: its query slows, nobody else */
  scale_head(f, "attn.w_q", 1, 0.5);
  before_update(f);
  static const double q[] = {0.5, 0.5, 0.125, 0.5}, k[] = {0.5, 1, 0.5, 0.5};
  for (int h = 0; h < HEADS; h++) {
    ck_assert_double_eq_tol(rate(f, "attn.w_q", h), q[h], eps);
    ck_assert_double_eq_tol(rate(f, "attn.w_k", h), k[h], eps);
    ck_assert_double_eq_tol(fixture_series(f, 0, 0)[HEADS + h], q[h], eps);
    ck_assert_double_eq_tol(fixture_series(f, 0, 1)[HEADS + h], k[h], eps);
  }
  fixture_close(f);
}
END_TEST

/* A shared key: both queries of its group slow with it; it looks at the larger of them. */
START_TEST(quack_groups)
{
  struct fixture *f = fixture_open_on(kinds[_i], shapes[2], "quack", NULL);
  const double eps = 8 * REAL_EPS;
  begin(f);
  double norm[2];
  for (int h = 0; h < 2; h++) {
    struct logit_block own[MAX_LOGIT_BLOCKS];
    f->model.attention->logit_blocks(&f->model, 1, h, own);
    struct tensor w = tensor_rows(&own[0].weight->value, own[0].row, own[0].rows);
    real *x = fixture_copy(f, &w);
    double squares = 0;
    for (long j = 0; j < w.rows * w.cols; j++) squares += (double)x[j] * (double)x[j];
    norm[h] = sqrt(squares);
    memory_free(x);
  }
  scale_head(f, "attn.w_k", 0, 2);
  scale_head(f, "attn.w_q", 1, 3);
  before_update(f);
  for (int h = 0; h < HEADS; h++) ck_assert_double_eq_tol(rate(f, "attn.w_q", h), h < 2 ? 0.5 : 1, eps);
  ck_assert_double_eq_tol(rate(f, "attn.w_k", 0), fmax(norm[0], norm[1]) / fmax(norm[0], 3 * norm[1]), eps);
  ck_assert_double_eq_tol(rate(f, "attn.w_k", 1), 1, eps);
  scale_head(f, "attn.w_q", 0, 12); /* now the first of the group is the larger one */
  before_update(f);
  ck_assert_double_eq_tol(rate(f, "attn.w_k", 0), fmax(norm[0], norm[1]) / fmax(12 * norm[0], 3 * norm[1]),
                          eps);
  ck_assert(12 * norm[0] > 3 * norm[1]);
  for (int h = 0; h < 2; h++) { /* NaN in either is seen */
    struct tensor *w = &model_param(&f->model, 1, "attn.w_q")->value;
    double kept = fixture_at(f, w, h * 4 * 12);
    fixture_put_at(f, w, h * 4 * 12, NAN);
    before_update(f);
    ck_assert(isnan(rate(f, "attn.w_k", 0)));
    ck_assert(!isnan(rate(f, "attn.w_k", 1)));
    fixture_put_at(f, w, h * 4 * 12, kept);
  }
  fixture_close(f);
}
END_TEST

/* Of mla, Alg. 2: content goes through both latents, rotary queries and the key that they share through that of queries
   alone. */
START_TEST(quack_latents)
{
  struct fixture *f = fixture_open_on(
    kinds[_i], STACK "attention=mla head_dim=4 q_rank=10 kv_rank=8 rope_dim=4 value_dim=6", "quack", NULL);
  begin(f);
  static const struct {
    const char *name;
    double factor;
  } latent[] = {{"attn.w_dq", 4}, {"attn.w_dkv", 2}};
  for (int i = 0; i < 2; i++) {
    struct tensor *w = &model_param(&f->model, 1, latent[i].name)->value;
    fixture_scale(f, w, 0, w->rows * w->cols, latent[i].factor);
  }
  before_update(f);
  ck_assert_double_eq_tol(rate(f, "attn.w_qc", 1), 0.125, 8 * REAL_EPS);
  ck_assert_double_eq_tol(rate(f, "attn.w_kc", 1), 0.125, 8 * REAL_EPS);
  ck_assert_double_eq_tol(rate(f, "attn.w_qr", 1), 0.25, 8 * REAL_EPS);
  ck_assert_double_eq_tol(rate(f, "attn.w_kr", 0), 0.25, 8 * REAL_EPS);
  fixture_close(f);
}
END_TEST

/* What is multiplied by nothing has no size to be measured by: the rate is tau. */
START_TEST(quack_of_zero)
{
  struct fixture *f = fixture_open_on(kinds[_i], shapes[1], "quack tau=0.25", NULL);
  scale_head(f, "attn.w_k", 2, 0);
  begin(f);
  before_update(f);
  for (int h = 0; h < HEADS; h++) {
    ck_assert_double_eq_tol(rate(f, "attn.w_q", h), 0.25, 8 * REAL_EPS);
    ck_assert_double_eq_tol(rate(f, "attn.w_k", h), 0.25, 8 * REAL_EPS);
  }
  fixture_close(f);
}
END_TEST

/* What a resumed run finds in its checkpoint, the saved parameter, is all it needs. */
START_TEST(quack_resumes)
{
  struct fixture *f = fixture_open(shapes[0], "quack", NULL), *g = fixture_open(shapes[0], "quack", NULL);
  begin(f);
  scale_head(f, "attn.w_q", 3, 5);
  scale_head(g, "attn.w_q", 3, 5);
  begin(g); /* from the wrong start: overwritten now */
  for (int l = 0; l < 2; l++) {
    real *start = fixture_copy(f, &model_param(&f->model, l, "quack.start")->value);
    fixture_put(g, &model_param(&g->model, l, "quack.start")->value, start);
    memory_free(start);
  }
  before_update(f);
  before_update(g);
  ck_assert_double_eq_tol(rate(f, "attn.w_k", 3), 0.2, 8 * REAL_EPS);
  for (int h = 0; h < HEADS; h++) ck_assert(rate(f, "attn.w_k", h) == rate(g, "attn.w_k", h));
  fixture_close(f), fixture_close(g);
}
END_TEST

/* --- max_output_clip -------------------------------------------------------------------------------------- */
/* A stabilizer that keeps what attention adds to the residual stream. */
static struct tensor *added[2];

static void keep_output(struct stabilizer_context *c, struct program *program, int layer, struct tensor *x)
{
  (void)c;
  program_keep(program, added[layer] = x);
}

static const struct stabilizer witness = {
  .name = "witness", .help = "keeps outputs", .on_output = keep_output};

static const char *const output_shapes[] = {
  STACK "attention=mha head_dim=2",
  STACK "attention=mha head_dim=4 bias=1",
  STACK "attention=gqa kv_heads=2 head_dim=4 bias=1",
  STACK "attention=mla head_dim=4 q_rank=10 kv_rank=8 rope_dim=4 value_dim=6",
};

static double largest(const struct fixture *f, const struct tensor *t)
{
  double top = 0;
  real *x = fixture_copy(f, t);
  for (long i = 0; i < t->rows * t->cols; i++) top = fmax(top, fabs((double)x[i]));
  memory_free(x);
  return top;
}

/* The first layer passes tau, the second does not: what the first adds, biases included, shrinks to tau. */
START_TEST(clip_of_outputs)
{
  enum { CASES = sizeof output_shapes / sizeof *output_shapes };
  struct fixture *f =
    fixture_open_on(kinds[_i / CASES], output_shapes[_i % CASES], "max_output_clip tau=2", &witness);
  fixture_shake(f, 0.3);
  struct tensor *w_o = &model_param(&f->model, 0, "attn.w_o")->value;
  fixture_scale(f, w_o, 0, w_o->rows * w_o->cols, 50);
  struct model_program mp = fixture_program(f, 2, 6, 0);
  program_run(mp.program);
  double top = largest(f, added[0]), gamma = 2 / top;
  ck_assert_double_gt(top, 4);
  for (int l = 0; l < 2; l++) ck_assert_double_eq(fixture_at(f, mp.tracked_max, l), largest(f, added[l]));
  fixture_put_at(f, f->model.step.tracked_max, 0, top);
  fixture_put_at(f, f->model.step.tracked_max, 1, 2); /* the second exactly at tau */
  real *before = fixture_copy(f, added[0]), *values = fixture_copy(f, &f->model.params.values);
  after_step(f, 0, 0.1);
  ck_assert_int_eq(fixture_events(f, 0, EVENT_CLIP), 1);
  ck_assert_int_eq(fixture_events(f, 0, EVENT_NONFINITE), 0);
  const real *outputs = fixture_series(f, 0, 0), *factors = fixture_series(f, 0, 1);
  ck_assert(outputs[0] == (real)top && outputs[1] == 2);
  ck_assert_double_eq_tol((double)factors[0], gamma, REAL_EPS);
  ck_assert(factors[1] == 1);
  program_run(mp.program);
  ck_assert_double_eq_tol(fixture_at(f, mp.tracked_max, 0), 2, 200 * REAL_EPS);
  real *now = fixture_copy(f, added[0]);
  for (long i = 0; i < added[0]->rows * added[0]->cols; i++)
    ck_assert_double_eq_tol((double)now[i], gamma * (double)before[i], 200 * REAL_EPS);
  const char *changed[] = {"attn.w_o", "attn.b_o"};
  for (int k = 0; k < 1 + (f->model.options.bias != 0); k++) { /* and nothing else */
    const struct tensor *t = &model_param(&f->model, 0, changed[k])->value;
    real *part = fixture_copy(f, t);
    memcpy(values + (REALS(t) - REALS(&f->model.params.values)), part, fixture_bytes(t));
    memory_free(part);
  }
  ck_values(f, values);
  memory_free(before), memory_free(values), memory_free(now);
  model_program_free(&mp);
  fixture_close(f);
}
END_TEST

START_TEST(no_clip_of_outputs_that_are_not_finite)
{
  struct fixture *f = fixture_open(output_shapes[1], "max_output_clip tau=2", NULL);
  real *values = fixture_copy(f, &f->model.params.values);
  fixture_put_at(f, f->model.step.tracked_max, 0, NAN);
  fixture_put_at(f, f->model.step.tracked_max, 1, INFINITY);
  after_step(f, 0, 0.1);
  ck_values(f, values);
  ck_assert_int_eq(fixture_events(f, 0, EVENT_NONFINITE), 2);
  ck_assert_int_eq(fixture_events(f, 0, EVENT_CLIP), 0);
  ck_assert(isnan(fixture_series(f, 0, 0)[0]) && isinf(fixture_series(f, 0, 0)[1]));
  for (int l = 0; l < 2; l++) ck_assert(fixture_series(f, 0, 1)[l] == 1);
  memory_free(values);
  fixture_close(f);
}
END_TEST

/* Looking at the branch takes the product apart from the sum: the same loss and gradient but for rounding. */
START_TEST(watching_changes_nothing)
{
  struct fixture *f = fixture_open(output_shapes[_i], "max_output_clip", NULL);
  struct fixture *g = fixture_open(output_shapes[_i], "none", NULL);
  fixture_shake(f, 0.3), fixture_shake(g, 0.3);
  struct model_program a = fixture_program(f, 2, 6, 1), b = fixture_program(g, 2, 6, 1);
  ck_assert_double_eq_tol(fixture_loss(f, &a), fixture_loss(g, &b), 100 * REAL_EPS);
  const struct tensor *x = &f->model.params.grads, *y = &g->model.params.grads;
  double top = largest(g, y);
  for (long i = 0; i < x->cols; i++)
    ck_assert_double_eq_tol((double)REALS(x)[i], (double)REALS(y)[i], 200 * REAL_EPS * top);
  model_program_free(&a), model_program_free(&b);
  fixture_close(f), fixture_close(g);
}
END_TEST

START_TEST(scale_of_outputs_under_sigma)
{
  struct error e = {0};
  ck_assert_ptr_null(fixture_try(output_shapes[0], "max_output_clip; sigma_reparam", NULL, &e));
  ck_assert_int_eq(e.status, STATUS_USAGE);
  ck_assert_ptr_nonnull(strstr(e.text, "sigma_reparam.weights = qk"));
  fixture_close(fixture_open(output_shapes[0], "max_output_clip; sigma_reparam weights=qk", NULL));
}
END_TEST

/* --- QK-Clip: when, and what else ------------------------------------------------------------------------- */
static const real passed[2 * HEADS] = {1, 40, 2,   3,
                                       4, 5,  160, 6}; /* layer 0 head 1 by 4, layer 1 head 2 by 16 */

static void passed_tau(struct fixture *f)
{
  fixture_seen(f, 0, passed);
  fixture_seen(f, 1, passed);
}

static void hook(struct fixture *f, fixture_hook *of)
{
  fixture_run(f, 0, of, &(struct step_scalars){0, 0.1, 1});
}

/* Each order clips in its hook, the same way, and does nothing in the other. */
START_TEST(clip_before_or_after)
{
  struct fixture *f = fixture_open_on(kinds[_i], shapes[1], "qk_clip tau=10 when=before", NULL);
  struct fixture *g = fixture_open_on(kinds[_i], shapes[1], "qk_clip tau=10 when=after", NULL);
  real *untouched = fixture_copy(f, &f->model.params.values);
  passed_tau(f), passed_tau(g);
  hook(g, g->stack[0]->before_update);
  ck_values(g, untouched);
  ck_assert_int_eq(fixture_events(g, 0, EVENT_CLIP), 0);
  hook(f, f->stack[0]->before_update);
  real *clipped = fixture_copy(f, &f->model.params.values);
  ck_assert_mem_ne(clipped, untouched, fixture_bytes(&f->model.params.values));
  ck_assert_int_eq(fixture_events(f, 0, EVENT_CLIP), 2);
  hook(g, g->stack[0]->after_step);
  hook(f, f->stack[0]->after_step);
  ck_assert_int_eq(fixture_events(f, 0, EVENT_CLIP), 2);
  ck_assert_int_eq(fixture_events(g, 0, EVENT_CLIP), 2);
  ck_values(f, clipped), ck_values(g, clipped);
  ck_assert_mem_eq(fixture_series(f, 0, 0), fixture_series(g, 0, 0), 2 * HEADS * sizeof(real));
  memory_free(untouched), memory_free(clipped);
  fixture_close(f), fixture_close(g);
}
END_TEST

enum { MOST_OPTIMIZERS = 32 };
struct optimizer_options {
  void *of[MOST_OPTIMIZERS];
};

static const void *options_of(void *context, const char *name)
{
  struct optimizer_options *o = context;
  for (int i = 0; optimizers[i]; i++)
    if (!strcmp(optimizers[i]->name, name)) {
      if (!o->of[i]) o->of[i] = memory_new(1, optimizers[i]->options_size + 1);
      if (optimizers[i]->options) option_defaults(optimizers[i]->options, o->of[i]);
      return o->of[i];
    }
  return NULL;
}

/* What is expected of the states: first moments of clipped rows times sqrt(gamma), 1/2 and 1/4. */
static void expect_scaled(real *expected, const char *name)
{
  static const struct {
    const char *rows;
    long from, to;
    double factor;
  } clipped[] = {
    {"blocks.0.attn.w_q", 4 * 12, 8 * 12, 0.5},
    {"blocks.0.attn.w_k", 4 * 12, 8 * 12, 0.5},
    {"blocks.1.attn.w_q", 8 * 12, 12 * 12, 0.25},
    {"blocks.1.attn.w_k", 8 * 12, 12 * 12, 0.25},
    {"blocks.0.attn.b_q", 4, 8, 0.5},
    {"blocks.0.attn.b_k", 4, 8, 0.5},
    {"blocks.1.attn.b_q", 8, 12, 0.25},
    {"blocks.1.attn.b_k", 8, 12, 0.25},
  };
  if (!strstr(name, ".m.") && !strstr(name, ".momentum.")) return;
  for (size_t k = 0; k < sizeof clipped / sizeof *clipped; k++)
    for (long i = clipped[k].from; strstr(name, clipped[k].rows) && i < clipped[k].to; i++)
      expected[i] *= (real)clipped[k].factor;
}

static void check_clip_of_momentum(const char *kind, const char *optimizer, int scales)
{
  static const struct override_options no_override = {"", "", "", MATCH_LR, 0};
  struct error e = {0};
  struct fixture *f = fixture_open_on(kind, STACK "attention=mha head_dim=4 bias=1",
                                      scales ? "qk_clip tau=10 momentum=scale" : "qk_clip tau=10", NULL);
  struct optimizer_options options = {{0}};
  struct update_rule rule = {.seed = 1};
  struct updates *u = updates_new(&f->model, optimizer, &no_override, &rule, options_of, &options, &e);
  ck_assert_msg(u != NULL, "%s", e.text);
  real *expected[256];
  char name[128];
  ck_assert_int_le(updates_states(u), 256);
  for (int i = 0; i < updates_states(u); i++) {
    struct tensor *t = updates_state(u, i, name, sizeof name);
    expected[i] = fixture_copy(f, t);
    for (long j = 0; j < t->rows * t->cols; j++)
      expected[i][j] = (real)draw_normal((struct draw){2, STREAM_TEST, (uint64_t)i}, (uint64_t)j);
    fixture_put(f, t, expected[i]);
    if (scales) expect_scaled(expected[i], name);
  }
  passed_tau(f);
  hook(f, f->stack[0]->after_step);
  for (int i = 0; i < updates_states(u); i++) {
    const struct tensor *t = updates_state(u, i, name, sizeof name);
    real *now = fixture_copy(f, t);
    ck_assert_msg(!memcmp(now, expected[i], fixture_bytes(t)), "%s", name);
    memory_free(expected[i]), memory_free(now);
  }
  updates_free(u);
  for (int i = 0; i < MOST_OPTIMIZERS; i++) memory_free(options.of[i]);
  fixture_close(f);
}

START_TEST(clip_of_momentum)
{
  for (int i = 0; optimizers[i]; i++)
    for (int scales = 0; scales < 2; scales++) check_clip_of_momentum(kinds[_i], optimizers[i]->name, scales);
}
END_TEST

/* --- spheres ---------------------------------------------------------------------------------------------- */
struct stepper {
  struct optimizer_options options;
  struct updates *updates;
};

/* Steps whose directions are the gradients. */
static struct stepper *stepper_new(struct fixture *f)
{
  static const struct override_options no_override = {"", "", "", MATCH_LR, 0};
  struct stepper *s = memory_new(1, sizeof *s);
  struct error e = {0};
  s->updates = updates_new(&f->model, "sgd", &no_override, &(struct update_rule){.seed = 1}, options_of,
                           &s->options, &e);
  ck_assert_msg(s->updates != NULL, "%s", e.text);
  return s;
}

static void take_step(struct fixture *f, struct stepper *s, long step, double rate)
{
  scalars_upload(f->model.numbers, &(struct step_scalars){step, rate, 1});
  program_run(updates_program(s->updates));
  program_run(updates_apply(s->updates));
  report_read(f->model.report);
}

static void stepper_free(struct stepper *s)
{
  updates_free(s->updates);
  for (int i = 0; i < 16; i++) memory_free(s->options.of[i]);
  memory_free(s);
}

/* MuonH and MuonSphere from W = [1 2 0; 0 1 2] along O = [.6 0 .8; 0 1 0] = msign of some gradient, lr .1. */
START_TEST(step_on_a_sphere)
{
  static const real w[] = {1, 2, 0, 0, 1, 2}, o[] = {.6f, 0, .8f, 0, 1, 0}, none[6] = {0};
  static const struct {
    const char *stack;
    double stretch, w[6];
  } cases[] = {
    {"hyperball", .968734, {.893781, 2.06455, -.184659, 0, .801451, 2.06455}},
    {"spectral_sphere iterations=40 scope=tensor",
     .902342,
     {.259617 / .902342, .617213 / .902342, -.065320 / .902342, 0, .226957 / .902342, .617213 / .902342}},
  };
  for (int k = 0; k < 2; k++) {
    struct fixture *f = fixture_open_on(
      kinds[_i], "layers=1 width=3 heads=1 head_dim=2 context=4 ffn_width=4 vocab=5 attention=mha",
      cases[k].stack, NULL);
    struct param *q = model_param(&f->model, 0, "attn.w_q"), *v = model_param(&f->model, 0, "attn.w_v");
    struct param *key = model_param(&f->model, 0, "attn.w_k"), *up = model_param(&f->model, 0, "ffn.w_up");
    fixture_put(f, &q->value, w);
    fixture_put(f, &v->value, none);
    begin(f);
    real *key_before = fixture_copy(f, &key->value);
    struct stepper *s = stepper_new(f);
    fixture_put(f, &q->grad, o);
    fixture_put(f, &v->grad, o);
    fixture_put_at(f, &up->grad, 0, NAN);
    take_step(f, s, 0, .1);
    for (int i = 0; i < 6; i++) {
      ck_assert_double_eq_tol(fixture_at(f, &q->value, i), cases[k].w[i], 3e-6);
      ck_assert_double_eq_tol(fixture_at(f, &key->value, i), key_before[i], 4 * REAL_EPS); /* no step */
      if (k == 0) ck_assert_double_eq(fixture_at(f, &v->value, i), 0); /* zeros have a ball of radius 0 */
    }
    ck_assert(isnan(fixture_at(f, &up->value, 0)));
    ck_assert(isnan(fixture_series(f, 0, 0)[0]));
    memory_free(key_before);
    stepper_free(s);
    fixture_close(f);
  }
}
END_TEST

static double size_of_block(struct fixture *f, const struct qk_block *b, int spectral)
{
  struct tensor w = rows_of(b);
  struct svd s;
  double squares = 0;
  ck_assert(!svd_of(&s, f->device, &w));
  for (long i = 0; i < s.n; i++) squares += s.sigma[i] * s.sigma[i];
  double size = spectral ? s.sigma[0] : sqrt(squares);
  svd_free(&s);
  return size;
}

/* Along gradients that are drawn, of another size for each matrix. */
static void step_on_draws(struct fixture *f, struct stepper *s, uint64_t seed, long step)
{
  for (int i = 0; i < f->model.params.count; i++) {
    struct param *p = f->model.params.list[i];
    struct draw draw = {seed, STREAM_TEST, (uint64_t)(i + 100 * step)};
    if (p->kind != PARAM_MATRIX) continue;
    real *grad = memory_new(1, fixture_bytes(&p->grad));
    for (long j = 0; j < p->grad.rows * p->grad.cols; j++)
      grad[j] = (real)((i + 1) * draw_normal(draw, (uint64_t)j));
    fixture_put(f, &p->grad, grad);
    memory_free(grad);
  }
  take_step(f, s, step, .05);
}

/* After many steps every block has its size still, whatever the directions' sizes are; the others go free. */
START_TEST(sizes_stay)
{
  static const char *const options[] = {"tensors=matrices scope=tensor", "tensors=matrices scope=head",
                                        "tensors=qk scope=tensor", "tensors=qk scope=head"};
  for (int k = 0; k < 8; k++) {
    int spectral = k % 2, count;
    char stack[128];
    snprintf(stack, sizeof stack, spectral ? "spectral_sphere radius=3 iterations=40 %s" : "hyperball %s",
             options[k / 2]);
    struct fixture *f = fixture_open_on(kinds[_i], shapes[2], stack, NULL);
    struct stepper *s = stepper_new(f);
    struct qk_block *block = sphere_blocks(&f->model, k / 4 ? SPHERE_QK : SPHERE_MATRICES, k / 2 % 2, &count);
    double *size = memory_new((size_t)count, sizeof *size);
    ck_assert_int_eq(count, k / 4 ? (k / 2 % 2 ? 12 : 4) : (k / 2 % 2 ? 24 : 14));
    for (int i = 0; i < count; i++) {
      size[i] = size_of_block(f, &block[i], spectral);
      if (spectral)
        ck_assert_double_eq_tol(
          size[i], 3 * sqrt((double)block[i].rows / (double)block[i].weight->value.cols), 1e-3 * size[i]);
    }
    struct param *down = model_param(&f->model, 0, "ffn.w_down");
    struct qk_block last = {down, NULL, 0, 0, down->value.rows};
    double free_before = size_of_block(f, &last, 0);
    for (long step = 0; step < 8; step++) step_on_draws(f, s, 4, step);
    for (int i = 0; i < count; i++)
      ck_assert_double_eq_tol(size_of_block(f, &block[i], spectral), size[i],
                              (spectral ? 3e-3 : 8 * REAL_EPS) * size[i]);
    double off = fabs(size_of_block(f, &last, 0) / free_before - 1);
    ck_assert(k / 4 ? off > .1 : spectral || off < 8 * REAL_EPS);
    for (int l = 0; l < 2; l++) ck_assert(fixture_series(f, 0, 0)[l] > 1 && fixture_series(f, 0, 0)[l] < 1.1);
    if (!spectral) { /* the size is that of the start, whatever becomes of a weight: not of the step before */
      struct tensor w = rows_of(&block[0]);
      fixture_scale(f, &block[0].weight->value, 0, block[0].weight->value.rows * w.cols, 1.25);
      step_on_draws(f, s, 4, 8);
      ck_assert_double_eq_tol(size_of_block(f, &block[0], 0), size[0], 8 * REAL_EPS * size[0]);
      ck_assert_double_gt((double)fixture_series(f, 0, 0)[block[0].layer],
                          1.2); /* the largest of the layer */
    }
    memory_free(size);
    stepper_free(s);
    fixture_close(f);
  }
}
END_TEST

/* --- spectral_tangent ------------------------------------------------------------------------------------- */
#define SSO "spectral_tangent scope=tensor; spectral_sphere iterations=40 scope=tensor"

/* A step of w_q from W = [1 2 0; 0 1 2] along g, lr .1, the sphere's stabilizer the last of the stack. */
static void step_round(const char *device, const char *stack, const double g[6], double next[6],
                       double told[3])
{
  static const real w[] = {1, 2, 0, 0, 1, 2};
  struct fixture *f = fixture_open_on(
    device, "layers=1 width=3 heads=1 head_dim=2 context=4 ffn_width=4 vocab=5 attention=mha", stack, NULL);
  struct param *q = model_param(&f->model, 0, "attn.w_q");
  int sphere = f->stacked - 1;
  fixture_put(f, &q->value, w);
  fixture_run(f, sphere, f->stack[sphere]->begin, &(struct step_scalars){0});
  struct stepper *s = stepper_new(f);
  for (int i = 0; i < 6; i++) fixture_put_at(f, &q->grad, i, g[i]);
  take_step(f, s, 0, .1);
  for (int i = 0; i < 6; i++) next[i] = fixture_at(f, &q->value, i);
  for (int k = 0; sphere && k < 3; k++) told[k] = (double)fixture_series(f, 0, k)[0];
  if (sphere) ck_assert_double_ge((double)fixture_series(f, 1, 0)[0], 1);
  stepper_free(s);
  fixture_close(f);
}

/* SSO (arXiv 2601.08393): numbers by exact decompositions in double. Along an isometry that is tangent lambda is 0, and
   the step MuonSphere's. */
START_TEST(step_along_a_sphere)
{
  static const double g[] = {3, 0, 4, 0, 2, 0}, back[] = {-3, 0, -4, 0, -2, 0};
  static const double phi[] = {.776765, -.358669, .517680, .582870, .098087, -.806623};
  static const double expected[] = {.245184, .646499, -.042268, -.047591, .300598, .683074};
  double next[6], again[6], without[6], told[3];
  step_round(kinds[_i], SSO, g, next, told);
  for (int i = 0; i < 6; i++) ck_assert_double_eq_tol(next[i], expected[i] / 1.008738, 2e-6);
  ck_assert_double_eq_tol(told[0], .507608, 2e-6);
  ck_assert_double_eq(told[1], 0); /* the other matrices' */
  ck_assert_double_le(told[2], 1e-6);
  step_round(kinds[_i], SSO, back, again, told);
  ck_assert_double_eq_tol(told[0], .507608, 2e-6);
  ck_assert_double_eq_tol(told[1], .982708, 2e-6);
  step_round(kinds[_i], SSO, phi, again, told);
  step_round(kinds[_i], strchr(SSO, ';') + 2, phi, without, NULL);
  for (int i = 0; i < 6; i++) {
    ck_assert_double_eq_tol(again[i], next[i], 2e-6);
    ck_assert_double_eq_tol(again[i], without[i], 2e-6);
  }
  ck_assert_double_le(fmax(told[0], fmax(fabs(told[1]), told[2])), 3e-6);
}
END_TEST

/* |M + lambda T|_*, M in m [rows, cols] and T of w's leading pair. */
static double nuclear_norm(const real *m, const struct svd *w, double lambda)
{
  real *x = memory_new((size_t)(w->rows * w->cols), sizeof *x);
  struct svd s;
  double sum = 0;
  for (long i = 0; i < w->rows * w->cols; i++)
    x[i] = (real)((double)m[i] + lambda * w->u[i / w->cols * w->n] * w->v[i % w->cols * w->n]);
  ck_assert(!svd_of_host(&s, x, w->rows, w->cols));
  for (long k = 0; k < s.n; k++) sum += s.sigma[k];
  svd_free(&s);
  memory_free(x);
  return sum;
}

/* The least of it, which is convex, by sections. */
static double least_nuclear_norm(const real *m, const struct svd *w)
{
  double low = -2 * nuclear_norm(m, w, 0), high = -low;
  for (int i = 0; i < 70; i++) {
    double a = low + .45 * (high - low), b = low + .55 * (high - low);
    if (nuclear_norm(m, w, a) < nuclear_norm(m, w, b))
      high = b;
    else
      low = a;
  }
  return nuclear_norm(m, w, (low + high) / 2);
}

/* Of all that have |Phi|_2 <= 1 and <T, Phi> = 0 none has a larger <M, Phi>: it is the least |M + lambda T|_*, which
   bounds them all. Returns 1 where Phi is not an isometry. */
static int check_tangent(const real *before, const real *now, const struct svd *w)
{
  const long size = w->rows * w->cols;
  struct svd s;
  double along = 0, tangent = 0, norm = 0, bound = least_nuclear_norm(before, w);
  ck_assert(!svd_of_host(&s, now, w->rows, w->cols));
  for (long i = 0; i < size; i++) {
    along += (double)now[i] * (double)before[i];
    tangent += (double)now[i] * w->u[i / w->cols * w->n] * w->v[i % w->cols * w->n];
    norm += (double)before[i] * (double)before[i] - (double)now[i] * (double)now[i];
  }
  ck_assert_double_eq_tol(norm, 0, 1e-5 * along);
  ck_assert_double_eq_tol(tangent, 0, 5e-6 * s.sigma[0]);
  ck_assert_double_eq_tol(along / s.sigma[0], bound, 5e-6 * bound);
  for (long k = 0; k + 1 < s.n; k++) ck_assert_double_eq_tol(s.sigma[k], s.sigma[0], 1e-5 * s.sigma[0]);
  int isometry = s.sigma[s.n - 1] > .999 * s.sigma[0];
  ck_assert(isometry || w->rows == w->cols);
  svd_free(&s);
  return !isometry;
}

/* Wide, tall and square matrices; of square ones some meet the root where msign jumps. */
START_TEST(steepest_along_spheres)
{
  static const char *const options[] = {"scope=tensor", "scope=head", "tensors=qk scope=tensor",
                                        "tensors=qk"};
  int between = 0;
  for (int k = 0; k < 4; k++) {
    int count;
    char stack[128];
    snprintf(stack, sizeof stack, "spectral_tangent %s", options[k]);
    struct fixture *f = fixture_open_on(
      kinds[_i], "layers=2 width=8 heads=2 head_dim=4 context=4 ffn_width=12 vocab=5 attention=mha", stack,
      NULL);
    struct stepper *s = stepper_new(f);
    struct qk_block *block = sphere_blocks(&f->model, k / 2 ? SPHERE_QK : SPHERE_MATRICES, k % 2, &count);
    struct svd *w = memory_new((size_t)count, sizeof *w);
    for (int i = 0; i < count; i++) {
      struct tensor value = rows_of(&block[i]);
      ck_assert(!svd_of(&w[i], f->device, &value));
    }
    step_on_draws(f, s, 6, 0);
    for (int i = 0; i < count; i++) {
      struct tensor g = tensor_rows(&block[i].weight->grad, block[i].row, block[i].rows);
      struct tensor d = tensor_rows(&block[i].weight->update, block[i].row, block[i].rows);
      real *gradient = fixture_copy(f, &g), *update = fixture_copy(f, &d);
      between += check_tangent(gradient, update, &w[i]);
      memory_free(gradient), memory_free(update);
      svd_free(&w[i]);
    }
    for (int l = 0; l < 2; l++) {
      ck_assert_double_gt((double)fixture_series(f, 0, 0)[l], 0);
      ck_assert_double_le((double)fixture_series(f, 0, 2)[l], 5e-6);
    }
    memory_free(w);
    stepper_free(s);
    fixture_close(f);
  }
  ck_assert_int_gt(between, 2);
}
END_TEST

/* A weight of zeros has no pair: its step is msign. No gradient is no step. What is not finite is NaN everywhere. */
START_TEST(tangent_of_nothing)
{
  static const real g[] = {3, 0, 4, 0, 2, 0}, none[6] = {0};
  static const double polar[] = {.6, 0, .8, 0, 1, 0};
  struct fixture *f = fixture_open_on(
    kinds[_i], "layers=2 width=3 heads=1 head_dim=2 context=4 ffn_width=2 vocab=5 attention=mha",
    "spectral_tangent", NULL);
  struct param *q = model_param(&f->model, 0, "attn.w_q"), *up = model_param(&f->model, 1, "ffn.w_up"),
               *k = model_param(&f->model, 0, "attn.w_k"), *gate = model_param(&f->model, 1, "ffn.w_gate");
  struct stepper *s = stepper_new(f);
  fixture_put(f, &q->value, none);
  fixture_put(f, &q->grad, g);
  fixture_put_at(f, &up->grad, 0, INFINITY);
  fixture_put_at(f, &gate->value, 0, NAN);
  fixture_put(f, &gate->grad, g);
  take_step(f, s, 0, .1);
  for (int i = 0; i < 6; i++) {
    ck_assert_double_eq_tol(fixture_at(f, &q->update, i), polar[i] * sqrt(29 / 2.), 8 * REAL_EPS);
    ck_assert_double_eq(fixture_at(f, &k->update, i), 0);
    ck_assert(isnan(fixture_at(f, &up->update, i)) && isnan(fixture_at(f, &gate->update, i)));
  }
  for (int i = 0; i < 3; i++) {
    ck_assert_double_eq((double)fixture_series(f, 0, i)[0], 0);
    ck_assert(isnan(fixture_series(f, 0, i)[1]));
  }
  stepper_free(s);
  fixture_close(f);
}
END_TEST

/* --- stiefel ---------------------------------------------------------------------------------------------- */

/* A step of Manifold Muon or SPEL on w_q, from W along G; off the tangent space by `off` at most. */
struct along {
  const char *shape, *stack;
  double rate;
  real w[8], g[8];
  double next[8], tolerance, off;
};
static const struct along along[] = {
  /* SPEL from msign(W), W = [1 2 0; 0 1 2] */
  {"width=3",
   "steps=0",
   .1,
   {1, 2, 0, 0, 1, 2},
   {.6F, 0, .8F, 0, 1, 0},
   {.416778, .885598, -.204970, -.068366, .255387, .964419},
   2e-6,
   2},
  /* an ascent that ends before it is there: every round counts. alpha .01 of a gradient of length sqrt(29) */
  {"width=3",
   "steps=5 alpha=0.0018569533817705186",
   .1,
   {1, 2, 0, 0, 1, 2},
   {3, 0, 4, 0, 2, 0},
   {.399906, .873753, -.276823, -.045494, .320575, .946130},
   3e-6,
   2},
  /* one that arrives */
  {"width=4",
   "steps=60 alpha=0.2",
   .1,
   {.6F, .8F, 0, 0, 0, 0, .8F, -.6F},
   {1, 0, 2, 0, 0, 3, 0, 1},
   {.560558, .823378, -.033046, -.082045, .054697, -.069510, .768681, -.633487},
   4e-6,
   1e-5},
  /* the same of a gradient a million times smaller */
  {"width=4",
   "steps=60 alpha=0.2",
   .1,
   {.6F, .8F, 0, 0, 0, 0, .8F, -.6F},
   {1e-6F, 0, 2e-6F, 0, 0, 3e-6F, 0, 1e-6F},
   {.560558, .823378, -.033046, -.082045, .054697, -.069510, .768681, -.633487},
   4e-6,
   1e-5},
};
enum { ALONG = sizeof along / sizeof *along };

START_TEST(step_along_stiefel)
{
  const struct along *a = &along[_i % ALONG];
  char shape[128], stack[128];
  snprintf(shape, sizeof shape, "layers=1 %s heads=1 head_dim=2 context=4 ffn_width=4 vocab=5 attention=mha",
           a->shape);
  snprintf(stack, sizeof stack, "stiefel scope=tensor tensors=qk %s", a->stack);
  struct fixture *f = fixture_open_on(kinds[_i / ALONG], shape, stack, NULL);
  struct param *q = model_param(&f->model, 0, "attn.w_q"), *k = model_param(&f->model, 0, "attn.w_k");
  long size = q->value.rows * q->value.cols;
  fixture_put(f, &q->value, a->w);
  begin(f);
  struct stepper *s = stepper_new(f);
  fixture_put(f, &q->grad, a->g);
  fixture_put(f, &k->grad, a->g);
  take_step(f, s, 0, a->rate);
  for (long i = 0; i < size; i++)
    ck_assert_double_eq_tol(fixture_at(f, &q->value, i), a->next[i], a->tolerance);
  ck_assert_double_le(fixture_series(f, 0, 0)[0], a->off);
  stepper_free(s);
  fixture_close(f);
}
END_TEST

/* |W^T A + A^T W| / n of a step A from W, n the shorter side; of wide matrices that of the transposed. */
static double off_tangent(const real *w, const real *a, long rows, long cols)
{
  const long n = rows < cols ? rows : cols, next = rows < cols ? 1 : cols, apart = rows < cols ? cols : 1;
  double squares = 0;
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++) {
      double sum = 0;
      for (long j = 0; j < rows * cols / n; j++)
        sum += (double)w[i * apart + j * next] * (double)a[k * apart + j * next] +
               (double)a[i * apart + j * next] * (double)w[k * apart + j * next];
      squares += sum * sum;
    }
  return sqrt(squares) / (double)n;
}

/* The series has the largest of a layer's matrices, wide and tall, some of them with the largest. */
START_TEST(series_tells_how_far_off_the_tangent_space)
{
  static const char *const options[] = {"tensors=qk scope=tensor steps=2", "tensors=qk scope=head steps=2",
                                        "tensors=matrices scope=tensor steps=0"};
  int tall = 0, wide = 0;
  for (int k = 0; k < 3; k++) {
    int count;
    char stack[128];
    snprintf(stack, sizeof stack, "stiefel %s", options[k]);
    struct fixture *f = fixture_open_on(kinds[_i], shapes[2], stack, NULL);
    struct stepper *s = stepper_new(f);
    struct qk_block *block = sphere_blocks(&f->model, k / 2 ? SPHERE_MATRICES : SPHERE_QK, k == 1, &count);
    real **w = memory_new((size_t)count, sizeof *w);
    double largest[2] = {0};
    int is_tall[2] = {0};
    for (int i = 0; i < count; i++) {
      struct tensor value = rows_of(&block[i]);
      w[i] = fixture_copy(f, &value);
    }
    step_on_draws(f, s, 5, 0);
    for (int i = 0; i < count; i++) {
      struct tensor d = tensor_rows(&block[i].weight->update, block[i].row, block[i].rows);
      real *a = fixture_copy(f, &d);
      const double off = off_tangent(w[i], a, d.rows, d.cols);
      if (off > largest[block[i].layer])
        largest[block[i].layer] = off, is_tall[block[i].layer] = d.rows > d.cols;
      memory_free(a), memory_free(w[i]);
    }
    for (int l = 0; l < 2; l++) {
      ck_assert_double_eq_tol((double)fixture_series(f, 0, 0)[l], largest[l], 1e-4 * largest[l]);
      tall += is_tall[l], wide += !is_tall[l];
    }
    memory_free(w);
    stepper_free(s);
    fixture_close(f);
  }
  ck_assert(tall && wide);
}
END_TEST

/* After many steps every singular value is 1 still; wide and tall matrices find the tangent space. */
START_TEST(singular_values_stay)
{
  static const char *const options[] = {"tensors=matrices scope=tensor steps=0",
                                        "tensors=matrices scope=head steps=3",
                                        "tensors=qk scope=tensor steps=40", "tensors=qk scope=head steps=40"};
  for (int k = 0; k < 4; k++) {
    int count;
    char stack[128];
    snprintf(stack, sizeof stack, "stiefel %s", options[k]);
    struct fixture *f = fixture_open_on(kinds[_i], shapes[2], stack, NULL);
    struct stepper *s = stepper_new(f);
    struct qk_block *block = sphere_blocks(&f->model, k / 2 ? SPHERE_QK : SPHERE_MATRICES, k % 2, &count);
    for (long step = 0; step < 10; step++) step_on_draws(f, s, 5, step);
    for (int i = 0; i < count; i++) {
      struct tensor w = rows_of(&block[i]);
      struct svd of;
      ck_assert(!svd_of(&of, f->device, &w));
      for (long j = 0; j < of.n; j++) ck_assert_double_eq_tol(of.sigma[j], 1, 32 * REAL_EPS);
      svd_free(&of);
    }
    if (k == 3)
      for (int l = 0; l < 2; l++) ck_assert_double_lt(fixture_series(f, 0, 0)[l], .02);
    stepper_free(s);
    fixture_close(f);
  }
}
END_TEST

START_TEST(probe_is_asked_for)
{
  struct fixture *f = fixture_open(shapes[0], "qk_clip statistic=probe; max_output_clip", NULL);
  ck_assert_int_eq(f->model.context[0].wants_probe, 1);
  ck_assert_int_eq(f->model.context[1].wants_probe, 0);
  fixture_close(f);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("cures");
  TCase *tests = tcase_create("cures");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, decomposition);
  tcase_add_loop_test(tests, clip_of_singular_values, 0, KINDS);
  tcase_add_loop_test(tests, clip_waits, 0, 2);
  tcase_add_loop_test(tests, decay_of_the_largest, 0, KINDS);
  tcase_add_test(tests, decay_remembers);
  tcase_add_loop_test(tests, quack_rates, 0, KINDS);
  tcase_add_loop_test(tests, quack_groups, 0, KINDS);
  tcase_add_loop_test(tests, quack_latents, 0, KINDS);
  tcase_add_loop_test(tests, quack_of_zero, 0, KINDS);
  tcase_add_test(tests, quack_resumes);
  tcase_add_loop_test(tests, step_on_a_sphere, 0, KINDS);
  tcase_add_loop_test(tests, sizes_stay, 0, KINDS);
  tcase_add_loop_test(tests, step_along_a_sphere, 0, KINDS);
  tcase_add_loop_test(tests, steepest_along_spheres, 0, KINDS);
  tcase_add_loop_test(tests, tangent_of_nothing, 0, KINDS);
  tcase_add_loop_test(tests, step_along_stiefel, 0, KINDS * ALONG);
  tcase_add_loop_test(tests, singular_values_stay, 0, KINDS);
  tcase_add_loop_test(tests, series_tells_how_far_off_the_tangent_space, 0, KINDS);
  const int output_cases = sizeof output_shapes / sizeof *output_shapes;
  tcase_add_loop_test(tests, clip_of_outputs, 0, KINDS * output_cases);
  tcase_add_test(tests, no_clip_of_outputs_that_are_not_finite);
  tcase_add_loop_test(tests, watching_changes_nothing, 0, output_cases);
  tcase_add_test(tests, scale_of_outputs_under_sigma);
  tcase_add_loop_test(tests, clip_before_or_after, 0, KINDS);
  tcase_add_loop_test(tests, clip_of_momentum, 0, KINDS);
  tcase_add_test(tests, probe_is_asked_for);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
