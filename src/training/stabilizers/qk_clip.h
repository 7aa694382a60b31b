/* qk_clip.h - the factors of QK-Clip from max logits: recorded by the stabilizer, and for maxlogit/clip.h */
#ifndef MAXLOGIT_TRAINING_STABILIZERS_QK_CLIP_H
#define MAXLOGIT_TRAINING_STABILIZERS_QK_CLIP_H
#include "model/stabilizer.h"

enum { QK_CLIP_HEAD, QK_CLIP_LAYER };                                                 /* scope */
enum { QK_CLIP_GROUP_MAX, QK_CLIP_OWN_Q_MIN_K, QK_CLIP_Q_ONLY, QK_CLIP_COMPENSATED }; /* gqa */
extern const char *const qk_clip_gqa_rules[];              /* by the enum above, NULL-terminated */
enum { QK_CLIP_EXACT, QK_CLIP_KR_LAYER, QK_CLIP_KR_HEAD }; /* mla */

struct qk_clip {
  double tau, alpha;
  long maximum, scope, gqa, mla, when, momentum, statistic;
};

/* All are [1, L*H], except for the numbers [1]. */
struct qk_clip_factors {
  const struct qk_clip *options;
  int heads;                     /* of a layer */
  const int *group;              /* [heads]: which of them share a key; NULL: none */
  struct tensor *logit;          /* S, [L*H,1] */
  struct tensor *gamma, *lowest; /* own factor; the smallest of the group */
  struct tensor *alpha, *rest;   /* alpha, 1 - alpha */
};
/* Record: gamma of every head; takes three numbers of the run. */
struct qk_clip_factors qk_clip_factors(struct program *, struct numbers *, const struct qk_clip *,
                                       struct tensor *logit, int heads, const int *group);
/* Record: the factors of the rows of this role, by head. NULL: the rows are not scaled. */
struct tensor *qk_clip_factor(struct program *, const struct qk_clip_factors *, enum role);
/* Record: the factors of the heads' logits, [1, L*H]. */
void qk_clip_logit_scale(struct program *, const struct qk_clip_factors *, struct tensor *to);
/* Record: the clip of all weights by S = logit [L*H,1]; the factors of the heads' logits go to the first series. */
void qk_clip_record(struct stabilizer_context *, struct program *, const struct qk_clip *,
                    struct tensor *logit);
#endif
