/* series.h - what is recorded, said once: name, unit, shape, meaning */
#ifndef MAXLOGIT_SERIES_H
#define MAXLOGIT_SERIES_H

enum series_shape {
  PER_STEP,  /* [step]               stored as float64 */
  PER_LAYER, /* [step, layer]        the rest as float32 */
  PER_HEAD,  /* [step, layer, head] */
  PER_TENSOR /* [step, tensor]: every matrix (embedding and head too), in the order of the model's parameters */
};

/* Step axes: series on one axis are written at the same steps. */
enum series_axis { AXIS_STEP, AXIS_SPECTRA, AXIS_VAL, AXIS_PROBE, AXIS_COUNT };

struct series {
  const char *name; /* below /series: "attn/max_logit" */
  enum series_shape shape;
  enum series_axis axis;
  const char *unit;       /* "1" if none, "nat" */
  const char *long_name;  /* plot label */
  const char *definition; /* exact meaning */
};

/* Where plug-ins report events; `layer` and `head` are -1 where they do not apply. */
struct event_sink {
  void (*put)(void *context, const char *kind, int layer, int head, double value);
  void *context;
};

#endif
