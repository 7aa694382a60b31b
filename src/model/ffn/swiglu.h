/* swiglu.h - the dense feed-forward block, for kinds that have it in some of their layers */
#ifndef MAXLOGIT_MODEL_FFN_SWIGLU_H
#define MAXLOGIT_MODEL_FFN_SWIGLU_H
#include "model/pass.h"

void swiglu_declare(struct model *, int layer);
struct tensor *swiglu_forward(struct model *, struct program *, int layer, const struct layer_inputs *,
                              struct tensor *x, struct tensor *residual);
#endif
