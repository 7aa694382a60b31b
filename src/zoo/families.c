/* families.c - foreign checkpoints: a table with one row per family, and the code that all rows share
   Names and forms as in huggingface/transformers 5.23, class by class; MLA as in DeepSeek-V3 (arXiv 2412.19437 eq.
   1-11) and its released code. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "zoo/architecture.h"

enum layout {
  SEPARATE, /* q [H*Dh,D], k [G*Dh,D] */
  GATED,    /* q [H*2Dh,D]: for each head its queries, then its gate */
  FUSED,    /* one [H*3Dh,D]: for each head its queries, keys, values */
  STACKED,  /* one [(H+2G)*Dh,D]: queries of all heads, then keys, then values */
  COLUMNS,  /* one [D,3D], stored as [in,out]: queries of all heads, keys, values */
  LATENT    /* MLA */
};

/* Norms of queries and keys. */
enum norms_of {
  OF_A_HEAD /* one gain for all heads */,
  OF_EACH_HEAD /* each its own */,
  OF_ALL /* together */
};

/* Layers that differ from the others: those in a list of config.json, else every n-th layer. */
struct every {
  const char *list; /* the list's entry for such a layer: 0 or "full_attention" */
  const char *key;  /* n */
  long n;           /* if the key is missing */
  int no_rotation;  /* 1: these layers do not rotate; 0: only they use rope_scaling */
};

struct family {
  const char *name, *help;
  const char *types;      /* values of model_type */
  const char *has, *not ; /* names within a layer that must be there, or must be missing; "": none */
  enum layout layout;
  const char *q, *k;  /* without ".weight" */
  const char *before; /* the norm before the layer; NULL: none; "": one without weights */
  const char *first;  /* the norm before is that of the layer below, for layer 0 this one, from the root */
  enum norm_kind norm;
  const char *q_norm, *k_norm; /* NULL: none */
  enum norms_of norms_of;
  const char *norms_if; /* key that turns norms of queries and keys on */
  enum rotary rotary;
  const char *rotary_share; /* synonymous keys of config.json */
  double rotary_default;    /* share if no such key is set */
  const char *scale_key;    /* scale = value^-1/2 */
  int scale_is_value;       /* scale = value */
  const char *clip_key;     /* queries and keys are clamped to +-value */
  const char *need;         /* transformers assumes a factor if this key is missing */
  const char *harmless;     /* keys that look like factors, but do not change attention logits */
  struct every every;
  int hybrid; /* layers without q are not softmax attention */
};

#define Q "self_attn.q_proj"
#define K "self_attn.k_proj"
#define QN "self_attn.q_norm"
#define KN "self_attn.k_norm"
#define IN "input_layernorm"
#define PLAIN_ROPE .rotary = ROTARY_HALVES, .rotary_default = 1
#define SHARED_ROPE(KIND, SHARE) \
  .rotary = KIND, .rotary_share = "partial_rotary_factor", .rotary_default = SHARE
#define SEPARATE_AFTER(NORM) .q = Q, .k = K, .before = IN, .norm = NORM

/* The first matching row is used, so rows that need more names come first. Rows after llama that have llama's names are
   found only by model_type. */
