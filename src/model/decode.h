/* decode.h - decoding: one or several positions at a time, over a cache of the earlier ones */
#ifndef MAXLOGIT_MODEL_DECODE_H
#define MAXLOGIT_MODEL_DECODE_H
#include "numerics/tensor.h"

/* materialised  keys and values by head (or group)
   absorbed      the latents and the shared rotary key, and, where keys are normalized, one 1/rms by head:
                 the matrices from latent to keys and values are absorbed into queries and outputs */
enum decode_form { DECODE_MATERIALISED, DECODE_ABSORBED };
struct decoding {
  enum decode_form form;
  long length;         /* positions that the cache has room for */
  struct tensor *slot; /* int [N]: place of each new position in its sequence */
  long cached;         /* numbers cached per position, so far */
  int refused;         /* a stabilizer has changed absorbed keys in another way than qk_part_norm */
};
#endif
