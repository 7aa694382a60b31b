/* mla.c - multi-head latent attention (DeepSeek-V2, arXiv 2405.04434 sec. 2.1; V3, 2412.19437 eq. 1-11)
   Queries and keys have a content part and a rotary part; one rotary key serves all heads.
     cq = RMSNorm(x w_dq^T) [N,Rq] (x itself where q_rank = 0)    ckv = RMSNorm(x w_dkv^T) [N,Rkv]
     qc = cq w_qc^T [N,H*Dn]                                      kc = ckv w_kc^T [N,H*Dn]
     qr = RoPE(cq w_qr^T) [N,H*Dr]                                kr = RoPE(x w_kr^T) [N,Dr]
     s = (qc.kc + qr.kr) / sqrt(Dn+Dr)                            v = ckv w_v^T [N,H*Dv]
   Absorbed decoding keeps ckv and kr only: by head, qc.kc = (qc w_kc).ckv and sum p v = (sum p ckv) w_v^T.
   Under RMSNorm of kc with gain g it keeps 1/rms(kc) [H] beside them, as then qc.norm(kc) is
   ((qc g) w_kc).ckv / rms: QK-normed MLA (arXiv 2606.16310), exactly. */
#include <math.h>
#include "model/model.h"

static int resolve(struct model_options *o, struct error *e)
{
  if (o->kv_heads == 0) o->kv_heads = o->heads;
  if (o->kv_heads != o->heads)
    return error_set(e, STATUS_USAGE,
                     "model.kv_heads: %ld, but with model.attention = mla every head has a "
                     "key; allowed: model.heads = %ld or 0",
                     o->kv_heads, o->heads);
  if (o->bias)
    return error_set(e, STATUS_USAGE,
                     "model.bias: 1, but mla has no biases; allowed: 0, or model.attention "
                     "= mha or gqa");
  /* the ratios of DeepSeek-V2 */
  if (o->kv_rank == 0) o->kv_rank = 4 * o->head_dim;
  if (o->rope_dim == 0) o->rope_dim = o->head_dim > 4 ? o->head_dim / 4 * 2 : 2;
  if (o->value_dim == 0) o->value_dim = o->head_dim;
  if (o->rope_dim % 2)
    return error_set(e, STATUS_USAGE, "model.rope_dim: %ld is odd; RoPE turns pairs, so it must be even",
                     o->rope_dim);
  return STATUS_OK;
}

struct mla_weights {
  struct param *w_dq, *q_norm; /* NULL without a query latent */
  struct param *w_qc, *w_qr;   /* one after the other in memory */
  struct param *w_dkv, *kv_norm, *w_kc, *w_kr, *w_v;
};

static const struct mla_weights *weights_of(const struct model *m, int layer)
{
  return m->layer[layer].attention;
}

static void declare(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  long d = o->width, h = o->heads, from = o->q_rank ? o->q_rank : d;
  struct layer *b = &m->layer[layer];
  struct mla_weights *w = b->attention = arena_get(m->params.arena, 1, sizeof *w);
  if (o->q_rank) {
    w->w_dq = model_add_matrix(m, layer, o->q_rank, d, 0, "attn.w_dq");
    w->q_norm = model_add_norm(m, layer, o->q_rank, "blocks.%d.attn.q_norm", layer);
  }
  w->w_qc = model_add_matrix(m, layer, h * o->head_dim, from, o->head_dim, "attn.w_qc");
  w->w_qr = model_add_matrix(m, layer, h * o->rope_dim, from, o->rope_dim, "attn.w_qr");
  w->w_dkv = model_add_matrix(m, layer, o->kv_rank, d, 0, "attn.w_dkv");
  w->kv_norm = model_add_norm(m, layer, o->kv_rank, "blocks.%d.attn.kv_norm", layer);
  w->w_kc = model_add_matrix(m, layer, h * o->head_dim, o->kv_rank, o->head_dim, "attn.w_kc");
  w->w_kr = model_add_matrix(m, layer, o->rope_dim, d, 0, "attn.w_kr");
  w->w_v = model_add_matrix(m, layer, h * o->value_dim, o->kv_rank, o->value_dim, "attn.w_v");
  b->w_o = model_add_matrix(m, layer, d, h * o->value_dim, 0, "attn.w_o");
}

/* x w^T, w being `first` and the next count-1 parameters */
static struct tensor *project(struct model *m, struct program *program, struct tensor *x, struct param *first,
                              int count)
{
  return op_linear(program, x, model_weight(m, program, first, count), NULL, NULL);
}