static const struct family rows[] = {
  {.name = "deepseek_v3",
   .help = "MLA: DeepSeek-V3, Kimi K2",
   .types = "deepseek_v3 kimi_k2",
   .has = "self_attn.q_a_proj self_attn.q_a_layernorm self_attn.q_b_proj self_attn.kv_a_proj_with_mqa "
          "self_attn.kv_a_layernorm self_attn.kv_b_proj",
   .layout = LATENT,
   .q = "self_attn.q_b_proj",
   .before = IN,
   .norm = NORM_RMS,
   .harmless = "routed_scaling_factor",
   .rotary = ROTARY_INTERLEAVED},
  {.name = "moonlight",
   .help = "MLA without a query latent: Moonlight",
   .types = "deepseek_v3 kimi_k2",
   .has = Q " self_attn.kv_a_proj_with_mqa self_attn.kv_a_layernorm self_attn.kv_b_proj",
   .layout = LATENT,
   .q = Q,
   .before = IN,
   .norm = NORM_RMS,
   .harmless = "routed_scaling_factor",
   .rotary = ROTARY_INTERLEAVED},
  {.name = "gemma3",
   .help = "gain 1 + w, norms of queries and keys",
   .types = "gemma3 gemma3_text",
   .has = Q " " K " " QN " " KN " pre_feedforward_layernorm",
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS_PLUS_ONE,
   .q_norm = QN,
   .k_norm = KN,
   .scale_key = "query_pre_attn_scalar",
   .harmless = "attn_logit_softcapping final_logit_softcapping",
   .every = {"layer_types", "sliding_window_pattern", 6, 0},
   PLAIN_ROPE},
  {.name = "gemma2",
   .help = "gain 1 + w, a cap on the logits (bounds are before it)",
   .types = "gemma2",
   .has = Q " " K " pre_feedforward_layernorm",
   .not = QN,
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS_PLUS_ONE,
   .scale_key = "query_pre_attn_scalar",
   .harmless = "attn_logit_softcapping final_logit_softcapping",
   PLAIN_ROPE},
  {.name = "qwen3_next",
   .help = "queries beside a gate, every fourth layer; gain 1 + w, norms of queries and keys",
   .types = "qwen3_next",
   .has = Q " " K " " QN " " KN,
   .layout = GATED,
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS_PLUS_ONE,
   .q_norm = QN,
   .k_norm = KN,
   SHARED_ROPE(ROTARY_HALVES, .25),
   .hybrid = 1},
  {.name = "qwen3",
   .help = "norms of queries and keys by head",
   .types = "qwen3 qwen3_moe",
   .has = Q " " K " " QN " " KN " " IN,
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS,
   .q_norm = QN,
   .k_norm = KN,
   PLAIN_ROPE},
  {.name = "olmo2",
   .help = "no norm before, norms of queries and keys over all heads",
   .types = "olmo2",
   .has = Q " " K " " QN " " KN,
   .not = IN,
   .q = Q,
   .k = K,
   .q_norm = QN,
   .k_norm = KN,
   .norm = NORM_RMS,
   .norms_of = OF_ALL,
   PLAIN_ROPE},
  {.name = "glm4",
   .help = "GLM-4-0414: rotation of half of a head",
   .types = "glm4",
   .has = Q " " K " " IN " post_self_attn_layernorm",
   SEPARATE_AFTER(NORM_RMS),
   SHARED_ROPE(ROTARY_INTERLEAVED, .5)},
  {.name = "qwen2",
   .help = "as llama, with biases of queries and keys",
   .types = "qwen2 qwen2_moe",
   .has = Q " " K " " IN " " Q ".bias",
   .not = QN,
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS,
   PLAIN_ROPE},
  {.name = "llama",
   .help = "Llama, Mistral, Mixtral and those that follow them",
   .types = "llama mistral mixtral",
   .has = Q " " K " " IN,
   .not = QN,
   .q = Q,
   .k = K,
   .before = IN,
   .norm = NORM_RMS,
   PLAIN_ROPE},
  {.name = "gemma",
   .help = "Gemma 1: gain 1 + w",
   .types = "gemma",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_RMS_PLUS_ONE),
   PLAIN_ROPE},
  {.name = "granite",
   .help = "a scale of its own (attention_multiplier)",
   .types = "granite granitemoe",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_RMS),
   .scale_key = "attention_multiplier",
   .scale_is_value = 1,
   .harmless = "embedding_multiplier logits_scaling residual_multiplier",
   PLAIN_ROPE},
  {.name = "smollm3",
   .help = "every fourth layer without rotation",
   .types = "smollm3",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_RMS),
   .every = {"no_rope_layers", "no_rope_layer_interval", 4, 1},
   PLAIN_ROPE},
  {.name = "gpt_oss",
   .help = "biases, YaRN; a sink is not a logit of a key",
   .types = "gpt_oss",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_RMS),
   .need = "rope_parameters rope_scaling",
   PLAIN_ROPE},
  {.name = "nemotron",
   .help = "LayerNorm of gain 1 + w",
   .types = "nemotron",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_LAYER_PLUS_ONE),
   SHARED_ROPE(ROTARY_HALVES, .5)},
  {.name = "cohere",
   .help = "LayerNorm; norms of queries and keys with use_qk_norm",
   .types = "cohere",
   .has = Q " " K " " IN,
   SEPARATE_AFTER(NORM_LAYER),
   .q_norm = QN,
   .k_norm = KN,
   .norms_of = OF_EACH_HEAD,
   .norms_if = "use_qk_norm",
   .harmless = "logit_scale",
   .rotary = ROTARY_INTERLEAVED,
   .rotary_default = 1},
  {.name = "cohere2",
   .help = "LayerNorm; layers of full attention without rotation",
   .types = "cohere2",
   .has = Q " " K " " IN,
   .not = QN,
   SEPARATE_AFTER(NORM_LAYER),
   .harmless = "logit_scale",
   .every = {"layer_types", "sliding_window_pattern", 4, 1},
   .rotary = ROTARY_INTERLEAVED,
   .rotary_default = 1},
  {.name = "olmo",
   .help = "OLMo 1: LayerNorm without weights, clamped queries and keys",
   .types = "olmo",
   .has = Q " " K,
   .not = IN " " QN,
   .q = Q,
   .k = K,
   .before = "",
   .norm = NORM_LAYER,
   .clip_key = "clip_qkv",
   PLAIN_ROPE},
  {.name = "phi3",
   .help = "Phi 3 and 4: one matrix of queries, keys and values",
   .types = "phi3",
   .has = "self_attn.qkv_proj " IN,
   .layout = STACKED,
   .q = "self_attn.qkv_proj",
   .before = IN,
   .norm = NORM_RMS,
   SHARED_ROPE(ROTARY_HALVES, 1)},
  {.name = "gpt_neox",
   .help = "Pythia, GPT-NeoX: LayerNorm, biases",
   .types = "gpt_neox",
   .has = "attention.query_key_value " IN,
   .layout = FUSED,
   .q = "attention.query_key_value",
   .before = IN,
   .norm = NORM_LAYER,
   .rotary = ROTARY_HALVES,
   .rotary_share = "rotary_pct partial_rotary_factor",
   .rotary_default = 0.25},
  {.name = "gpt2",
   .help = "LayerNorm, biases, no rotation",
   .types = "gpt2",
   .has = "attn.c_attn ln_1",
   .layout = COLUMNS,
   .q = "attn.c_attn",
   .before = "ln_1",
   .norm = NORM_LAYER,
   .harmless = "scale_attn_weights scale_attn_by_inverse_layer_idx"},
  {.name = "bert",
   .help = "BERT, RoBERTa: not causal, the LayerNorm of the layer below",
   .types = "bert roberta",
   .has = "attention.self.query attention.self.key",
   .q = "attention.self.query",
   .k = "attention.self.key",
   .before = "output.LayerNorm",
   .first = "embeddings.LayerNorm",
   .norm = NORM_LAYER},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *architecture_family(int i, const char **help)
{
  if (i >= ROWS) return NULL;
  *help = rows[i].help;
  return rows[i].name;
}

