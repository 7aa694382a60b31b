/* gqa.c - grouped-query attention: query head h shares key/value head floor(h G / H) (arXiv 2305.13245) */
#include "base/text.h"
#include "base/memory.h"
#include "model/attention/heads.h"

static int resolve(struct model_options *o, struct error *e)
{
  if (o->kv_heads > 0 && o->heads % o->kv_heads == 0) return heads_resolve(o, e);
  struct buffer divisors = {0};
  for (long g = 1; g <= o->heads; g++)
    if (o->heads % g == 0) buffer_add(&divisors, "%s%ld", g > 1 ? ", " : "", g);
  if (o->kv_heads == 0)
    error_set(e, STATUS_USAGE,
              "model.kv_heads: wanted with model.attention = gqa; allowed with model.heads "
              "= %ld: %s",
              o->heads, divisors.text);
  else
    error_set(e, STATUS_USAGE, "model.kv_heads: %ld does not divide model.heads = %ld; allowed: %s",
              o->kv_heads, o->heads, divisors.text);
  memory_free(divisors.text);
  return STATUS_USAGE;
}

const struct attention attention_gqa = {
  .name = "gqa",
  .help = "grouped-query attention: model.kv_heads key/value heads, each shared by a group of query heads",
  .resolve = resolve,
  .declare = heads_declare,
  .forward = heads_forward,
  .logit_blocks = heads_logit_blocks,
  .rope_dim = heads_rope_dim,
};
