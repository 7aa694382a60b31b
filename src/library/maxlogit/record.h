/* record.h - write a run file of maxlogit from any program
   One HDF5 file a run, as `maxlogit run` writes it: `maxlogit show`, `export`, `plot`, `compare`, `watch` and
   maxlogit/read.h read it. A training loop:

     open      with a configuration of free keys ("optimizer" = "muon", "train.seed" = "3")
     series    declared, once each: name, axes, unit, what exactly it means
     each step put values, then `row` with the step's number; events and notes wherever they fall
     close     with how it ended

   The file is never half of one: it is written beside, synced and renamed, under a checksum. Between two such
   snapshots (seldom: together they take about a hundredth of the time) each row goes to RUN.journal in one
   write, so that a kill costs at most the row that was being written, and `maxlogit watch` shows it at once.
   After a kill, open it again with MAXLOGIT_RESUME and go on: the first row or event after that decides where
   the recording goes on. What was recorded of its step and later ones is of the life before, and goes.

   A log that is there as a whole (an import) is written with options.whole: no journal, nothing
   on disk before close, and nothing ever where `discard` comes first.

   A handle belongs to one thread at a time; other threads may have others. Of one file there is one writer: a
   second one gets MAXLOGIT_FAIL. */
#ifndef MAXLOGIT_RECORD_H
#define MAXLOGIT_RECORD_H
#include <stddef.h>
#include "maxlogit/error.h"
#ifdef __cplusplus
extern "C" {
#endif

struct maxlogit_recorder;

enum maxlogit_mode {
  MAXLOGIT_NEW,    /* the file must not be there yet */
  MAXLOGIT_RESUME, /* go on with the recording that is there, finished or not; where there is none, a new one */
  MAXLOGIT_REPLACE /* a run file that is there is replaced */
};

/* A key of letters, digits and _ - . /, at most 95 bytes, and its value as text; what reads as a number is
   stored as one. Nothing is prescribed, but maxlogit tells runs by "optimizer", "stabilizers" and "preset",
   and pairs them by "train.seed", or else "seed"; "train.lr", "model.layers" and "model.heads" are its names for
   these (the last two come from the axes where they are not given). */
struct maxlogit_setting {
  const char *key, *value;
};

struct maxlogit_record_options {
  enum maxlogit_mode mode;
  const struct maxlogit_setting
    *settings; /* [settings_count]; resumed: in place of those that have their keys */
  long settings_count;
  const char *data; /* what it was trained on, for people; may be NULL */
  int whole;        /* nothing on disk before close */
};

/* `options` NULL: a new file without settings. MAXLOGIT_USAGE where the file is there (NEW), is not a run file,
   is not a recording (RESUME: what `maxlogit run` writes is continued by `maxlogit resume`), or a key is none;
   MAXLOGIT_FAIL where another process writes it. On failure *recorder is NULL. */
MAXLOGIT_API int maxlogit_record_open(struct maxlogit_recorder **recorder, const char *path,
                                      const struct maxlogit_record_options *options,
                                      struct maxlogit_error *error);

/* The step of the last row of the step axis, -1 before the first. */
MAXLOGIT_API long maxlogit_record_last_step(const struct maxlogit_recorder *recorder);

/* Which rows a series has values in: series of one of these have their rows at the same steps. */
enum maxlogit_rows {
  MAXLOGIT_EACH_STEP,  /* what there is of (nearly) every step */
  MAXLOGIT_SPECTRA,    /* seldom: spectra */
  MAXLOGIT_VALIDATION, /* seldom: losses on other data */
  MAXLOGIT_PROBE       /* seldom: a fixed batch */
};
enum { MAXLOGIT_AXES = 2 };

struct maxlogit_series {
  const char *name; /* "loss", "attn/max_logit": letters, digits and _ - . /, at most 95 bytes */
  enum maxlogit_rows rows;
  int axes; /* 0 (a number a step) to MAXLOGIT_AXES */
  const char
    *axis_name[MAXLOGIT_AXES]; /* "layer" and "head", "layer" and "expert", "tensor", or a name of your own */
  long size[MAXLOGIT_AXES];    /* at least 1; an axis has one size in a file */
  const char *unit, *long_name,
    *definition; /* "nat", "1" or NULL; for axes of plots; what it is, to the letter */
};

/* Declare one, before or between rows (rows that are there get NaN). *number is what `put` takes. The same
   name with the same shape gives the same number. MAXLOGIT_USAGE: a name that is none, is one of an axis, or
   lies below that of another series; a size that does not fit. */
MAXLOGIT_API int maxlogit_record_series(struct maxlogit_recorder *recorder,
                                        const struct maxlogit_series *series, int *number,
                                        struct maxlogit_error *error);

/* What the places of an axis are called (layers by their modules' names, tensors): names [size], cut at 127
   bytes (63 of "tensor"). */
MAXLOGIT_API int maxlogit_record_axis(struct maxlogit_recorder *recorder, const char *axis, long size,
                                      const char *const *names, struct maxlogit_error *error);

/* values [count] in row-major order, count the product of the axes' sizes, for the row that comes next. NaN:
   none. A number a step is kept as float64, others as float32. */
MAXLOGIT_API int maxlogit_record_put(struct maxlogit_recorder *recorder, int number, const double *values,
                                     size_t count, struct maxlogit_error *error);

/* End the rows for which something was put: of step `step`, larger than that of the row before. Series that
   were not put are NaN in it. Nothing put: nothing happens. MAXLOGIT_FAIL: it could not be written; the row
   is kept in memory, and the next snapshot tries again. */
MAXLOGIT_API int maxlogit_record_row(struct maxlogit_recorder *recorder, long step,
                                     struct maxlogit_error *error);

/* Rows that are there already: of one series, step [count] growing, values [count, values a row]. */
struct maxlogit_block {
  int number;
  long count;
  const long *step;
  const double *values;
};

/* `put` and `row` for all rows of several series, in the order of their steps. Fails like `row`; the rows before the
   one that failed are recorded. */
MAXLOGIT_API int maxlogit_record_blocks(struct maxlogit_recorder *recorder,
                                        const struct maxlogit_block *block, int blocks,
                                        struct maxlogit_error *error);

/* Something that happened at a step: kind of at most 23 bytes ("clip", "spike", "nonfinite"), layer and head
   or -1. */
MAXLOGIT_API int maxlogit_record_event(struct maxlogit_recorder *recorder, long step, const char *kind,
                                       int layer, int head, double value, struct maxlogit_error *error);

/* A remark with today's date, at most 16384 bytes. */
MAXLOGIT_API int maxlogit_record_note(struct maxlogit_recorder *recorder, const char *text,
                                      struct maxlogit_error *error);

/* Write the file now. `row` does so by itself every now and then. */
MAXLOGIT_API int maxlogit_record_snapshot(struct maxlogit_recorder *recorder, struct maxlogit_error *error);

/* Write the file for the last time, in the state "finished", "stopped" or "diverged", free the handle, and set it to
   NULL. After a failure the handle has all rows: close it again, for example when there is room on the disk, or discard
   it. */
MAXLOGIT_API int maxlogit_record_close(struct maxlogit_recorder **recorder, const char *state,
                                       struct maxlogit_error *error);

/* With options.whole: remove the checkpoints and the journal of the run that was here before. `close` does so, too;
   this is for a file that has come here by a rename. */
MAXLOGIT_API int maxlogit_record_clear(struct maxlogit_recorder *recorder, struct maxlogit_error *error);

/* Free the handle, set it to NULL, and write nothing more. A handle that is NULL is allowed. */
MAXLOGIT_API void maxlogit_record_discard(struct maxlogit_recorder **recorder);

#ifdef __cplusplus
}
#endif
#endif
