/* rerun.h - a run repeated with more recorded, and whether it was the same */
#ifndef MAXLOGIT_RUN_RERUN_H
#define MAXLOGIT_RUN_RERUN_H
#include "run/trainer.h"

/* Where a run of `path` is repeated into: `output`, or where that is NULL a file beside it, which is to take its
   place. */
void rerun_path(char out[4096], const char *path, const char *output);

/* A trainer that repeats the run of `path` from its start (`from` < 0), or from its newest checkpoint of at most `from`
   steps, into rerun_path, which is replaced where it
   exists; record.path is what it was, or `output`. `changes` are key=value texts of what is recorded, kept and
   computed with: STATUS_USAGE names a key that changes the numbers. *config is the trainer's, the caller's to
   free after it. STATUS_FAIL: these are other numerics, or other data. */
int rerun_init(struct trainer **, struct config **config, const char *path, const char *output,
               const char *const *changes, int count, long from, struct error *);

/* Has `again` every row of every series of `first`, and every clip, spike and nonfinite event up to the last
   step of both, to the bit? STATUS_FAIL says the first series and step that differ, or what is missing.
   *series: how many were compared. */
int rerun_compare(const char *first, const char *again, int *series, struct error *);
#endif
