/* recorder.h - the record of a run: rows in memory, whole snapshots in RUN.h5, later rows in RUN.journal
   Layout: design 3.5. A recorder owns both files (storage/journal.h) and the lock. */
#ifndef MAXLOGIT_STORAGE_RECORDER_H
#define MAXLOGIT_STORAGE_RECORDER_H
#include "base/series.h"
#include "config/config.h"

struct run_facts { /* what goes into /code, axes and root besides the configuration */
  const char *id, *device, *data, *data_text;
  long layers, heads, experts; /* experts: of a router, at most; 0: there is none */
  int tensors;
  const char *const *tensor_names;
  double loss_floor; /* NaN: unknown */
  uint64_t data_content,
    start_content; /* hashes: of what the data is drawn from, of train.init_from (0: none) */
};

struct recorder;
/* Fresh run at `path`. STATUS_USAGE if the file exists and overwrite is 0; STATUS_FAIL if locked. Without a
   configuration (NULL) it is the record of something else than a run: it has the parameters that it is given, and
   no journal. */
int recorder_create(struct recorder **, const char *path, int overwrite, const struct config *,
                    const struct run_facts *, struct error *);
/* Continue after `step` updates: rows of the run file and its journal, later ones dropped. STATUS_FAIL where rows of
   earlier steps are missing. LONG_MAX: all rows that are there. A snapshot follows before the first new row. */
int recorder_resume(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                    long step, struct error *);
/* A run file under another name too, to be continued there from a step that it has. */
int recorder_copy(const char *from, const char *to, struct error *);
/* Remove the row of `step`, which was a run's last and no longer is, where rows are due at multiples of `every`. */
void recorder_forget(struct recorder *, long step, long every);
/* Remove rows and events from `step` on. */
void recorder_go_back(struct recorder *, long step);
/* One that takes everything and keeps nothing: no file, no memory that grows. */
struct recorder *recorder_null(const struct run_facts *);
/* One that keeps its rows in memory, for recorder_holding and so on: no file. */
struct recorder *recorder_memory(const struct run_facts *);
int recorder_keeps(const struct recorder *); /* 0: one of these two, without files */
void recorder_free(struct recorder *);

/* One more parameter, in place of one that has its name; a value that is a number is stored as one. */
void recorder_parameter(struct recorder *, const char *name, const char *value, const char *help,
                        const char *origin);

/* Declare a series before the first row; returns its number. */
int recorder_series(struct recorder *, const struct series *);
/* The same of a series that no trainer knows, with axes of its own behind the step. Wherever a name of an axis occurs,
   it has one size. Rows that are there already get NaN. */
struct free_series {
  const char *name;
  enum series_axis axis;
  int axes; /* 0: one number a step, stored as float64; else float32 */
  const char *axis_name[FREE_AXES];
  long size[FREE_AXES];
  const char *unit, *long_name, *definition;
};
int recorder_free_series(struct recorder *, const struct free_series *);
/* What the places of an axis are called: names [size]. Of axis "tensor" they are its scale, of another they lie beside
   it as /series/AXIS_name. */
void recorder_name_axis(struct recorder *, const char *axis, long size, const char *const *names);
/* Values of one series for the row being built on its axis: 1, layers, layers*heads, layers*experts or tensors
   numbers. */
void recorder_put(struct recorder *, int series, const float *values);
void recorder_put_number(struct recorder *, int series, double value); /* PER_STEP */
/* End the row of an axis; series not put are NaN. */
void recorder_row(struct recorder *, enum series_axis, long step);
void recorder_event(struct recorder *, long step, const char *kind, int layer, int head, double value);
void recorder_batch(struct recorder *, long step, const int *tokens, const float *mask, const int *document,
                    long batch, long context);
void recorder_timing(struct recorder *, long step, double seconds);
double recorder_seconds(const struct recorder *); /* of all steps that were timed */

/* The last value of a series of one number a step; NaN if there is none. */
double recorder_last(const struct recorder *, const char *series, enum series_axis);
/* Rows to the journal: those of some tenths of a second at once, or now. */
int recorder_append(struct recorder *, int now, struct error *);
/* STATUS_FAIL where another process has taken the run over: this one was taken for lost, and must not write. */
int recorder_holds(const struct recorder *, struct error *);
/* All rows so far last, by the journal or, where it is worth it, by a snapshot: before a checkpoint. */
int recorder_keep(struct recorder *, long last_step, double wall, struct error *);
/* state: running, finished, diverged, stopped: these have no journal. `final` compresses. */
int recorder_snapshot(struct recorder *, const char *state, long last_step, double wall, int final,
                      struct error *);

/* --- reading the rows in memory ------------------------------------------------------------------------- */
struct held_series {
  const char *name, *unit, *long_name, *definition;
  enum series_axis axis;
  int axes; /* behind the step, with their names */
  const char *axis_name[FREE_AXES];
  long width, rows;
};
int recorder_holding(const struct recorder *, int i,
                     struct held_series *); /* series i from 0; 0: there is none */
void recorder_held(const struct recorder *, int i, long row, double *step, double *value); /* value [width] */
struct run_event;
int recorder_held_event(const struct recorder *, long i, struct run_event *); /* 0: there is none */
const struct run_facts *recorder_facts_of(const struct recorder *);
#endif
