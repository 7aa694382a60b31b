/* none.c - no stabilizer: the null experiment, and the template of a new one
   A new stabilizer is a copy of this file, one row in list.am, and the hooks of struct stabilizer
   (model/stabilizer.h) that it needs: its own options, parameters (`declare`), a transformation of queries and keys
   (`on_qk`), a cap (`on_score`), a gate on heads' outputs (`on_heads`), factors on learning rates (`on_update`), a
   correction of the weights (`after_step`). Missing hooks do nothing. */
#include "model/stabilizer.h"

const struct stabilizer stabilizer_none = {
  .name = "none",
  .help = "no stabilizer",
};
