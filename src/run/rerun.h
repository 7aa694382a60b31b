/* rerun.h - repeats a run with more recorded, and compares the two */
#ifndef MAXLOGIT_RUN_RERUN_H
#define MAXLOGIT_RUN_RERUN_H
#include "run/trainer.h"

/* The path of the repeated run: `output`, or, if that is NULL, a file beside `path` that will replace it. */
void rerun_path(char out[4096], const char *path, const char *output);

/* Create a trainer that repeats the run of `path` into rerun_path, which is replaced if it exists. It begins at the
   start (`from` < 0), or at the newest checkpoint of at most `from` steps. record.path is that of the first run, or
   `output`. `changes` are key=value texts for recording, checkpoints or devices; STATUS_USAGE names a key that would
   change the numbers. *config belongs to the trainer; the caller frees it after the trainer. STATUS_FAIL: the data or
   the numerics have changed. */
int rerun_init(struct trainer **, struct config **config, const char *path, const char *output,
               const char *const *changes, int count, long from, struct error *);

/* Compare every row of every series of `first` with `again`, and every clip, spike and nonfinite event up to the last
   step of both, bit by bit. STATUS_FAIL names the first series and step that differ, or the missing item. *series is
   the number of series compared. */
int rerun_compare(const char *first, const char *again, int *series, struct error *);
/* The step of the last resume; 0: there was none. Of the rows before it, those are compared that the first run has. */
struct run_file;
long rerun_resumed(const struct run_file *);
#endif