/* RMSNorm of x w^T */
static struct tensor *latent(struct model *m, struct program *program, struct tensor *x, struct param *weight,
                             struct param *gain)
{
  return model_norm(m, program, project(m, program, x, weight, 1), gain);
}

static struct tensor *forward(struct model *m, struct program *program, int layer,
                              const struct layer_inputs *in, struct tensor *x, struct tensor *residual,
                              struct tensor **stats)
{
  const struct model_options *o = &m->options;
  long h = o->heads, dn = o->head_dim, dr = o->rope_dim;
  const struct mla_weights *w = weights_of(m, layer);
  struct tensor *cq = o->q_rank ? latent(m, program, x, w->w_dq, w->q_norm) : x;
  struct tensor *ckv = latent(m, program, x, w->w_dkv, w->kv_norm);
  struct tensor *q = project(m, program, cq, w->w_qc, 2); /* [N, H*Dn | H*Dr] */
  struct tensor *w_kc = model_weight(m, program, w->w_kc, 1), *w_v = model_weight(m, program, w->w_v, 1);
  struct tensor *kc = op_linear(program, ckv, w_kc, NULL, NULL);
  int absorbed = in->decoding && in->decoding->form == DECODE_ABSORBED;
  struct qk_part part[] = {
    {.role = ROLE_Q_HEAD, .x = op_columns(program, q, 0, h * dn), .heads = h, .dim = dn},
    {.role = ROLE_K_HEAD, .x = kc, .heads = h, .dim = dn, .absorbed = absorbed},
    {.role = ROLE_Q_ROPE, .x = op_columns(program, q, h * dn, h * dr), .heads = h, .dim = dr},
    {.role = ROLE_K_ROPE_SHARED, .x = project(m, program, x, w->w_kr, 1), .heads = 1, .dim = dr}};
  model_on_qk(m, program, layer, in, part, 4);
  struct tensor *qr = op_rope(program, part[2].x, in->position, in->rope_table, dr);
  struct tensor *kr = op_rope(program, part[3].x, in->position, in->rope_table, dr);
  struct attention_spec spec = {
    .score = {
      .batch = in->batch, .heads = h, .groups = absorbed ? 1 : h, .scale = 1 / sqrt((double)(dn + dr))}};
  model_on_score(m, layer, &spec);
  struct tensor *y;
  if (absorbed) {
    if (part[1].x != kc) in->decoding->refused = 1;
    struct tensor *qc = op_heads_product(program, part[0].x, w_kc, part[1].gain, h, 0);
    qc = op_join_heads(program, qc, qr, h, 0);
    y = model_attend_latent(m, program, layer, in, qc, ckv, kr, part[1].rstd, &spec, stats);
    y = op_heads_product(program, y, w_v, NULL, h, 1);
  } else {
    struct tensor *k = op_join_heads(program, part[1].x, kr, h, 1);
    struct tensor *v = op_linear(program, ckv, w_v, NULL, NULL);
    y = model_attend(m, program, layer, in, op_join_heads(program, part[0].x, qr, h, 0), k, v, &spec, stats);
  }
  return model_output(m, program, layer, x, y, residual);
}

static int logit_blocks(const struct model *m, int layer, int head, struct logit_block out[MAX_LOGIT_BLOCKS])
{
  long dn = m->options.head_dim, dr = m->options.rope_dim;
  const struct mla_weights *w = weights_of(m, layer);
  struct param *x = m->layer[layer].attn_norm, *cq = w->q_norm ? w->q_norm : x;
  out[0] = (struct logit_block){ROLE_Q_HEAD, w->w_qc, NULL, head * dn, dn, cq};
  out[1] = (struct logit_block){ROLE_K_HEAD, w->w_kc, NULL, head * dn, dn, w->kv_norm};
  out[2] = (struct logit_block){ROLE_Q_ROPE, w->w_qr, NULL, head * dr, dr, cq};
  out[3] = (struct logit_block){ROLE_K_ROPE_SHARED, w->w_kr, NULL, 0, dr, x};
  return 4;
}

static long rope_dim(const struct model_options *o) { return o->rope_dim; }

const struct attention attention_mla = {
  .name = "mla",
  .help =
    "multi-head latent attention: low-rank queries and keys, one rotary key for all heads; with qk_norm: "
    "QK-normed MLA",
  .resolve = resolve,
  .declare = declare,
  .forward = forward,
  .logit_blocks = logit_blocks,
  .rope_dim = rope_dim,
  .absorbs = 1,
};
