/* sweep_parts.h - shared by the files of a sweep; each calls only those before it: points.c, claim.c, worker.c,
   sweep.c */
#ifndef MAXLOGIT_RUN_SWEEP_PARTS_H
#define MAXLOGIT_RUN_SWEEP_PARTS_H
#include "run/sweep.h"

enum { TICK_MS = 100 };
#define NONFINITE_FAILS "diverged, and train.on_nonfinite = fail"

/* A point's finished configuration, with `path` (may be NULL) as its file, and one thread unless configured. */
struct config *sweep_config_of(const struct sweep_point *, const char *path, struct error *);
/* Is there a run file of this run? */
int sweep_is_begun(const struct sweep_point *);
/* Was the point done before? Returns 0 also if the file is missing or unreadable: its worker reports the error.
   `wanted`: NULL, or the point's configuration; `lacks` then lists requested record keys that the file lacks. */
int sweep_is_done(const struct sweep_point *, enum sweep_fate *, const struct config *wanted,
                  char lacks[256]);

/* A worker's report about a point, small enough for an atomic write to a pipe. */
struct sweep_note {
  long point;
  enum sweep_fate fate;
  long step;
  char reason[512];
};
/* Apply a report to its point, and call the `look` hook if the point has ended. */
void sweep_hear(struct sweep *, const struct sweep_note *);
/* Compute all points, one after another, with all ranks of this process's group (run/farm.h). */
void sweep_work_together(struct sweep *);
/* The process of a worker that computes these points; it writes its notes to `fd`. It ends with its parent. */
_Noreturn void sweep_work(struct sweep *, const long *point, long count, int fd, pid_t parent);
#endif
