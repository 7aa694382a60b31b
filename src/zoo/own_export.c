/* own_export.c - exports a checkpoint of this program in another naming: Llama, Qwen3 (norms of queries and keys per
   head), DeepSeek-V3 (mla)
   The tensors have the same meaning there. DeepSeek-V3 rotates neighbors (2i, 2i+1), but this program rotates halves
   (i, i + n/2), so the rotary rows of queries and keys are permuted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "zoo/own_run.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/ffn.h"
#include "model/stabilizer.h"
#include "config/config.h"

struct export_writing {
  const struct own_run *own;
  const struct model_options *options;
  struct arena *arena;
  struct safetensor *tensor;
  const float **data;
  size_t count, room;
  int *taken; /* for each tensor of the checkpoint: was it written to the file? */
  int normed, mla;
  struct error *error;
};

/* --- tensors ------------------------------------------------------------------------------------------- */

static const struct weight *find_weight(struct export_writing *w, const char *name)
{
  const struct weights *weights = own_run_weights(w->own);
  const struct weight *found = weights_find(weights, name);
  if (found) w->taken[found - weights_at(weights, 0)] = 1;
  return found;
}

static float *add_tensor(struct export_writing *w, const char *name, long rows, long cols)
{
  if (w->count == w->room) {
    size_t room = 2 * w->room + 64;
    w->tensor = memory_grow(w->tensor, w->room, room, sizeof *w->tensor);
    w->data = memory_grow(w->data, w->room, room, sizeof *w->data);
    w->room = room;
  }
  struct safetensor *t = &w->tensor[w->count];
  *t = (struct safetensor){.name = arena_text(w->arena, name),
                           .rank = rows ? 2 : 1,
                           .dims = {rows ? rows : cols, cols},
                           .count = (rows ? rows : 1) * cols};
  float *data = arena_get(w->arena, (size_t)t->count, sizeof *data);
  w->data[w->count++] = data;
  return data;
}

/* Copy rows [from, from+rows) of a tensor to rows [to, ...) of one with the same columns; `turned`: halves become
   neighbors. */
static void copy_rows(const struct weight *in, long from, long rows, float *out, long to, int turned)
{
  double *line = memory_new((size_t)in->cols, sizeof *line);
  for (long r = 0; r < rows; r++) {
    long place = !turned ? r : r < rows / 2 ? 2 * r : 2 * (r - rows / 2) + 1;
    weight_read(in, from + r, 0, in->cols, line);
    for (long c = 0; c < (long)in->cols; c++) out[(to + place) * (long)in->cols + c] = (float)line[c];
  }
  memory_free(line);
}

/* Copy a tensor under another name, as a vector if `vector`. Skips a missing tensor. */
static void rename_one(struct export_writing *w, const char *from, const char *to, int vector)
{
  const struct weight *in = find_weight(w, from);
  if (in)
    copy_rows(in, 0, (long)in->rows, add_tensor(w, to, vector ? 0 : (long)in->rows, (long)in->cols), 0, 0);
}

/* A norm of the stack as a vector of `size` gains, as these families have it; 0: there is no such norm. */
static void put_norm(struct export_writing *w, const char *from, const char *to, long size)
{
  if (!size) return;
  const struct weight *in = find_weight(w, from);
  const long kind = w->options->norm_gain;
  float *out = add_tensor(w, to, 0, size);
  for (long i = 0; i < size; i++) {
    double gain = 1;
    if (kind != NORM_GAIN_NONE) weight_read(in, 0, kind == NORM_GAIN_SCALAR ? 0 : i, 1, &gain);
    out[i] = (float)(kind == NORM_GAIN_ZERO_CENTERED ? 1 + gain : gain);
  }
}

