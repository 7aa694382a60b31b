/* softpick.c - attention with a rectified softmax: of a row's scores, weights relu(e^s - 1) / (sum |e^s - 1| + 1e-8)
   (Zuhri et al., arXiv 2504.20966; zaydzuhri/softpick-attention: naive_softpick_attn.py @eeeae054 was read)
   A key with s <= 0 has the weight 0, and a row may attend to nothing. The 1e-8 keeps a row of zeros from 0 / 0. The
   authors' code adds it after a division by the largest e^s. */
#include "model/stabilizer.h"

static void on_score(struct stabilizer_context *c, int layer, struct attention_spec *spec)
{
  (void)c, (void)layer;
  spec->pointwise = POINTWISE_SOFTPICK;
}

const struct stabilizer stabilizer_softpick = {
  .name = "softpick",
  .help = "rectified softmax: weights relu(e^s - 1) / sum |e^s - 1|, 0 for scores up to 0",
  .on_score = on_score,
  .flags = STABILIZER_WEIGHS,
};
