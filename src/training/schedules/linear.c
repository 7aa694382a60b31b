/* linear.c - a straight line from 1 to `floor` */
#include "training/schedule.h"

struct linear_options {
  double floor;
};

static const struct option_row rows[] = {
  REAL_ROW(struct linear_options, floor, "0", 0, 1, "1", "factor reached at the end", 0), END_ROW};

static double factor(const void *options, long step, long steps)
{
  double floor = ((const struct linear_options *)options)->floor;
  return 1 - (1 - floor) * step / steps;
}

const struct schedule schedule_linear = {
  .name = "linear",
  .help = "linear decay from 1 to floor",
  .options = rows,
  .options_size = sizeof(struct linear_options),
  .factor = factor,
};
