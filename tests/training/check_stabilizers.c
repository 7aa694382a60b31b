/* check_stabilizers.c - what each stabilizer promises, on logits recomputed here; in float and in double */
#include <stdio.h>
#include "../kinds.h"
#include "../model/model_fixture.h"
#include "numerics/linalg.h"
#include "training/spectral.h"

enum { BATCH = 2, CONTEXT = 6, ROWS = BATCH * CONTEXT, HEADS = 4 };
#define ONE_LAYER "layers=1 width=12 heads=4 head_dim=4 context=6 ffn_width=16 vocab=11 "

/* Sums of about 10 products of rounded numbers, against the largest logit. */
static const double close_to = 100 * REAL_EPS;

/* --- logits from queries and keys ----------------------------------------------------------------------- */

/* A stabilizer that keeps what the attention variant passes through on_qk. */
static struct {
  struct qk_part part[MAX_PARTS];
  int parts;
  struct device *device;
} seen;

static void see(struct stabilizer_context *c, struct program *program, int layer,
                const struct layer_inputs *in, struct qk_part *part, int parts)
{
  (void)c, (void)in;
  if (layer > 0) return;
  seen.parts = parts;
  for (int i = 0; i < parts; i++) {
    seen.part[i] = part[i];
    program_keep(program, part[i].x);
  }
}

static const struct stabilizer witness = {.name = "witness", .help = "keeps queries and keys", .on_qk = see};

static const struct qk_part *part_of(enum role a, enum role b)
{
  for (int i = 0; i < seen.parts; i++)
    if (seen.part[i].role == a || seen.part[i].role == b) return &seen.part[i];
  return NULL;
}

/* Head h of row n, turned by RoPE with base 10000 to position t. */
static void head_of(const struct qk_part *p, int n, int h, int t, double out[64])
{
  long half = p->dim / 2;
  real x[64];
  ck_assert_int_le(p->dim, 64);
  seen.device->download(seen.device, x, REALS(p->x) + n * p->x->ld + h * p->heads / HEADS * p->dim,
                        (size_t)p->dim * sizeof *x);
  for (long i = 0; i < half; i++) {
    double angle = t * pow(10000, -2.0 * (double)i / (double)p->dim);
    out[i] = (double)x[i] * cos(angle) - (double)x[i + half] * sin(angle);
    out[i + half] = (double)x[i + half] * cos(angle) + (double)x[i] * sin(angle);
  }
}

static double product(const struct qk_part *q, const struct qk_part *k, int i, int j, int h, int turned)
{
  double a[64], b[64], sum = 0;
  head_of(q, i, h, turned ? i % CONTEXT : 0, a);
  head_of(k, j, h, turned ? j % CONTEXT : 0, b);
  for (long d = 0; d < q->dim; d++) sum += a[d] * b[d];
  return sum;
}

typedef double logits[HEADS][ROWS][ROWS];

enum { CONTENT = 1, ROTARY = 2, BOTH = 3 };

/* All causal logits of some parts; where there are rotary parts, the content is not turned. */
static void parts_of(logits s, int what)
{
  const struct qk_part *q = part_of(ROLE_Q_HEAD, ROLE_Q_HEAD), *k = part_of(ROLE_K_HEAD, ROLE_K_GROUP);
  const struct qk_part *qr = part_of(ROLE_Q_ROPE, ROLE_Q_ROPE);
  const struct qk_part *kr = part_of(ROLE_K_ROPE_SHARED, ROLE_K_ROPE_SHARED);
  double scale = 1 / sqrt((double)(q->dim + (qr ? qr->dim : 0)));
  memset(s, 0, sizeof(logits));
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < ROWS; i++)
      for (int j = i / CONTEXT * CONTEXT; j <= i; j++)
        s[h][i][j] = scale * ((what & CONTENT ? product(q, k, i, j, h, !qr) : 0) +
                              (what & ROTARY && qr ? product(qr, kr, i, j, h, 1) : 0));
}

static void logits_of(logits s) { parts_of(s, BOTH); }

static double largest(double s[ROWS][ROWS], int absolute)
{
  double top = -INFINITY;
  for (int i = 0; i < ROWS; i++)
    for (int j = i / CONTEXT * CONTEXT; j <= i; j++) top = fmax(top, absolute ? fabs(s[i][j]) : s[i][j]);
  return top;
}

/* --- a model under test --------------------------------------------------------------------------------- */

struct bench {
  struct fixture *f;
  struct model_program mp;
  real maxima[2 * HEADS];
};

#ifdef MAXLOGIT_DOUBLE
static const int tried_kinds = 1; /* the others are in float */
#else
static const int tried_kinds = KINDS;
#endif

static struct bench bench_open_with(const struct stabilizer *extra, const char *device, const char *attention,
                                    const char *more, const char *stack)
{
  char settings[512];
  snprintf(settings, sizeof settings, ONE_LAYER "attention=%s %s%s%s", attention, fixture_wants(attention),
           fixture_bias(attention), more);
  struct bench b = {.f = fixture_open_on(device, settings, stack, extra)};
  fixture_shake(b.f, 0.3);
  b.mp = fixture_program(b.f, BATCH, CONTEXT, 0);
  seen.device = b.f->device;
  return b;
}

static struct bench bench_open_on(const char *device, const char *attention, const char *more,
                                  const char *stack)
{
  return bench_open_with(&witness, device, attention, more, stack);
}

static struct bench bench_open(const char *attention, const char *more, const char *stack)
{
  return bench_open_on("reference", attention, more, stack);
}

static void bench_close(struct bench *b)
{
  model_program_free(&b->mp);
  fixture_close(b->f);
}

static double stat(const struct bench *b, int head, int which)
{
  return fixture_at(b->f, b->mp.stats[0], 4 * head + which);
}

/* What the trainer does around after_step. */
static void after_step(struct bench *b, const real *maxima)
{
  fixture_seen(b->f, 0, maxima);
  fixture_seen(b->f, 1, maxima);
  fixture_run(b->f, 0, b->f->stack[0]->after_step, &(struct step_scalars){0});
}

static double gamma_of(const struct bench *b, int head) { return (double)fixture_series(b->f, 0, 0)[head]; }

