/* check_instruments.c - maxlogit/attention.h against an explicit softmax in double, spectra.h against matrices whose
   spectra are known, clip.h against the weights of a run, before and after its clip */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "maxlogit/attention.h"
#include "maxlogit/clip.h"
#include "maxlogit/read.h"
#include "maxlogit/spectra.h"
#include "numerics/device.h"
#include "run/trainer.h"
#include "storage/checkpoint.h"
#include "../folder.h"

static struct maxlogit_error e;
#define OK(call) ck_assert_msg(!(call), "%s", e.text)
#define REFUSED(call) \
  do { \
    e = (struct maxlogit_error){0}; \
    ck_assert_int_eq(call, MAXLOGIT_USAGE); \
    ck_assert(e.status == MAXLOGIT_USAGE && *e.text); /* and says why */ \
  } while (0)

static void draw(float *x, size_t n, uint64_t seed, double size)
{
  struct draw d = {seed, STREAM_TEST, 0};
  for (size_t i = 0; i < n; i++) x[i] = (float)(size * draw_normal(d, i));
}

/* --- attention ------------------------------------------------------------------------------------------- */

static const struct {
  long batch, heads, kv_heads, queries, keys, size;
  int causal, ranges;
  long window;
} shapes[] = {
  {1, 1, 1, 1, 1, 1, 0, 0, 0},      {2, 4, 4, 65, 65, 16, 1, 0, 0}, {2, 6, 2, 70, 130, 8, 1, 0, 0},
  {1, 4, 1, 200, 200, 24, 1, 0, 9}, {3, 2, 2, 40, 100, 5, 0, 1, 0}, {2, 2, 1, 129, 129, 64, 1, 1, 100},
  {1, 2, 1, 67, 600, 33, 1, 0, 0},  {1, 1, 1, 70, 30, 7, 1, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static int allowed(const struct maxlogit_attention *a, long b, long i, long j)
{
  long own = i + a->keys - a->queries;
  if (a->first && (j < a->first[b * a->queries + i] || j >= a->end[b * a->queries + i])) return 0;
  if (a->causal && j > own) return 0;
  return !a->window || j > own - a->window;
}

/* The definition, in double, of numbers that float32 holds. */
static void explicit_softmax(const struct maxlogit_attention *a, const float *q, const float *k, long h,
                             double *max, double *max_abs, double *entropy)
{
  long g = h * a->kv_heads / a->heads, seen = 0;
  double *s = calloc((size_t)a->keys, sizeof *s);
  *max = -INFINITY, *max_abs = 0, *entropy = 0;
  for (long b = 0; b < a->batch; b++)
    for (long i = 0; i < a->queries; i++) {
      double sum = 0, most = -INFINITY, own = 0;
      for (long j = 0; j < a->keys; j++) {
        s[j] = 0;
        for (long d = 0; d < a->size; d++)
          s[j] += (double)q[((b * a->heads + h) * a->queries + i) * a->size + d] *
                  (double)k[((b * a->kv_heads + g) * a->keys + j) * a->size + d];
        s[j] *= a->scale;
        if (!allowed(a, b, i, j)) s[j] = -INFINITY;
        if (s[j] > most) most = s[j];
        if (allowed(a, b, i, j)) *max_abs = fmax(*max_abs, fabs(s[j]));
      }
      if (most > *max) *max = most;
      if (isinf(most)) continue;
      for (long j = 0; j < a->keys; j++) sum += exp(s[j] - most);
      for (long j = 0; j < a->keys; j++)
        if (!isinf(s[j])) own -= exp(s[j] - most) / sum * (s[j] - most - log(sum));
      *entropy += own;
      seen++;
    }
  *entropy /= (double)seen;
  free(s);
}

static uint16_t half_of(float x, enum maxlogit_number number)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (number == MAXLOGIT_BFLOAT16) return (uint16_t)(bits >> 16);
  int exponent = (int)(bits >> 23 & 255) - 112;
  return (uint16_t)(exponent < 1 ? bits >> 16 & 0x8000
                                 : (bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

/* Maxima alone, by each level's kernels: to the bit the same of all that fuse, and near what all of them is. */
static void check_alone(const struct maxlogit_attention *a, const float *max, const float *max_abs)
{
  float first[2][8];
  const char *level;
  for (int i = 0, fused = 0; (level = ops_cpu_level_at(i)); i++) {
    float alone[2][8];
    setenv("MAXLOGIT_KERNELS", level, 1);
    OK(maxlogit_attention_maxima(a, alone[0], alone[1], NULL, &e));
    for (long h = 0; h < a->heads; h++) {
      ck_assert_msg(alone[0][h] == max[h] || fabsf(alone[0][h] - max[h]) <= 1e-5f * max_abs[h],
                    "head %ld, %s: %.9g alone, not %.9g", h, level, (double)alone[0][h], (double)max[h]);
      ck_assert_msg(fabsf(alone[1][h] - max_abs[h]) <= 1e-5f * max_abs[h],
                    "head %ld, %s: |%.9g| alone, not %.9g", h, level, (double)alone[1][h],
                    (double)max_abs[h]);
    }
    if (!strcmp(level, "base")) continue;
    if (!fused++) memcpy(first, alone, sizeof first);
    for (int j = 0; j < 2; j++) ck_assert_mem_eq(alone[j], first[j], (size_t)a->heads * sizeof(float));
  }
  unsetenv("MAXLOGIT_KERNELS");
}

START_TEST(attention_is_an_explicit_softmax)
{
  struct maxlogit_attention a = {.batch = shapes[_i].batch,
                                 .heads = shapes[_i].heads,
                                 .kv_heads = shapes[_i].kv_heads,
                                 .queries = shapes[_i].queries,
                                 .keys = shapes[_i].keys,
                                 .size = shapes[_i].size,
                                 .causal = shapes[_i].causal,
                                 .window = shapes[_i].window,
                                 .scale = 0.7};
  size_t nq = (size_t)(a.batch * a.heads * a.queries * a.size),
         nk = (size_t)(a.batch * a.kv_heads * a.keys * a.size);
  float *q = malloc(nq * sizeof *q), *k = malloc(nk * sizeof *k), max[8], max_abs[8];
  uint16_t *hq = malloc(nq * sizeof *hq), *hk = malloc(nk * sizeof *hk);
  long *first = calloc((size_t)(a.batch * a.queries), sizeof *first),
       *end = calloc((size_t)(a.batch * a.queries), sizeof *end);
  double entropy[8];
  for (long i = 0; i < a.batch * a.queries; i++) { /* some see nothing */
    first[i] = i * 7 % a.keys;
    end[i] = first[i] + i % 31;
  }
  if (shapes[_i].ranges) a.first = first, a.end = end;
  draw(q, nq, 1, 1);
  draw(k, nk, 2, 1);
  for (int number = 0; number < 3; number++) {
    a.number = (enum maxlogit_number)number;
    for (size_t i = 0; number && i < nq; i++) hq[i] = half_of(q[i], a.number);
    for (size_t i = 0; number && i < nk; i++) hk[i] = half_of(k[i], a.number);
    a.q = number ? (const void *)hq : q;
    a.k = number ? (const void *)hk : k;
    OK(maxlogit_attention_maxima(&a, max, max_abs, entropy, &e));
    double most =
      number ? (number == MAXLOGIT_BFLOAT16 ? 0.05 : 0.006) * sqrt((double)a.size) : 2e-6 * (double)a.size;
    for (long h = 0; h < a.heads; h++) {
      double m, ma, en;
      explicit_softmax(&a, q, k, h, &m, &ma, &en);
      ck_assert_msg(fabs((double)max[h] - m) <= most, "head %ld: %g, not %g", h, (double)max[h], m);
      ck_assert_msg(fabs((double)max_abs[h] - ma) <= most, "head %ld: |%g|, not %g", h, (double)max_abs[h],
                    ma);
      ck_assert_msg(fabs(entropy[h] - en) <= most, "head %ld: entropy %.9g, not %.9g", h, entropy[h], en);
    }
    check_alone(&a, max, max_abs);
    a.scale = -a.scale;
    OK(maxlogit_attention_maxima(&a, max, max_abs, entropy, &e));
    check_alone(&a, max, max_abs);
    a.scale = -a.scale;
  }
  a.number = MAXLOGIT_FLOAT32;
  a.q = q, a.k = k;
  q[0] = NAN;
  OK(maxlogit_attention_maxima(&a, max, NULL, NULL, &e));
  ck_assert(isnan(max[0]) == (!a.first && a.queries <= a.keys)); /* else query 0 sees nothing */
  ck_assert(a.heads == 1 || !isnan(max[a.heads - 1]));
  free(q), free(k), free(hq), free(hk), free(first), free(end);
}
END_TEST

/* A sum that overflows both ways is NaN, one that does not is infinite; what nobody sees is neither. */
START_TEST(maxima_that_are_not_finite)
{
  float q[2][2] = {{1, 1}, {1e30f, 1e30f}}, k[2][2] = {{1e30f, 1e30f}, {1e30f, -1e30f}}, max[2];
  struct maxlogit_attention a = {1, 1, 1, 2, 2, 2, MAXLOGIT_FLOAT32, q, k, {0}, {0}, 1, 0, 0, NULL, NULL};
  OK(maxlogit_attention_maxima(&a, max, NULL, NULL, &e));
  ck_assert(isnan(max[0]));
  a.keys = 1;
  OK(maxlogit_attention_maxima(&a, max, max + 1, NULL, &e));
  ck_assert(isinf(max[0]) && max[0] > 0 && isinf(max[1]));
  k[1][0] = NAN;
  a.keys = a.queries = 2, a.scale = 1e-30;
  a.first = (long[]){0, 0}, a.end = (long[]){1, 0};
  OK(maxlogit_attention_maxima(&a, max, max + 1, NULL, &e));
  ck_assert(fabsf(max[0] - 2) < 1e-6f && max[1] == max[0]);
}
END_TEST

/* Numbers of 16 bits as they are defined, by the kernels and, where entropies are asked for, without them. */
START_TEST(numbers_of_sixteen_bits)
{
  static const struct {
    enum maxlogit_number number;
    uint16_t code;
    float value;
  } known[] = {
    {MAXLOGIT_FLOAT16, 0x3c00, 1},
    {MAXLOGIT_FLOAT16, 0x0001, 0x1p-24f},
    {MAXLOGIT_FLOAT16, 0x83ff, -1023 * 0x1p-24f},
    {MAXLOGIT_FLOAT16, 0x0400, 0x1p-14f},
    {MAXLOGIT_FLOAT16, 0x7bff, 65504},
    {MAXLOGIT_FLOAT16, 0xc355, -3.666015625f},
    {MAXLOGIT_FLOAT16, 0xfc00, -INFINITY},
    {MAXLOGIT_FLOAT16, 0x7c00, INFINITY},
    {MAXLOGIT_FLOAT16, 0x7c01, NAN},
    {MAXLOGIT_BFLOAT16, 0x3f80, 1},
    {MAXLOGIT_BFLOAT16, 0xc0a1, -5.03125f},
    {MAXLOGIT_BFLOAT16, 0x0001, 0x1p-133f},
    {MAXLOGIT_BFLOAT16, 0x7f80, INFINITY},
    {MAXLOGIT_BFLOAT16, 0xffc0, NAN},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    for (int asked = 0; asked < 2; asked++) {
      const uint16_t one = known[i].number == MAXLOGIT_FLOAT16 ? 0x3c00 : 0x3f80;
      struct maxlogit_attention a = {.q = &known[i].code,
                                     .k = &one,
                                     .batch = 1,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .queries = 1,
                                     .keys = 1,
                                     .size = 1,
                                     .scale = 1,
                                     .number = known[i].number};
      float max, max_abs;
      double entropy;
      OK(maxlogit_attention_maxima(&a, &max, &max_abs, asked ? &entropy : NULL, &e));
      const float wanted = known[i].value;
      ck_assert_msg(isnan(wanted) ? isnan(max) && isnan(max_abs) : max == wanted && max_abs == fabsf(wanted),
                    "0x%04x: %g and %g, not %g (%d)", known[i].code, (double)max, (double)max_abs,
                    (double)wanted, asked);
    }
}
END_TEST

START_TEST(strides_only_say_where)
{
  enum { B = 2, H = 3, T = 70, D = 8 };
  static float q[B][H][T][D], k[B][H][T][D], q_turned[B][T][H][D], k_turned[B][T][H][D];
  float max[2][H];
  draw(&q[0][0][0][0], sizeof q / sizeof(float), 3, 1);
  draw(&k[0][0][0][0], sizeof k / sizeof(float), 4, 1);
  for (int b = 0; b < B; b++)
    for (int h = 0; h < H; h++)
      for (int t = 0; t < T; t++) {
        memcpy(q_turned[b][t][h], q[b][h][t], sizeof q[b][h][t]);
        memcpy(k_turned[b][t][h], k[b][h][t], sizeof k[b][h][t]);
      }
  struct maxlogit_attention a = {B, H, H, T, T, D, MAXLOGIT_FLOAT32, q, k, {0}, {0}, 0, 1, 0, NULL, NULL};
  OK(maxlogit_attention_maxima(&a, max[0], NULL, NULL, &e));
  a.q = q_turned, a.k = k_turned;
  for (int i = 0; i < 3; i++) a.q_stride[i] = a.k_stride[i] = (long[]){T * H * D, D, H * D}[i];
  OK(maxlogit_attention_maxima(&a, max[1], NULL, NULL, &e));
  ck_assert_mem_eq(max[0], max[1], sizeof max[0]);
  a.kv_heads = 2;
  REFUSED(maxlogit_attention_maxima(&a, max[1], NULL, NULL, &e));
}
END_TEST

/* --- spectra --------------------------------------------------------------------------------------------- */

static void close_to(double a, double b)
{
  ck_assert_msg(fabs(a - b) <= 1e-5 * (1 + fabs(b)), "%.9g, not %.9g", a, b);
}

START_TEST(spectra_of_known_matrices)
{
  float w[4][6] = {{3, 0, 0, 0, 0, 0}, {0, 0, -4, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}};
  struct maxlogit_spectrum s, two[2], form[2];
  double sigma[4], bound[2], gain[6] = {1, 1, 1, 1, 1, 1};
  OK(maxlogit_spectrum_of(&w[0][0], 4, 6, &s, &e));
  close_to(s.spectral_norm, 4);
  close_to(s.frobenius_norm, 5);
  close_to(s.stable_rank, 25.0 / 16);
  close_to(s.svd_entropy, -(0.64 * log(0.64) + 0.36 * log(0.36)) / log(4));
  close_to(s.effective_rank_p, exp(-(0.64 * log(0.64) + 0.36 * log(0.36))));
  close_to(s.effective_rank_r, exp(-(4 * log(4 / 7.0) + 3 * log(3 / 7.0)) / 7));
  OK(maxlogit_singular_values(&w[0][0], 4, 6, sigma, &e));
  close_to(sigma[0], 4);
  close_to(sigma[1], 3);
  close_to(sigma[3], 0);
  OK(maxlogit_head_spectra(&w[0][0], 2, 2, 6, two, &e));
  close_to(two[0].frobenius_norm, 5);
  close_to(two[1].spectral_norm, 0);
  ck_assert(isnan(two[1].stable_rank));
  /* heads of a group share rows of w_k: both heads with the first two rows; |w_q^T w_k| of head 0 is that of the
     squares, as its rows are orthogonal */
  OK(maxlogit_form_spectra(&w[0][0], 2, &w[0][0], 1, 2, 6, form, &e));
  close_to(form[0].spectral_norm, 16);
  close_to(form[0].frobenius_norm, sqrt(81 + 256));
  close_to(form[1].spectral_norm, 0);
  OK(maxlogit_form_bounds(&w[0][0], 2, &w[0][0], 1, 2, 6, NULL, 0.5, bound, &e));
  close_to(bound[0], 0.5 * 6 * 4 * 4);
  close_to(bound[1], 0);
  gain[2] = 0.5;
  OK(maxlogit_form_bounds(&w[0][0], 2, &w[0][0], 1, 2, 6, gain, 0.5, bound, &e));
  close_to(bound[0], 0.5 * 6 * 3 * 3);
  REFUSED(maxlogit_form_spectra(&w[0][0], 2, &w[0][0], 3, 2, 6, form, &e));
  REFUSED(maxlogit_form_spectra(&w[0][0], 2, &w[0][0], 0, 2, 6, form, &e));
  REFUSED(maxlogit_head_spectra(&w[0][0], 2, 0, 6, two, &e));
  REFUSED(maxlogit_form_bounds(&w[0][0], 2, &w[0][0], 3, 2, 6, NULL, 1, bound, &e));
  REFUSED(maxlogit_singular_values(&w[0][0], 4, 0, sigma, &e));
}
END_TEST

/* Four heads of one row, two of keys: heads 0 and 1 have the first one's, 2 and 3 the second's; a scale's sign is no
   matter. */
START_TEST(groups_of_heads_have_their_keys)
{
  float q[4][2] = {{1, 0}, {0, 2}, {3, 0}, {0, 4}}, k[2][2] = {{5, 0}, {0, 7}};
  static const double both[4] = {5, 10, 21, 28};
  struct maxlogit_spectrum form[4];
  double bound[4];
  OK(maxlogit_form_spectra(&q[0][0], 4, &k[0][0], 2, 1, 2, form, &e));
  OK(maxlogit_form_bounds(&q[0][0], 4, &k[0][0], 2, 1, 2, NULL, -0.5, bound, &e));
  for (int h = 0; h < 4; h++) close_to(form[h].spectral_norm, both[h]), close_to(bound[h], both[h]);
}
END_TEST

/* --- clip ------------------------------------------------------------------------------------------------ */

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

/* One step of a run that only clips; the states before and after it, and what it recorded. */
static void run_clip(const char *attention, const char *rule, struct checkpoint state[2],
                     struct maxlogit_values *max, struct maxlogit_values *gamma)
{
  const char *const fixed[] = {
    "optimizer=none",     "stabilizers=qk_clip", "model.layers=2",       "model.width=32",
    "model.heads=4",      "model.head_dim=8",    "model.context=16",     "train.batch=2",
    "train.steps=1",      "checkpoint.every=1",  "checkpoint.keep=all",  "device.threads=1",
    "record.overwrite=1", "qk_clip.alpha=0.3",   "train.weight_decay=0", NULL};
  struct error error = {0};
  struct trainer *t;
  struct maxlogit_run *run;
  struct config *c = config_new();
  char record[FOLDER_PATH + 32];
  snprintf(record, sizeof record, "record.path=%s", path);
  for (int i = 0; fixed[i]; i++) ck_assert_msg(!config_assign(c, fixed[i], &error), "%s", error.text);
  ck_assert(!config_assign(c, record, &error) && !config_assign(c, attention, &error));
  if (!strcmp(attention, "model.attention=gqa")) ck_assert(!config_assign(c, "model.kv_heads=2", &error));
  ck_assert(!config_assign(c, rule, &error) && !config_assign(c,
                                                              strstr(rule, "layer")      ? "qk_clip.tau=1.5"
                                                              : strstr(attention, "gqa") ? "qk_clip.tau=3"
                                                                                         : "qk_clip.tau=1.9",
                                                              &error));
  ck_assert_msg(!config_finish(c, &error) && !trainer_init(&t, c, 0, &error), "%s", error.text);
  while (trainer_more(t)) ck_assert(!trainer_step(t, &error));
  ck_assert_msg(!trainer_done(t, &error), "%s", error.text);
  config_free(c);
  ck_assert_msg(!checkpoint_before(path, 0, &state[0], &error), "%s", error.text);
  ck_assert_msg(!checkpoint_latest(path, &state[1], &error), "%s", error.text);
  OK(maxlogit_run_open(&run, path, &e));
  OK(maxlogit_run_read(run, "attn/max_logit", max, &e));
  OK(maxlogit_run_read(run, "qk_clip/gamma", gamma, &e));
  maxlogit_run_close(run);
}

/* Rows [first, first + rows) of a weight were multiplied by `factor`. */
static void took(const struct checkpoint state[2], int layer, const char *weight, long first, long rows,
                 float factor)
{
  char name[64];
  snprintf(name, sizeof name, "blocks.%d.attn.%s", layer, weight);
  const struct checkpoint_tensor *a = checkpoint_find(&state[0], "params", name),
                                 *b = checkpoint_find(&state[1], "params", name);
  ck_assert_msg(a && b, "no %s", name);
  const float *x = a->data, *y = b->data;
  for (long i = first * a->cols; i < (first + rows) * a->cols; i++)
    ck_assert_msg(y[i] == x[i] * factor, "%s[%ld]: %.9g became %.9g, times %.9g is %.9g", name, i,
                  (double)x[i], (double)y[i], (double)factor, (double)(x[i] * factor));
}

static const struct {
  const char *attention, *rule;
  struct maxlogit_clip clip;
} rules[] = {
  {"model.attention=mha", "qk_clip.scope=head", {.scope = MAXLOGIT_SCOPE_HEAD}},
  {"model.attention=mha", "qk_clip.scope=layer", {.scope = MAXLOGIT_SCOPE_LAYER}},
  {"model.attention=gqa", "qk_clip.gqa=q_only", {.gqa = MAXLOGIT_GQA_Q_ONLY}},
  {"model.attention=gqa", "qk_clip.gqa=group_max", {.gqa = MAXLOGIT_GQA_GROUP_MAX}},
  {"model.attention=gqa", "qk_clip.gqa=own_q_min_k", {.gqa = MAXLOGIT_GQA_OWN_Q_MIN_K}},
  {"model.attention=gqa", "qk_clip.gqa=compensated", {.gqa = MAXLOGIT_GQA_COMPENSATED}},
  {"model.attention=mla", "qk_clip.mla=exact", {.mla = MAXLOGIT_MLA_EXACT}},
  {"model.attention=mla", "qk_clip.mla=kr_layer", {.mla = MAXLOGIT_MLA_KR_LAYER}},
  {"model.attention=mla", "qk_clip.mla=kr_head", {.mla = MAXLOGIT_MLA_KR_HEAD}},
};

START_TEST(factors_are_those_of_a_run)
{
  enum { HEADS = 4, SIZE = 8 };
  struct maxlogit_clip clip = rules[_i].clip;
  struct checkpoint state[2];
  struct maxlogit_values max, gamma;
  int is_mla = strstr(rules[_i].attention, "mla") != NULL, clipped = 0, left = 0;
  long kv = strstr(rules[_i].attention, "gqa") ? 2 : 4;
  clip.tau = strstr(rules[_i].rule, "layer") ? 1.5 : strstr(rules[_i].attention, "gqa") ? 3 : 1.9;
  clip.alpha = 0.3;
  run_clip(rules[_i].attention, rules[_i].rule, state, &max, &gamma);
  for (int l = 0; l < 2; l++) {
    float most[HEADS], q[HEADS], k[HEADS], own[HEADS], rope[HEADS], shared;
    for (int h = 0; h < HEADS; h++) most[h] = (float)max.value[l * HEADS + h];
    if (is_mla)
      OK(maxlogit_clip_factors_mla(&clip, most, HEADS, q, k, rope, &shared, own, &e));
    else
      OK(maxlogit_clip_factors(&clip, most, HEADS, kv, q, k, own, &e));
    for (int h = 0; h < HEADS; h++) {
      ck_assert_msg((double)own[h] == gamma.value[l * HEADS + h], "gamma %.9g, recorded %.9g", (double)own[h],
                    gamma.value[l * HEADS + h]);
      clipped += q[h] < 1, left += q[h] == 1;
      took(state, l, is_mla ? "w_qc" : "w_q", h * SIZE, SIZE, q[h]);
      if (h < kv) took(state, l, is_mla ? "w_kc" : "w_k", h * SIZE, SIZE, k[h]);
    }
    if (!is_mla) continue;
    const struct checkpoint_tensor *rotary = checkpoint_find(&state[0], "params", "blocks.0.attn.w_kr");
    for (int h = 0; h < HEADS; h++) took(state, l, "w_qr", h * rotary->rows, rotary->rows, rope[h]);
    took(state, l, "w_kr", 0, rotary->rows, shared);
  }
  ck_assert_msg(clipped, "nothing was clipped: the test says nothing");
  if (clip.tau > 1.5 && clip.gqa != MAXLOGIT_GQA_COMPENSATED) ck_assert_msg(left, "everything was clipped");
  for (int i = 0; i < 2; i++) checkpoint_free(&state[i]);
  maxlogit_values_free(&max);
  maxlogit_values_free(&gamma);
}
END_TEST

START_TEST(what_is_not_finite_is_not_clipped)
{
  struct maxlogit_clip clip = {.tau = 10, .alpha = 0.5};
  const float max[4] = {INFINITY, 20, NAN, 5};
  float q[4], k[4], gamma[4];
  OK(maxlogit_clip_factors(&clip, max, 4, 4, q, k, gamma, &e));
  ck_assert(q[0] == 1 && k[0] == 1 && gamma[0] == 1 && q[2] == 1 && q[3] == 1);
  ck_assert(gamma[1] == 0.5f && q[1] == (float)sqrt(0.5) && k[1] == q[1]);
  clip.scope = MAXLOGIT_SCOPE_LAYER;
  OK(maxlogit_clip_factors(&clip, max, 4, 4, q, k, gamma, &e));
  ck_assert(q[1] == 1 && k[1] == 1);
  clip.tau = 0;
  REFUSED(maxlogit_clip_factors(&clip, max, 4, 4, q, k, gamma, &e));
  clip.tau = 1;
  REFUSED(maxlogit_clip_factors(&clip, max, 4, 3, q, k, gamma, &e));
}
END_TEST

START_TEST(clips_that_cannot_be)
{
  const struct maxlogit_clip good = {.tau = 10, .alpha = 0.5};
  const float max[2] = {40, 20};
  float q[2], k[2], gamma[2], rope[2], shared;
  static const struct maxlogit_clip wrong[] = {
    {.tau = INFINITY, .alpha = 0.5},
    {.tau = NAN, .alpha = 0.5},
    {.tau = -1, .alpha = 0.5},
    {.tau = 10, .alpha = -0.1},
    {.tau = 10, .alpha = 1.1},
    {.tau = 10, .alpha = NAN},
    {.tau = 10, .scope = (enum maxlogit_clip_scope)(MAXLOGIT_SCOPE_LAYER + 1)},
    {.tau = 10, .gqa = (enum maxlogit_clip_gqa)(MAXLOGIT_GQA_COMPENSATED + 1)},
    {.tau = 10, .mla = (enum maxlogit_clip_mla)(MAXLOGIT_MLA_KR_HEAD + 1)}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    REFUSED(maxlogit_clip_factors(&wrong[i], max, 2, 2, q, k, gamma, &e));
    REFUSED(maxlogit_clip_factors_mla(&wrong[i], max, 2, q, k, rope, &shared, gamma, &e));
  }
  REFUSED(maxlogit_clip_factors(&good, max, 0, 1, q, k, gamma, &e));
  REFUSED(maxlogit_clip_factors(&good, max, 2, 0, q, k, gamma, &e));
  for (int alpha = 0; alpha < 2; alpha++) { /* all of it to the keys, or to the queries */
    struct maxlogit_clip edge = {.tau = 10, .alpha = alpha};
    OK(maxlogit_clip_factors(&edge, max, 2, 2, q, k, gamma, &e));
    ck_assert(q[0] == (alpha ? 0.25f : 1) && k[0] == (alpha ? 1 : 0.25f) && gamma[0] == 0.25f &&
              gamma[1] == 0.5f);
  }
  /* what a head that is not finite has beside one that is clipped: its own rows stay, a shared key does not */
  const float odd[2] = {INFINITY, 40};
  struct maxlogit_clip rule = good;
  OK(maxlogit_clip_factors_mla(&good, odd, 2, q, k, rope, &shared, gamma, &e));
  ck_assert(q[0] == 1 && k[0] == 1 && rope[0] == 1 && gamma[0] == 1 && shared == 1 && rope[1] == 0.25f);
  rule.mla = MAXLOGIT_MLA_KR_LAYER;
  OK(maxlogit_clip_factors_mla(&rule, odd, 2, q, k, rope, &shared, gamma, &e));
  ck_assert(q[0] == 1 && q[1] == 0.5f && rope[0] == 1 && rope[1] == 0.5f && shared == 0.5f);
  OK(maxlogit_clip_factors(&good, odd, 2, 1, q, k, gamma, &e)); /* gqa = the first rule */
  ck_assert(q[0] == 1 && gamma[1] < 1);
  rule.gqa = MAXLOGIT_GQA_Q_ONLY;
  OK(maxlogit_clip_factors(&rule, odd, 2, 1, q, k, gamma, &e));
  ck_assert(q[0] == 1 && q[1] == 0.25f && k[0] == 1 && gamma[0] == 1 && gamma[1] == 0.25f);
  rule.gqa = MAXLOGIT_GQA_COMPENSATED;
  OK(maxlogit_clip_factors(&rule, odd, 2, 1, q, k, gamma, &e));
  ck_assert(q[0] == 1 && k[0] == 0.5f && gamma[0] == 0.5f && q[1] == 0.5f && gamma[1] == 0.25f);
}
END_TEST

static void enter_folder(void)
{
  folder_make(folder);
  snprintf(path, sizeof path, "%s/run.h5", folder);
}
static void leave_folder(void) { folder_remove(folder); }

int main(void)
{
  Suite *suite = suite_create("instruments");
  TCase *t = tcase_create("instruments");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, enter_folder, leave_folder);
  tcase_add_loop_test(t, attention_is_an_explicit_softmax, 0, SHAPES);
  tcase_add_test(t, maxima_that_are_not_finite);
  tcase_add_test(t, numbers_of_sixteen_bits);
  tcase_add_test(t, strides_only_say_where);
  tcase_add_test(t, spectra_of_known_matrices);
  tcase_add_loop_test(t, factors_are_those_of_a_run, 0, sizeof rules / sizeof *rules);
  tcase_add_test(t, groups_of_heads_have_their_keys);
  tcase_add_test(t, what_is_not_finite_is_not_clipped);
  tcase_add_test(t, clips_that_cannot_be);
  suite_add_tcase(suite, t);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
