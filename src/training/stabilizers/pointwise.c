/* pointwise.c - attention without a softmax: each of a row's n visible keys has the weight relu(s)^2 / n,
   independently of the others (Hua et al., arXiv 2202.10447)
   It tests whether the softmax makes logits grow (Wortsman et al., arXiv 2309.14322). A logit is s, before the
   square. */
#include "model/stabilizer.h"

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)c, (void)layer;
  spec->pointwise = POINTWISE_SQUARE;
}

const struct stabilizer stabilizer_pointwise = {
  .name = "pointwise",
  .help = "attention without a softmax: weights relu(s)^2 / n",
  .on_score = on_score,
  .flags = STABILIZER_WEIGHS,
};
