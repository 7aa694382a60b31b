#include "model/attention/heads.h"
#include "model/model.h"
#include <math.h>

int heads_resolve(struct model_options *o, struct error *e)
{
  if (o->head_dim % 2)
    return error_set(e, STATUS_USAGE, "model.head_dim: %ld is odd; RoPE turns pairs, so it must be even",
                     o->head_dim);
  const struct {
    const char *name;
    long value;
  } mla[] = {
    {"q_rank", o->q_rank}, {"kv_rank", o->kv_rank}, {"rope_dim", o->rope_dim}, {"value_dim", o->value_dim}};
  for (int i = 0; i < 4; i++)
    if (mla[i].value)
      return error_set(e, STATUS_USAGE, "model.%s: %ld is for model.attention = mla; with %s it must be 0",
                       mla[i].name, mla[i].value, o->attention);
  return STATUS_OK;
}

/* One after another in memory; biases NULL without model.bias. */
struct heads_weights {
  struct param *w_q, *w_k, *w_v, *b_q, *b_k, *b_v;
};

static const struct heads_weights *weights_of(const struct model *m, int layer)
{
  return m->layer[layer].attention;
}

void heads_declare(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  long d = o->width, dh = o->head_dim, q = o->heads * dh, kv = o->kv_heads * dh;
  struct layer *b = &m->layer[layer];
  struct heads_weights *w = b->attention = arena_get(m->params.arena, 1, sizeof *w);
  w->w_q = model_add_matrix(m, layer, q, d, dh, "attn.w_q");
  w->w_k = model_add_matrix(m, layer, kv, d, dh, "attn.w_k");
  w->w_v = model_add_matrix(m, layer, kv, d, dh, "attn.w_v");
  b->w_o = model_add_matrix(m, layer, d, q, 0, "attn.w_o");
  if (!o->bias) return;
  w->b_q = model_add_bias(m, layer, q, "attn.b_q");
  w->b_k = model_add_bias(m, layer, kv, "attn.b_k");
  w->b_v = model_add_bias(m, layer, kv, "attn.b_v");
  b->b_o = model_add_bias(m, layer, d, "attn.b_o");
}

/* A group of one head: the key is the head's own. */
static enum role key_role(const struct model_options *o)
{
  return o->kv_heads == o->heads ? ROLE_K_HEAD : ROLE_K_GROUP;
}

struct tensor *heads_forward(struct model *m, struct program *program, int layer,
                             const struct layer_inputs *in, struct tensor *x, struct tensor *residual,
                             struct tensor **stats)
{
  const struct model_options *o = &m->options;
  long dh = o->head_dim, nq = o->heads * dh, nkv = o->kv_heads * dh;
  const struct heads_weights *w = weights_of(m, layer);
  struct tensor *b_qkv = o->bias ? params_span(&m->params, w->b_q, 3) : NULL;
  struct tensor *w_qkv = model_weight(m, program, w->w_q, 3);
  struct tensor *qkv = op_linear(program, x, w_qkv, b_qkv, NULL); /* [N, H*Dh | G*Dh | G*Dh] */
  struct qk_part part[] = {
    {.role = ROLE_Q_HEAD, .x = op_columns(program, qkv, 0, nq), .heads = o->heads, .dim = dh},
    {.role = key_role(o), .x = op_columns(program, qkv, nq, nkv), .heads = o->kv_heads, .dim = dh}};
  struct tensor *v = op_columns(program, qkv, nq + nkv, nkv);
  model_on_qk(m, program, layer, in, part, 2);
  struct tensor *q = op_rope(program, part[0].x, in->position, in->rope_table, dh);
  struct tensor *k = op_rope(program, part[1].x, in->position, in->rope_table, dh);
  struct attention_spec spec = {
    .score = {.batch = in->batch, .heads = o->heads, .groups = o->kv_heads, .scale = 1 / sqrt((double)dh)}};
  model_on_score(m, layer, &spec);
  struct tensor *y = model_attend(m, program, layer, in, q, k, v, &spec, stats); /* [N, H*Dh] */
  return model_output(m, program, layer, x, y, residual);
}

int heads_logit_blocks(const struct model *m, int layer, int head, struct logit_block out[MAX_LOGIT_BLOCKS])
{
  const struct model_options *o = &m->options;
  long dh = o->head_dim, group = head * o->kv_heads / o->heads;
  const struct heads_weights *w = weights_of(m, layer);
  struct param *gain = m->layer[layer].attn_norm;
  out[0] = (struct logit_block){ROLE_Q_HEAD, w->w_q, w->b_q, head * dh, dh, gain};
  out[1] = (struct logit_block){key_role(o), w->w_k, w->b_k, group * dh, dh, gain};
  return 2;
}

long heads_rope_dim(const struct model_options *o) { return o->head_dim; }
