/* swiglu.c - (silu(x w_gate^T) * x w_up^T) w_down^T (arXiv 2002.05202) */
#include "model/ffn/swiglu.h"
#include "model/model.h"

struct swiglu_weights { /* w_gate and w_up one after the other in memory */
  struct param *w_gate, *w_up, *w_down;
};

void swiglu_declare(struct model *m, int layer)
{
  const struct model_options *o = &m->options;
  struct swiglu_weights *w = m->layer[layer].ffn = arena_get(m->params.arena, 1, sizeof *w);
  w->w_gate = model_add_matrix(m, layer, o->ffn_width, o->width, 0, "ffn.w_gate");
  w->w_up = model_add_matrix(m, layer, o->ffn_width, o->width, 0, "ffn.w_up");
  w->w_down = model_add_matrix(m, layer, o->width, o->ffn_width, 0, "ffn.w_down");
}

struct tensor *swiglu_forward(struct model *m, struct program *program, int layer,
                              const struct layer_inputs *in, struct tensor *x, struct tensor *residual)
{
  const struct swiglu_weights *w = m->layer[layer].ffn;
  (void)in;
  struct tensor *h =
    op_linear(program, x, model_weight(m, program, w->w_gate, 2), NULL, NULL); /* gate | up */
  return op_linear(program, op_swiglu(program, h), model_weight(m, program, w->w_down, 1), NULL, residual);
}

const struct ffn ffn_swiglu = {
  .name = "swiglu",
  .help = "one SwiGLU block of model.ffn_width",
  .declare = swiglu_declare,
  .forward = swiglu_forward,
};