/* --- names --------------------------------------------------------------------------------------------- */

/* Find "PREFIX<layer>.<name>.weight". A name that ends in .bias is complete; old names of norms are accepted, too. */
static const struct weight *find(const struct architecture *s, const char *place, const char *name,
                                 const char *end)
{
  char text[1024];
  snprintf(text, sizeof text, "%s%s%s", place, name, end);
  return weights_find(s->weights, text);
}

static void place_of(const struct architecture *s, long layer, char out[320])
{
  snprintf(out, 320, "%s%ld.", s->prefix, layer);
}

static const struct weight *find_weight(const struct architecture *s, const char *place, const char *name)
{
  if (text_ends_with(name, ".bias")) return find(s, place, name, "");
  const struct weight *w = find(s, place, name, ".weight");
  return w ? w : find(s, place, name, ".gamma");
}

static const struct weight *find_bias(const struct architecture *s, const char *place, const char *name)
{
  const struct weight *w = find(s, place, name, ".bias");
  return w ? w : find(s, place, name, ".beta");
}

static int need(const struct architecture *s, const char *place, const char *name, const struct weight **out,
                struct error *e)
{
  *out = find_weight(s, place, name);
  if (*out) return weight_check(s->weights, *out, e);
  return error_set(e, STATUS_USAGE, "%s: tensor %s%s.weight is missing; family %s has it",
                   weights_path(s->weights), place, name, s->row->name);
}

struct signature {
  const struct architecture *architecture;
  const char *place;
};

static int is_absent(void *context, const char *name)
{
  const struct signature *x = context;
  return find_weight(x->architecture, x->place, name) == NULL;
}

static int is_present(void *context, const char *name) { return !is_absent(context, name); }

/* Is there a gate beside the queries? Then q has twice as many rows as the output projection has columns. */
static int has_gate(const struct architecture *s, const char *place)
{
  const struct weight *q = find_weight(s, place, Q), *o = find_weight(s, place, "self_attn.o_proj");
  return q && o && q->rows == 2 * o->cols;
}

static int has_names(const struct architecture *s, const struct family *f, long layer)
{
  char place[320];
  place_of(s, layer, place);
  if (f->layout == GATED && !has_gate(s, place)) return 0;
  struct signature x = {s, place};
  return !text_split(f->has, ' ', is_absent, &x) && !(f->not &&text_split(f->not, ' ', is_present, &x));
}

/* Split "a.b.layers.7.attn.q.weight", with q = "attn.q", into the prefix "a.b.layers." and layer 7. */
static int split_name(const char *name, const char *q, char prefix[256], long *layer)
{
  char end[256];
  int length = snprintf(end, sizeof end, ".%s.weight", q);
  size_t all = strlen(name);
  if (!text_ends_with(name, end)) return 0;
  size_t stop = all - (size_t)length, start = stop;
  while (start > 0 && isdigit((unsigned char)name[start - 1])) start--;
  if (start == stop || stop - start > 6 || start >= 256) return 0;
  *layer = 0;
  for (size_t i = start; i < stop; i++) *layer = 10 * *layer + (name[i] - '0');
  snprintf(prefix, 256, "%.*s", (int)start, name);
  return strstr(prefix, "vis") == NULL && strstr(prefix, "audio") == NULL; /* encoders of images and audio */
}

/* Find the prefix of this family's layers; *last is the last layer with q. */
static int find_layers(struct architecture *s, const struct family *f, long *last)
{
  char prefix[256];
  long layer;
  *last = -1;
  for (size_t i = 0; i < weights_count(s->weights); i++) {
    if (!split_name(weights_at(s->weights, i)->tensor.name, f->q, prefix, &layer)) continue;
    if (*last < 0) {
      snprintf(s->prefix, sizeof s->prefix, "%s", prefix);
      if (!has_names(s, f, layer)) continue;
      *last = layer;
    } else if (strcmp(prefix, s->prefix) == 0 && layer > *last)
      *last = layer;
  }
  return *last >= 0;
}

static int same_text(void *wanted, const char *part) { return strcmp(wanted, part) == 0; }

static int is_type(const struct family *f, const char *type)
{
  return type && text_split(f->types, ' ', same_text, (void *)(size_t)type);
}

/* --- config.json --------------------------------------------------------------------------------------- */

