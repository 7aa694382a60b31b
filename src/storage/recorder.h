/* recorder.h - the record of a run: rows in memory, snapshots in RUN.h5, later rows in RUN.journal
   A recorder owns both files (storage/journal.h) and the lock. */
#ifndef MAXLOGIT_STORAGE_RECORDER_H
#define MAXLOGIT_STORAGE_RECORDER_H
#include "base/series.h"
#include "config/config.h"

struct run_facts { /* facts for /code, the axes and the root that are not in the configuration */
  const char *id, *device, *data, *data_text;
  long layers, heads, experts; /* experts: the largest number of a router; 0: none */
  int tensors;
  const char *const *tensor_names;
  double loss_floor; /* NaN: unknown */
  uint64_t data_content,
    start_content; /* hashes of the data source and of the weights of train.init_from (0: none) */
};

struct recorder;
/* Create the record of a new run at `path`. STATUS_USAGE if the file exists and overwrite is 0; STATUS_FAIL if locked.
   Without a configuration (NULL) it is not the record of a trained run: the caller sets its parameters, and it has no
   journal. */
int recorder_create(struct recorder **, const char *path, int overwrite, const struct config *,
                    const struct run_facts *, struct error *);
/* The same, but an earlier run keeps its checkpoints and its journal until recorder_clear removes them. */
int recorder_claim(struct recorder **, const char *path, int overwrite, const struct config *,
                   const struct run_facts *, struct error *);
int recorder_clear(struct recorder *, struct error *);
/* STATUS_USAGE if there is no run file, but checkpoints or a journal of its name: those of a run that was renamed.
   The message states `how` they are removed. A sweep does not ask: its file names belong to its runs. */
int recorder_refuse_rest(const char *path, const char *how, struct error *);
/* Continue after `step` updates: read the rows of the run file and its journal, and drop later ones. STATUS_FAIL if
   rows of earlier steps are missing. LONG_MAX: keep all rows. A snapshot is written before the first new row. */
int recorder_resume(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                    long step, struct error *);
/* Copy a run file, so that the copy can be continued from one of its steps. */
int recorder_copy(const char *from, const char *to, struct error *);
/* Remove the row of `step`, if it is the last one. */
void recorder_forget(struct recorder *, long step);
/* Remove rows and events from `step` on. */
void recorder_go_back(struct recorder *, long step);
/* A recorder that discards everything: it has no file and uses no memory per row. */
struct recorder *recorder_null(const struct run_facts *);
/* A recorder that keeps its rows in memory, for recorder_holding etc., without a file. */
struct recorder *recorder_memory(const struct run_facts *);
int recorder_keeps(const struct recorder *); /* 0: one of these two, without files */
void recorder_free(struct recorder *);

/* Add a parameter, or replace the one with this name; a numeric value is stored as a number. */
void recorder_parameter(struct recorder *, const char *name, const char *value, const char *help,
                        const char *origin);

/* Declare a series before the first row; returns its number. */
int recorder_series(struct recorder *, const struct series *);
/* The same for a series of another program, with its own axes after the step. An axis name has the same size
   everywhere. Existing rows get NaN. */
struct free_series {
  const char *name;
  enum series_axis axis;
  int axes; /* 0: one number per step, stored as float64; else float32 */
  const char *axis_name[FREE_AXES];
  long size[FREE_AXES];
  const char *unit, *long_name, *definition;
};
int recorder_free_series(struct recorder *, const struct free_series *);
/* Name the places of an axis: names [size]. For the axis "tensor" they become its scale, for others
   /series/AXIS_name. */
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
double recorder_seconds(const struct recorder *); /* of all timed steps */

/* The last value of a series with one number per step; NaN if there is none. */
double recorder_last(const struct recorder *, const char *series, enum series_axis);
/* Write rows to the journal: several tenths of a second together, or at once if `now`. */
int recorder_append(struct recorder *, int now, struct error *);
/* STATUS_FAIL if another process has taken the run over because this one seemed lost; then this one must not write. */
int recorder_holds(const struct recorder *, struct error *);
/* Make all rows durable, by the journal or, if worthwhile, by a snapshot. Call it before a checkpoint. `ends`: the
   run's last snapshot follows at once. */
int recorder_keep(struct recorder *, long last_step, double wall, int ends, struct error *);
/* Write a snapshot. state: running, finished, diverged, stopped; a run in one of the last three has no journal. `final`
   compresses. */
int recorder_snapshot(struct recorder *, const char *state, long last_step, double wall, int final,
                      struct error *);

/* --- reading the rows in memory ------------------------------------------------------------------------- */
struct held_series {
  const char *name, *unit, *long_name, *definition;
  enum series_axis axis;
  int axes; /* after the step, with their names */
  const char *axis_name[FREE_AXES];
  long width, rows;
};
int recorder_holding(const struct recorder *, int i,
                     struct held_series *); /* series i from 0; returns 0 if there is none */
void recorder_held(const struct recorder *, int i, long row, double *step, double *value); /* value [width] */
struct run_event;
int recorder_held_event(const struct recorder *, long i, struct run_event *); /* 0: there is none */
const struct run_facts *recorder_facts_of(const struct recorder *);
#endif
