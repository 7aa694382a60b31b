/* observe.h - rows of the record: what a run's observables have read goes to its recorder */
#ifndef MAXLOGIT_RUN_OBSERVE_H
#define MAXLOGIT_RUN_OBSERVE_H
#include "observe/watches.h"
#include "storage/recorder.h"

struct observer;
/* Declares every series that is wanted with the recorder. */
struct observer *observer_new(struct watches *, struct recorder *);
void observer_free(struct observer *);

/* One row of an axis, from the report that was read last (watches_read). */
int observer_row(struct observer *, enum series_axis, const struct step_scalars *, double batches,
                 int directions, struct error *);
/* The same of the step's axis: recorded, or put aside (recorder_aside) until `first_step` is past it. */
enum { OBSERVE_RECORDED = -1 };
void observer_step(struct observer *, const struct step_scalars *, long first_step);
#endif