static const json_t *get_in(const json_t *object, const char *names)
{
  char name[64];
  for (const char *p = names; *p;) {
    size_t n = strcspn(p, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, p);
    const json_t *value = json_object_get(object, name);
    if (value && !json_is_null(value)) return value;
    p += n + strspn(p + n, " ");
  }
  return NULL;
}

/* The value of the first of several names that exists, at the top or one level down in text_config. */
static const json_t *get(const struct architecture *s, const char *names)
{
  const json_t *config = weights_config(s->weights), *value = get_in(config, names);
  return value ? value : get_in(json_object_get(config, "text_config"), names);
}

static int get_size(const struct architecture *s, const char *names, long *out, struct error *e)
{
  const json_t *value = get(s, names);
  if (!value) return STATUS_OK;
  if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > 1 << 24)
    return error_set(e, STATUS_USAGE, "%s: %s: allowed: a whole number from 1 to %d",
                     weights_config_path(s->weights), names, 1 << 24);
  *out = (long)json_integer_value(value);
  return STATUS_OK;
}

static int wanted(const struct architecture *s, const char *names, const char *why, struct error *e)
{
  return error_set(e, STATUS_USAGE, "%s: %s is wanted%s: in %s, or as --set=KEY=VALUE",
                   weights_path(s->weights), names, why,
                   *weights_config_path(s->weights) ? weights_config_path(s->weights) : "config.json");
}

/* --- factors of rotation (transformers' modeling_rope_utils) ------------------------------------------- */

/* Does the layer differ from the others (struct every)? */
static int is_every(const struct architecture *s, long layer)
{
  const struct every *every = &s->row->every;
  const json_t *entry = every->list ? json_array_get(get(s, every->list), (size_t)layer) : NULL,
               *n = every->list ? get(s, every->key) : NULL;
  long step = json_is_integer(n) && json_integer_value(n) > 0 ? (long)json_integer_value(n) : every->n;
  if (!every->list) return 0;
  if (json_is_string(entry)) return strcmp(json_string_value(entry), "full_attention") == 0;
  if (json_is_number(entry)) return json_number_value(entry) == 0;
  return (layer + 1) % step == 0;
}

static int rotates(const struct architecture *s, long layer)
{
  return s->row->rotary != ROTARY_NONE && !(s->row->every.no_rotation && is_every(s, layer));
}

static const json_t *rope_at_top(const struct architecture *s)
{
  const json_t *rope = get(s, "rope_scaling");
  return json_is_object(rope) ? rope : get(s, "rope_parameters");
}

/* The rope settings of a layer: an object may have separate ones for each type of layer. */
static const json_t *rope_of(const struct architecture *s, long layer)
{
  const json_t *rope = rope_at_top(s), *type = json_array_get(get(s, "layer_types"), (size_t)layer), *own;
  own = json_object_get(rope, json_is_string(type) ? json_string_value(type)
                              : is_every(s, layer) ? "full_attention"
                                                   : "sliding_attention");
  if (own) return own;
  return s->row->every.list && !s->row->every.no_rotation && !is_every(s, layer) ? NULL : rope;
}

static const char *rope_type(const json_t *rope)
{
  const json_t *type = json_object_get(rope, "rope_type");
  if (!json_is_string(type)) type = json_object_get(rope, "type");
  return json_is_string(type) ? json_string_value(type) : "default";
}

static double rope_number(const json_t *rope, const char *name)
{
  return json_number_value(json_object_get(rope, name));
}

static double yarn_mscale(double factor, double mscale)
{
  return factor <= 1 ? 1 : .1 * mscale * log(factor) + 1;
}

/* The factor by which rotation multiplies queries and keys: attention_factor, else the default of YaRN or LongRoPE. */
static double rope_gain(const struct architecture *s, const json_t *rope)
{
  const char *type = rope_type(rope);
  int is_long =
    strcmp(type, "longrope") == 0 || (strcmp(s->row->name, "phi3") == 0 && strcmp(type, "default"));
  if (!is_long && strcmp(type, "yarn") != 0) return 1;
  const json_t *given = json_object_get(rope, "attention_factor");
  if (json_is_number(given)) return json_number_value(given);
  double most = json_number_value(get(s, "max_position_embeddings")),
         first = json_number_value(get(s, "original_max_position_embeddings")),
         factor = rope_number(rope, "factor"), mscale = rope_number(rope, "mscale"),
         all = rope_number(rope, "mscale_all_dim");
  if (first == 0) first = rope_number(rope, "original_max_position_embeddings");
  if (first == 0) first = most;
  if (is_long && !(first > 1)) return NAN;
  if (factor == 0) factor = most / first; /* NaN, so there is no bound, if neither is given */
  if (is_long) return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(first));
  return mscale != 0 && all != 0 ? yarn_mscale(factor, mscale) / yarn_mscale(factor, all)
                                 : yarn_mscale(factor, 1);
}

/* The factor m^2 by which YaRN multiplies scores if mscale_all_dim is set (transformers' yarn_apply_mscale). */
static double yarn(const struct architecture *s)
{
  const json_t *rope = rope_at_top(s);
  double all = strcmp(rope_type(rope), "default") ? rope_number(rope, "mscale_all_dim") : 0,
         m = all != 0 ? yarn_mscale(rope_number(rope, "factor"), all) : 1;
  return m * m;
}

