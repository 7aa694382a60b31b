/* qk_norm.h - shared by qk_norm, qk_norm_partial and k_norm: RMSNorm of every head of some of the parts
   Gains are attn.q_gain and attn.k_gain [Dh]. If content and rotary parts are separate, they are attn.qc_gain and
   attn.kc_gain [Dn], attn.qr_gain and attn.kr_gain [Dr]. All heads share them. */
#ifndef MAXLOGIT_TRAINING_STABILIZERS_QK_NORM_H
#define MAXLOGIT_TRAINING_STABILIZERS_QK_NORM_H
#include "model/stabilizer.h"

enum { ALL_ROLES = ~0u };
/* `roles`: the bits 1 << role of the parts that are normalized. `full`: over all heads together. */
void qk_norm_declare(struct stabilizer_context *, int layer, unsigned roles, int full);
void qk_norm_apply(struct stabilizer_context *, struct program *, int layer, struct qk_part *, int parts,
                   unsigned roles);
#endif
