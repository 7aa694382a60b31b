/* observable.h - an observable records series of a run; each is one file observables/NAME.c and one row of list.am */
#ifndef MAXLOGIT_OBSERVE_OBSERVABLE_H
#define MAXLOGIT_OBSERVE_OBSERVABLE_H
#include "base/series.h"
#include "model/model.h"
#include "observe/options.h"
#include "training/optimizer.h"

/* One observable on one axis of the record. Each axis has its own batches. */
struct observer {
  const struct observable *observable;
  enum series_axis axis;
  struct model *model;
  struct updates *updates;
  const struct record_options *record;
  const struct tally *tally; /* of the axis's passes; for AXIS_SPECTRA, the step's */
  struct arena *arena;       /* lives as long as the observer */
  void *state;               /* state_size bytes, zeroed */
};

/* Decoding through a cache against the training form: the largest absolute difference between losses of a token,
   and for comparison the largest difference if every weight is changed by one rounding. */
struct decode_check {
  double difference, rounding;
};

/* The rows that an observable computes for one step. */
struct series_row;
struct observation {
  struct step_scalars now;   /* the step's learning rate */
  double batches;            /* number of batches in the tally */
  const struct report *read; /* the latest, see report_of */
  /* AXIS_SPECTRA: weights before the step's update, and the update (NULL: none follows), on the host, in the layout
     of params.values */
  const real *weights, *update_values;
  const real *momenta;                /* likewise, of the step's update: OBSERVABLE_MOMENTA */
  const struct decode_check *decoded; /* of these weights; NULL: not computed */
  /* one per series of the observable */
  struct series_row *row;
};
struct series_row {
  long width;    /* 0: not recorded on this axis */
  float *value;  /* [width] */
  double number; /* of a PER_STEP series, which has no `value` */
};
/* Store the row of series i: width values, `stride` apart. */
void observation_put(struct observation *, int i, const real *values, long stride);
void observation_put_number(struct observation *, int i, double value);

struct observable {
  const char *name, *help;
  unsigned flags; /* OBSERVABLE_DEFAULT, ... */
  /* ends with name NULL; if the series depend on options, use `make` instead */
  const struct series *series;
  const struct series *(*make)(void);
  size_t state_size;
  /* Is series i recorded with this model and these options? NULL: all are. Without series there is no observer. */
  int (*wanted)(const struct observer *, int i);
  /* Reserve columns of the report and other memory; may be NULL. Sums of the taps are in the report, which defines
     how micro-batches are reduced (report_add, report_column). */
  void (*declare)(struct observer *);
  /* Record operations at a point of the axis's programs; may be NULL. */
  void (*tap)(struct observer *, struct program *, enum point, int layer, const struct flow *);
  int (*read)(struct observer *, struct observation *, struct error *);
  void (*free)(struct observer *); /* may be NULL */
};
enum {
  OBSERVABLE_DEFAULT = 1,
  OBSERVABLE_ALWAYS = 2, /* commands need it */
  OBSERVABLE_WHOLE = 4,  /* needs whole sequences: not available with context parallelism */
  OBSERVABLE_MOMENTA = 8 /* reads the optimizer's momenta */
};
extern const struct observable *const observables[]; /* NULL-terminated, generated registry */
const struct observable *observable_find(const char *name);
const struct series *observable_series(const struct observable *);
#endif