static void set_rotation(const struct architecture *s, long layer, struct logit_part *part, long size)
{
  if (!rotates(s, layer)) return;
  part->rotary = s->row->rotary;
  part->rotary_size = size;
  part->stretch = rope_gain(s, rope_of(s, layer)) - 1;
}

/* --- keys that could change logits --------------------------------------------------------------------- */

static int is_word(const char *words, const char *word)
{
  return words && text_split(words, ' ', same_text, (void *)(size_t)word);
}

static int is_factor(const char *key)
{
  static const char *const parts[] = {
    "scal", "multiplier", "factor", "softcap", "temperature", "alibi", "position_embedding_type"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(key, parts[i])) return 1;
  return 0;
}

static int is_neutral(const char *key, const json_t *value)
{
  if (strcmp(key, "position_embedding_type") == 0)
    return json_is_string(value) && is_word("absolute rope rope_gptj", json_string_value(value));
  return json_is_null(value) || json_is_false(value);
}

/* The first key of `object` that could change logits in a way that the row does not describe; NULL: none. */
static const char *unknown_in(const struct family *f, const json_t *object, const char *known)
{
  static const char *const everywhere = "rope_scaling rope_parameters initializer_factor temperature";
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    if (!is_factor(key) || is_neutral(key, value) || is_word(everywhere, key) || is_word(known, key) ||
        is_word(f->harmless, key) || is_word(f->scale_key, key) || is_word(f->rotary_share, key))
      continue;
    if (strcmp(key, "partial_rotary_factor") == 0 && json_number_value(value) == 1) continue;
    return key;
  }
  return NULL;
}

static const char *unknown_in_rope(const struct family *f, const json_t *rope)
{
  static const char *const types = "default linear dynamic yarn longrope llama3";
  static const char *const known = "factor attention_factor mscale mscale_all_dim short_factor long_factor "
                                   "low_freq_factor high_freq_factor";
  const char *key, *found = NULL;
  json_t *value;
  json_object_foreach((json_t *)rope, key, value) if (!found && json_is_object(value)) found =
    unknown_in_rope(f, value);
  if (found) return found;
  if (!is_word(types, rope_type(rope)) &&
      !(strcmp(f->name, "phi3") == 0 && strcmp(rope_type(rope), "su") == 0))
    return "rope_type";
  return unknown_in(f, rope, known);
}

/* The reason why logits have no bound; "" if they have. */
static void find_unbounded(struct architecture *s)
{
  const json_t *config = weights_config(s->weights), *inner = json_object_get(config, "text_config");
  const char *key = NULL, *top = json_string_value(json_object_get(config, "model_type"));
  char label[256];
  if (s->by_names) {
    snprintf(s->unbounded, sizeof s->unbounded,
             "no model_type that is known; read as %s by the tensors' names, without bounds on logits "
             "(--set=model_type=%s if it is one)",
             s->family, s->family);
    return;
  }
  if (s->row->need && !get(s, s->row->need)) key = s->row->need;
  if (!key && is_type(s->row, top)) key = unknown_in(s->row, config, NULL);
  const int at_top = key != NULL;
  if (!key) key = unknown_in(s->row, inner, NULL);
  if (!key) key = unknown_in_rope(s->row, rope_at_top(s));
  if (!key) return;
  safetensors_label(key, label);
  if (key == s->row->need)
    snprintf(s->unbounded, sizeof s->unbounded,
             "no bounds on logits: config.json lacks what family %s needs (%s)", s->family, label);
  else
    snprintf(
      s->unbounded, sizeof s->unbounded,
      "no bounds on logits: %s of config.json could change them, and family %s has no rule for it%s%s%s",
      label, s->family, at_top ? " (--set=" : "", at_top ? label : "", at_top ? "=null leaves it out)" : "");
}

static long length_of(const struct weight *w) { return (long)(w->rows * w->cols); }

/* --- sizes --------------------------------------------------------------------------------------------- */

static int misfit(const struct architecture *s, const struct weight *w, const char *what, struct error *e)
{
  char label[256];
  return error_set(e, STATUS_USAGE, "%s: tensor %s is %" PRId64 "x%" PRId64 "; allowed for %ld heads%s",
                   weights_path(s->weights), safetensors_label(w->tensor.name, label), w->rows, w->cols,
                   s->heads, what);
}

/* Read H and, if given, Dh; both can also follow from norms per head. */
static int read_heads(struct architecture *s, long outputs, long inputs, struct error *e)
{
  char place[320];
  int status = get_size(s, "num_attention_heads n_head", &s->heads, e);
  if (!status) status = get_size(s, "head_dim", &s->head_dim, e);
  if (status) return status;
  if (s->row->q_norm && s->row->norms_of == OF_A_HEAD && !s->head_dim) {
    place_of(s, s->layers - 1, place);
    const struct weight *norm = find_weight(s, place, s->row->q_norm);
    if (norm && length_of(norm) > 0) s->head_dim = length_of(norm);
  }
  if (!s->heads && s->head_dim) s->heads = outputs / (s->head_dim * (s->row->layout == GATED ? 2 : 1));
  if (!s->heads) return wanted(s, "num_attention_heads", "", e);
  if (!s->head_dim) s->head_dim = (s->row->layout == COLUMNS ? outputs / 3 : inputs) / s->heads;
  if (!s->head_dim)
    return error_set(e, STATUS_USAGE, "%s: num_attention_heads: %ld for a width of %ld",
                     weights_config_path(s->weights), s->heads, inputs);
  return STATUS_OK;
}

