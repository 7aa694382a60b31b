/* learned_sink.c - a learned score of every head that competes with its keys and has no value (gpt-oss; openai/gpt-oss)
   p_j = exp(s_j) / (sum exp(s) + exp(b)): a head may attend to nothing without a token that serves as its sink. At
   b = 0 it begins as softmax with one more in the sum. b is not a logit of two tokens: max logits leave it out, and the
   entropy is that of the keys' weights over their sum. */
#include "model/model.h"

struct learned_sink {
  double start;
};

static const struct option_row rows[] = {
  REAL_ROW(struct learned_sink, start, "0", -1e4, 1e4, "nat", "initial score of every head", 0), END_ROW};

static const struct series emits[] = {{"learned_sink/score", PER_HEAD, AXIS_STEP, "nat", "score of the sink",
                                       "what the sink of a head has for a logit, after the step's update",
                                       EVENT_NONE},
                                      {0}};

static void declare(struct stabilizer_context *c, int layer)
{
  model_add_gain(c->model, layer, c->model->options.heads, ((const struct learned_sink *)c->options)->start,
                 "attn.sink");
}

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  spec->sink = &model_param(c->model, layer, "attn.sink")->value;
}

static void after_step(struct stabilizer_context *c, struct program *p)
{
  model_tell_heads(c, p, "attn.sink");
}

const struct stabilizer stabilizer_learned_sink = {
  .name = "learned_sink",
  .help = "a learned attention sink: one more key per head, with a learned score and value 0 (gpt-oss)",
  .options = rows,
  .options_size = sizeof(struct learned_sink),
  .emits = emits,
  .declare = declare,
  .on_score = on_score,
  .after_step = after_step,
  .flags = STABILIZER_WEIGHS,
};
