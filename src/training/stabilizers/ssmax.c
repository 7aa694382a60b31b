/* ssmax.c - Scalable-Softmax: scores times s ln n, with n the number of the row's visible keys and s learned per head
   (arXiv 2501.19399)
   softmax((s ln n) z) does not flatten as n grows. The factor belongs to a row, so queries are scaled. A logit is the
   input of the softmax, so max logits and QK-Clip's tau include the factor: with tau = 100 and n = 64 the score q.k /
   sqrt(Dh) may be as large as 100 / (4.16 s). The first query of a document sees one key: ln 1 = 0. */
#include "model/model.h"

struct ssmax {
  double start;
};

static const struct option_row rows[] = {REAL_ROW(struct ssmax, start, "0.43", -1e3, 1e3, "1",
                                                  "initial s of every head (0.43: the paper's figure 1)", 0),
                                         END_ROW};

static const struct series emits[] = {{"ssmax/scale", PER_HEAD, AXIS_STEP, "1", "SSMax's s",
                                       "the factor s of the scores s ln n q.k, after the step's update",
                                       EVENT_NONE},
                                      {0}};

static void declare(struct stabilizer_context *c, int layer)
{
  model_add_gain(c->model, layer, c->model->options.heads, ((const struct ssmax *)c->options)->start,
                 "attn.ssmax");
}

static void on_qk(struct stabilizer_context *c, struct program *program, int layer,
                  const struct layer_inputs *in, struct qk_part *part, int parts)
{
  struct tensor *s = &model_param(c->model, layer, "attn.ssmax")->value;
  for (int i = 0; i < parts; i++)
    if (role_is_query(part[i].role))
      part[i].x = model_ssmax_scale(c->model, program, layer, in, part[i].x, s);
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  model_tell_heads(c, p, "attn.ssmax");
}

const struct stabilizer stabilizer_ssmax = {
  .name = "ssmax",
  .help = "Scalable-Softmax: scores times s ln n, with n visible keys and s learned per head",
  .options = rows,
  .options_size = sizeof(struct ssmax),
  .emits = emits,
  .declare = declare,
  .on_qk = on_qk,
  .after_step = after_step,
  .flags = STABILIZER_SCALES_QUERIES,
};
