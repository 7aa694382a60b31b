/* dense.h - record.dense: what is costly, at every step while a head's max logit is high
   On from the step whose report has a head above the level (a NaN is above all), until no head has been above it for
   `around` steps: events `dense` and `dense_end`. A step's probe and spectra come before its report, so that theirs are
   dense from the step after. */
#ifndef MAXLOGIT_RUN_DENSE_H
#define MAXLOGIT_RUN_DENSE_H
#include "run/health.h"
#include "config/config.h"

struct dense {
  double level; /* NaN: never */
  long around;
  long quiet; /* steps without a head above the level since the last that had one; -1: off */
};

/* The level is record.dense times the run's threshold (an option `tau` of a stabiliser, in nat), or times
   record.dense_level where it has none. */
void dense_init(struct dense *, const struct config *, const struct record_options *);
int dense_wanted(const struct dense *); /* may it be on some time? */
int dense_on(const struct dense *);
/* Of the rows up to this step that are not recorded, those from the given one on are to be kept; beyond it: none is. */
long dense_first(const struct dense *, long step);
/* After a step's report: on, off, or as it was; told as events of that step. Returns 1 where it has just begun. */
int dense_look(struct dense *, struct health *, const struct outcome *);
#endif
