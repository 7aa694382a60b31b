/* options.c - the keys of a model, and derived values */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "model/attention.h"
#include "model/ffn.h"
#include "numerics/number_format.h"

static const char *const init_kinds[] = {"fan_in", "fixed", NULL};
static const char *const norm_gains[] = {"vector", "scalar", "none", "zero_centered", NULL};

const char *const model_masks[] = {"causal", "full", "window", "prefix", NULL};

#define ROW_INT(field, standard, min, max, help) \
  INT_ROW(struct model_options, field, standard, min, max, "1", help, 0)

const struct option_row model_rows[] = {
  ROW_INT(layers, "2", 1, 1000, "blocks in the stack"),
  ROW_INT(width, "64", 1, 65536, "width of the residual stream"),
  ROW_INT(heads, "4", 1, 4096, "query heads"),
  ROW_INT(kv_heads, "0", 0, 4096, "key/value heads; 0 with mha: equal to model.heads"),
  ROW_INT(head_dim, "0", 0, 8192, "size of a head (mla: of its content part); 0: width / heads"),
  ROW_INT(context, "64", 1, 1048576, "tokens per sequence"),
  ROW_INT(ffn_width, "0", 0, 1048576,
          "hidden width of SwiGLU; 0: 8/3 model.width, rounded to a multiple of 16"),
  ROW_INT(vocab, "0", 0, 1048576, "vocabulary size; 0: that of the data"),
  TEXT_ROW(struct model_options, attention, "mha", "attention variant: see `maxlogit list attention`", 0),
  TEXT_ROW(struct model_options, ffn, "swiglu", "feed-forward block: see `maxlogit list ffn`", OPTION_LATER),
  ROW_INT(q_rank, "0", 0, 65536, "mla: rank of the query latent; 0: queries are projected directly"),
  ROW_INT(kv_rank, "0", 0, 65536, "mla: rank of the key/value latent; 0: 4 head_dim"),
  ROW_INT(rope_dim, "0", 0, 8192, "mla: size of the rotary part, even; 0: head_dim / 2"),
  ROW_INT(value_dim, "0", 0, 8192, "mla: size of a value head; 0: head_dim"),
  BOOL_ROW(struct model_options, tied, "0", "one matrix for embedding and head", 0),
  BOOL_ROW(struct model_options, bias, "0", "biases in the attention's projections", 0),
  REAL_ROW(struct model_options, rope_base, "10000", 1, 1e12, "1", "base of RoPE's frequencies", 0),
  REAL_ROW(struct model_options, rope_scale, "1", 1e-6, 1e6, "1",
           "divisor of positions (position interpolation, arXiv 2306.15595)", 0),
  REAL_ROW(struct model_options, norm_eps, "1e-06", 0, 1, "1", "epsilon of RMSNorm, added to the mean square",
           0),
  CHOICE_ROW(
    struct model_options, norm_gain, "vector", norm_gains,
    "gain of the RMSNorms before blocks, head and latents (not of qk_norm): a number for each column, one "
    "number (SSNorm, arXiv 2506.19697), none, or 1 + w with w from 0, which decay pulls to 1",
    OPTION_LATER),
  REAL_ROW(struct model_options, z_loss, "0", 0, 1e6, "1", "factor of the z-loss: the mean of (log Z)^2", 0),
  CHOICE_ROW(struct model_options, init, "fan_in", init_kinds,
             "initial matrices: N(0, 1/fan_in) with embedding N(0, 1), or N(0, init_std^2) for all", 0),
  REAL_ROW(struct model_options, init_std, "0.02", 0, 1e6, "1", "standard deviation of init = fixed", 0),
  INT_ROW(struct model_options, mtp, "0", 0, 8, "1",
          "multi-token prediction modules (DeepSeek-V3, arXiv 2412.19437 sec. 2.2); module k predicts the "
          "token k positions further",
          OPTION_LATER),
  REAL_ROW(struct model_options, mtp_weight, "0.3", 0, 1e6, "1", "weight of the mean of the modules' losses",
           OPTION_LATER),
  CHOICE_ROW(struct model_options, mask, "causal", model_masks,
             "tokens of its document that a token attends to: up to itself (causal), all (full), the latest "
             "(window), or up to itself and the whole prefix. Targets inside the visible range do not count; "
             "with full, one target per document remains, after its end",
             OPTION_LATER),
  INT_ROW(struct model_options, window, "0", 0, 1048576, "1",
          "mask = window: visible tokens, including the token itself; 0: half the context", OPTION_LATER),
  INT_ROW(
    struct model_options, window_every, "0", 0, 1000, "1",
    "mask = window: every N-th layer has no window (Gemma 2: 2, Gemma 3: 6); 0: all layers have a window",
    OPTION_LATER),
  INT_ROW(struct model_options, prefix, "0", 0, 1048576, "1",
          "mask = prefix: first tokens of a document, visible to all its tokens; 0: half the context",
          OPTION_LATER),
  END_ROW};

