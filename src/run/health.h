/* health.h - what a step's numbers say of the run: not finite, a spike, the peak; told as events */
#ifndef MAXLOGIT_RUN_HEALTH_H
#define MAXLOGIT_RUN_HEALTH_H
#include "run/outcome.h"
#include "run/trainer.h"
#include "storage/recorder.h"

enum { SPIKE_WINDOW = 64 };

struct health {
  struct recorder *recorder; /* takes the events */
  const long *step;          /* that they belong to */
  struct peak peak;
  real spike_window[SPIKE_WINDOW]; /* the latest finite losses; saved in checkpoints */
  long layers, heads;
  long *told_at; /* [layers+1, heads+1], from layer -1 and head -1: the latest nonfinite event's step, + 1 */
};

void health_init(struct health *, struct arena *, const struct model *, const long *step);
/* An event of the step; what is not finite is told once a step and place. */
void health_event(struct health *, const char *kind, int layer, int head, double value);
/* Events for what is not finite. */
void health_finite(struct health *, const struct outcome *, double grad_norm);
/* A loss above median + `limit` (median absolute deviation) of the latest losses is an event; 0: never. */
void health_spike(struct health *, double loss, double limit);
/* The events that stabilizers' series tell, from the report that was read last. */
void health_series(struct health *, const struct model *);
void health_peak(struct health *, const struct outcome *);
#endif
