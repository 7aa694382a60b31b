/* sigmoid.c - attention without a softmax: each of a row's n visible keys has the weight sigmoid(s - ln n),
   independently of the others (Ramapuram et al., arXiv 2409.04431)
   With scores of 0 the weights of a row have about the sum 1, as in a softmax. */
#include "model/stabilizer.h"

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)c, (void)layer;
  spec->pointwise = POINTWISE_SIGMOID;
}

const struct stabilizer stabilizer_sigmoid = {
  .name = "sigmoid",
  .help = "sigmoid attention, without a softmax: weights sigmoid(s - ln n), n visible keys",
  .on_score = on_score,
  .flags = STABILIZER_WEIGHS,
};