static void put_norms(struct export_writing *w, long layer)
{
  const struct model_options *o = w->options;
  const struct {
    const char *from, *to;
    long size;
  } norms[] = {{"attn.norm", "input_layernorm", o->width},
               {"ffn.norm", "post_attention_layernorm", o->width},
               {"attn.q_norm", "self_attn.q_a_layernorm", w->mla ? o->q_rank : 0},
               {"attn.kv_norm", "self_attn.kv_a_layernorm", w->mla ? o->kv_rank : 0}};
  for (int i = 0; i < 4; i++) {
    char from[160], to[160];
    snprintf(from, sizeof from, "blocks.%ld.%s", layer, norms[i].from);
    snprintf(to, sizeof to, "model.layers.%ld.%s.weight", layer, norms[i].to);
    put_norm(w, from, to, norms[i].size);
  }
}

struct renaming {
  const char *from, *to;
  int vector;
};

static void rename_all(struct export_writing *w, long layer, const struct renaming *list)
{
  char from[160], to[160];
  for (; list->from; list++) {
    snprintf(from, sizeof from, "blocks.%ld.%s", layer, list->from);
    snprintf(to, sizeof to, "model.layers.%ld.%s", layer, list->to);
    rename_one(w, from, to, list->vector);
  }
}

static const struct weight *part(struct export_writing *w, long layer, const char *name)
{
  char text[160];
  snprintf(text, sizeof text, "blocks.%ld.attn.%s", layer, name);
  const struct weight *found = find_weight(w, text);
  REQUIRE(found);
  return found;
}

static float *add_part(struct export_writing *w, long layer, const char *name, long rows, long cols)
{
  char text[160];
  snprintf(text, sizeof text, "model.layers.%ld.self_attn.%s.weight", layer, name);
  return add_tensor(w, text, rows, cols);
}

/* Content and rotary rows, keys and values of every head; the rows of the rotary key follow those of the latent. */
static void put_latent(struct export_writing *w, long layer)
{
  const struct model_options *o = w->options;
  long h = o->heads, dn = o->head_dim, dr = o->rope_dim, dv = o->value_dim;
  const struct weight *qc = part(w, layer, "w_qc"), *qr = part(w, layer, "w_qr"),
                      *kc = part(w, layer, "w_kc"), *v = part(w, layer, "w_v"),
                      *dkv = part(w, layer, "w_dkv"), *kr = part(w, layer, "w_kr");
  float *q = add_part(w, layer, o->q_rank ? "q_b_proj" : "q_proj", h * (dn + dr), (long)qc->cols);
  float *kv = add_part(w, layer, "kv_b_proj", h * (dn + dv), o->kv_rank);
  float *a = add_part(w, layer, "kv_a_proj_with_mqa", o->kv_rank + dr, o->width);
  for (long i = 0; i < h; i++) {
    copy_rows(qc, i * dn, dn, q, i * (dn + dr), 0);
    copy_rows(qr, i * dr, dr, q, i * (dn + dr) + dn, 1);
    copy_rows(kc, i * dn, dn, kv, i * (dn + dv), 0);
    copy_rows(v, i * dv, dv, kv, i * (dn + dv) + dn, 0);
  }
  copy_rows(dkv, 0, o->kv_rank, a, 0, 0);
  copy_rows(kr, 0, dr, a, o->kv_rank, 1);
}

