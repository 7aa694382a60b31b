/* observe.h - rows of the record: passes values of a run's observables to its recorder */
#ifndef MAXLOGIT_RUN_OBSERVE_H
#define MAXLOGIT_RUN_OBSERVE_H
#include "observe/observers.h"
#include "storage/recorder.h"

struct row_writer;
/* Declares every requested series with the recorder. */
struct row_writer *row_writer_new(struct observers *, struct recorder *);
void row_writer_free(struct row_writer *);

/* Write one row of an axis, from the last report read (observers_read). */
int row_writer_put(struct row_writer *, enum series_axis, const struct step_scalars *, double batches,
                   int with_update, struct error *);
#endif
