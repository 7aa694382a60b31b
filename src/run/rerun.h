/* rerun.h - a run repeated with more recorded, and whether it was the same */
#ifndef MAXLOGIT_RERUN_H
#define MAXLOGIT_RERUN_H
#include "run/trainer.h"

/* A trainer that repeats the run of `path` from its start into `record_path`, which is replaced where it
   exists. `changes` are key=value texts of what is recorded, kept and computed with: STATUS_USAGE names a
   key that changes the numbers. *config is the trainer's, the caller's to free after it. STATUS_FAIL: these
   are other numerics, or other data. */
int rerun_init(struct trainer **, struct config **config, const char *path, const char *record_path,
               const char *const *changes, int count, struct error *);

/* Has `again` every row of every series of `first`, and every clip, spike and nonfinite event up to the last
   step of both, to the bit? STATUS_FAIL says the first series and step that differ, or what is missing.
   *series: how many were compared. */
int rerun_compare(const char *first, const char *again, int *series, struct error *);
#endif
