/* schedule.h - learning-rate schedules: one file and one row each */
#ifndef MAXLOGIT_TRAINING_SCHEDULE_H
#define MAXLOGIT_TRAINING_SCHEDULE_H
#include "base/option.h"

struct schedule {
  const char *name, *help;
  const struct option_row *options;
  size_t options_size;
  /* factor on train.lr at step 0..steps-1, before warm-up min(1, (step+1)/warmup) */
  double (*factor)(const void *options, long step, long steps);
};
extern const struct schedule *const schedules[];
const struct schedule *schedule_find(const char *name);
double schedule_rate(const struct schedule *, const void *options, double lr, long warmup, long step,
                     long steps);
#endif