/* MLA: read Dn and Dr; the other sizes are checked against them, tensor by tensor. */
static int read_latent(struct architecture *s, struct error *e)
{
  int status = get_size(s, "num_attention_heads", &s->heads, e);
  if (!status) status = get_size(s, "qk_nope_head_dim", &s->head_dim, e);
  if (!status) status = get_size(s, "qk_rope_head_dim", &s->rope_dim, e);
  if (status) return status;
  if (!s->heads || !s->head_dim || !s->rope_dim)
    return wanted(s, "num_attention_heads, qk_nope_head_dim, qk_rope_head_dim", "", e);
  s->groups = s->heads;
  s->scale = yarn(s) / sqrt((double)(s->head_dim + s->rope_dim));
  return STATUS_OK;
}

static int read_scale(struct architecture *s, struct error *e)
{
  double dim = (double)s->head_dim, share = s->row->rotary_default;
  const json_t *value = s->row->scale_key ? get(s, s->row->scale_key) : NULL;
  if (s->row->scale_key && !value) return wanted(s, s->row->scale_key, " for the scale of scores", e);
  if (value) dim = json_number_value(value);
  if (!(dim > 0))
    return error_set(e, STATUS_USAGE, "%s: %s: allowed: a number above 0", weights_config_path(s->weights),
                     s->row->scale_key);
  s->scale = s->row->scale_is_value ? dim : 1 / sqrt(dim);
  if (s->row->layout == COLUMNS) {
    if (json_is_false(get(s, "scale_attn_weights"))) s->scale = 1;
    s->scale_by_layer = json_is_true(get(s, "scale_attn_by_inverse_layer_idx"));
  }
  value = s->row->rotary_share ? get(s, s->row->rotary_share) : NULL;
  if (!value && s->row->rotary_share) value = json_object_get(rope_at_top(s), "partial_rotary_factor");
  if (value) share = json_number_value(value);
  if (!(share >= 0 && share <= 1))
    return error_set(e, STATUS_USAGE, "%s: %s: allowed: a number from 0 to 1",
                     weights_config_path(s->weights), s->row->rotary_share);
  s->rope_dim = s->row->rotary == ROTARY_NONE ? 0 : ((long)(share * (double)s->head_dim) + 1) / 2 * 2;
  return STATUS_OK;
}

static int read_sizes(struct architecture *s, long last, struct error *e)
{
  char place[320];
  const struct weight *q;
  s->layers = last + 1;
  place_of(s, last, place);
  int status = need(s, place, s->row->q, &q, e);
  if (status) return status;
  if (q->rows < 1 || q->cols < 1 || q->rows > 1 << 24 || q->cols > 1 << 24)
    return misfit(s, q, ": no empty matrix", e);
  if (s->row->layout == LATENT) return read_latent(s, e);
  int columns = s->row->layout == COLUMNS;
  status = read_heads(s, (long)(columns ? q->cols : q->rows), (long)(columns ? q->rows : q->cols), e);
  s->groups = s->heads;
  if (!status && s->row->layout != FUSED && !columns) {
    status = get_size(s, "num_key_value_heads", &s->groups, e);
    if (!status && s->row->k && !get(s, "num_key_value_heads")) {
      const struct weight *k = find_weight(s, place, s->row->k);
      if (k && k->rows % s->head_dim == 0 && k->rows) s->groups = (long)(k->rows / s->head_dim);
    }
    if (!status && s->heads % s->groups)
      status =
        error_set(e, STATUS_USAGE, "%s: num_key_value_heads: %ld does not divide num_attention_heads = %ld",
                  weights_config_path(s->weights), s->groups, s->heads);
  }
  return status ? status : read_scale(s, e);
}

/* --- heads --------------------------------------------------------------------------------------------- */

/* A norm's gain (and shift) of `size` numbers. */
static int read_norm(const struct architecture *s, const char *place, const char *name, enum norm_kind kind,
                     long size, struct norm *out, struct error *e)
{
  *out = (struct norm){.kind = kind, .size = size};
  int status = need(s, place, name, &out->gain, e);
  if (status) return status;
  if (length_of(out->gain) != size) return misfit(s, out->gain, ": as many numbers as its input", e);
  if (kind == NORM_RMS || kind == NORM_RMS_PLUS_ONE) return STATUS_OK;
  out->shift = find_bias(s, place, name);
  if (out->shift && (status = weight_check(s->weights, out->shift, e))) return status;
  if (out->shift && length_of(out->shift) != size)
    return misfit(s, out->shift, ": as many numbers as its gain", e);
  return STATUS_OK;
}

