/* none.c - no update at all: the null experiment, and the template of a new optimizer
   A new optimizer is a copy of this file, one row in list.am, and `record`: the calls that turn gradients and the
   states in state_names into updates. The shared code then does w <- w (1 - lr decay) - lr update. Without `record`
   the tensors keep their initial values. */
#include "training/optimizer.h"

const struct optimizer optimizer_none = {
  .name = "none",
  .help = "no update: the weights stay at their initial values",
};
