/* mha.c - multi-head attention: every head has a key and a value of its own (arXiv 1706.03762) */
#include "model/attention/heads.h"

static int resolve(struct model_options *o, struct error *e)
{
  if (o->kv_heads == 0) o->kv_heads = o->heads;
  if (o->kv_heads != o->heads)
    return error_set(e, STATUS_USAGE,
                     "model.kv_heads: %ld, but with model.attention = mha it follows from "
                     "model.heads = %ld; allowed: %ld or 0; for fewer, model.attention = gqa",
                     o->kv_heads, o->heads, o->heads);
  return heads_resolve(o, e);
}

const struct attention attention_mha = {
  .name = "mha",
  .help = "multi-head attention: a key and a value head for every query head",
  .resolve = resolve,
  .declare = heads_declare,
  .forward = heads_forward,
  .logit_blocks = heads_logit_blocks,
  .rope_dim = heads_rope_dim,
};
