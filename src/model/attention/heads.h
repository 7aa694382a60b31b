/* heads.h - shared by mha and gqa: heads side by side in w_q [H*Dh,D], w_k and w_v [G*Dh,D], w_o [D,H*Dh] */
#ifndef MAXLOGIT_MODEL_ATTENTION_HEADS_H
#define MAXLOGIT_MODEL_ATTENTION_HEADS_H
#include "model/attention.h"

/* Check the remaining options, once kv_heads is set. */
int heads_resolve(struct model_options *, struct error *);
void heads_declare(struct model *, int layer);
struct tensor *heads_forward(struct model *, struct program *, int layer, const struct layer_inputs *,
                             struct tensor *x, struct tensor *residual, struct tensor **stats);
int heads_logit_blocks(const struct model *, int layer, int head, struct logit_block out[MAX_LOGIT_BLOCKS]);
long heads_rope_dim(const struct model_options *);
#endif