static int clips(const struct bench *b) { return fixture_events(b->f, 0, EVENT_CLIP); }

static void set(struct bench *b, const char *settings)
{
  fixture_assign(b->f->stack[0]->options, b->f->options[0], settings);
}

static real *copy_values(const struct bench *b) { return fixture_copy(b->f, &b->f->model.params.values); }

static int same_values(const struct bench *b, const real *copy)
{
  real *now = copy_values(b);
  int same = !memcmp(now, copy, fixture_bytes(&b->f->model.params.values));
  memory_free(now);
  return same;
}

/* --- QK-Clip -------------------------------------------------------------------------------------------- */

START_TEST(recorded_maxima_are_those_of_the_logits)
{
  struct bench b = bench_open(attentions[_i]->name, "", "none");
  logits s;
  program_run(b.mp.program);
  logits_of(s);
  for (int h = 0; h < HEADS; h++) {
    ck_assert_double_eq_tol(stat(&b, h, 0), largest(s[h], 0), close_to * largest(s[h], 1));
    ck_assert_double_eq_tol(stat(&b, h, 1), largest(s[h], 1), close_to * largest(s[h], 1));
    ck_assert(stat(&b, h, 2) == stat(&b, h, 0));
  }
  bench_close(&b);
}
END_TEST

struct rule {
  const char *settings;
  double alpha;
  int layer;
};
static const struct rule rules[] = {{"gqa=group_max", 0.5, 0},
                                    {"gqa=own_q_min_k", 0.5, 0},
                                    {"gqa=q_only", 0.5, 0},
                                    {"gqa=compensated", 0.5, 0},
                                    {"gqa=group_max alpha=0.2", 0.2, 0},
                                    {"gqa=own_q_min_k alpha=0.2", 0.2, 0},
                                    {"gqa=compensated alpha=0.2", 0.2, 0},
                                    {"gqa=group_max scope=layer", 0.5, 1},
                                    {"gqa=own_q_min_k scope=layer alpha=0.9", 0.9, 1},
                                    {"gqa=q_only scope=layer", 0.5, 1},
                                    {"gqa=compensated scope=layer alpha=1", 1, 1},
                                    {"alpha=0", 0, 0}};

/* What should become of every head's logits: gamma = tau / S where S > tau; among heads that share a key
   the worst head's under group_max, a mixture under own_q_min_k. */
static void expected(const struct rule *rule, int shared, const real *maxima, double tau, double out[HEADS])
{
  double gamma[HEADS], layer = 1;
  for (int h = 0; h < HEADS; h++) {
    gamma[h] = (double)maxima[h] > tau ? tau / (double)maxima[h] : 1;
    layer = fmin(layer, gamma[h]);
  }
  for (int h = 0; h < HEADS && rule->layer; h++) gamma[h] = layer;
  for (int h = 0; h < HEADS; h++) {
    double group = shared ? fmin(gamma[h], gamma[h ^ 1]) : gamma[h]; /* heads 0,1 and 2,3 */
    out[h] = gamma[h];
    if (strstr(rule->settings, "group_max")) out[h] = group;
    if (strstr(rule->settings, "own_q")) out[h] = pow(gamma[h], rule->alpha) * pow(group, 1 - rule->alpha);
  }
}

static void check_scaled(double now[ROWS][ROWS], double before[ROWS][ROWS], double factor)
{
  double tolerance = close_to * largest(before, 1);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < ROWS; j++)
      ck_assert_msg(fabs(now[i][j] - factor * before[i][j]) <= tolerance, "%.17g is not %.17g * %.17g",
                    now[i][j], factor, before[i][j]);
}

static int compare(const void *a, const void *b)
{
  double x = (double)*(const real *)a, y = (double)*(const real *)b;
  return (x > y) - (x < y);
}

/* After a clip all logits of a head are those before times the factor of the rule; heads that need no clip
   keep their bits unless the rule says otherwise; nothing but query and key weights is touched. */
static void check_rule(const char *device, const char *attention, const struct rule *rule)
{
  struct bench b = bench_open_on(device, attention, "", "qk_clip");
  int shared = b.f->model.options.kv_heads == 2, clipped = 0;
  logits before, now;
  double factor[HEADS], top = 0;
  real sorted[HEADS];
  program_run(b.mp.program);
  logits_of(before);
  for (int h = 0; h < HEADS; h++) sorted[h] = b.maxima[h] = (real)stat(&b, h, 0);
  qsort(sorted, HEADS, sizeof *sorted, compare);
  char tau[64];
  top = ((double)sorted[1] + (double)sorted[2]) / 2; /* two heads of four are above */
  snprintf(tau, sizeof tau, "tau=%.17g", top);
  set(&b, tau);
  set(&b, rule->settings);
  expected(rule, shared, b.maxima, top, factor);
  after_step(&b, b.maxima);
  program_run(b.mp.program);
  logits_of(now);
  for (int h = 0; h < HEADS; h++) {
    check_scaled(now[h], before[h], factor[h]);
    if (factor[h] == 1 && !strstr(rule->settings, "compensated"))
      ck_assert(!memcmp(now[h], before[h], sizeof now[h]));
    ck_assert_double_eq_tol(gamma_of(&b, h), factor[h], 4 * REAL_EPS);
    clipped += factor[h] < 1;
  }
  ck_assert_int_eq(clips(&b), clipped);
  ck_assert_int_ge(clipped, 2);
  bench_close(&b);
}

START_TEST(clip_rules)
{
  for (const struct attention *const *a = attentions; *a; a++)
    for (int k = 0; k < tried_kinds; k++) check_rule(kinds[k], (*a)->name, &rules[_i]);
}
END_TEST

/* Under mla the rotary key serves all heads. Left alone, every head shrinks by its own factor (above); the
   naive rules shrink the rotary part of heads that need no clip. */