/* The norm before the layer's queries and keys. */
static int read_before(const struct architecture *s, long layer, long inputs, struct norm *out,
                       struct error *e)
{
  char place[320];
  place_of(s, layer, place);
  *out = (struct norm){NORM_NONE, NULL, NULL, 0, inputs};
  if (!s->row->before) return STATUS_OK;
  if (!*s->row->before) {
    out->kind = s->row->norm;
    return STATUS_OK;
  }
  if (!s->row->first) return read_norm(s, place, s->row->before, s->row->norm, inputs, out, e);
  if (layer == 0) return read_norm(s, s->root, s->row->first, s->row->norm, inputs, out, e);
  place_of(s, layer - 1, place);
  return read_norm(s, place, s->row->before, s->row->norm, inputs, out, e);
}

static int read_bias(const struct architecture *s, const char *place, const char *name, struct projection *p,
                     struct error *e)
{
  long outputs = (long)(p->columns ? p->weight->cols : p->weight->rows);
  p->bias = find_bias(s, place, name);
  if (!p->bias) return STATUS_OK;
  if (length_of(p->bias) != outputs)
    return misfit(s, p->bias, ": as many numbers as its weight has outputs", e);
  return weight_check(s->weights, p->bias, e);
}

static int read_after(const struct architecture *s, const char *place, const char *name, long heads,
                      long head, struct projection *p, struct error *e)
{
  enum norms_of of = s->row->norms_of;
  if (!name || (s->row->norms_if && !json_is_true(get(s, s->row->norms_if)))) return STATUS_OK;
  int status =
    read_norm(s, place, name, s->row->norm, s->head_dim * (of == OF_A_HEAD ? 1 : heads), &p->after, e);
  p->after.first = of == OF_A_HEAD ? 0 : head * s->head_dim;
  if (of == OF_EACH_HEAD) p->after.size = s->head_dim;
  return status;
}

static int read_plain(const struct architecture *s, const char *place, long layer, long head,
                      struct head_logits *out, struct error *e)
{
  const struct family *f = s->row;
  long dh = s->head_dim, group = head * s->groups / s->heads, q_outputs = s->heads * dh;
  struct logit_part *part = &out->part[0];
  struct projection *q = &part->q, *k = &part->k;
  const struct weight *wq, *wk;
  int columns = f->layout == COLUMNS, fused = columns || f->layout == FUSED || f->layout == STACKED;
  int status = need(s, place, f->q, &wq, e);
  if (!status) status = need(s, place, fused ? f->q : f->k, &wk, e);
  if (status) return status;
  if (f->layout == GATED) q_outputs *= 2;
  if (fused) q_outputs += 2 * s->groups * dh;
  if ((columns ? wq->cols : wq->rows) != q_outputs || wq->cols < 1) {
    char text[128];
    snprintf(text, sizeof text, " of %ld: %ld %s", dh, q_outputs, columns ? "columns" : "rows");
    return misfit(s, wq, text, e);
  }
  if (!fused && (wk->rows != s->groups * dh || wk->cols != wq->cols)) {
    char text[128];
    snprintf(text, sizeof text, ", %ld for keys, of %ld: %ldx%" PRId64, s->groups, dh, s->groups * dh,
             wq->cols);
    return misfit(s, wk, text, e);
  }
  long inputs = (long)(columns ? wq->rows : wq->cols);
  *q = (struct projection){.name = "w_q", .weight = wq, .columns = columns, .rows = dh, .inputs = inputs};
  *k = (struct projection){.name = "w_k", .weight = wk, .columns = columns, .rows = dh, .inputs = inputs};
  q->first = head * dh * (f->layout == GATED ? 2 : f->layout == FUSED ? 3 : 1);
  k->first = f->layout == FUSED ? (3 * head + 1) * dh : fused ? (s->heads + group) * dh : group * dh;
  part->name = "";
  set_rotation(s, layer, part, s->rope_dim);
  out->parts = 1;
  out->scale = s->scale / (s->scale_by_layer ? (double)(layer + 1) : 1);
  out->clip = f->clip_key ? json_number_value(get(s, f->clip_key)) : 0;
  status = read_before(s, layer, inputs, &q->before, e);
  k->before = q->before;
  if (!status) status = read_bias(s, place, f->q, q, e);
  if (!status) status = read_bias(s, place, fused ? f->q : f->k, k, e);
  if (!status) status = read_after(s, place, f->q_norm, s->heads, head, q, e);
  if (!status) status = read_after(s, place, f->k_norm, s->groups, group, k, e);
  return status;
}

