/* heads.h - what mha and gqa share: heads side by side in w_q [H*Dh,D], w_k and w_v [G*Dh,D], w_o [D,H*Dh] */
#ifndef MAXLOGIT_MODEL_ATTENTION_HEADS_H
#define MAXLOGIT_MODEL_ATTENTION_HEADS_H
#include "model/attention.h"

/* After kv_heads is settled: the rest of what must fit. */
int heads_resolve(struct model_options *, struct error *);
void heads_declare(struct model *, int layer);
struct tensor *heads_forward(struct model *, struct program *, int layer, const struct layer_inputs *,
                             struct tensor *x, struct tensor *residual, struct tensor **stats);
int heads_logit_blocks(const struct model *, int layer, int head, struct logit_block out[MAX_LOGIT_BLOCKS]);
long heads_rope_dim(const struct model_options *);
#endif
