#include "model/attention/heads.h"
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

void heads_declare(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  long d = o->width, dh = o->head_dim, q = o->heads * dh, kv = o->kv_heads * dh;
  model_add_matrix(m, layer, q, d, dh, "attn.w_q");
  model_add_matrix(m, layer, kv, d, dh, "attn.w_k");
  model_add_matrix(m, layer, kv, d, dh, "attn.w_v");
  model_add_matrix(m, layer, d, q, 0, "attn.w_o");
  if (!o->bias) return;
  model_add_bias(m, layer, q, "attn.b_q");
  model_add_bias(m, layer, kv, "attn.b_k");
  model_add_bias(m, layer, kv, "attn.b_v");
  model_add_bias(m, layer, d, "attn.b_o");
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
  struct tensor *b_qkv = o->bias ? params_span(&m->params, model_param(m, layer, "attn.b_q"), 3) : NULL;
  struct tensor *w_qkv = model_weight(m, program, model_param(m, layer, "attn.w_q"), 3);
  struct tensor *qkv = op_linear(program, x, w_qkv, b_qkv, NULL); /* [N, H*Dh | G*Dh | G*Dh] */
  struct qk_part part[] = {
    {.role = ROLE_Q_HEAD, .x = op_columns(program, qkv, 0, nq), .heads = o->heads, .dim = dh},
    {.role = key_role(o), .x = op_columns(program, qkv, nq, nkv), .heads = o->kv_heads, .dim = dh}};
  struct tensor *v = op_columns(program, qkv, nq + nkv, nkv);
  model_on_qk(m, program, layer, part, 2);
  struct tensor *q = op_rope(program, part[0].x, in->position, in->rope_table, dh);
  struct tensor *k = op_rope(program, part[1].x, in->position, in->rope_table, dh);
  struct attention_spec spec = {
    .score = {.batch = in->batch, .heads = o->heads, .groups = o->kv_heads, .scale = 1 / sqrt((double)dh)}};
  model_on_score(m, &spec);
  struct tensor *y = model_attend(program, in, q, k, v, &spec, stats); /* [N, H*Dh] */
  return model_output(m, program, layer, y, residual);
}

int heads_factors(const struct model *m, int layer, int head, struct factor out[MAX_FACTORS])
{
  const struct model_options *o = &m->options;
  long dh = o->head_dim, group = head * o->kv_heads / o->heads;
  struct param *b_q = NULL, *b_k = NULL, *gain = model_param(m, layer, "attn.norm");
  if (o->bias) {
    b_q = model_param(m, layer, "attn.b_q");
    b_k = model_param(m, layer, "attn.b_k");
  }
  out[0] = (struct factor){ROLE_Q_HEAD, model_param(m, layer, "attn.w_q"), b_q, head * dh, dh, gain};
  out[1] = (struct factor){key_role(o), model_param(m, layer, "attn.w_k"), b_k, group * dh, dh, gain};
  return 2;
}

long heads_rope_dim(const struct model_options *o) { return o->head_dim; }
