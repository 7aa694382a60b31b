/* qk_norm.c - normalise queries and keys before RoPE, so that the scale of w_q and w_k drops out
   rms       RMSNorm over every head, gains [Dh] shared by the heads (Gemma 3, Qwen 3)
   rms_full  RMSNorm over all heads together, gains [H*Dh] and [G*Dh] (OLMo 2, arXiv 2501.00656)
   l2        q/|q| and k/|k|, and one learned scalar in place of 1/sqrt(Dh); it starts at log2(T^2 - T), T the
             context (Henry et al. 2020, arXiv 2010.04245 sec. 3) */
#include <math.h>
#include "model/model.h"

enum kind { RMS, RMS_FULL, L2 };
static const char *const kinds[] = {"rms", "rms_full", "l2", NULL};

struct qk_norm { long kind; };

static const struct option_row rows[] = {
  CHOICE_ROW(struct qk_norm, kind, "rms", kinds, "what is normalised: see the stabiliser's description", 0),
  END_ROW
};

static enum kind kind_of(const struct stabilizer_context *c) {
  return (enum kind)((const struct qk_norm *)c->options)->kind;
}

static const char *gain_name(enum role role) {
  return role == ROLE_Q_HEAD ? "attn.q_gain" : "attn.k_gain";
}

static void declare(struct stabilizer_context *c, int layer) {
  const struct model_options *o = &c->model->options;
  if (kind_of(c) == L2) {
    double t = o->context > 2 ? (double)o->context : 2;
    model_add_gain(c->model, layer, 1, log2(t * t - t), "attn.qk_scale");
    return;
  }
  struct factor factor[MAX_FACTORS];
  int count = c->model->attention->factors(c->model, layer, 0, factor);
  for (int i = 0; i < count; i++) {
    long cols = kind_of(c) == RMS ? factor[i].rows : factor[i].weight->value.rows;
    model_add_gain(c->model, layer, cols, 1, gain_name(factor[i].role));
  }
}

static void on_qk(struct stabilizer_context *c, struct program *program, int layer, struct qk_part *part,
                  int parts) {
  struct model *m = c->model;
  for (int i = 0; i < parts; i++) {
    long group = kind_of(c) == RMS_FULL ? part[i].heads * part[i].dim : part[i].dim;
    struct tensor *gain = kind_of(c) == L2 ? NULL : &model_param(m, layer, gain_name(part[i].role))->value;
    part[i].x = op_rmsnorm(program, part[i].x, gain, group, m->options.norm_eps);
    if (kind_of(c) == L2 && part[i].role == ROLE_Q_HEAD)
      part[i].x = op_scale(program, part[i].x, &model_param(m, layer, "attn.qk_scale")->value);
  }
}

/* RMSNorm is the unit vector times sqrt(Dh), on both sides; the score's scale is 1/sqrt(Dh). */
static void on_score(struct stabilizer_context *c, struct attention_spec *spec) {
  if (kind_of(c) == L2) spec->scale *= spec->scale;
}

const struct stabilizer stabilizer_qk_norm = {
  .name = "qk_norm", .help = "normalised queries and keys: RMSNorm by head or over all heads, or unit length",
  .options = rows, .options_size = sizeof(struct qk_norm),
  .declare = declare, .on_qk = on_qk, .on_score = on_score, .flags = STABILIZER_NORMS_QK,
};
