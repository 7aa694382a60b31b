/* observers.h - the observables of one run, by axis of the record, and their rows */
#ifndef MAXLOGIT_OBSERVE_OBSERVERS_H
#define MAXLOGIT_OBSERVE_OBSERVERS_H
#include "observe/observable.h"

/* Declare the selected observables. Call it after the optimizers exist and before the model's programs are recorded:
   programs that are recorded into the model's tallies later include the observers' operations. */
struct observers;
struct observers *observers_new(struct model *, struct updates *, const struct record_options *);
void observers_free(struct observers *);
/* The name of a selected observable that needs whole sequences; NULL if there is none. */
const char *observers_whole(const char *names);
/* Run the taps of POINT_BEFORE_UPDATE: the passes are done, the weights are not updated yet. */
void observers_before_update(struct observers *);

/* With sharded weights, ranks other than 0 send rank 0 the shards that it reads on AXIS_SPECTRA. Collective. */
void observers_lend(const struct observers *, int with_update);

/* Is this observable selected? */
int observers_have(const struct observers *, const char *observable);
/* Set the result of the decode check for later rows. */
void observers_set_decoded(struct observers *, struct decode_check);

/* Every recorded series, of observables and of the model's stabilizers, with its latest row. */
struct recorded {
  const struct series *series;
  const struct series_row *row;
};
const struct recorded *observers_recorded(const struct observers *, long *count);
/* Compute the rows of one axis from the latest report. `batches`: number of batches in the tally. `with_update`: an
   update is about to be applied (AXIS_SPECTRA). If one observable fails, the rows of the others are still computed.
   */
int observers_read(struct observers *, enum series_axis, const struct step_scalars *, double batches,
                   int with_update, struct error *);
#endif
