/* check_spectra.c - checkpoints of others: small files of every family against NumPy, forms and bounds against numbers
   worked out apart from this program, and what does not fit */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zoo/own_run.h"
#include "zoo/spectra.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "../folder.h"
#include "model/model.h"
#include "numerics/device.h"
#include "config/config.h"
#include "run/trainer.h"
#include "storage/run_file.h"

static char folder[4096];

static const char *checkpoints(void)
{
  const char *top = getenv("top_srcdir");
  snprintf(folder, sizeof folder, "%s/tests/checkpoints", top ? top : ".");
  return folder;
}

static struct weights *opened(const char *family, const char *config)
{
  char path[8192];
  struct weights *w = NULL;
  struct error e = {0};
  snprintf(path, sizeof path, "%s/%s", checkpoints(), family);
  int status = weights_open(&w, path, config, &e);
  ck_assert_msg(status == STATUS_OK, "%s", e.text);
  return w;
}

static struct checkpoint_spectra spectra_in(struct weights *w, struct architecture *architecture, int threads)
{
  struct checkpoint_spectra s;
  struct error e = {0};
  struct device *device = NULL;
  ck_assert_int_eq(device_open(&device, "cpu", threads, &e), STATUS_OK);
  int known, status = architecture_open(architecture, w, &known, &e);
  ck_assert_msg(status == STATUS_OK && known, "%s", e.text);
  status =
    checkpoint_spectra(&s, w, architecture, device->pool, SPECTRA_HEADS | SPECTRA_MATRICES, NULL, NULL, &e);
  ck_assert_msg(status == STATUS_OK, "%s", e.text);
  device_close(device);
  return s;
}

/* --- every family against NumPy ------------------------------------------------------------------------ */

static void same(double got, const char *wanted, const char *line)
{
  double value = strtod(wanted, NULL);
  if (isnan(value))
    ck_assert_msg(isnan(got), "%s: %.9g", line, got);
  else
    ck_assert_msg(fabs(got - value) <= 3e-6 * fabs(value), "%s: %.9g instead of %s", line, got, wanted);
}

static void same_spectrum(const struct spectrum *got, char *const *wanted, const char *line)
{
  for (int f = 0; f < 6; f++) same(((const double *)got)[f], wanted[f], line);
}

static const struct spectrum *find_object(const struct head_spectrum *h, const char *name)
{
  for (int p = 0; p < h->parts; p++) {
    char form[64];
    snprintf(form, sizeof form, "%s^T %s", h->part[p].q_name, h->part[p].k_name);
    if (strcmp(name, form) == 0) return &h->part[p].form;
    if (strcmp(name, h->part[p].q_name) == 0) return &h->part[p].q;
    if (strcmp(name, h->part[p].k_name) == 0) return &h->part[p].k;
  }
  return NULL;
}

static void check_line(const struct checkpoint_spectra *s, char *text)
{
  char line[1024], *field[16];
  int count = 0;
  long layer, head;
  snprintf(line, sizeof line, "%s", text);
  for (char *at = strtok(text, "\t"); at && count < 16; at = strtok(NULL, "\t")) field[count++] = at;
  if (strcmp(field[0], "m") == 0) {
    const struct matrix_spectrum *m = NULL;
    for (long i = 0; i < s->matrices; i++)
      if (strcmp(s->matrix[i].name, field[1]) == 0) m = &s->matrix[i];
    ck_assert_msg(m && m->count == strtol(field[2], NULL, 10),
                  "%s: no such matrix, or another number of them", line);
    same_spectrum(&m->quantile[strtol(field[3], NULL, 10)], field + 4, line);
    return;
  }
  ck_assert_int_eq(sscanf(field[0], "l%ldh%ld", &layer, &head), 2);
  ck_assert(layer < s->layers && head < s->heads);
  const struct head_spectrum *h = &s->head[layer * s->heads + head];
  if (strcmp(field[1], "bound") != 0) {
    const struct spectrum *object = find_object(h, field[1]);
    ck_assert_msg(object, "%s: no such object", line);
    same_spectrum(object, field + 2, line);
    return;
  }
  same(h->scale, field[2], line);
  same(h->bound, field[3], line);
  same(h->still, field[4], line);
  ck_assert_msg(strcmp(h->term[h->largest].name, field[5]) == 0, "%s: %s", line, h->term[h->largest].name);
  same(h->term[h->largest].value / h->bound, field[6], line);
}

static const char *const families[] = {"llama",  "qwen2",  "qwen3",       "qwen3_next",
                                       "gemma2", "gemma3", "olmo2",       "gpt_neox",
                                       "gpt2",   "bert",   "deepseek_v3", "moonlight"};
enum { FAMILIES = sizeof families / sizeof *families };

