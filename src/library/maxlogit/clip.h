/* clip.h - the factors of QK-Clip from max logits, by the rules of `maxlogit help qk_clip`
   After the optimizer's step, with S the max logit of a head in that step's forward pass (Kimi K2, arXiv 2507.20534
   Alg. 1): where S > tau, gamma = tau / S, and the head's rows of the query and key weights (and of their biases)
   shrink so that its logits do by gamma. S <= tau gives 1, so does an S that is not finite. The same bits on every
   processor, those of `maxlogit run`. */
#ifndef MAXLOGIT_CLIP_H
#define MAXLOGIT_CLIP_H
#include "maxlogit/error.h"
#ifdef __cplusplus
extern "C" {
#endif

enum maxlogit_clip_scope {
  MAXLOGIT_SCOPE_HEAD,
  MAXLOGIT_SCOPE_LAYER
}; /* every head its own S; the layer's largest */

/* Where a group of heads shares a key; g is the smallest gamma of the group. */
enum maxlogit_clip_gqa {
  MAXLOGIT_GQA_Q_ONLY,      /* q gamma, k 1: exact for every head */
  MAXLOGIT_GQA_GROUP_MAX,   /* q g^alpha, k g^(1-alpha): all heads shrink with the worst (Megatron-LM) */
  MAXLOGIT_GQA_OWN_Q_MIN_K, /* q gamma^alpha, k g^(1-alpha): exact for the worst head alone */
  MAXLOGIT_GQA_COMPENSATED  /* q gamma g^(alpha-1), k g^(1-alpha): exact for every head; some q grow */
};

/* Where all heads share a rotary key (MLA). */
enum maxlogit_clip_mla {
  MAXLOGIT_MLA_EXACT,    /* rotary queries gamma, that key 1: Kimi K2 */
  MAXLOGIT_MLA_KR_LAYER, /* rotary queries gamma^alpha, that key the layer's smallest gamma^(1-alpha) */
  MAXLOGIT_MLA_KR_HEAD   /* rotary queries gamma^alpha, that key the product of all gamma^(1-alpha) */
};

struct maxlogit_clip {
  double tau, alpha; /* > 0; 0 to 1: q's share of the exponent (0.5) */
  enum maxlogit_clip_scope scope;
  enum maxlogit_clip_gqa gqa;
  enum maxlogit_clip_mla mla;
};

/* One layer: max_logit [heads]; head h uses key h kv_heads / heads. Factors for rows: q [heads], k [kv_heads].
   gamma [heads] (may be NULL): what becomes of each head's logits. MAXLOGIT_USAGE: kv_heads does not divide heads, or a
   number out of its range. */
MAXLOGIT_API int maxlogit_clip_factors(const struct maxlogit_clip *clip, const float *max_logit, long heads,
                                       long kv_heads, float *q, float *k, float *gamma,
                                       struct maxlogit_error *error);

/* The same of multi-head latent attention: content q and k [heads], rotary q_rope [heads], and the key k_rope [1] that
   all heads share. */
MAXLOGIT_API int maxlogit_clip_factors_mla(const struct maxlogit_clip *clip, const float *max_logit,
                                           long heads, float *q, float *k, float *q_rope, float *k_rope,
                                           float *gamma, struct maxlogit_error *error);

#ifdef __cplusplus
}
#endif
#endif
