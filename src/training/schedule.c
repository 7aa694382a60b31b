#include "training/schedule.h"

double schedule_rate(const struct schedule *schedule, const void *options, double lr, long warmup, long step,
                     long steps)
{
  double rate = lr * schedule->factor(options, step, steps);
  return step + 1 < warmup ? rate * (step + 1) / warmup : rate;
}
