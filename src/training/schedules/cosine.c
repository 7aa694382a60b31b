/* cosine.c - half a cosine from 1 to `floor` (Loshchilov and Hutter, arXiv 1608.03983, eq. 5, one cycle) */
#include "training/schedule.h"
#include "base/elementary.h"

struct cosine_options {
  double floor;
};

static const struct option_row rows[] = {
  REAL_ROW(struct cosine_options, floor, "0.1", 0, 1, "1", "factor reached at the end", 0), END_ROW};

static double factor(const void *options, long step, long steps)
{
  double floor = ((const struct cosine_options *)options)->floor;
  double cosine, sine;
  same_turn(0.5 * (double)step / (double)steps, &cosine, &sine);
  return floor + (1 - floor) * 0.5 * (1 + cosine);
}

const struct schedule schedule_cosine = {
  .name = "cosine",
  .help = "cosine decay from 1 to floor",
  .options = rows,
  .options_size = sizeof(struct cosine_options),
  .factor = factor,
};
