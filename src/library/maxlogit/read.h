/* read.h - read run files of maxlogit: what they are, their series, events and notes
   Written by `maxlogit run`, by maxlogit/record.h, or by `maxlogit import`, also while they are being
   written: a file is replaced as a whole, and an opened run is what it was when it was opened. A file that
   another program has changed is refused (its checksum no longer fits). Several threads may each have a run
   open; a handle belongs to one thread at a time. Texts belong to the handle, and live until it is closed. */
#ifndef MAXLOGIT_READ_H
#define MAXLOGIT_READ_H
#include <stddef.h>
#include "maxlogit/error.h"
#ifdef __cplusplus
extern "C" {
#endif

struct maxlogit_run;

/* MAXLOGIT_USAGE: no such file, or no run file; MAXLOGIT_FAIL: damaged. On failure *run is NULL. */
MAXLOGIT_API int maxlogit_run_open(struct maxlogit_run **run, const char *path, struct maxlogit_error *error);
MAXLOGIT_API void maxlogit_run_close(struct maxlogit_run *run); /* NULL is allowed */

struct maxlogit_facts {
  const char *id, *date; /* 12 hex digits; when it was started, ISO 8601 */
  const char *state;     /* "running", "finished", "stopped", "diverged" */
  const char *data;      /* what it was trained on, for people */
  long last_step;        /* updates done: steps count from 0 */
  double wall_seconds;
};
MAXLOGIT_API void maxlogit_run_facts(const struct maxlogit_run *run, struct maxlogit_facts *facts);

/* The value of a key as text; NULL: there is none. */
MAXLOGIT_API const char *maxlogit_run_setting(const struct maxlogit_run *run, const char *key);
/* Key and value number i from 0 on; 0 where there are no more, else 1. */
MAXLOGIT_API int maxlogit_run_setting_at(const struct maxlogit_run *run, long i, const char **key,
                                         const char **value);
/* The name of series number i from 0 on, and how many rows it has; NULL where there are no more. */
MAXLOGIT_API const char *maxlogit_run_series_at(const struct maxlogit_run *run, long i, long *rows);

enum { MAXLOGIT_READ_AXES = 2 };
struct maxlogit_values {
  char name[96], unit[32], long_name[128], definition[1024];
  int axes;                               /* behind the step */
  char axis_name[MAXLOGIT_READ_AXES][64]; /* "layer", "head", ... */
  long size[MAXLOGIT_READ_AXES];
  long rows, width; /* width: the product of the sizes, 1 without axes */
  double *step;     /* [rows] */
  double *value;    /* [rows, width], row-major; NaN: nothing was recorded */
};
/* MAXLOGIT_USAGE: no series of this name (the message has the nearest). To be freed. */
MAXLOGIT_API int maxlogit_run_read(const struct maxlogit_run *run, const char *series,
                                   struct maxlogit_values *values, struct maxlogit_error *error);
MAXLOGIT_API void maxlogit_values_free(struct maxlogit_values *values);

/* What place `i` of an axis is called ("model.layers.0.self_attn" of "layer"); room: bytes of `name`. 0 where
   nothing says, else 1. */
MAXLOGIT_API int maxlogit_run_place(const struct maxlogit_run *run, const char *axis, long i, char *name,
                                    size_t room);

struct maxlogit_event {
  long step;
  char kind[24];
  int layer, head; /* -1: of none */
  double value;
};
/* In the order of their recording: *events [*count], for maxlogit_events_free. */
MAXLOGIT_API int maxlogit_run_events(const struct maxlogit_run *run, struct maxlogit_event **events,
                                     long *count, struct maxlogit_error *error);
MAXLOGIT_API void maxlogit_events_free(struct maxlogit_event *events);

/* Note number i from 0 on, with its date; 0 where there are no more. */
MAXLOGIT_API int maxlogit_run_note_at(const struct maxlogit_run *run, long i, const char **date,
                                      const char **text);

#ifdef __cplusplus
}
#endif
#endif