const struct option_row precision_rows[] = {
  CHOICE_ROW(struct precision_options, scores, "f32", number_formats,
             "number format of logits before cap and softmax; f32: not rounded", 0),
  CHOICE_ROW(struct precision_options, qk, "f32", number_formats,
             "number format of queries and keys before their product; f32: not rounded", 0),
  END_ROW};

/* --- derived values -------------------------------------------------------------------------------------- */

enum { MOST_NAMES = 64 };

static int no_plugin(const char *key, const char *name, const char *const *names, size_t count,
                     struct error *e)
{
  char list[512] = "";
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names[i]);
  }
  const char *nearest = text_nearest(name, names, count);
  return error_set(e, STATUS_USAGE, "%s must be one of %s, got \"%s\"%s%s%s", key, list, name,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int unknown_attention(const char *name, struct error *e)
{
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (const struct attention *const *a = attentions; *a && count < MOST_NAMES; a++)
    names[count++] = (*a)->name;
  return no_plugin("model.attention", name, names, count, e);
}

static int unknown_ffn(const char *name, struct error *e)
{
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (const struct ffn *const *f = ffns; *f && count < MOST_NAMES; f++) names[count++] = (*f)->name;
  return no_plugin("model.ffn", name, names, count, e);
}

/* Keys of one mask are rejected with another. */
static int check_mask(struct model_options *o, struct error *e)
{
  static const struct {
    const char *key, *mask;
    enum mask of;
    size_t place;
  } keys[] = {
    {"window", "window", MASK_WINDOW, offsetof(struct model_options, window)},
    {"window_every", "window", MASK_WINDOW, offsetof(struct model_options, window_every)},
    {"prefix", "prefix", MASK_PREFIX, offsetof(struct model_options, prefix)},
  };
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    long value = *(const long *)(const void *)((const char *)o + keys[i].place);
    if (value && o->mask != (long)keys[i].of)
      return error_set(e, STATUS_USAGE,
                       "model.%s: %ld, but model.mask = %s has none; allowed: 0, or model.mask = %s",
                       keys[i].key, value, model_masks[o->mask], keys[i].mask);
  }
  if (o->mask == MASK_WINDOW && !o->window) o->window = (o->context + 1) / 2;
  if (o->mask == MASK_PREFIX && !o->prefix) o->prefix = (o->context + 1) / 2;
  return STATUS_OK;
}

int model_has_window(const struct model_options *o, int layer)
{
  return o->mask == MASK_WINDOW && (!o->window_every || (layer + 1) % o->window_every != 0);
}

struct row_range model_row_range(const struct model_options *o, long t, long from, long to)
{
  struct row_range r = {(int)from, (int)t + 1, (int)from};
  if (o->mask == MASK_FULL) r.end = (int)to;
  if (o->mask == MASK_PREFIX && from + o->prefix > t + 1)
    r.end = (int)(from + o->prefix < to ? from + o->prefix : to);
  if (o->mask == MASK_WINDOW && t + 1 - o->window > from) r.window = (int)(t + 1 - o->window);
  return r;
}

long model_distances(const struct model_options *o, int layer, int later)
{
  long most = o->context;
  if (later)
    most = o->mask == MASK_FULL ? most : o->mask == MASK_PREFIX ? o->prefix : 0;
  else if (model_has_window(o, layer))
    most = o->window;
  return most < o->context ? most : o->context;
}

int model_resolve(struct model_options *o, long data_vocab, struct error *e)
{
  const struct attention *attention = attention_find(o->attention);
  const struct ffn *ffn = ffn_find(o->ffn);
  if (!attention) return unknown_attention(o->attention, e);
  if (!ffn) return unknown_ffn(o->ffn, e);
  if (o->head_dim == 0) {
    if (o->width % o->heads)
      return error_set(e, STATUS_USAGE,
                       "model.head_dim: width / heads = %ld / %ld is not whole; give "
                       "model.head_dim, or heads that divide the width",
                       o->width, o->heads);
    o->head_dim = o->width / o->heads;
  }
  if (o->ffn_width == 0) {
    o->ffn_width = 16 * lround((double)o->width / 6);
    if (o->ffn_width == 0) o->ffn_width = 16;
  }
  if (o->vocab == 0) o->vocab = data_vocab;
  if (o->vocab < data_vocab || o->vocab < 1)
    return error_set(e, STATUS_USAGE,
                     "model.vocab: %ld is fewer than the %ld symbols of the data; allowed: "
                     "%ld or more, or 0 for as many as the data has",
                     o->vocab, data_vocab, data_vocab);
  int status = check_mask(o, e);
  if (!status && attention->resolve) status = attention->resolve(o, e);
  return status || !ffn->resolve ? status : ffn->resolve(o, o->ffn_options, e);
}
