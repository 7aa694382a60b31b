/* none.c - no stabilizer: the null experiment, and the template of a new one
   A stabilizer is this file under another name, one row in list.am, and whichever hooks of struct
   stabilizer (model/stabilizer.h) it needs: options of its own, parameters (`declare`), a transformation of
   queries and keys (`on_qk`), a cap (`on_score`), a gate on heads' outputs (`on_heads`), factors on learning
   rates (`on_update`), a correction of the weights (`after_step`). A hook that is left out does nothing. */
#include "model/stabilizer.h"

const struct stabilizer stabilizer_none = {
  .name = "none",
  .help = "no stabilizer",
};