static int read_mla(const struct architecture *s, const char *place, long layer, long head,
                    struct head_logits *out, struct error *e)
{
  long dn = s->head_dim, dr = s->rope_dim, h = s->heads, width, latent, values;
  int has_latent = strcmp(s->row->q, Q) != 0;
  const struct weight *wq, *kv_a, *kv_b, *q_a = NULL;
  struct norm x = {0}, cq = {0}, ckv = {0};
  char text[128];
  int status = need(s, place, s->row->q, &wq, e);
  if (!status) status = need(s, place, "self_attn.kv_a_proj_with_mqa", &kv_a, e);
  if (!status) status = need(s, place, "self_attn.kv_b_proj", &kv_b, e);
  if (!status && has_latent) status = need(s, place, "self_attn.q_a_proj", &q_a, e);
  if (status) return status;
  snprintf(text, sizeof text, " of %ld + %ld: %ld rows", dn, dr, h * (dn + dr));
  if (wq->rows != h * (dn + dr)) return misfit(s, wq, text, e);
  width = (long)kv_a->cols;
  latent = (long)kv_a->rows - dr;
  snprintf(text, sizeof text, " of %ld + %ld: %ldx%ld or larger", dn, dr, dr + 1, 1L);
  if (latent < 1 || width < 1) return misfit(s, kv_a, text, e);
  values = (long)(kv_b->rows / h) - dn;
  snprintf(text, sizeof text, " of %ld and values: rows a multiple of %ld, columns %ld", dn, h, latent);
  if (kv_b->cols != latent || kv_b->rows % h || values < 1) return misfit(s, kv_b, text, e);
  long inputs = (long)wq->cols;
  snprintf(text, sizeof text, ": the width, %ld", width);
  if (has_latent ? q_a->cols != width || q_a->rows != inputs : inputs != width)
    return misfit(s, has_latent ? q_a : wq, text, e);
  status = read_before(s, layer, width, &x, e);
  cq = x;
  if (!status && has_latent)
    status = read_norm(s, place, "self_attn.q_a_layernorm", NORM_RMS, inputs, &cq, e);
  if (!status) status = read_norm(s, place, "self_attn.kv_a_layernorm", NORM_RMS, latent, &ckv, e);
  struct projection
    qc =
      {.name = "w_qc", .weight = wq, .first = head * (dn + dr), .rows = dn, .inputs = inputs, .before = cq},
    qr = {.name = "w_qr",
          .weight = wq,
          .first = head * (dn + dr) + dn,
          .rows = dr,
          .inputs = inputs,
          .before = cq},
    kc = {.name = "w_kc",
          .weight = kv_b,
          .first = head * (dn + values),
          .rows = dn,
          .inputs = latent,
          .before = ckv},
    kr = {.name = "w_kr", .weight = kv_a, .first = latent, .rows = dr, .inputs = width, .before = x};
  *out = (struct head_logits){
    .parts = 2,
    .scale = s->scale,
    .part = {{.name = "content", .q = qc, .k = kc}, {.name = "rotary", .q = qr, .k = kr}}};
  set_rotation(s, layer, &out->part[1], dr);
  if (!status) status = read_bias(s, place, "self_attn.kv_a_proj_with_mqa", &out->part[1].k, e);
  return status;
}

static int read_head(const struct architecture *s, long layer, long head, struct head_logits *out,
                     struct error *e)
{
  char place[320];
  place_of(s, layer, place);
  *out = (struct head_logits){.parts = 0};
  if (s->row->hybrid && !find_weight(s, place, s->row->q)) return STATUS_OK;
  return s->row->layout == LATENT ? read_mla(s, place, layer, head, out, e)
                                  : read_plain(s, place, layer, head, out, e);
}

/* --- recognition --------------------------------------------------------------------------------------- */

static int choose(struct architecture *s, const char *type, long *last)
{
  for (int i = 0; i < ROWS; i++) {
    if (type && !is_type(&rows[i], type)) continue;
    if (!find_layers(s, &rows[i], last)) continue;
    s->row = &rows[i];
    return 1;
  }
  return 0;
}

static const struct family *row_of_type(const char *type)
{
  for (int i = 0; i < ROWS; i++)
    if (is_type(&rows[i], type)) return &rows[i];
  return NULL;
}

int architecture_open(struct architecture *s, const struct weights *w, int *known, struct error *e)
{
  const json_t *config = weights_config(w);
  const char *type = json_string_value(json_object_get(config, "model_type"));
  long last = -1, said = 0;
  *s = (struct architecture){.weights = w, .head = read_head};
  *known = 0;
  if (!row_of_type(type))
    type = json_string_value(json_object_get(json_object_get(config, "text_config"), "model_type"));
  const struct family *named = row_of_type(type);
  if (named && !choose(s, type, &last))
    return error_set(e, STATUS_USAGE,
                     "%s: model_type %s in %s, but no layer has the tensors of that family: %s",
                     weights_path(w), type, weights_config_path(w), named->has);
  if (!named) {
    s->by_names = 1;
    if (!choose(s, NULL, &last)) return STATUS_OK;
  }
  s->family = s->row->name;
  size_t length = strlen(s->prefix), end = strlen("encoder.layer.");
  snprintf(s->root, sizeof s->root, "%.*s", (int)(length > end ? length - end : 0), s->prefix);
  int status = get_size(s, "num_hidden_layers n_layer", &said, e);
  if (!status && (said > last + 1 && !s->row->hybrid))
    status = error_set(e, STATUS_USAGE,
                       "%s: num_hidden_layers: %ld, but the last layer with %s is %ld; allowed: %ld",
                       weights_config_path(w), said, s->row->q, last, last + 1);
  if (!status) status = read_sizes(s, last, e);
  if (s->row->hybrid && said > s->layers) s->layers = said;
  if (!status && (size_t)s->layers > weights_count(w))
    status = error_set(e, STATUS_USAGE, "%s: %ld layers, but only %zu tensors", weights_path(w), s->layers,
                       weights_count(w));
  find_unbounded(s);
  if (*s->unbounded) s->scale = NAN;
  /* check every layer now, so that no error occurs later */
  struct head_logits head;
  for (long l = 0; l < s->layers && !status; l++) status = read_head(s, l, s->heads - 1, &head, e);
  *known = !status;
  return status;
}
