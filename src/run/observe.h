/* observe.h - turns what a step saw into rows of the record: core series, plug-ins' series, spectra */
#ifndef MAXLOGIT_OBSERVE_H
#define MAXLOGIT_OBSERVE_H
#include "run/pass.h"
#include "storage/config.h"
#include "storage/recorder.h"
#include "training/optimizer.h"

struct observer;
/* Declares every series that is wanted with the recorder . */
struct observer *observer_new(struct model *, struct updates *, struct recorder *,
                              const struct record_options *);
void observer_free(struct observer *);

/* One row of the step axis: recorded, or put aside (recorder_aside) until `first_step` is past it. */
enum { OBSERVE_RECORDED = -1 };
void observer_step(struct observer *, long step, const struct pass *, double lr, double grad_norm,
                   long first_step);
/* Keep the weights that the step's batch saw, before anything changes them: where a row of the spectra axis is due. */
void observer_weights(struct observer *);
/* One row of the spectra axis: weights now and, where there is a pass over the step's batch, what it saw and the
   update about to be applied. */
int observer_spectra(struct observer *, long step, const struct pass *, struct error *);
/* One row of the validation axis; the pass: what modules lost, by layer. */
void observer_val(struct observer *, long step, double loss, const struct pass *);
void observer_probe(struct observer *, long step, const struct pass *);
#endif
