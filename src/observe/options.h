/* options.h - section [record] */
#ifndef MAXLOGIT_OBSERVE_OPTIONS_H
#define MAXLOGIT_OBSERVE_OPTIONS_H
#include "base/option.h"

struct record_options {
  const char *path; /* "": runs/<preset or optimizer>-<id>.h5 */
  long overwrite, every, spectra_every, batches;
  const char *observe; /* names joined by +; default: all with OBSERVABLE_DEFAULT */
  long probe_every;    /* steps between passes over the fixed probe batch; 0 off */
  double level;        /* of attn/share_above; 0 off */
  long pairs, bound;   /* probe/q_norm, k_norm, cosine; attn/bound_tightness */
};
extern const struct option_row record_rows[];
#endif
