/* watches.h - the observables of one run: what is wanted of each axis, and its rows */
#ifndef MAXLOGIT_OBSERVE_WATCHES_H
#define MAXLOGIT_OBSERVE_WATCHES_H
#include "observe/observable.h"

/* Declares what is wanted, with the model's optimisers there and before its programs are recorded: those that are
   recorded into the model's tallies are watched from now on. */
struct watches;
struct watches *watches_new(struct model *, struct updates *, const struct record_options *);
void watches_free(struct watches *);
/* The name of one of those chosen that wants whole sequences; NULL: there is none. */
const char *watches_whole(const char *names);
/* POINT_BEFORE_UPDATE: the batch has been seen, its weights are there still. */
void watches_before_update(struct watches *);

/* Where weights are shared out, of ranks that record nothing: their part of what rank 0 reads on AXIS_SPECTRA. */
void watches_lend(const struct watches *, int directions);

/* Is it watched? */
int watches_has(const struct watches *, const char *observable);
/* For the rows that are made from now on. */
void watches_decoded(struct watches *, struct decoded);

/* Every series that is wanted, of observables and of the model's stabilisers; its row is that which was read last. */
struct recorded {
  const struct series *series;
  const struct row *row;
};
const struct recorded *watches_recorded(const struct watches *, long *count);
/* Make the rows of one axis, from the report that was read last; the tally has added up so many batches. `directions`:
   an update is about to be applied (AXIS_SPECTRA). Where one fails the others have their rows still. */
int watches_read(struct watches *, enum series_axis, const struct step_scalars *, double batches,
                 int directions, struct error *);
#endif
