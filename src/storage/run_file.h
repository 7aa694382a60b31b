/* run_file.h - reading run files */
#ifndef MAXLOGIT_STORAGE_RUN_FILE_H
#define MAXLOGIT_STORAGE_RUN_FILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/series.h"

struct run_file;
int run_open(struct run_file **, const char *path, struct error *); /* "not a run file" is STATUS_USAGE */
/* The same for trained runs only: a file of `spectra -o`, made from a checkpoint, is STATUS_USAGE, too. */
int run_open_trained(struct run_file **, const char *path, struct error *);
/* The same for runs that maxlogit trained: a recording of another program (maxlogit/record.h) is STATUS_USAGE, too. */
int run_open_own(struct run_file **, const char *path, struct error *);
/* Is this a killed recording with a journal, which may have rows that the file lacks? */
int run_has_journal_of_recording(const struct run_file *);
/* The same without loading the file, if it has a head (storage/seal.h). The rest is loaded and checked when a series or
   the events are read; run_rest frees it again. */
int run_peek(struct run_file **, const char *path, struct error *);
int run_check(struct run_file *, struct error *); /* loads the file and frees it again */
void run_rest(const struct run_file *);
/* Open a file that another program has changed. Its seal is ignored, and its head is built from the present contents.
   The HDF5 library may crash on it. */
int run_open_unsealed(struct run_file **, const char *path, struct error *);
const char *run_head(const struct run_file *, size_t *size); /* its texts: storage/seal.h */
void run_close(struct run_file *);
const char *run_state(const struct run_file *); /* running | finished | diverged | stopped */
/* Has the run ended with finite losses, but blown up (storage/blow_up.h)? Reads the losses once. */
int run_blew_up(const struct run_file *);
/* The state for display: "blown-up" if the run blew up, "killed" if its writer was killed, else the state of its
   file. */
const char *run_shown_state(const struct run_file *);
long run_last_step(const struct run_file *);
double run_wall_seconds(const struct run_file *);
const char *run_id(const struct run_file *);
const char *run_date(const struct run_file *);      /* start time: ISO 8601 */
const char *run_data(const struct run_file *);      /* the source's name; "recorded": by another program */
const char *run_data_text(const struct run_file *); /* "shakespeare.txt, 1115394 bytes, 65 symbols" */
/* Hashes of contents, see run_facts. */
void run_contents(const struct run_file *, uint64_t *data, uint64_t *start);
double run_loss_floor(const struct run_file *); /* entropy rate of the data, nat per token; NaN: unknown */
/* A parameter as text ("train.lr"); NULL if there is none. */
const char *run_parameter(const struct run_file *, const char *key);
int run_parameters(const struct run_file *, int (*each)(void *, const char *key, const char *value), void *);
/* The same, with the origin of each value; returns non-zero also if some cannot be read. */
int run_settings(const struct run_file *,
                 int (*each)(void *, const char *key, const char *value, const char *origin), void *);
/* STATUS_FAIL if facts and parameters as they are shown, from the head, are not those of the rest of the file, from
   which a run is computed: a stranger can write either. */
int run_check_head(const struct run_file *, struct error *);
/* STATUS_USAGE if somebody has added data that a file which is written anew would not have. */
int run_check_additions(const struct run_file *, struct error *);
struct run_series {
  char name[96], unit[32], long_name[128], steps[32]; /* steps: the axis of its rows */
  enum series_shape shape;
  long rows, width; /* width: 1, layers, layers*heads, tensors */
  long layers, heads;
  int axes; /* after the step, with their names and sizes */
  char axis_name[FREE_AXES][64];
  long size[FREE_AXES];
  char definition[1024];
  double *step;       /* [rows] */
  double *value;      /* [rows, width] */
  char (*labels)[64]; /* tensors' names for PER_TENSOR, else NULL */
};
int run_series_names(const struct run_file *, int (*each)(void *, const char *name),
                     void *); /* recorded ones */
/* Series that are computed from recorded ones: storage/derived.h. */
int run_derived_names(const struct run_file *, int (*each)(void *, const char *name), void *);
long run_rows(const struct run_file *, const char *series); /* 0: none, or no such series */
/* Read a series without the rows of which every value is missing: there may be none left. For an unknown name the
   error suggests the nearest one. A series that exists but is unreadable is STATUS_FAIL; if `error` is NULL, one
   warning names it. */
int run_read(const struct run_file *, const char *name, struct run_series *, struct error *);
/* The same with every row. */
int run_read_all(const struct run_file *, const char *name, struct run_series *, struct error *);
/* Describe a recorded series, without reading its numbers. */
int run_describe(const struct run_file *, const char *name, struct run_series *, struct error *);
int run_has_unread(const struct run_file *); /* were unreadable series, events or notes found? */
void run_series_free(struct run_series *);
/* The names of the places of an axis: [*count] texts of *room bytes each; the caller calls memory_free. NULL: none. */
char *run_axis_names(const struct run_file *, const char *axis, long *count, size_t *room);
struct run_event {
  long step;
  char kind[24];
  int layer, head;
  double value;
};
int run_events(const struct run_file *, struct run_event **, long *count, struct error *); /* memory_free */
#endif