START_TEST(naive_rules_of_mla)
{
  static const char *const rule[] = {"qk_clip mla=kr_layer alpha=0.3 tau=1",
                                     "qk_clip mla=kr_head alpha=0.3 tau=1"};
  struct bench b = bench_open("mla", "", rule[_i]);
  static const real maxima[HEADS] = {2, 1, 5, (real)0.5};
  static const double gamma[HEADS] = {0.5, 1, 0.2, 1};
  double key = pow(_i == 0 ? 0.2 : 0.5 * 0.2, 0.7);
  logits content, rotary, now;
  program_run(b.mp.program);
  parts_of(content, CONTENT);
  parts_of(rotary, ROTARY);
  after_step(&b, maxima);
  program_run(b.mp.program);
  parts_of(now, CONTENT);
  for (int h = 0; h < HEADS; h++) check_scaled(now[h], content[h], gamma[h]);
  parts_of(now, ROTARY);
  for (int h = 0; h < HEADS; h++) check_scaled(now[h], rotary[h], pow(gamma[h], 0.3) * key);
  ck_assert_int_eq(clips(&b), 2);
  bench_close(&b);
}
END_TEST

/* What QK-Clip does to mla, by weight: w_qc and w_kc share, w_qr takes all, nothing else changes. */
START_TEST(clip_of_mla_touches_its_rows_only)
{
  struct bench b = bench_open("mla", "", "qk_clip tau=10");
  static const real maxima[HEADS] = {1, 2, 40, 3};
  static const struct {
    const char *name;
    long rows;
    double factor;
  } changed[] = {{"attn.w_qc", 4, 0.5}, {"attn.w_kc", 4, 0.5}, {"attn.w_qr", 4, 0.25}};
  real *before = copy_values(&b);
  after_step(&b, maxima);
  real *values = copy_values(&b);
  for (int c = 0; c < 3; c++) {
    const struct tensor *t = &model_param(&b.f->model, 0, changed[c].name)->value;
    for (long i = 2 * changed[c].rows * t->cols; i < 3 * changed[c].rows * t->cols; i++) {
      long at = REALS(t) + i - REALS(&b.f->model.params.values);
      ck_assert(values[at] == (real)changed[c].factor * before[at]); /* powers of two */
      before[at] = values[at];
    }
  }
  ck_assert(same_values(&b, before));
  memory_free(before), memory_free(values);
  bench_close(&b);
}
END_TEST

/* Only rows of the clipped head change, and of the key that it shares. */
START_TEST(clip_touches_its_rows_only)
{
  struct error e = {0};
  struct fixture *f = fixture_try("layers=2 width=12 heads=4 head_dim=4 vocab=11 attention=gqa kv_heads=2 "
                                  "bias=1",
                                  "qk_clip gqa=group_max", NULL, &e);
  fixture_shake(f, 0.3);
  real maxima[2 * HEADS] = {1, 2, 3, 4, 5, 6, 700, 8}; /* layer 1, head 2: group 1 */
  struct bench b = {.f = f};
  real *before = copy_values(&b);
  after_step(&b, maxima);
  ck_assert_int_eq(clips(&b), 2);
  for (int h = 0; h < 2 * HEADS; h++)
    ck_assert_double_eq_tol(gamma_of(&b, h), h == 6 || h == 7 ? 1.0 / 7 : 1, REAL_EPS);
  const struct {
    const char *name;
    long from, to;
  } changed[] = {
    {"attn.w_q", 8 * 12, 16 * 12}, {"attn.w_k", 4 * 12, 8 * 12}, {"attn.b_q", 8, 16}, {"attn.b_k", 4, 8}};
  real *values = copy_values(&b);
  for (int c = 0; c < 4; c++) {
    const struct tensor *t = &model_param(&f->model, 1, changed[c].name)->value;
    for (long i = changed[c].from; i < changed[c].to; i++) {
      long at = REALS(t) + i - REALS(&f->model.params.values);
      ck_assert_double_eq_tol((double)values[at], (double)before[at] / sqrt(7), REAL_EPS);
      before[at] = values[at];
    }
  }
  ck_assert(same_values(&b, before));
  memory_free(before), memory_free(values);
  fixture_close(f);
}
END_TEST

/* |rows| of a factor's weight */
static double norm_of(const struct bench *b, const struct logit_block *factor)
{
  const struct tensor *t = &factor->weight->value;
  double sum = 0;
  for (long i = factor->row * t->cols; i < (factor->row + factor->rows) * t->cols; i++)
    sum += pow(fixture_at(b->f, t, i), 2);
  return sqrt(sum);
}

/* gamma^alpha on the queries' side, the rest on the keys'. */
START_TEST(clip_shares)
{
  static const char *const alpha[] = {"alpha=0", "alpha=0.3", "alpha=1"};
  struct bench b = bench_open("mha", "", "qk_clip tau=10");
  set(&b, alpha[_i]);
  double share = atof(alpha[_i] + 6);
  struct logit_block factor[MAX_LOGIT_BLOCKS];
  real maxima[HEADS] = {1, 40, 1, 1};
  ck_assert_int_eq(attention_find("mha")->logit_blocks(&b.f->model, 0, 1, factor), 2);
  double q = norm_of(&b, &factor[0]), k = norm_of(&b, &factor[1]);
  after_step(&b, maxima);
  ck_assert_double_eq_tol(norm_of(&b, &factor[0]), q * pow(0.25, share), close_to);
  ck_assert_double_eq_tol(norm_of(&b, &factor[1]), k * pow(0.25, 1 - share), close_to);
  bench_close(&b);
}
END_TEST

/* maximum = absolute reads the largest |logit|, signed the largest logit. */
START_TEST(clip_by_either_maximum)
{
  static const char *const maximum[] = {"qk_clip tau=4 maximum=signed", "qk_clip tau=4 maximum=absolute"};
  struct bench b = bench_open("mha", "", maximum[_i]);
  static const real top[HEADS] = {16, -5, 1, 2}, absolute[HEADS] = {16, 40, 1, 8};
  static const double gamma[2][HEADS] = {{0.25, 1, 1, 1}, {0.25, 0.1, 1, 0.5}};
  fixture_seen(b.f, 0, top);
  fixture_seen(b.f, 1, absolute);
  fixture_run(b.f, 0, b.f->stack[0]->after_step, &(struct step_scalars){0});
  for (int h = 0; h < HEADS; h++) ck_assert_double_eq_tol(gamma_of(&b, h), gamma[_i][h], REAL_EPS);
  bench_close(&b);
}
END_TEST

