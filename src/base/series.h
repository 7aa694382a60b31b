/* series.h - definition of recorded series: name, unit, shape, meaning */
#ifndef MAXLOGIT_BASE_SERIES_H
#define MAXLOGIT_BASE_SERIES_H

enum series_shape {
  PER_STEP,   /* [step]               stored as float64 */
  PER_LAYER,  /* [step, layer]        the rest as float32 */
  PER_HEAD,   /* [step, layer, head] */
  PER_EXPERT, /* [step, layer, expert] */
  PER_TENSOR /* [step, tensor]: every matrix (embedding and head too), in the order of the model's parameters */
};

/* Step axes: series on one axis are written at the same steps. */
enum series_axis { AXIS_STEP, AXIS_SPECTRA, AXIS_VAL, AXIS_PROBE, AXIS_COUNT };

/* The event that values of a series indicate. */
enum series_event {
  EVENT_NONE,
  EVENT_CLIP,     /* below 1: "clip" */
  EVENT_NONFINITE /* not finite: "nonfinite" */
};

struct series {
  const char *name; /* below /series: "attn/max_logit" */
  enum series_shape shape;
  enum series_axis axis;
  const char *unit;       /* "1" if none, "nat" */
  const char *long_name;  /* plot label */
  const char *definition; /* exact meaning */
  enum series_event event;
};

/* The maximal number of axes after the step, for a series of another program. */
enum { FREE_AXES = 2 };
#endif
