#include "zoo/own_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "run/start.h"
#include "config/config.h"

struct own_run {
  struct architecture architecture; /* first: `head` gets a pointer to it */
  struct checkpoint checkpoint;
  struct config *config;
  struct device *device;
  struct model model;
  struct weights *weights;
  int weights_change; /* a stabilizer changes weights before a product uses them */
};

/* --- heads --------------------------------------------------------------------------------------------- */

static const struct weight *find(const struct own_run *o, long layer, const char *name)
{
  char text[160];
  snprintf(text, sizeof text, "blocks.%ld.%s", layer, name);
  return weights_find(o->weights, text);
}

static const char *gain_of(enum role role, int split)
{
  switch (role) {
  case ROLE_Q_HEAD: return split ? "attn.qc_gain" : "attn.q_gain";
  case ROLE_K_HEAD:
  case ROLE_K_GROUP: return split ? "attn.kc_gain" : "attn.k_gain";
  case ROLE_Q_ROPE: return "attn.qr_gain";
  case ROLE_K_ROPE_SHARED: return "attn.kr_gain";
  default: return "";
  }
}

static int read_projection(const struct own_run *o, long layer, const struct logit_block *f, int split,
                           struct projection *p, struct error *e)
{
  const char *name = f->weight->name;
  *p = (struct projection){
    .name = text_last_part(name), .weight = weights_find(o->weights, name), .first = f->row, .rows = f->rows};
  p->bias = f->bias ? weights_find(o->weights, f->bias->name) : NULL;
  const struct weight *gain = f->gain ? weights_find(o->weights, f->gain->name) : NULL;
  if (!p->weight || (f->gain && !gain) || (f->bias && !p->bias))
    return error_set(e, STATUS_FAIL, "%s, or what belongs to it, is missing in the checkpoint", name);
  p->inputs = (long)p->weight->cols;
  const int plus_one = o->model.options.norm_gain == NORM_GAIN_ZERO_CENTERED;
  p->before = (struct norm){.kind = plus_one ? NORM_RMS_PLUS_ONE : NORM_RMS, .gain = gain, .size = p->inputs};
  gain = find(o, layer, gain_of(f->role, split));
  if (gain) {
    long count = (long)(gain->rows * gain->cols);
    if (count != f->rows && count < f->row + f->rows)
      return error_set(e, STATUS_USAGE, "%s has %ld gains for rows %ld to %ld", gain->tensor.name, count,
                       f->row, f->row + f->rows - 1);
    p->after =
      (struct norm){.kind = NORM_RMS, .gain = gain, .size = count, .first = count > f->rows ? f->row : 0};
  }
  return STATUS_OK;
}

/* Queries and keys of unit length, and one learned scale. */
static void unit_length(const struct own_run *o, long layer, struct head_logits *out)
{
  const struct weight *scale = find(o, layer, "attn.qk_scale");
  double value;
  if (!scale || !scale->rows || !scale->cols) return;
  weight_read(scale, 0, 0, 1, &value);
  struct projection *both[] = {&out->part[0].q, &out->part[0].k};
  for (int i = 0; i < 2; i++) both[i]->after = (struct norm){.kind = NORM_RMS, .size = both[i]->rows};
  out->scale = value / (double)out->part[0].q.rows;
}

static int read_head(const struct architecture *s, long layer, long head, struct head_logits *out,
                     struct error *e)
{
  const struct own_run *o = (const struct own_run *)s;
  struct logit_block f[MAX_LOGIT_BLOCKS];
  int count = o->model.attention->logit_blocks(&o->model, (int)layer, (int)head, f), split = 0,
      status = STATUS_OK;
  long dim = 0;
  *out = (struct head_logits){.parts = 1, .part[0] = {.name = "", .rotary = ROTARY_HALVES}};
  for (int i = 0; i < count; i++) split |= f[i].role == ROLE_Q_ROPE;
  if (split) {
    out->parts = 2;
    out->part[0] = (struct logit_part){.name = "content"};
    out->part[1] = (struct logit_part){.name = "rotary", .rotary = ROTARY_HALVES};
  }
  for (int i = 0; i < count && !status; i++) {
    int query = role_is_query(f[i].role);
    struct logit_part *part = &out->part[role_is_rotary(f[i].role)];
    status = read_projection(o, layer, &f[i], split, query ? &part->q : &part->k, e);
    if (query) dim += f[i].rows;
    if (query && part->rotary) part->rotary_size = f[i].rows;
  }
  out->scale = 1 / sqrt((double)dim);
  if (!status) unit_length(o, layer, out);
  if (o->weights_change) out->scale = NAN;
  return status;
}