/* At tau, below, at zero, negative: not a bit changes, gamma is 1, nothing is said. */
START_TEST(no_clip_at_or_below_tau)
{
  static const char *const scope[] = {"scope=head", "scope=layer"};
  struct bench b = bench_open(attentions[_i / 2]->name, "", "qk_clip tau=3 gqa=group_max");
  set(&b, scope[_i % 2]);
  static const real quiet[5][HEADS] = {{3, 2.5, 0, -1},
                                       {0, 0, 0, 0},
                                       {-1, -200, -3, (real)-0.0},
                                       {3, 3, 3, 3},
                                       {(real)2.99999, (real)2.9, 2, 1}};
  real *before = copy_values(&b);
  for (int i = 0; i < 5; i++) {
    after_step(&b, quiet[i]);
    ck_assert(same_values(&b, before));
    ck_assert_int_eq(clips(&b), 0);
    for (int h = 0; h < HEADS; h++) ck_assert(gamma_of(&b, h) == 1);
  }
  memory_free(before);
  bench_close(&b);
}
END_TEST

/* An infinite or undefined maximum (an event of its own series) is no reason to clip; with one in the layer, the
   layer has no maximum. */
START_TEST(no_clip_where_not_finite)
{
  static const char *const scope[] = {"scope=head", "scope=layer"};
  struct bench b = bench_open(attentions[_i / 2]->name, "", "qk_clip tau=3");
  set(&b, scope[_i % 2]);
  real maxima[HEADS] = {(real)NAN, (real)INFINITY, 2, (real)-INFINITY};
  real *before = copy_values(&b);
  after_step(&b, maxima);
  ck_assert(same_values(&b, before));
  ck_assert_int_eq(clips(&b), 0);
  maxima[2] = 30;
  after_step(&b, maxima);
  int clipped = _i % 2 ? 0 : 1;
  ck_assert_int_eq(same_values(&b, before), !clipped);
  ck_assert_int_eq(clips(&b), clipped);
  for (int h = 0; h < HEADS; h++)
    ck_assert_double_eq_tol(gamma_of(&b, h), h == 2 && clipped ? 0.1 : 1, REAL_EPS);
  memory_free(before);
  bench_close(&b);
}
END_TEST

/* A head without a finite maximum keeps its query rows, bias included, while its group is clipped: what becomes of
   its logits is what becomes of the key that it shares. */
START_TEST(head_not_finite_in_a_clipped_group)
{
  static const char *const rule[] = {"gqa=group_max", "gqa=own_q_min_k", "gqa=q_only", "gqa=compensated"};
  static const double bad[] = {NAN, INFINITY, -INFINITY}, alpha = 0.3, gamma = 0.1;
  const double query = _i == 2 || _i == 3 ? gamma * (_i == 3 ? pow(gamma, alpha - 1) : 1) : pow(gamma, alpha);
  const double key = _i == 2 ? 1 : pow(gamma, 1 - alpha);
  const double logit[HEADS] = {key, query * key, 1, 1};
  for (int k = 0; k < 3; k++) {
    struct bench b = bench_open("gqa", "", "qk_clip tau=3 alpha=0.3");
    struct param *w[] = {model_param(&b.f->model, 0, "attn.w_q"), model_param(&b.f->model, 0, "attn.b_q")};
    const real maxima[HEADS] = {(real)bad[k], 30, 2, (real)2.5};
    real *old[2];
    logits before, now;
    set(&b, rule[_i]);
    program_run(b.mp.program);
    logits_of(before);
    for (int i = 0; i < 2; i++) { /* of head 0: 4 rows, or 4 numbers of the bias */
      size_t size = 4 * sizeof(real) * (size_t)(i ? 1 : w[i]->value.cols);
      old[i] = memcpy(memory_new(1, size), w[i]->value.data, size);
    }
    after_step(&b, maxima);
    for (int i = 0; i < 2; i++) {
      ck_assert_mem_eq(w[i]->value.data, old[i], 4 * sizeof(real) * (size_t)(i ? 1 : w[i]->value.cols));
      memory_free(old[i]);
    }
    program_run(b.mp.program);
    logits_of(now);
    for (int h = 0; h < HEADS; h++) {
      check_scaled(now[h], before[h], logit[h]);
      ck_assert_double_eq_tol(gamma_of(&b, h), logit[h], 4 * REAL_EPS);
    }
    ck_assert_int_eq(clips(&b), key < 1 ? 2 : 1);
    bench_close(&b);
  }
}
END_TEST

/* --- caps ----------------------------------------------------------------------------------------------- */

START_TEST(caps_bound_what_enters_the_softmax)
{
  static const char *const stack[] = {"soft_cap cap=0.8", "hard_cap cap=0.8"};
  struct bench capped = bench_open(attentions[_i / 2]->name, "", stack[_i % 2]);
  struct bench plain = bench_open(attentions[_i / 2]->name, "", "none");
  program_run(capped.mp.program);
  program_run(plain.mp.program);
  int above = 0;
  for (int h = 0; h < HEADS; h++) {
    double s = stat(&plain, h, 0), f = _i % 2 ? fmin(s, 0.8) : 0.8 * tanh(s / 0.8);
    ck_assert(stat(&capped, h, 0) == s);
    ck_assert(stat(&capped, h, 1) == stat(&plain, h, 1));
    ck_assert_double_eq_tol(stat(&capped, h, 2), f, 4 * REAL_EPS);
    ck_assert(stat(&capped, h, 2) <= (double)(real)0.8);
    above += s > 0.8;
  }
  ck_assert_int_gt(above, 0);
  bench_close(&capped);
  bench_close(&plain);
}
END_TEST

/* A cap far above every score is none. */
START_TEST(a_high_cap_changes_nothing)
{
  struct bench capped = bench_open("mha", "", "hard_cap cap=1e6"), plain = bench_open("mha", "", "none");
  program_run(capped.mp.program);
  program_run(plain.mp.program);
  ck_assert(!memcmp(capped.mp.logits->data, plain.mp.logits->data, ROWS * 11 * sizeof(real)));
  bench_close(&capped);
  bench_close(&plain);
}
END_TEST

