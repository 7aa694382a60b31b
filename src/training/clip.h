/* clip.h - "clip where it is unstable" (kexue.fm/archives/11126): a statistic, and the weights that make it
   A new clip is one file: a hook that gives the tensor that grows to model_watch, and an after_step that
   names the weights; stabilizers/max_output_clip.c is the pattern. What both clips share is here. */
#ifndef MAXLOGIT_CLIP_H
#define MAXLOGIT_CLIP_H
#include "model/model.h"

/* tau / value where the value is above tau, else 1. A value that is not finite gives 1 and a `nonfinite`
   event. */
double clip_gamma(struct stabilizer_context *, int layer, int head, double value, double tau);
/* Multiply a factor's rows by c and, with `momentum`, the optimiser's first moments of these rows too. */
void clip_weights(struct stabilizer_context *, const struct factor *, double c, int momentum);
/* A `clip` event where gamma < 1. */
void clip_note(struct stabilizer_context *, int layer, int head, double gamma);

/* The share of a weight: it takes gamma^exponent. Where the statistic is a product of the weights (to the
   power of 1), exponents that add up to 1 bring it down to tau. */
struct clip_share {
  struct factor factor;
  double exponent;
};
/* All of it for one layer (head -1): test, shares, event. Returns gamma. */
double clip_layer(struct stabilizer_context *, int layer, double value, double tau, const struct clip_share *,
                  int count);
#endif