/* --- opening ------------------------------------------------------------------------------------------- */

static struct weights *weights_in(const struct checkpoint *c)
{
  struct safetensor *t = memory_new((size_t)c->count + 1, sizeof *t);
  size_t count = 0;
  for (int i = 0; i < c->count; i++) {
    const struct checkpoint_tensor *from = &c->tensors[i];
    if (strncmp(from->name, "params/", 7) != 0) continue;
    t[count++] = (struct safetensor){.name = from->name + 7,
                                     .dtype_name = sizeof(real) == 8 ? "F64" : "F32",
                                     .dtype = sizeof(real) == 8 ? DTYPE_F64 : DTYPE_F32,
                                     .rank = 2,
                                     .dims = {from->rows, from->cols},
                                     .count = from->rows * from->cols,
                                     .data = from->data,
                                     .bytes = (size_t)from->rows * (size_t)from->cols * sizeof(real)};
  }
  struct weights *w = weights_of(t, count);
  memory_free(t);
  return w;
}

static int changes_weights(void *context, const char *name)
{
  const struct stabilizer *s = stabilizer_find(name);
  (void)context;
  return s && s->on_weight;
}

/* Build the model of the checkpoint's configuration: it assigns rows to heads for every variant. */
static int make_model(struct own_run *o, const char *path, struct error *e)
{
  int status = config_read(o->config, o->checkpoint.config_text, path, e);
  if (!status) status = config_finish(o->config, e);
  if (!status) status = device_open(&o->device, "reference", 1, e);
  if (status) return status;
  struct model_options options = *(struct model_options *)config_section(o->config, "model");
  const struct top_options *top = config_section(o->config, "");
  status = model_resolve(&options, options.vocab, e);
  if (!status) status = model_init(&o->model, &options, o->device, NULL, NULL, 0, e);
  o->weights_change = text_split(top->stabilizers, '+', changes_weights, NULL);
  return status;
}

int own_run_open(struct own_run **out, const char *path, struct error *e)
{
  struct own_run *o = memory_new(1, sizeof *o);
  o->config = config_new();
  int status = start_state(path, &o->checkpoint, e);
  if (!status) status = make_model(o, path, e);
  if (!status) status = start_check(&o->model, &o->checkpoint, path, e);
  if (!status) {
    o->weights = weights_in(&o->checkpoint);
    o->architecture = (struct architecture){.weights = o->weights,
                                            .family = "maxlogit",
                                            .layers = model_blocks(&o->model.options),
                                            .heads = o->model.options.heads,
                                            .head = read_head};
    *out = o;
  } else
    own_run_close(o);
  return status;
}

void own_run_close(struct own_run *o)
{
  if (!o) return;
  weights_close(o->weights);
  model_free(&o->model);
  device_close(o->device);
  config_free(o->config);
  checkpoint_free(&o->checkpoint);
  memory_free(o);
}

const struct checkpoint *own_run_checkpoint(const struct own_run *o) { return &o->checkpoint; }
const struct model *own_run_model(const struct own_run *o) { return &o->model; }
const struct config *own_run_config(const struct own_run *o) { return o->config; }
const struct weights *own_run_weights(const struct own_run *o) { return o->weights; }
const struct architecture *own_run_architecture(const struct own_run *o) { return &o->architecture; }
