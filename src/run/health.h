/* health.h - checks of a step's numbers: values that are not finite, loss spikes, the peak; recorded as events */
#ifndef MAXLOGIT_RUN_HEALTH_H
#define MAXLOGIT_RUN_HEALTH_H
#include "run/outcome.h"
#include "run/trainer.h"
#include "storage/recorder.h"

enum { SPIKE_WINDOW = 64 };

struct health {
  struct recorder *recorder; /* receives the events */
  const long *step;          /* the step of the events */
  struct peak peak;
  real spike_window[SPIKE_WINDOW]; /* the latest finite losses; saved in checkpoints */
  long layers, heads;
  long *told_at; /* step + 1 of the latest nonfinite event, [layers+1, heads+1], from layer -1 and head -1 */
};

void health_init(struct health *, struct arena *, const struct model *, const long *step);
/* Record an event of the step. Nonfinite events are recorded once per step and place. */
void health_event(struct health *, const char *kind, int layer, int head, double value);
/* Record events for values that are not finite. */
void health_finite(struct health *, const struct outcome *, double grad_norm);
/* Record an event if the loss exceeds the median of the latest losses by more than `limit` of their median absolute
   deviations; 0: never. */
void health_spike(struct health *, double loss, double limit);
/* Record the events of stabilizers' series, from the last report read. */
void health_series(struct health *, const struct model *);
void health_peak(struct health *, const struct outcome *);
#endif
