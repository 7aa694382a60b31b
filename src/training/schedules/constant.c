/* constant.c - the rate stays; the template of a schedule */
#include "training/schedule.h"

static double factor(const void *options, long step, long steps)
{
  (void)options, (void)step, (void)steps;
  return 1;
}

const struct schedule schedule_constant = {
  .name = "constant",
  .help = "constant learning rate after warm-up",
  .factor = factor,
};
