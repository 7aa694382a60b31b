/* none.c - no update at all: the null experiment, and the template of a new optimizer
   An optimizer is this file under another name, one row in list.am, and `record`: the calls from gradients (and
   whatever state_names asks for) to updates. The shared code then does w <- w (1 - lr decay) - lr update.
   Without `record` the tensors stay as they were drawn. */
#include "training/optimizer.h"

const struct optimizer optimizer_none = {
  .name = "none",
  .help = "no update: the weights stay at their initial values",
};