static void put_tensors(struct export_writing *w)
{
  static const struct renaming shared[] = {
    {"attn.w_o", "self_attn.o_proj.weight", 0},
    {"ffn.w_gate", "mlp.gate_proj.weight", 0},
    {"ffn.w_up", "mlp.up_proj.weight", 0},
    {"ffn.w_down", "mlp.down_proj.weight", 0},
    {NULL, NULL, 0},
  };
  static const struct renaming heads[] = {
    {"attn.w_q", "self_attn.q_proj.weight", 0},    {"attn.w_k", "self_attn.k_proj.weight", 0},
    {"attn.w_v", "self_attn.v_proj.weight", 0},    {"attn.b_q", "self_attn.q_proj.bias", 1},
    {"attn.b_k", "self_attn.k_proj.bias", 1},      {"attn.b_v", "self_attn.v_proj.bias", 1},
    {"attn.b_o", "self_attn.o_proj.bias", 1},      {"attn.q_gain", "self_attn.q_norm.weight", 1},
    {"attn.k_gain", "self_attn.k_norm.weight", 1}, {NULL, NULL, 0},
  };
  static const struct renaming latents[] = {
    {"attn.w_dq", "self_attn.q_a_proj.weight", 0},
    {NULL, NULL, 0},
  };
  rename_one(w, "embed", "model.embed_tokens.weight", 0);
  put_norm(w, "norm", "model.norm.weight", w->options->width);
  rename_one(w, "head", "lm_head.weight", 0);
  for (long l = 0; l < w->options->layers; l++) {
    put_norms(w, l);
    rename_all(w, l, shared);
    rename_all(w, l, w->mla ? latents : heads);
    if (w->mla) put_latent(w, l);
  }
}

/* --- config.json --------------------------------------------------------------------------------------- */

static json_t *config_of(const struct export_writing *w)
{
  const struct model_options *o = w->options;
  const char *type = w->mla      ? "deepseek_v3"
                     : w->normed ? "qwen3"
                                 : "llama",
             *class = w->mla      ? "DeepseekV3ForCausalLM"
                      : w->normed ? "Qwen3ForCausalLM"
                                  : "LlamaForCausalLM";
  json_t *c =
    json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:b, s:b, s:s, s:n}",
              "architectures", class, "model_type", type, "hidden_size", (json_int_t)o->width,
              "intermediate_size", (json_int_t)o->ffn_width, "num_hidden_layers", (json_int_t)o->layers,
              "num_attention_heads", (json_int_t)o->heads, "num_key_value_heads", (json_int_t)o->kv_heads,
              "vocab_size", (json_int_t)o->vocab, "max_position_embeddings", (json_int_t)o->context,
              "hidden_act", "silu", "rms_norm_eps", o->norm_eps, "rope_theta", o->rope_base, "attention_bias",
              (int)o->bias, "tie_word_embeddings", (int)o->tied, "torch_dtype", "float32", "rope_scaling");
  REQUIRE(c);
  if (o->rope_scale != 1)
    json_object_set_new(
      c, "rope_scaling",
      json_pack("{s:s, s:s, s:f}", "rope_type", "linear", "type", "linear", "factor", o->rope_scale));
  if (!w->mla) {
    json_object_set_new(c, "head_dim", json_integer(o->head_dim));
    return c;
  }
  json_object_set_new(c, "q_lora_rank", o->q_rank ? json_integer(o->q_rank) : json_null());
  json_object_set_new(c, "kv_lora_rank", json_integer(o->kv_rank));
  json_object_set_new(c, "qk_nope_head_dim", json_integer(o->head_dim));
  json_object_set_new(c, "qk_rope_head_dim", json_integer(o->rope_dim));
  json_object_set_new(c, "v_head_dim", json_integer(o->value_dim));
  json_object_set_new(c, "first_k_dense_replace", json_integer(o->layers)); /* no layer has experts */
  json_object_set_new(c, "rope_interleave", json_true());
  return c;
}

/* --- parts that cannot be exported ----------------------------------------------------------------------- */

/* A stabilizer that changes the model's function in a way that the exported tensors cannot express. */
static int is_foreign(void *context, const char *name)
{
  struct export_writing *w = context;
  const struct stabilizer *s = stabilizer_find(name);
  if (!s || (!s->on_qk && !s->on_score && !s->on_weight && !s->on_heads) || !strcmp(name, "qk_norm"))
    return 0;
  return error_set(
    w->error, STATUS_USAGE,
    "stabilizers: %s changes what the model computes, for which %s has no name; allowed: qk_norm with "
    "qk_norm.kind = rms, and those that act on the weights alone",
    name, w->mla ? "DeepSeek-V3" : "Llama");
}