/* --- QK-Norm -------------------------------------------------------------------------------------------- */

static const char *const norms[] = {"qk_norm kind=rms", "qk_norm kind=rms_full", "qk_norm kind=l2"};

/* The scale of w_q and w_k drops out, so QK-Clip cannot act (with no eps under the root). */
START_TEST(scale_drops_out_under_norm)
{
  char stack[64];
  snprintf(stack, sizeof stack, "qk_clip;%s", norms[_i % 3]);
  struct bench b = bench_open(_i / 3 ? "gqa" : "mha", "norm_eps=0", stack);
  set(&b, "tau=3 gqa=group_max");
  real maxima[HEADS] = {30, 600, 3000, 6}, before[ROWS * 11];
  program_run(b.mp.program);
  memcpy(before, b.mp.logits->data, sizeof before);
  for (int h = 0; h < HEADS && _i % 3 == 1; h++) maxima[h] = 30; /* over all heads: one scale for all */
  real *values = copy_values(&b);
  after_step(&b, maxima);
  ck_assert(!same_values(&b, values));
  program_run(b.mp.program);
  for (int i = 0; i < ROWS * 11; i++)
    ck_assert_double_eq_tol((double)REALS(b.mp.logits)[i], (double)before[i], 100 * close_to);
  memory_free(values);
  bench_close(&b);
}
END_TEST

/* The same for all of mla's parts; without a norm of content keys these alone answer to a clip, and under k_norm
   queries alone. */
START_TEST(scale_drops_out_of_normed_parts)
{
  static const char *const stack[] = {"qk_clip;qk_norm", "qk_clip;qk_norm_partial", "qk_clip;k_norm"};
  static const double exponent[3][2] = {{0, 0}, {0.6, 0}, {0.4, 1}}; /* of gamma: content, rotary */
  struct bench b = bench_open("mla", "norm_eps=0", stack[_i]);
  set(&b, "tau=3 alpha=0.4");
  static const real maxima[HEADS] = {30, 600, 3000, 6};
  logits content, rotary, now;
  program_run(b.mp.program);
  parts_of(content, CONTENT);
  parts_of(rotary, ROTARY);
  after_step(&b, maxima);
  program_run(b.mp.program);
  parts_of(now, ROTARY);
  for (int h = 0; h < HEADS; h++)
    check_scaled(now[h], rotary[h], pow(3 / (double)maxima[h], exponent[_i][1]));
  parts_of(now, CONTENT);
  for (int h = 0; h < HEADS; h++)
    check_scaled(now[h], content[h], pow(3 / (double)maxima[h], exponent[_i][0]));
  bench_close(&b);
}
END_TEST

static double mean_square(const struct qk_part *p, long from, long cols)
{
  double sum = 0;
  for (long i = from; i < from + cols; i++) sum += pow((double)REALS(p->x)[5 * p->x->ld + i], 2);
  return sum / (double)cols;
}

static void undo_gains(struct bench *b)
{
  for (int i = 0; i < b->f->model.params.count; i++) {
    struct param *p = b->f->model.params.list[i];
    for (long j = 0; strstr(p->name, "_gain") && j < p->value.cols; j++) REALS(&p->value)[j] = 1;
  }
}

START_TEST(normed_heads_have_unit_mean_square)
{
  struct bench b = bench_open("gqa", "norm_eps=0", norms[_i]);
  undo_gains(&b);
  program_run(b.mp.program);
  for (int i = 0; i < seen.parts; i++) {
    const struct qk_part *p = &seen.part[i];
    if (_i == 0)
      for (int h = 0; h < p->heads; h++)
        ck_assert_double_eq_tol(mean_square(p, h * p->dim, p->dim), 1, close_to);
    else
      ck_assert_double_eq_tol(mean_square(p, 0, p->heads * p->dim), 1, close_to);
  }
  bench_close(&b);
}
END_TEST

/* A gain of 2 on one part: that part and no other has a mean square of 4. */
START_TEST(gains_act_on_their_own_part)
{
  static const struct {
    const char *name;
    enum role role;
  } gain[] = {{"attn.qc_gain", ROLE_Q_HEAD},
              {"attn.kc_gain", ROLE_K_HEAD},
              {"attn.qr_gain", ROLE_Q_ROPE},
              {"attn.kr_gain", ROLE_K_ROPE_SHARED}};
  struct bench b = bench_open("mla", "norm_eps=0", "qk_norm");
  undo_gains(&b);
  struct tensor *t = &model_param(&b.f->model, 0, gain[_i].name)->value;
  for (long j = 0; j < t->cols; j++) REALS(t)[j] = 2;
  program_run(b.mp.program);
  for (int i = 0; i < seen.parts; i++) {
    const struct qk_part *p = &seen.part[i];
    ck_assert_double_eq_tol(mean_square(p, 0, p->dim), p->role == gain[_i].role ? 4 : 1, 4 * close_to);
  }
  bench_close(&b);
}
END_TEST

/* The scalar of l2 in place of 1/sqrt(Dh): logits are g cos(q, k); g starts at log2(T^2 - T). */
START_TEST(l2_logits_are_cosines)
{
  struct bench b = bench_open("gqa", "norm_eps=0", "qk_norm kind=l2");
  real *g = REALS(&model_param(&b.f->model, 0, "attn.qk_scale")->value);
  params_draw(&b.f->model.params, 1);
  ck_assert_double_eq_tol((double)*g, log2(CONTEXT * CONTEXT - CONTEXT), 4 * REAL_EPS);
  *g = (real)1.5;
  program_run(b.mp.program);
  const struct qk_part *q = part_of(ROLE_Q_HEAD, ROLE_Q_HEAD), *k = part_of(ROLE_K_HEAD, ROLE_K_GROUP);
  for (int h = 0; h < HEADS; h++) {
    double top = -INFINITY;
    for (int i = 0; i < ROWS; i++)
      for (int j = i / CONTEXT * CONTEXT; j <= i; j++)
        top =
          fmax(top, product(q, k, i, j, h, 1) / sqrt(product(q, q, i, i, h, 0) * product(k, k, j, j, h, 0)));
    ck_assert_double_eq_tol(stat(&b, h, 0), 1.5 * top, close_to);
    ck_assert(stat(&b, h, 1) <= 1.5 * (1 + close_to));
  }
  bench_close(&b);
}
END_TEST

