/* observers.h - the observables of one run: what is wanted of each axis, and its rows */
#ifndef MAXLOGIT_OBSERVE_OBSERVERS_H
#define MAXLOGIT_OBSERVE_OBSERVERS_H
#include "observe/observable.h"

/* Declares what is wanted, with the model's optimisers there and before its programs are recorded: those that are
   recorded into the model's tallies are watched from now on. */
struct observers;
struct observers *observers_new(struct model *, struct updates *, const struct record_options *);
void observers_free(struct observers *);
/* The name of one of those chosen that wants whole sequences; NULL: there is none. */
const char *observers_whole(const char *names);
/* POINT_BEFORE_UPDATE: the batch has been seen, its weights are there still. */
void observers_before_update(struct observers *);

/* Where weights are shared out, of ranks that record nothing: their part of what rank 0 reads on AXIS_SPECTRA. */
void observers_lend(const struct observers *, int with_update);

/* Is it watched? */
int observers_have(const struct observers *, const char *observable);
/* For the rows that are made from now on. */
void observers_set_decoded(struct observers *, struct decode_check);

/* Every series that is wanted, of observables and of the model's stabilisers; its row is that which was read last. */
struct recorded {
  const struct series *series;
  const struct series_row *row;
};
const struct recorded *observers_recorded(const struct observers *, long *count);
/* Make the rows of one axis, from the report that was read last; the tally has added up so many batches. `updates`:
   an update is about to be applied (AXIS_SPECTRA). Where one fails the others have their rows still. */
int observers_read(struct observers *, enum series_axis, const struct step_scalars *, double batches,
                   int with_update, struct error *);
#endif