START_TEST(against_numpy)
{
  const char *family = families[_i];
  struct weights *w = opened(family, NULL);
  struct architecture architecture;
  struct checkpoint_spectra s = spectra_in(w, &architecture, 3);
  char path[8192], *text, *rest;
  size_t length;
  long lines = 0, matrices = 0;
  ck_assert_str_eq(architecture.family, family);
  ck_assert_int_eq(architecture.by_names, 0);
  snprintf(path, sizeof path, "%s/%s/expected.tsv", checkpoints(), family);
  ck_assert_int_eq(file_read(path, &text, &length, NULL), STATUS_OK);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    if (*line == '#') continue;
    matrices += strncmp(line, "m\t", 2) == 0;
    check_line(&s, line);
    lines++;
  }
  ck_assert_int_ge(lines, 30);
  ck_assert_int_eq(matrices, 5 * s.matrices);
  memory_free(text);
  /* the same bits on one thread */
  struct checkpoint_spectra one = spectra_in(w, &architecture, 1);
  ck_assert_int_eq(one.matrices, s.matrices);
  for (long i = 0; i < s.layers * s.heads; i++) {
    ck_assert_mem_eq(&one.head[i].bound, &s.head[i].bound, sizeof(double));
    ck_assert_mem_eq(&one.head[i].part[0].form, &s.head[i].part[0].form, sizeof(struct spectrum));
  }
  for (long i = 0; i < s.matrices; i++)
    ck_assert_mem_eq(one.matrix[i].quantile, s.matrix[i].quantile, sizeof one.matrix[i].quantile);
  checkpoint_spectra_free(&one);
  checkpoint_spectra_free(&s);
  weights_close(w);
}
END_TEST

/* The layer without softmax attention of a hybrid has no bound. */
START_TEST(hybrid_layers)
{
  struct weights *w = opened("qwen3_next", NULL);
  struct architecture architecture;
  struct checkpoint_spectra s = spectra_in(w, &architecture, 1);
  ck_assert_int_eq(s.head[0].parts, 0);
  ck_assert(isnan(s.head[0].bound));
  ck_assert_int_eq(s.head[s.heads].parts, 1);
  checkpoint_spectra_free(&s);
  weights_close(w);
}
END_TEST

/* Without a model_type the tensors' names say it; what they do not say has to be given. */
START_TEST(by_names)
{
  const char *family = families[_i];
  struct weights *real_one = opened(family, NULL), *w;
  const json_t *config = weights_config(real_one), *inner = json_object_get(config, "text_config");
  struct error e = {0};
  struct architecture architecture;
  const char *key;
  json_t *value;
  int known;
  char path[] = "/tmp/maxlogit-config.XXXXXX";
  FILE *f = fdopen(mkstemp(path), "w");
  json_t *quantization = json_object_get(config, "quantization_config");
  json_t *other = json_pack("{s:s, s:O?}", "model_type", "unheard_of", "quantization_config", quantization);
  ck_assert_int_eq(json_dumpf(other, f, 0), 0); /* blocks scale when the file is opened */
  json_decref(other);
  fclose(f);
  w = opened(family, path);
  json_object_foreach((json_t *)(inner ? inner : config), key, value)
  {
    char *text = json_dumps(value, JSON_ENCODE_ANY), set[512];
    snprintf(set, sizeof set, "%s=%s", key, text);
    if (strcmp(key, "model_type") != 0) ck_assert_int_eq(weights_set(w, set, NULL), STATUS_OK);
    free(text);
  }
  int status = architecture_open(&architecture, w, &known, &e);
  ck_assert_msg(status == STATUS_OK && known, "%s", e.text);
  ck_assert_str_eq(architecture.family, family);
  ck_assert_int_eq(architecture.by_names, 1);
  ck_assert(isnan(architecture.scale)); /* a guess has no bound */
  weights_close(w);
  weights_close(real_one);
  remove(path);
}
END_TEST

/* --- tensors in memory --------------------------------------------------------------------------------- */

static struct safetensor tensor(const char *name, long rows, long cols, const float *data)
{
  return (struct safetensor){.name = name,
                             .dtype_name = "F32",
                             .dtype = DTYPE_F32,
                             .rank = rows ? 2 : 1,
                             .dims = {rows ? rows : cols, cols},
                             .count = (rows ? rows : 1) * cols,
                             .data = (const unsigned char *)data,
                             .bytes = (size_t)((rows ? rows : 1) * cols) * 4};
}

static const float w_of_test[] = {1, 2, 0, 0, 1, 2}, b_of_test[] = {2, 0, 1, 1, 1, 0},
                   gain_of_test[] = {1, .5f, 2};

/* q = w_of_test, k = b_of_test, of one head of size 2 over width 3. */
static struct head_logits small_head(const struct weights *w, enum norm_kind kind, const struct weight *gain)
{
  struct norm before = {.kind = kind, .gain = gain, .size = 3};
  return (struct head_logits){
    .parts = 1,
    .scale = 1 / sqrt(2),
    .part[0] = {
      .name = "",
      .q = {.name = "w_q", .weight = weights_find(w, "a"), .rows = 2, .inputs = 3, .before = before},
      .k = {.name = "w_k", .weight = weights_find(w, "b"), .rows = 2, .inputs = 3, .before = before},
      .rotary = ROTARY_HALVES,
      .rotary_size = 2}};
}