START_TEST(gains_have_their_names_and_shapes)
{
  static const struct {
    const char *attention, *stack, *names[5];
    long cols[4];
  } wanted[] = {
    {"gqa", "qk_norm", {"attn.q_gain", "attn.k_gain"}, {4, 4}},
    {"gqa", "qk_norm kind=rms_full", {"attn.q_gain", "attn.k_gain"}, {16, 8}},
    {"gqa", "qk_norm kind=l2", {"attn.qk_scale"}, {1}},
    {"mla", "qk_norm", {"attn.qc_gain", "attn.kc_gain", "attn.qr_gain", "attn.kr_gain"}, {3, 3, 4, 4}},
    {"gqa", "k_norm", {"attn.k_gain"}, {4}},
    {"mla", "k_norm", {"attn.kc_gain", "attn.kr_gain"}, {3, 4}},
    {"mla", "qk_norm_partial", {"attn.qc_gain", "attn.qr_gain", "attn.kr_gain"}, {3, 4, 4}}};
  int mla = !strcmp(wanted[_i].attention, "mla"), count = 0;
  struct bench plain = bench_open(wanted[_i].attention, mla ? "head_dim=3" : "", "none");
  struct bench b = bench_open(wanted[_i].attention, mla ? "head_dim=3" : "", wanted[_i].stack);
  for (; wanted[_i].names[count]; count++) {
    const struct param *gain = model_param(&b.f->model, 0, wanted[_i].names[count]);
    ck_assert_int_eq(gain->value.cols, wanted[_i].cols[count]);
  }
  ck_assert_int_eq(b.f->model.params.count, plain.f->model.params.count + count);
  bench_close(&plain);
  bench_close(&b);
}
END_TEST

/* --- the clip by the bound of logits --------------------------------------------------------------------- */

/* Without the witness: with a stabilizer that could change queries and keys there is no bound. */
static struct bench bound_open(const char *device, const char *attention, const char *more, const char *stack)
{
  return bench_open_with(NULL, device, attention, more, stack);
}

/* The bounds before the clip of a step, [HEADS]. */
static const real *clip_by_bound(struct bench *b, long step)
{
  fixture_run(b->f, 0, b->f->stack[0]->after_step, &(struct step_scalars){.step = step});
  return fixture_series(b->f, 0, 1);
}

/* The clip leaves no bound above tau; logits and bounds of a head shrink by its factor. */
static void check_bounds(const char *device, const char *attention, const char *mask, const struct rule *rule)
{
  struct bench b = bound_open(device, attention, mask, "bound_clip tau=1e6");
  real bound[HEADS], sorted[HEADS];
  double factor[HEADS], before[HEADS];
  char tau[64];
  program_run(b.mp.program);
  memcpy(bound, clip_by_bound(&b, 0), sizeof bound);
  memcpy(sorted, bound, sizeof sorted);
  qsort(sorted, HEADS, sizeof *sorted, compare);
  const double middle = ((double)sorted[1] + (double)sorted[2]) / 2;
  snprintf(tau, sizeof tau, "tau=%.17g", middle);
  set(&b, tau);
  set(&b, rule->settings);
  expected(rule, b.f->model.options.kv_heads == 2, bound, middle, factor);
  for (int h = 0; h < HEADS; h++) {
    before[h] = stat(&b, h, 1);
    ck_assert(before[h] > 0.01 * (double)bound[h] && before[h] < (double)bound[h]);
  }
  clip_by_bound(&b, 0);
  ck_assert_int_ge(clips(&b), 2);
  for (int h = 0; h < HEADS; h++) ck_assert_double_eq_tol(gamma_of(&b, h), factor[h], 10 * REAL_EPS);
  const real *after = clip_by_bound(&b, 0);
  program_run(b.mp.program);
  for (int h = 0; h < HEADS; h++) {
    ck_assert_double_eq_tol((double)after[h], factor[h] * (double)bound[h], close_to * (double)bound[h]);
    ck_assert_double_le((double)after[h], middle * (1 + close_to));
    ck_assert_double_eq_tol(stat(&b, h, 1), factor[h] * before[h], close_to * before[h]);
  }
  bench_close(&b);
}

START_TEST(no_bound_stays_above_tau)
{
  static const char *const masks[] = {"", "mask=full", "mask=window window=2",
                                      "mask=prefix prefix=3 norm_gain=none"};
  for (const struct attention *const *a = attentions; *a; a++)
    for (int k = 0; k < tried_kinds; k++) check_bounds(kinds[k], (*a)->name, masks[_i], &rules[_i]);
}
END_TEST

/* Keys and queries of head 0 have one direction, the first token's, so its logit with itself is its bound, and tau
   after the clip. */
START_TEST(bound_is_reached)
{
  struct bench b = bound_open("reference", "mha", "bias=0 norm_eps=0", "bound_clip tau=1e9");
  const struct tensor *gain = &model_param(&b.f->model, 0, "attn.norm")->value,
                      *embed = &b.f->model.embed->value;
  const long token = (long)draw_below((struct draw){5, STREAM_TEST, 0}, 0, 11);
  for (int i = 0; i < 2; i++) {
    struct tensor *w = &model_param(&b.f->model, 0, i ? "attn.w_k" : "attn.w_q")->value;
    for (long c = 0; c < 4 * 12; c++)
      fixture_put_at(b.f, w, c,
                     c < 12 ? 3 * fixture_at(b.f, embed, token * 12 + c) / fixture_at(b.f, gain, c) : 0);
  }
  const double bound = (double)clip_by_bound(&b, 0)[0];
  program_run(b.mp.program);
  ck_assert_double_eq_tol(stat(&b, 0, 0), bound, close_to * bound);
  ck_assert_double_gt(bound, 30);
  set(&b, "tau=20");
  clip_by_bound(&b, 0);
  program_run(b.mp.program);
  ck_assert_double_eq_tol(stat(&b, 0, 0), 20, 20 * close_to);
  bench_close(&b);
}
END_TEST

