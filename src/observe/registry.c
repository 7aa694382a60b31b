/* registry.c - the generated table of observables, and the options of the record */
#include "base/registry.h"
#include "observe/observable.h"

REGISTRY(observable)

const struct series *observable_series(const struct observable *o) { return o->make ? o->make() : o->series; }

#define R struct record_options
const struct option_row record_rows[] = {
  TEXT_ROW(R, path, "", "the run file; empty: runs/<preset or optimizer>-<id>.h5",
           OPTION_FREE | OPTION_NUMBER),
  BOOL_ROW(R, overwrite, "0", "replace an existing run file", OPTION_FREE | OPTION_NUMBER),
  INT_ROW(R, every, "1", 1, 1e12, "steps", "steps between rows of the series", OPTION_FREE | OPTION_NUMBER),
  TEXT_ROW(R, observe, "default", "observables to record, joined by +: see `maxlogit list observable`",
           OPTION_LIST | OPTION_FREE | OPTION_STRUCTURE),
  INT_ROW(R, spectra_every, "50", 0, 1e12, "steps", "steps between spectra of weights and updates; 0: off",
          OPTION_FREE),
  INT_ROW(R, probe_every, "0", 0, 1e12, "steps", "steps between passes over the fixed probe batch; 0: off",
          OPTION_FREE),
  REAL_ROW(R, level, "0", 0, 1e30, "nat",
           "record the share of logits above this level (one pass over all pairs); 0: off",
           OPTION_FREE | OPTION_STRUCTURE),
  BOOL_ROW(R, pairs, "0", "record |q|, |k| and their cosine at the largest logit, with record.probe_every",
           OPTION_FREE),
  BOOL_ROW(R, bound, "0",
           "record max logits divided by their bound from weight norms, with record.spectra_every",
           OPTION_FREE),
  BOOL_ROW(R, batches, "0", "store the token ids of every step", OPTION_FREE | OPTION_NUMBER),
  END_ROW};
