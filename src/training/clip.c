/* clip.c - the threshold test, the scaling and the event of every clip */
#include "training/clip.h"
#include <math.h>
#include "training/optimizer.h"

double clip_gamma(struct stabilizer_context *c, int layer, int head, double value, double tau)
{
  if (isfinite(value)) return value > tau ? tau / value : 1;
  c->events->put(c->events->context, "nonfinite", layer, head, value);
  return 1;
}

void clip_weights(struct stabilizer_context *c, const struct factor *f, double factor, int momentum)
{
  if (factor == 1) return;
  factor_scale(c->model, f, factor);
  if (momentum) updates_scale_momentum(c->updates, f, factor);
}

void clip_note(struct stabilizer_context *c, int layer, int head, double gamma)
{
  if (gamma < 1) c->events->put(c->events->context, "clip", layer, head, gamma);
}

double clip_layer(struct stabilizer_context *c, int layer, double value, double tau,
                  const struct clip_share *share, int count)
{
  double gamma = clip_gamma(c, layer, -1, value, tau);
  for (int i = 0; i < count; i++) clip_weights(c, &share[i].factor, pow(gamma, share[i].exponent), 0);
  clip_note(c, layer, -1, gamma);
  return gamma;
}