/* Two ways to say the same have the same bounds: a prefix of the whole context, and no mask; gains that are stored less
   one, and gains. Keys that come later count: without them some bounds are smaller. */
START_TEST(bounds_of_one_model)
{
  static const char *const ways[][2] = {{"mask=full", "mask=prefix prefix=6"},
                                        {"", "norm_gain=zero_centered"}};
  struct bench a = bound_open("reference", "mha", ways[_i][0], "bound_clip tau=1e9"),
               b = bound_open("reference", "mha", ways[_i][1], "bound_clip tau=1e9"),
               causal = bound_open("reference", "mha", "", "bound_clip tau=1e9");
  struct tensor *gain = &model_param(&b.f->model, 0, "attn.norm")->value;
  for (long j = 0; _i && j < gain->cols; j++)
    fixture_put_at(b.f, gain, j, fixture_at(a.f, &model_param(&a.f->model, 0, "attn.norm")->value, j) - 1);
  const real *one = clip_by_bound(&a, 0), *other = clip_by_bound(&b, 0), *less = clip_by_bound(&causal, 0);
  int larger = 0;
  for (int h = 0; h < HEADS; h++) {
    ck_assert_double_eq_tol((double)other[h], (double)one[h], close_to * (double)one[h]);
    larger += (double)other[h] > 1.001 * (double)less[h];
  }
  ck_assert(_i || larger > 0);
  bench_close(&a), bench_close(&b), bench_close(&causal);
}
END_TEST

/* A context of one token has no distance but 0: the bound is that of the plain form, and no more than that of six
   tokens, which for some heads is larger. */
START_TEST(bound_without_distance_is_that_of_the_plain_form)
{
  struct bench b = bound_open("reference", "mha", "bias=0", "bound_clip tau=1e9"), one = {0};
  one.f = fixture_open(ONE_LAYER "context=1", "bound_clip tau=1e9", NULL);
  fixture_shake(one.f, 0.3);
  real *gain = fixture_copy(one.f, &model_param(&one.f->model, 0, "attn.norm")->value), *w[2];
  for (int i = 0; i < 2; i++) {
    w[i] = fixture_copy(one.f, &model_param(&one.f->model, 0, i ? "attn.w_k" : "attn.w_q")->value);
    for (long c = 0; c < 16 * 12; c++) w[i][c] *= gain[c % 12];
  }
  struct spectra *work = spectra_new(4, 12);
  const real *six = clip_by_bound(&b, 0), *plain = clip_by_bound(&one, 0);
  int larger = 0;
  for (int h = 0; h < HEADS; h++) {
    struct spectrum form;
    ck_assert_int_eq(spectrum_of_form(work, w[0] + 48 * h, 12, w[1] + 48 * h, 12, 4, 12, &form, NULL),
                     STATUS_OK);
    ck_assert_double_eq_tol((double)plain[h], 12 * form.spectral_norm / 2, close_to * (double)plain[h]);
    ck_assert_double_ge((double)six[h], (double)plain[h] * (1 - close_to));
    larger += (double)six[h] > 1.001 * (double)plain[h];
  }
  ck_assert_int_gt(larger, 0);
  spectra_free(work);
  memory_free(gain), memory_free(w[0]), memory_free(w[1]);
  fixture_close(one.f);
  bench_close(&b);
}
END_TEST

/* Other steps, and heads whose weights are not finite, stay as they are to the bit. */
START_TEST(bound_clip_acts_when_due_on_finite_heads)
{
  struct bench b = bound_open("reference", "gqa", "", "bound_clip tau=1 every=3");
  real *before = copy_values(&b);
  for (long step = 0; step < 2; step++) {
    clip_by_bound(&b, step);
    ck_assert(same_values(&b, before));
  }
  memory_free(before);
  fixture_put_at(b.f, &model_param(&b.f->model, 0, "attn.w_q")->value, 5, NAN);
  const real *bound = clip_by_bound(&b, 2);
  ck_assert(isnan(bound[0]) && gamma_of(&b, 0) == 1);
  for (int h = 1; h < HEADS; h++) {
    ck_assert_double_gt((double)bound[h], 1);
    ck_assert_double_lt(gamma_of(&b, h), 1);
  }
  ck_assert_int_eq(clips(&b), HEADS - 1);
  bench_close(&b);
}
END_TEST

START_TEST(bound_clip_clips_initial_weights)
{
  struct bench b = {.f = fixture_open(ONE_LAYER, "bound_clip tau=2", NULL)};
  const real *bound = clip_by_bound(&b, 0);
  for (int h = 0; h < HEADS; h++) ck_assert_double_eq_tol((double)bound[h], 2, close_to);
  fixture_close(b.f);
}
END_TEST

START_TEST(bound_clip_rejects_what_changes_queries_or_keys)
{
  static const char *const others[] = {"qk_norm", "k_norm", "ssmax", "sigma_reparam"};
  char stack[64], wanted[64];
  for (int order = 0; order < 2; order++) {
    struct error e = {0};
    snprintf(stack, sizeof stack, order ? "bound_clip;%s" : "%s;bound_clip", others[_i]);
    snprintf(wanted, sizeof wanted, "stabilizers: %s changes queries, keys or weights", others[_i]);
    ck_assert_ptr_null(fixture_try(ONE_LAYER, stack, NULL, &e));
    ck_assert_int_eq(e.status, STATUS_USAGE);
    ck_assert_msg(strstr(e.text, wanted) != NULL, "%s", e.text);
  }
}
END_TEST

/* --- sigmaReparam -------------------------------------------------------------------------------------- */