static void near(double got, double wanted) { ck_assert_double_eq_tol(got, wanted, 1e-6 * wanted); }

START_TEST(two_triangles)
{
  const struct safetensor t[] = {tensor("a", 2, 3, w_of_test), tensor("b", 2, 3, b_of_test),
                                 tensor("g", 0, 3, gain_of_test)};
  struct weights *w = weights_of(t, 3);
  struct head_work *work = head_work_new(2, 3);
  struct head_spectrum h;
  struct head_logits plain = small_head(w, NORM_RMS, NULL);
  ck_assert_int_eq(head_spectrum(work, &plain, &h, NULL), STATUS_OK);
  near(h.part[0].q.spectral_norm, 2.645751);
  near(h.part[0].q.frobenius_norm, 3.162278);
  near(h.part[0].form.spectral_norm, 6.311666);
  near(h.part[0].form.frobenius_norm, sqrt(6.311666 * 6.311666 + 1.778449 * 1.778449));
  near(h.part[0].q.spectral_norm * h.part[0].k.spectral_norm, 6.480741);
  /* with the gain of the norm before: what the logits are bounded by */
  struct head_logits gained = small_head(w, NORM_RMS, weights_find(w, "g"));
  ck_assert_int_eq(head_spectrum(work, &gained, &h, NULL), STATUS_OK);
  near(h.bound, 25.015056);
  near(h.still, 12.061109);
  near(h.part[0].form.spectral_norm, 6.311666); /* the form is of the rows as they are */
  ck_assert_str_eq(h.term[h.largest].name, "weights");
  /* LayerNorm takes the mean away: the rows lose theirs */
  struct head_logits centred = small_head(w, NORM_LAYER, NULL);
  centred.part[0].k = centred.part[0].q;
  ck_assert_int_eq(head_spectrum(work, &centred, &h, NULL), STATUS_OK);
  near(h.bound, 3 * 1.732051 * 1.732051 / sqrt(2));
  /* gain 1 + g */
  static const float less[] = {0, -.5f, 1};
  const struct safetensor u[] = {t[0], t[1], tensor("g", 0, 3, less)};
  struct weights *v = weights_of(u, 3);
  struct head_logits one_more = small_head(v, NORM_RMS_PLUS_ONE, weights_find(v, "g"));
  ck_assert_int_eq(head_spectrum(work, &one_more, &h, NULL), STATUS_OK);
  near(h.bound, 25.015056);
  /* no norm before: nothing bounds it */
  struct head_logits bare = small_head(w, NORM_NONE, NULL);
  ck_assert_int_eq(head_spectrum(work, &bare, &h, NULL), STATUS_OK);
  ck_assert(isnan(h.bound) && isnan(h.still));
  head_work_free(work);
  weights_close(v);
  weights_close(w);
}
END_TEST

/* Experts in one tensor of three dimensions are matrices of one line; its quantiles are theirs, and a NaN of one
   is one of all. A row is not a matrix. */
START_TEST(stacked_experts)
{
  float w[3][2][3] = {{{0}}};
  for (int x = 0; x < 3; x++)
    for (int i = 0; i < 2; i++) w[x][i][i] = (float)(x == 1 ? 5 : 2 + x) * (i ? 1 : 2);
  if (_i) w[_i][0][0] = NAN;
  struct safetensor t[] = {tensor("l.experts.down_proj", 2, 3, &w[0][0][0]),
                           tensor("row", 1, 3, &w[0][0][0])};
  t->rank = 3;
  t->dims[0] = 3, t->dims[1] = 2, t->dims[2] = 3;
  t->count *= 3, t->bytes *= 3;
  struct weights *all = weights_of(t, 2);
  struct checkpoint_spectra s;
  struct error e = {0};
  struct device *device = NULL;
  ck_assert_int_eq(device_open(&device, "cpu", 2, &e), STATUS_OK);
  ck_assert_msg(
    !checkpoint_spectra(&s, all, &(struct architecture){0}, device->pool, SPECTRA_MATRICES, NULL, NULL, &e),
    "%s", e.text);
  ck_assert_int_eq(s.matrices, 1);
  ck_assert_int_eq(s.matrix[0].count, 3);
  for (int k = 0; k < QUANTILES; k++) ck_assert_int_eq(isnan(s.matrix[0].quantile[k].spectral_norm), _i > 0);
  if (_i == 0) {
    near(s.matrix[0].quantile[0].spectral_norm, 4);
    near(s.matrix[0].quantile[(QUANTILES - 1) / 2].spectral_norm, 8);
    near(s.matrix[0].quantile[QUANTILES - 1].spectral_norm, 10);
  }
  checkpoint_spectra_free(&s);
  device_close(device);
  weights_close(all);
}
END_TEST

