/* output_gate.c - heads' outputs times a sigmoid of attention's input, before w_o (gated attention, arXiv 2505.06708;
   Qwen3-Next)
   o <- o sigmoid(x w_output_gate^T), by number [H*Dv,D] or by head [H,D]. No logit meets it: max logits are those of
   the scores, as ever. */
#include "model/model.h"

enum { BY_ELEMENT, BY_HEAD };
static const char *const kinds[] = {"element", "head", NULL};

struct output_gate {
  long by;
};

static const struct option_row rows[] = {
  CHOICE_ROW(struct output_gate, by, "element", kinds,
             "one gate per element of a head's output, or one per head", 0),
  END_ROW};

static void declare_matrices(struct stabilizer_context *c, int layer)
{
  const struct model_options *o = &c->model->options;
  const long gates = ((const struct output_gate *)c->options)->by == BY_HEAD
                       ? o->heads
                       : c->model->layer[layer].w_o->value.cols;
  model_add_matrix(c->model, layer, gates, o->width, 0, "attn.w_output_gate");
}

static struct tensor *on_heads(struct stabilizer_context *c, struct program *p, int layer, struct tensor *x,
                               struct tensor *heads)
{
  struct tensor *w = model_weight(c->model, p, model_param(c->model, layer, "attn.w_output_gate"), 1);
  return op_gate(p, heads, op_linear(p, x, w, NULL, NULL));
}

const struct stabilizer stabilizer_output_gate = {
  .name = "output_gate",
  .help = "heads' outputs times a sigmoid of attention's input (gated attention, Qwen3-Next)",
  .options = rows,
  .options_size = sizeof(struct output_gate),
  .declare_matrices = declare_matrices,
  .on_heads = on_heads,
};
