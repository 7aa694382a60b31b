/* attention.h - the largest logits of attention, head by head, and the entropy of its weights, from queries and keys
   The logits are scale q_i . k_j over the pairs that a mask of ranges allows: what enters the softmax, before any cap.
   Tile by tile: never [queries, keys] in memory. Sums are in float32. The caller's thread alone computes; several may,
   at once. */
#ifndef MAXLOGIT_ATTENTION_H
#define MAXLOGIT_ATTENTION_H
#include "maxlogit/error.h"
#ifdef __cplusplus
extern "C" {
#endif

enum maxlogit_number { MAXLOGIT_FLOAT32, MAXLOGIT_FLOAT16, MAXLOGIT_BFLOAT16 };

struct maxlogit_attention {
  long batch, heads, kv_heads; /* head h uses key h kv_heads / heads */
  long queries, keys, size;
  enum maxlogit_number number; /* of q and k */
  const void *q;               /* [batch, heads, queries, size], rows contiguous */
  const void *k;               /* [batch, kv_heads, keys, size] */
  long q_stride[3],
    k_stride[3];           /* numbers from one batch, head, position to the next; all 0: as above, dense */
  double scale;            /* 0: 1 / sqrt(size) */
  int causal;              /* query i sees keys up to i + keys - queries */
  long window;             /* > 0: and of these only the last `window` */
  const long *first, *end; /* [batch, queries]: query i sees keys first .. end-1, too; NULL: 0, keys */
};

/* max_logit, max_abs_logit [heads], over the batch: -infinity (0) where no pair is allowed, NaN where one is NaN.
   entropy [heads]: mean over the queries that see a key of -sum w ln w, in nat; NaN where there is none. Each may be
   NULL; without entropy it is ten times as fast. MAXLOGIT_USAGE: sizes that do not fit. */
MAXLOGIT_API int maxlogit_attention_maxima(const struct maxlogit_attention *attention, float *max_logit,
                                           float *max_abs_logit, double *entropy,
                                           struct maxlogit_error *error);

#ifdef __cplusplus
}
#endif
#endif