START_TEST(normed_queries_and_keys)
{
  static const float q[] = {1, 2, 3, .5f}, k[] = {2, 1, .5f, 4}, bad[] = {1, NAN, 3, .5f};
  static const float eye[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  const struct safetensor t[] = {tensor("w", 4, 4, eye), tensor("q", 0, 4, q), tensor("k", 0, 4, k),
                                 tensor("bad", 0, 4, bad)};
  struct weights *w = weights_of(t, 4);
  struct head_work *work = head_work_new(4, 4);
  struct head_spectrum h;
  struct projection p = {.name = "w_q", .weight = weights_find(w, "w"), .rows = 4, .inputs = 4};
  struct head_logits in = {
    .parts = 1,
    .scale = .5,
    .part[0] = {.name = "", .q = p, .k = p, .rotary = ROTARY_HALVES, .rotary_size = 4}};
  in.part[0].q.after = (struct norm){.kind = NORM_RMS, .gain = weights_find(w, "q"), .size = 4};
  in.part[0].k.after = (struct norm){.kind = NORM_RMS, .gain = weights_find(w, "k"), .size = 4};
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  near(h.bound, 16); /* pairs (0, 2), (1, 3): 3*2 and 2*4 */
  ck_assert_str_eq(h.term[0].name, "gain 1");
  in.part[0].rotary = ROTARY_INTERLEAVED; /* pairs (0, 1), (2, 3): 2*2 and 3*4 */
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  near(h.bound, 24);
  in.part[0].rotary = ROTARY_NONE; /* 2, 2, 1.5, 2 */
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  near(h.bound, 4);
  in.part[0].rotary = ROTARY_HALVES;
  in.part[0].rotary_size = 2; /* pair (0, 1), then 2 and 3 alone: 4, 1.5, 2 */
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  near(h.bound, 8);
  in.part[0].q.after.gain = weights_find(w, "bad");
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  ck_assert(isnan(h.bound));
  /* keys that keep their scale: sqrt(4) max|gain_q| times sqrt(4) |w_k| */
  in.part[0].q.after.gain = weights_find(w, "q");
  in.part[0].k = p;
  in.part[0].k.before = (struct norm){.kind = NORM_RMS, .size = 4};
  ck_assert_int_eq(head_spectrum(work, &in, &h, NULL), STATUS_OK);
  near(h.bound, .5 * 2 * 3 * 2 * 1);
  head_work_free(work);
  weights_close(w);
}
END_TEST

/* Singular values by all three ways, across tiles and blocks, for both shapes. */
START_TEST(ways_of_a_matrix)
{
  static const long sides[][2] = {{300, 270}, {270, 300}, {257, 257}, {9000, 130}, {130, 9000}};
  long rows = sides[_i][0], cols = sides[_i][1];
  float *x = memory_new((size_t)(rows * cols), sizeof *x);
  for (long i = 0; i < rows * cols; i++) {
    x[i] = (float)draw_below((struct draw){7, STREAM_TEST, 0}, (uint64_t)i, 2001) / 1000 - 1;
    x[i] *= (float)(1 + i % cols) / (float)cols; /* a spectrum that is not flat */
  }
  const struct safetensor t[] = {tensor("x", rows, cols, x)};
  struct weights *w = weights_of(t, 1);
  struct spectrum exact, other;
  struct device *device = NULL;
  ck_assert_int_eq(device_open(&device, "cpu", 2, NULL), STATUS_OK);
  ck_assert_int_eq(matrix_spectrum(weights_at(w, 0), 0, rows, MATRIX_SVD, NULL, &exact, NULL), STATUS_OK);
  for (int way = MATRIX_GRAM; way <= MATRIX_PACKED; way++) {
    ck_assert_int_eq(
      matrix_spectrum(weights_at(w, 0), 0, rows, (enum matrix_way)way, device->pool, &other, NULL),
      STATUS_OK);
    for (int f = 0; f < 6; f++)
      ck_assert_double_eq_tol(((double *)&other)[f], ((double *)&exact)[f], 1e-9 * ((double *)&exact)[f]);
    struct spectrum alone;
    ck_assert_int_eq(matrix_spectrum(weights_at(w, 0), 0, rows, (enum matrix_way)way, NULL, &alone, NULL),
                     STATUS_OK);
    ck_assert_mem_eq(&alone, &other, sizeof alone);
  }
  x[rows * cols - 1] = NAN;
  for (int way = MATRIX_SVD; way <= MATRIX_PACKED; way++) {
    ck_assert_int_eq(
      matrix_spectrum(weights_at(w, 0), 0, rows, (enum matrix_way)way, device->pool, &other, NULL),
      STATUS_OK);
    ck_assert(isnan(other.spectral_norm) && isnan(other.svd_entropy));
  }
  device_close(device);
  weights_close(w);
  memory_free(x);
}
END_TEST

/* --- what does not fit --------------------------------------------------------------------------------- */

struct change {
  const char *family, *set, *why;
};
static const struct change changes[] = {
  {"llama", "num_attention_heads=0", "num_attention_heads n_head: allowed: a whole number from 1"},
  {"llama", "num_attention_heads=1.5", "allowed: a whole number from 1"},
  {"llama", "num_attention_heads=6", "self_attn.q_proj.weight is 24x12; allowed for 6 heads of 6: 36 rows"},
  {"llama", "head_dim=99999999999", "allowed: a whole number from 1"},
  {"llama", "num_key_value_heads=3", "num_key_value_heads: 3 does not divide num_attention_heads = 4"},
  {"llama", "num_key_value_heads=4",
   "self_attn.k_proj.weight is 12x12; allowed for 4 heads, 4 for keys, of 6: 24x12"},
  {"llama", "num_hidden_layers=3", "num_hidden_layers: 3, but the last layer with self_attn.q_proj is 1"},
  {"llama", "model_type=gpt2", "model_type gpt2"},
  {"qwen3", "head_dim=12", "allowed for 4 heads of 12: 48 rows"},
  {"gemma2", "query_pre_attn_scalar=-1", "query_pre_attn_scalar: allowed: a number above 0"},
  {"gpt_neox", "rotary_pct=2", "rotary_pct partial_rotary_factor: allowed: a number from 0 to 1"},
  {"gpt2", "n_head=5", "allowed for 5 heads of 2: 30 columns"},
  {"deepseek_v3", "qk_rope_head_dim=5",
   "self_attn.q_b_proj.weight is 40x9; allowed for 4 heads of 6 + 5: 44 rows"},
  {"deepseek_v3", "qk_nope_head_dim=null", "qk_nope_head_dim"},
  {"moonlight", "num_attention_heads=8", "allowed for 8 heads of 6 + 4"},
};

START_TEST(misfits)
{
  const struct change *c = &changes[_i];
  struct weights *w = opened(c->family, NULL);
  struct architecture architecture;
  struct error e = {0};
  int known;
  ck_assert_int_eq(weights_set(w, c->set, NULL), STATUS_OK);
  ck_assert_int_eq(architecture_open(&architecture, w, &known, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, c->why), "'%s' does not say '%s'", e.text, c->why);
  ck_assert(!known);
  weights_close(w);
}
END_TEST

/* --- factors -------------------------------------------------------------------------------------------- */

#define YARN(MORE) "rope_scaling={\"rope_type\": \"yarn\", \"factor\": 8" MORE "}"
/* A setting multiplies every bound of the family's checkpoint with a number, or leaves none: then the reason names
   the key. */
static const struct factor {
  const char *family, *set;
  double times;
  const char *key;
} factors[] = {
  {"llama", YARN(""), 1.2079441541679836 * 1.2079441541679836, NULL},
  {"llama", YARN(", \"attention_factor\": 0.5"), .25, NULL},
  {"llama", YARN(", \"mscale\": 1, \"mscale_all_dim\": 1"), 1, NULL},
  {"qwen3", YARN(""), 1.2079441541679836 * 1.2079441541679836, NULL},
  {"qwen2",
   "rope_parameters={\"type\": \"longrope\", \"factor\": 8, \"original_max_position_embeddings\": 64}", 1.5,
   NULL},
  {"llama", "rope_scaling={\"type\": \"linear\", \"factor\": 8}", 1, NULL},
  {"llama", "attn_logit_softcapping=null", 1, NULL},
  {"llama", "position_embedding_type=rope_gptj", 1, NULL},
  {"llama", "a\033[2Jfactor=2", NAN, "a?[2Jfactor"},
  {"llama", "attention_multiplier=2", NAN, "attention_multiplier"},
  {"llama", "attn_temperature_tuning=true", NAN, "attn_temperature_tuning"},
  {"llama", "rope_scaling={\"type\": \"mrope\"}", NAN, "rope_type"},
  {"llama", YARN(", \"attn_factor\": 2"), NAN, "attn_factor"},
  {"llama", "partial_rotary_factor=0.5", NAN, "partial_rotary_factor"},
  {"llama", "model_type=gpt_oss", NAN, "rope_parameters"},
  {"llama", "model_type=unheard_of", NAN, "--set=model_type=llama"},
  {"bert", "position_embedding_type=relative_key", NAN, "position_embedding_type"},
  {"deepseek_v3", "llama_4_scaling=1", NAN, "llama_4_scaling"},
};

START_TEST(factors_of_bounds)
{
  const struct factor *f = &factors[_i];
  struct weights *w = opened(f->family, NULL);
  struct architecture architecture;
  struct checkpoint_spectra plain = spectra_in(w, &architecture, 1), s;
  ck_assert_str_eq(architecture.unbounded, "");
  ck_assert_int_eq(weights_set(w, f->set, NULL), STATUS_OK);
  s = spectra_in(w, &architecture, 1);
  ck_assert_int_eq(s.layers * s.heads, plain.layers * plain.heads);
  for (long i = 0; i < s.layers * s.heads; i++) {
    if (f->key)
      ck_assert(isnan(s.head[i].bound) && isnan(s.head[i].still));
    else
      near(s.head[i].bound, f->times * plain.head[i].bound);
    ck_assert_mem_eq(&s.head[i].part[0].form, &plain.head[i].part[0].form, sizeof(struct spectrum));
  }
  ck_assert_msg(!!f->key == !!*architecture.unbounded && strstr(architecture.unbounded, f->key ? f->key : ""),
                "'%s'", architecture.unbounded);
  checkpoint_spectra_free(&s);
  checkpoint_spectra_free(&plain);
  weights_close(w);
}
END_TEST

/* Rows that share llama's names: a scale and gains of their own, and layers that do not rotate. */
START_TEST(names_of_llama)
{
  struct weights *w = opened("llama", NULL);
  struct architecture architecture;
  struct checkpoint_spectra plain = spectra_in(w, &architecture, 1), s;
  weights_set(w, "model_type=granite", NULL);
  weights_set(w, "attention_multiplier=0.75", NULL);
  s = spectra_in(w, &architecture, 1);
  for (long i = 0; i < s.layers * s.heads; i++) near(s.head[i].bound, .75 * sqrt(6) * plain.head[i].bound);
  checkpoint_spectra_free(&s);
  weights_set(w, "attention_multiplier=null", NULL);
  weights_set(w, "model_type=smollm3", NULL);
  weights_set(w, "no_rope_layers=[1, 0]", NULL);
  weights_set(w, YARN(""), NULL);
  s = spectra_in(w, &architecture, 1);
  for (long h = 0; h < s.heads; h++) {
    near(s.head[h].bound, 1.2079441541679836 * 1.2079441541679836 * plain.head[h].bound);
    near(s.head[s.heads + h].bound, plain.head[s.heads + h].still); /* rotation does not multiply, either */
  }
  checkpoint_spectra_free(&s);
  checkpoint_spectra_free(&plain);
  weights_close(w);
}
END_TEST

START_TEST(missing_tensors)
{
  static const float x[144];
  struct architecture architecture;
  struct error e = {0};
  int known = 1;
  const struct safetensor none[] = {tensor("some.matrix", 3, 3, x)};
  struct weights *w = weights_of(none, 1);
  ck_assert_int_eq(architecture_open(&architecture, w, &known, &e), STATUS_OK);
  ck_assert_int_eq(known, 0);
  weights_close(w);
  const struct safetensor half[] = {tensor("model.layers.0.self_attn.q_proj.weight", 12, 12, x),
                                    tensor("model.layers.0.self_attn.k_proj.weight", 12, 12, x),
                                    tensor("model.layers.0.input_layernorm.weight", 0, 12, x),
                                    tensor("model.layers.1.self_attn.q_proj.weight", 12, 12, x)};
  w = weights_of(half, 4);
  ck_assert_int_eq(weights_set(w, "num_attention_heads=2", NULL), STATUS_OK);
  ck_assert_int_eq(architecture_open(&architecture, w, &known, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "model.layers.1.self_attn.k_proj.weight is missing; family llama"), "%s",
                e.text);
  weights_close(w);
  w = weights_of(half, 3);
  e = (struct error){0};
  ck_assert_int_eq(architecture_open(&architecture, w, &known, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "num_attention_heads is wanted"), "%s", e.text);
  weights_close(w);
}
END_TEST

/* --- our own checkpoints in the naming of others ------------------------------------------------------- */

static const struct own_case {
  const char *settings, *family, *gain; /* gain: q_gain and k_gain of qk_norm */
} own_cases[] = {
  {"model.attention=mha", "llama", NULL},
  {"model.attention=gqa model.kv_heads=2 model.bias=1 model.tied=1", "llama", NULL},
  {"model.attention=gqa model.kv_heads=2 stabilizers=qk_norm", "qwen3", "attn"},
  {"model.attention=mla model.q_rank=10", "deepseek_v3", NULL},
  {"model.attention=mla model.rope_dim=8", "moonlight", NULL},
  {"model.norm_gain=scalar", "llama", NULL},
  {"model.norm_gain=none model.attention=mla model.q_rank=10", "deepseek_v3", NULL},
  {"model.norm_gain=zero_centered model.attention=mla model.q_rank=10", "deepseek_v3", NULL},
};
enum { OWN_CASES = sizeof own_cases / sizeof *own_cases };

static int assign(void *config, const char *setting)
{
  struct error e = {0};
  ck_assert_msg(config_assign(config, setting, &e) == STATUS_OK, "%s", e.text);
  return 0;
}

static void add_tensor(struct checkpoint *c, const char *name, long rows, long cols)
{
  struct checkpoint_tensor *t = &c->tensors[c->count++];
  snprintf(t->name, sizeof t->name, "params/%s", name);
  t->rows = rows;
  t->cols = cols;
  real *data = memory_new((size_t)(rows * cols), sizeof *data);
  for (long i = 0; i < rows * cols; i++)
    data[i] =
      (real)draw_below((struct draw){9, STREAM_TEST, (uint64_t)c->count}, (uint64_t)i, 2001) / 1000 - 1;
  t->data = data;
}

/* A checkpoint with random weights, in `path`. */
static void make_own(const struct own_case *c, const char *run, char path[4096])
{
  struct config *config = config_new();
  struct device *device;
  struct model model = {0};
  struct error e = {0};
  struct checkpoint checkpoint = {
    .step = 3, .id = "abc", .tensors = memory_new(256, sizeof(struct checkpoint_tensor))};
  text_split("model.layers=2 model.width=24 model.heads=4 model.context=8 model.vocab=11", ' ', assign,
             config);
  text_split(c->settings, ' ', assign, config);
  ck_assert_msg(config_finish(config, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(device_open(&device, "reference", 1, NULL), STATUS_OK);
  struct model_options options = *(struct model_options *)config_section(config, "model");
  ck_assert_msg(model_resolve(&options, 11, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(model_init(&model, &options, device, NULL, NULL, 0, &e), STATUS_OK);
  for (int i = 0; i < model.params.count; i++)
    add_tensor(&checkpoint, model.params.list[i]->name, model.params.list[i]->value.rows,
               model.params.list[i]->value.cols);
  for (long l = 0; l < 2 && c->gain; l++)
    for (int k = 0; k < 2; k++) {
      char name[64];
      snprintf(name, sizeof name, "blocks.%ld.attn.%c_gain", l, k ? 'k' : 'q');
      add_tensor(&checkpoint, name, 1, options.head_dim);
    }
  checkpoint.config_text = config_text(config);
  ck_assert_msg(checkpoint_write(run, &checkpoint, 0, &e) == STATUS_OK, "%s", e.text);
  checkpoint_path(path, run, 3);
  checkpoint_free(&checkpoint);
  model_free(&model);
  device_close(device);
  config_free(config);
}

static struct checkpoint_spectra heads_of(const struct weights *w, const struct architecture *architecture)
{
  struct checkpoint_spectra s;
  struct device *device;
  struct error e = {0};
  ck_assert_int_eq(device_open(&device, "cpu", 1, NULL), STATUS_OK);
  int status = checkpoint_spectra(&s, w, architecture, device->pool, SPECTRA_HEADS, NULL, NULL, &e);
  ck_assert_msg(status == STATUS_OK, "%s", e.text);
  device_close(device);
  return s;
}

/* Row `a` of one tensor is row `b` of another. */
static void same_row(const struct weights *x, const char *one, long a, const struct weights *y,
                     const char *other, long b)
{
  const struct weight *u = weights_find(x, one), *v = weights_find(y, other);
  double first[64], second[64];
  ck_assert(u && v && u->cols == v->cols && u->cols <= 64);
  weight_read(u, a, 0, u->cols, first);
  weight_read(v, b, 0, v->cols, second);
  ck_assert_mem_eq(first, second, (size_t)u->cols * sizeof *first);
}

static void check_rotary_rows(const struct own_run *own, const struct weights *w, const char *family)
{
  const struct model_options *o = &own_run_model(own)->options;
  const char *q = strcmp(family, "moonlight") ? "model.layers.1.self_attn.q_b_proj.weight"
                                              : "model.layers.1.self_attn.q_proj.weight";
  long dn = o->head_dim, dr = o->rope_dim;
  const struct weights *mine = own_run_weights(own);
  for (long i = 0; i < dr / 2; i++) { /* the pair (i, i + dr/2) becomes (2i, 2i+1), in queries as in keys */
    same_row(mine, "blocks.1.attn.w_qr", 3 * dr + i, w, q, 3 * (dn + dr) + dn + 2 * i);
    same_row(mine, "blocks.1.attn.w_qr", 3 * dr + dr / 2 + i, w, q, 3 * (dn + dr) + dn + 2 * i + 1);
    same_row(mine, "blocks.1.attn.w_kr", i, w, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
             o->kv_rank + 2 * i);
    same_row(mine, "blocks.1.attn.w_kr", dr / 2 + i, w, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
             o->kv_rank + 2 * i + 1);
  }
  same_row(mine, "blocks.1.attn.w_v", o->value_dim, w, "model.layers.1.self_attn.kv_b_proj.weight",
           dn + o->value_dim + dn);
}

START_TEST(own_names)
{
  const struct own_case *c = &own_cases[_i];
  char dir[FOLDER_PATH], run[128], path[4096], folder_out[128];
  struct own_run *own;
  struct weights *w;
  struct architecture architecture;
  struct error e = {0};
  int known;
  folder_make(dir);
  snprintf(run, sizeof run, "%s/a.h5", dir);
  snprintf(folder_out, sizeof folder_out, "%s/out", dir);
  make_own(c, run, path);
  ck_assert_msg(own_run_open(&own, path, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(own_run_export(own, folder_out, 0, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(weights_open(&w, folder_out, NULL, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(architecture_open(&architecture, w, &known, &e) == STATUS_OK && known, "%s", e.text);
  ck_assert_str_eq(architecture.family, c->family);
  ck_assert_int_eq(architecture.by_names, 0);
  struct checkpoint_spectra mine = heads_of(own_run_weights(own), own_run_architecture(own)),
                            theirs = heads_of(w, &architecture);
  ck_assert(mine.layers == 2 && theirs.layers == 2 && mine.heads == 4 && theirs.heads == 4);
  for (long i = 0; i < 8; i++) {
    const struct head_spectrum *a = &mine.head[i], *b = &theirs.head[i];
    near(b->bound, a->bound);
    near(b->scale, a->scale);
    ck_assert_int_eq(a->parts, b->parts);
    for (int p = 0; p < a->parts; p++)
      for (int f = 0; f < SPECTRUM_FIELDS; f++) {
        near(spectrum_number(&b->part[p].q, f), spectrum_number(&a->part[p].q, f));
        near(spectrum_number(&b->part[p].k, f), spectrum_number(&a->part[p].k, f));
        near(spectrum_number(&b->part[p].form, f), spectrum_number(&a->part[p].form, f));
      }
  }
  if (mine.head[0].parts == 2) check_rotary_rows(own, w, c->family);
  checkpoint_spectra_free(&mine);
  checkpoint_spectra_free(&theirs);
  weights_close(w);
  own_run_close(own);
  folder_remove(dir);
}
END_TEST

/* A run records the bounds that its checkpoint has, here after five updates, with gains that are no longer 1. For mla
   the run adds the bounds of both parts, and the bound of the checkpoint is below that sum. */
static void same_bounds(const char *path, const struct checkpoint_spectra *s)
{
  struct run_file *run;
  struct run_series logits, tightness;
  struct error e = {0};
  ck_assert_msg(run_open(&run, path, &e) == STATUS_OK, "%s", e.text);
  ck_assert_int_eq(run_read(run, "attn/max_logit", &logits, &e), STATUS_OK);
  ck_assert_int_eq(run_read(run, "attn/bound_tightness", &tightness, &e), STATUS_OK);
  ck_assert(logits.step[5] == 5 && tightness.step[5] == 5 && tightness.width == s->layers * s->heads);
  for (long i = 0; i < tightness.width; i++) {
    double share = logits.value[5 * logits.width + i] / s->head[i].bound,
           recorded = tightness.value[5 * tightness.width + i];
    int joint = s->head[i].parts == 2;
    ck_assert_msg(joint ? recorded < share && share < 2 * recorded : fabs(share / recorded - 1) < 1e-5,
                  "head %ld: %.9g of its bound, recorded as %.9g", i, share, recorded);
  }
  run_series_free(&logits);
  run_series_free(&tightness);
  run_close(run);
}

START_TEST(bounds_of_a_run)
{
  static const char *const settings[] = {"model.bias=1",
                                         "model.attention=gqa model.kv_heads=2",
                                         "model.attention=mla model.q_rank=10",
                                         "model.attention=mla",
                                         "model.norm_gain=scalar",
                                         "model.norm_gain=none",
                                         "model.norm_gain=zero_centered model.attention=mla model.q_rank=10"};
  char dir[FOLDER_PATH], path[128], state[4096];
  struct config *config = config_new();
  struct trainer *t;
  struct own_run *own;
  struct error e = {0};
  folder_make(dir);
  snprintf(path, sizeof path, "%s/a.h5", dir);
  text_split(
    "model.layers=2 model.width=24 model.heads=4 model.context=8 train.batch=2 train.steps=6 train.lr=0.05 "
    "train.warmup=0 train.val_every=0 record.bound=1 record.spectra_every=1 checkpoint.every=5 "
    "checkpoint.keep=all device.threads=1",
    ' ', assign, config);
  text_split(settings[_i], ' ', assign, config);
  ck_assert_msg(config_finish(config, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(trainer_init_again(&t, config, path, NULL, &e) == STATUS_OK, "%s", e.text);
  while (trainer_more(t)) ck_assert_msg(trainer_step(t, &e) == STATUS_OK, "%s", e.text);
  ck_assert_msg(trainer_done(t, &e) == STATUS_OK, "%s", e.text);
  checkpoint_path(state, path, 5);
  ck_assert_msg(own_run_open(&own, state, &e) == STATUS_OK, "%s", e.text);
  struct checkpoint_spectra s = heads_of(own_run_weights(own), own_run_architecture(own));
  same_bounds(path, &s);
  checkpoint_spectra_free(&s);
  own_run_close(own);
  config_free(config);
  folder_remove(dir);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("spectra");
  TCase *tests = tcase_create("spectra");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, against_numpy, 0, FAMILIES);
  tcase_add_loop_test(tests, by_names, 0, FAMILIES);
  tcase_add_test(tests, hybrid_layers);
  tcase_add_test(tests, two_triangles);
  tcase_add_loop_test(tests, stacked_experts, 0, 3);
  tcase_add_test(tests, normed_queries_and_keys);
  tcase_add_loop_test(tests, ways_of_a_matrix, 0, 5);
  tcase_add_loop_test(tests, misfits, 0, sizeof changes / sizeof *changes);
  tcase_add_loop_test(tests, factors_of_bounds, 0, sizeof factors / sizeof *factors);
  tcase_add_test(tests, names_of_llama);
  tcase_add_test(tests, missing_tensors);
  tcase_add_loop_test(tests, own_names, 0, OWN_CASES);
  tcase_add_loop_test(tests, bounds_of_a_run, 0, 7);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
