/* observable.h - what is recorded of a run: one file observables/NAME.c and one row of list.am each */
#ifndef MAXLOGIT_OBSERVE_OBSERVABLE_H
#define MAXLOGIT_OBSERVE_OBSERVABLE_H
#include "base/series.h"
#include "model/model.h"
#include "observe/options.h"
#include "training/optimizer.h"

/* One observable on one axis of the record: each axis has its own batches. */
struct observer {
  const struct observable *observable;
  enum series_axis axis;
  struct model *model;
  struct updates *updates;
  const struct record_options *record;
  const struct tally *tally; /* of the axis's passes; of the spectra, the step's */
  struct arena *arena;       /* lives as long as the watch */
  void *state;               /* state_size bytes, zeroed */
};

/* The same tokens by themselves: the largest absolute difference of a loss when they come through a cache, and when
   every weight is off by one rounding. */
struct decode_check {
  double difference, rounding;
};

/* The rows of one observable that are being made, and of what step. */
struct series_row;
struct observation {
  struct step_scalars now;   /* the step's learning rate */
  double batches;            /* that the tally has added up */
  const struct report *read; /* read last: see report_of */
  /* AXIS_SPECTRA: the weights before the step's update and its updates (NULL: no update follows) on the host, as
     params.values lies */
  const real *weights, *update_values;
  const struct decode_check *decoded; /* of these weights; NULL: they were not */
  /* by the observable's series */
  struct series_row *row;
};
struct series_row {
  long width;    /* 0: not wanted on this axis */
  float *value;  /* [width] */
  double number; /* of a PER_STEP series, which has no value */
};
/* Give the row of series i: width values, one every `stride`. */
void observation_put(struct observation *, int i, const real *values, long stride);
void observation_put_number(struct observation *, int i, double value);

struct observable {
  const char *name, *help;
  unsigned flags; /* OBSERVABLE_DEFAULT, ... */
  /* ends with name NULL; one that makes its rows has `make` instead */
  const struct series *series;
  const struct series *(*make)(void);
  size_t state_size;
  /* Is series i wanted, given the model and the record's options? NULL: all are. No series, no watch. */
  int (*wanted)(const struct observer *, int i);
  /* Room in the report, other memory; may be NULL. What its taps add up lies in the report, which knows how the parts
     of a batch are joined (report_add, report_column). */
  void (*declare)(struct observer *);
  /* A point of the programs whose passes the axis shows; may be NULL. */
  void (*tap)(struct observer *, struct program *, enum point, int layer, const struct flow *);
  int (*read)(struct observer *, struct observation *, struct error *);
  void (*free)(struct observer *); /* may be NULL */
};
enum {
  OBSERVABLE_DEFAULT = 1,
  OBSERVABLE_ALWAYS = 2, /* commands need it */
  OBSERVABLE_WHOLE = 4   /* wants whole sequences: not where the context is cut over ranks */
};
extern const struct observable *const observables[]; /* NULL-terminated, generated registry */
const struct observable *observable_find(const char *name);
const struct series *observable_series(const struct observable *);
#endif
