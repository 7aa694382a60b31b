/* attention.h - an attention variant: attention/NAME.c, one file and one row */
#ifndef MAXLOGIT_MODEL_ATTENTION_H
#define MAXLOGIT_MODEL_ATTENTION_H
#include "model/params.h"
#include "model/pass.h"

enum { MAX_LOGIT_BLOCKS = 8, MAX_PARTS = 8 };

/* A block of rows of a tensor that is a linear factor of one head's logits (design D5, science 1.4-1.6). */
enum role {
  ROLE_Q_HEAD,
  ROLE_K_HEAD,
  ROLE_K_GROUP,
  ROLE_Q_ROPE,
  ROLE_K_ROPE_SHARED,
  ROLE_OUTPUT /* w_o: a factor of no logit, but of attention's contribution to the residual stream */
};
static inline int role_is_query(enum role role) { return role == ROLE_Q_HEAD || role == ROLE_Q_ROPE; }
static inline int role_is_rotary(enum role role) { return role == ROLE_Q_ROPE || role == ROLE_K_ROPE_SHARED; }
struct logit_block {
  enum role role;
  struct param *weight; /* rows [row, row+rows) belong to the head or its group */
  struct param *bias;   /* [1, out]: columns [row, row+rows); NULL if none */
  long row, rows;
  struct param *gain; /* of the RMSNorm that yields the weight's input; NULL: model.norm_gain = none */
};

/* A part of queries or keys between projection and score, for on_qk: x [N, heads*dim]. */
struct qk_part {
  enum role role;
  struct tensor *x;
  long heads, dim;
  /* Decoding from a latent: only the keys of the new position are formed, so a norm of keys is stored here for the
     score: 1/rms [N, heads] and gain [dim]. See qk_part_norm. */
  int absorbed;
  struct tensor *rstd, *gain;
};
/* RMSNorm of every head. Stabilizers must use it to normalize, so that absorbed keys can be decoded. */
void qk_part_norm(struct program *, struct qk_part *, struct tensor *gain, struct tensor *eps);

struct attention {
  const char *name, *help;
  int (*resolve)(struct model_options *, struct error *); /* derives shapes; may be NULL */
  /* its tensors, into layer[layer]: w_o, b_o and attention */
  void (*declare)(struct model *, int layer);
  /* x [N,D] normed input, residual [N,D]; returns residual + attention(x) w_o^T; *stats [H,4] */
  struct tensor *(*forward)(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *x, struct tensor *residual, struct tensor **stats);
  int (*logit_blocks)(const struct model *, int layer, int head,
                      struct logit_block out[MAX_LOGIT_BLOCKS]); /* count */
  long (*rope_dim)(const struct model_options *);                /* dimension that RoPE turns */
  int absorbs;                                                   /* has DECODE_ABSORBED */
};
extern const struct attention *const attentions[]; /* NULL-terminated, generated registry */
const struct attention *attention_find(const char *name);

/* Apply the stabilizers to queries and keys, then to the score ... */
void model_on_qk(struct model *, struct program *, int layer, const struct layer_inputs *, struct qk_part *,
                 int parts);
void model_on_score(struct model *, int layer, struct attention_spec *);
/* ... scale x [N, H*D] by s[h] ln n, with n the number of keys that the row attends to in this layer, s [1,H] ... */
struct tensor *model_ssmax_scale(struct model *, struct program *, int layer, const struct layer_inputs *,
                                 struct tensor *x, struct tensor *s);
/* ... attend: op_attention or, when decoding, the same over the cache ... */
struct tensor *model_attend(struct model *, struct program *, int layer, const struct layer_inputs *,
                            struct tensor *q, struct tensor *k, struct tensor *v,
                            const struct attention_spec *, struct tensor **stats);
/* ... or, absorbed: queries [N, H*(R+Dr)], latents [N,R] and the rotary key [N,Dr] that all heads share; content
   scores are multiplied by rstd [N,H] (may be NULL); returns sums of latents [N, H*R] ... */
struct tensor *model_attend_latent(struct model *, struct program *, int layer, const struct layer_inputs *,
                                   struct tensor *q, struct tensor *latent, struct tensor *rotary,
                                   struct tensor *rstd, const struct attention_spec *, struct tensor **stats);
/* ... and return residual + y w_o^T + b_o. Stabilizers may transform y, given attention's input x, and may read the
   added term. */
int model_hears_output(const struct model *);
struct tensor *model_output(struct model *, struct program *, int layer, struct tensor *x, struct tensor *y,
                            struct tensor *residual);
/* Multiply rows [row, row+rows) of a block's weight (and bias) by c, immediately. */
void logit_block_scale(struct model *, const struct logit_block *, double c);
#endif