/* The model is the plain one with every chosen matrix divided by its largest singular value, found apart. */
START_TEST(reparametrised_weights_have_unit_norm)
{
  static const char *const stack[] = {"sigma_reparam", "sigma_reparam weights=qk"};
  const char *attention = attentions[_i / 2]->name;
  struct bench b = bench_open(attention, "", stack[_i % 2]), plain = bench_open(attention, "", "none");
  int divided = 0;
  model_begin(&b.f->model); /* after the shake */
  for (int i = 0; i < plain.f->model.params.count; i++) {
    struct param *to = plain.f->model.params.list[i], *from = params_find(&b.f->model.params, to->name);
    char gain[128];
    snprintf(gain, sizeof gain, "%s.sigma_gain", to->name);
    memcpy(to->value.data, from->value.data, (size_t)(to->value.rows * to->value.cols) * sizeof(real));
    struct param *gamma = params_find(&b.f->model.params, gain);
    if (!gamma) continue;
    struct svd s;
    ck_assert_int_eq(svd_of(&s, b.f->device, &to->value), STATUS_OK);
    for (long j = 0; j < to->value.rows * to->value.cols; j++)
      REALS(&to->value)[j] *= (real)((double)REALS(&gamma->value)[0] / s.sigma[0]);
    svd_free(&s);
    divided++;
  }
  ck_assert_int_ge(divided, _i % 2 ? 2 : 7);
  program_run(b.mp.program);
  program_run(plain.mp.program);
  /* a hundred power iterations leave an error of (sigma_2/sigma_1)^200 */
  for (int i = 0; i < ROWS * 11; i++)
    ck_assert_double_eq_tol((double)REALS(b.mp.logits)[i], (double)REALS(plain.mp.logits)[i], 2e-5);
  bench_close(&b);
  bench_close(&plain);
}
END_TEST

/* --- all of them ---------------------------------------------------------------------------------------- */

START_TEST(none_is_an_empty_stack)
{
  struct bench none = bench_open("mha", "", "none"), empty = bench_open("mha", "", "");
  program_run(none.mp.program);
  program_run(empty.mp.program);
  ck_assert(!memcmp(none.mp.logits->data, empty.mp.logits->data, ROWS * 11 * sizeof(real)));
  ck_assert_int_eq(none.f->model.params.count, empty.f->model.params.count);
  bench_close(&none);
  bench_close(&empty);
}
END_TEST

/* What a cure has learned of each head is told as it is after the step. */
START_TEST(what_is_learned_is_told)
{
  static const char *const names[] = {"attn.sink", "attn.ssmax"};
  struct fixture *f =
    fixture_open("layers=2 width=16 heads=4 context=6 vocab=11", "learned_sink; ssmax", NULL);
  fixture_shake(f, 0.3);
  for (int i = 0; i < 2; i++) {
    fixture_run(f, i, f->stack[i]->after_step, &(struct step_scalars){0, 0.1, 1});
    for (int k = 0; k < 2 * HEADS; k++) {
      const double value = fixture_at(f, &model_param(&f->model, k / HEADS, names[i])->value, k % HEADS);
      ck_assert(value != 0 && fixture_series(f, i, 0)[k] == (real)value);
    }
  }
  fixture_close(f);
}
END_TEST

START_TEST(every_one_is_documented)
{
  for (const struct stabilizer *const *s = stabilizers; *s; s++) {
    ck_assert_ptr_eq(stabilizer_find((*s)->name), *s);
    ck_assert_uint_gt(strlen((*s)->help), 10);
    for (const struct option_row *row = (*s)->options; row && row->name; row++)
      ck_assert_uint_gt(strlen(row->help), 10);
    for (const struct series *e = (*s)->emits; e && e->name; e++)
      ck_assert(e->unit && e->long_name && e->definition);
  }
  for (const struct attention *const *a = attentions; *a; a++) {
    ck_assert_ptr_eq(attention_find((*a)->name), *a);
    ck_assert_uint_gt(strlen((*a)->help), 10);
  }
  ck_assert_ptr_null(stabilizer_find("qk_clap"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stabilizers");
  TCase *c = tcase_create("stabilizers");
  int n = 0;
  while (attentions[n]) n++;
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, recorded_maxima_are_those_of_the_logits, 0, n);
  tcase_add_loop_test(c, clip_rules, 0, sizeof rules / sizeof *rules);
  tcase_add_test(c, clip_touches_its_rows_only);
  tcase_add_test(c, clip_of_mla_touches_its_rows_only);
  tcase_add_loop_test(c, naive_rules_of_mla, 0, 2);
  tcase_add_loop_test(c, clip_shares, 0, 3);
  tcase_add_loop_test(c, clip_by_either_maximum, 0, 2);
  tcase_add_loop_test(c, no_clip_at_or_below_tau, 0, 2 * n);
  tcase_add_loop_test(c, no_clip_where_not_finite, 0, 2 * n);
  tcase_add_loop_test(c, head_not_finite_in_a_clipped_group, 0, 4);
  tcase_add_loop_test(c, caps_bound_what_enters_the_softmax, 0, 2 * n);
  tcase_add_test(c, a_high_cap_changes_nothing);
  tcase_add_loop_test(c, scale_drops_out_under_norm, 0, 6);
  tcase_add_loop_test(c, scale_drops_out_of_normed_parts, 0, 3);
  tcase_add_loop_test(c, normed_heads_have_unit_mean_square, 0, 2);
  tcase_add_loop_test(c, gains_act_on_their_own_part, 0, 4);
  tcase_add_test(c, l2_logits_are_cosines);
  tcase_add_loop_test(c, gains_have_their_names_and_shapes, 0, 7);
  tcase_add_loop_test(c, no_bound_stays_above_tau, 0, 4);
  tcase_add_test(c, bound_is_reached);
  tcase_add_test(c, bound_without_distance_is_that_of_the_plain_form);
  tcase_add_loop_test(c, bounds_of_one_model, 0, 2);
  tcase_add_test(c, bound_clip_acts_when_due_on_finite_heads);
  tcase_add_test(c, bound_clip_clips_initial_weights);
  tcase_add_loop_test(c, bound_clip_rejects_what_changes_queries_or_keys, 0, 4);
  tcase_add_loop_test(c, reparametrised_weights_have_unit_norm, 0, 2 * n);
  tcase_add_test(c, none_is_an_empty_stack);
  tcase_add_test(c, what_is_learned_is_told);
  tcase_add_test(c, every_one_is_documented);
  suite_add_tcase(suite, c);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
