/* wsd.c - warm-up, stable, decay (MiniCPM, arXiv 2404.06395 sec. 4), here with a linear decay */
#include "training/schedule.h"

struct wsd_options {
  double decay, floor;
};

static const struct option_row rows[] = {
  REAL_ROW(struct wsd_options, decay, "0.2", 0, 1, "1", "share of the run, at its end, that decays", 0),
  REAL_ROW(struct wsd_options, floor, "0", 0, 1, "1", "factor reached at the end", 0), END_ROW};

static double factor(const void *options, long step, long steps)
{
  const struct wsd_options *o = options;
  double left = 1 - (double)step / steps;
  return left >= o->decay ? 1 : o->floor + (1 - o->floor) * left / o->decay;
}

const struct schedule schedule_wsd = {
  .name = "wsd",
  .help = "warm-up, stable, decay: constant, then linear decay to floor in the last part of the run",
  .options = rows,
  .options_size = sizeof(struct wsd_options),
  .factor = factor,
};
