/* qk_norm.c - normalize queries and keys before RoPE, so that the scale of w_q and w_k drops out
   rms       RMSNorm over every head, gains [Dh] shared by the heads (Gemma 3, Qwen 3); with mla over the
             content and the rotary part of every query and key, each with a gain of its own: that is
             QK-normed MLA, which decodes exactly from the latent cache and one 1/rms by head
             (arXiv 2606.16310)
   rms_full  RMSNorm over all heads together, gains [H*Dh] and [G*Dh] (OLMo 2, arXiv 2501.00656)
   l2        q/|q| and k/|k|, and one learned scalar in place of 1/sqrt(Dh); it starts at log2(T^2 - T), T the
             context (Henry et al. 2020, arXiv 2010.04245 sec. 3) */
#include "training/stabilizers/qk_norm.h"
#include <math.h>
#include "base/elementary.h"
#include "model/model.h"

enum kind { RMS, RMS_FULL, L2 };
static const char *const kinds[] = {"rms", "rms_full", "l2", NULL};

struct qk_norm {
  long kind;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct qk_norm, kind, "rms", kinds, "RMSNorm per head, RMSNorm over all heads, or unit length",
             0),
  END_ROW};

static enum kind kind_of(const struct stabilizer_context *c)
{
  return (enum kind)((const struct qk_norm *)c->options)->kind;
}

/* --- RMSNorm ----------------------------------------------------------------------------------------- */

/* `split`: content and rotary parts are apart. */
static const char *gain_name(enum role role, int split)
{
  if (!split) return role_is_query(role) ? "attn.q_gain" : "attn.k_gain";
  if (role_is_rotary(role)) return role_is_query(role) ? "attn.qr_gain" : "attn.kr_gain";
  return role_is_query(role) ? "attn.qc_gain" : "attn.kc_gain";
}

void qk_norm_declare(struct stabilizer_context *c, int layer, unsigned roles, int full)
{
  struct logit_block factor[MAX_LOGIT_BLOCKS];
  int count = c->model->attention->logit_blocks(c->model, layer, 0, factor), split = 0;
  for (int i = 0; i < count; i++) split |= role_is_rotary(factor[i].role);
  for (int i = 0; i < count; i++) {
    if (!(roles & 1u << factor[i].role)) continue;
    long cols = full ? factor[i].weight->value.rows : factor[i].rows;
    model_add_gain(c->model, layer, cols, 1, gain_name(factor[i].role, split));
  }
}

void qk_norm_apply(struct stabilizer_context *c, struct program *program, int layer, struct qk_part *part,
                   int parts, unsigned roles)
{
  int split = 0;
  for (int i = 0; i < parts; i++) split |= role_is_rotary(part[i].role);
  for (int i = 0; i < parts; i++) {
    if (!(roles & 1u << part[i].role)) continue;
    struct tensor *gain = &model_param(c->model, layer, gain_name(part[i].role, split))->value;
    qk_part_norm(program, &part[i], gain, c->model->norm_eps);
  }
}

/* --- unit length ------------------------------------------------------------------------------------- */

/* RMSNorm without gain is the unit vector times sqrt(Dh). */
static void unit_length(struct stabilizer_context *c, struct program *program, int layer,
                        struct qk_part *part, int parts)
{
  struct tensor *scale = &model_param(c->model, layer, "attn.qk_scale")->value;
  for (int i = 0; i < parts; i++) {
    part[i].x = op_rmsnorm(program, part[i].x, NULL, part[i].dim, c->model->norm_eps);
    if (role_is_query(part[i].role)) part[i].x = op_scale(program, part[i].x, scale);
  }
}

/* From 1/sqrt(Dh) to 1/Dh: divides by the remaining sqrt(Dh) of the two unit vectors. */
static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)layer;
  if (kind_of(c) == L2) spec->score.scale *= spec->score.scale;
}

/* --- the stabilizer ---------------------------------------------------------------------------------- */

static int check(const void *options, const struct model_options *o, struct error *e)
{
  enum kind kind = (enum kind)((const struct qk_norm *)options)->kind;
  if (kind == RMS || o->rope_dim == 0) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "qk_norm.kind: %s is for queries and keys in one piece; with "
                   "model.attention = %s, whose content and rotary parts are apart, allowed: rms",
                   kinds[kind], o->attention);
}

static void declare(struct stabilizer_context *c, int layer)
{
  double t = fmax((double)c->model->options.context, 2);
  if (kind_of(c) == L2)
    model_add_gain(c->model, layer, 1, same_log(t * t - t) / M_LN2, "attn.qk_scale");
  else
    qk_norm_declare(c, layer, ALL_ROLES, kind_of(c) == RMS_FULL);
}

static void on_qk(struct stabilizer_context *c, struct program *program, int layer,
                  const struct layer_inputs *in, struct qk_part *part, int parts)
{
  (void)in;
  if (kind_of(c) == L2)
    unit_length(c, program, layer, part, parts);
  else
    qk_norm_apply(c, program, layer, part, parts, ALL_ROLES);
}

const struct stabilizer stabilizer_qk_norm = {
  .name = "qk_norm",
  .help = "QK-Norm: queries and keys normalized by RMSNorm per head or over all heads, or to unit length; "
          "mla: QK-normed MLA",
  .options = rows,
  .options_size = sizeof(struct qk_norm),
  .check = check,
  .declare = declare,
  .on_qk = on_qk,
  .on_score = on_score,
  .flags = STABILIZER_NORMS_QK | STABILIZER_NORMS_PARTS | STABILIZER_NORMS_QUERIES,
};