static int check_options(struct export_writing *w)
{
  const struct top_options *top = config_section(own_run_config(w->own), "");
  const struct model_options *o = w->options;
  if (w->mla && o->norm_eps != 1e-6)
    return error_set(
      w->error, STATUS_USAGE,
      "model.norm_eps: %g, but the norms of latents have 1e-06 in DeepSeek-V3; allowed with mla: 1e-06",
      o->norm_eps);
  if (o->mask != MASK_CAUSAL)
    return error_set(
      w->error, STATUS_USAGE,
      "model.mask: what is exported has a causal mask, and this model another one; allowed: causal");
  const struct precision_options *precision = config_section(own_run_config(w->own), "precision");
  if (precision->qk || precision->scores)
    return error_set(w->error, STATUS_USAGE,
                     "precision: what is exported rounds neither logits nor queries and keys; "
                     "allowed: precision.qk = f32 with precision.scores = f32");
  return text_split(top->stabilizers, '+', is_foreign, w);
}

static int check_complete(const struct export_writing *w)
{
  const struct weights *weights = own_run_weights(w->own);
  for (size_t i = 0; i < weights_count(weights); i++)
    if (!w->taken[i])
      return error_set(w->error, STATUS_USAGE, "tensor %s has no place in the naming of %s",
                       weights_at(weights, i)->tensor.name, w->mla ? "DeepSeek-V3" : "Llama");
  return STATUS_OK;
}

/* If q_gain has more numbers than a head, it is a norm over all heads, which neither family has. */
static int check_gains(struct export_writing *w)
{
  const struct weight *gain = weights_find(own_run_weights(w->own), "blocks.0.attn.q_gain");
  w->normed = gain != NULL;
  if (!gain || (long)(gain->rows * gain->cols) == w->options->head_dim) return STATUS_OK;
  return error_set(w->error, STATUS_USAGE,
                   "qk_norm.kind: a norm over all heads has no place in the naming of Qwen3; allowed: rms");
}

static int check_absent(struct export_writing *w, const char *folder)
{
  static const char *const names[] = {"model.safetensors", "config.json"};
  for (int i = 0; i < 2; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (!access(path, F_OK))
      return error_set(w->error, STATUS_USAGE, "%s exists: another folder, or --overwrite", path);
  }
  return STATUS_OK;
}

static int write_files(struct export_writing *w, const char *folder)
{
  char path[4096];
  json_t *config = config_of(w);
  char *text = json_dumps(config, JSON_INDENT(2));
  json_decref(config);
  REQUIRE(text);
  struct buffer b = {0};
  buffer_add(&b, "%s\n", text);
  free(text);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  int status = file_make_folders(path, w->error);
  if (!status) status = safetensors_write(path, w->tensor, w->data, w->count, w->error);
  snprintf(path, sizeof path, "%s/config.json", folder);
  if (!status) status = file_write(path, b.text, b.length, w->error);
  memory_free(b.text);
  return status;
}

int own_run_export(const struct own_run *own, const char *folder, int overwrite, struct error *e)
{
  struct export_writing w = {
    .own = own, .options = &own_run_model(own)->options, .arena = arena_new(), .error = e};
  if (strlen(folder) > 4000) return error_set(e, STATUS_USAGE, "%.60s...: path too long", folder);
  w.mla = w.options->rope_dim > 0;
  w.taken = memory_new(weights_count(own_run_weights(own)) + 1, sizeof *w.taken);
  int status = overwrite ? STATUS_OK : check_absent(&w, folder);
  if (!status) status = check_options(&w);
  if (!status) status = check_gains(&w);
  if (!status) put_tensors(&w);
  if (!status) status = check_complete(&w);
  if (!status) status = write_files(&w, folder);
  memory_free(w.taken);
  memory_free(w.tensor);
  memory_free(w.data);
  arena_free(w.arena);
  return status;
}
