/* sweep_parts.h - what a sweep's files share; each calls only those before it: points.c, claim.c, worker.c, sweep.c */
#ifndef MAXLOGIT_RUN_SWEEP_PARTS_H
#define MAXLOGIT_RUN_SWEEP_PARTS_H
#include "run/sweep.h"

enum { TICK_MS = 100 };
#define NONFINITE_FAILS "diverged, and train.on_nonfinite = fail"

/* A point's configuration, finished: its file (may be NULL) in place, one thread unless told otherwise. */
struct config *sweep_config_of(const struct sweep_point *, const char *path, struct error *);
/* Is there a file of this very run? */
int sweep_is_begun(const struct sweep_point *);
/* Was it done before? 0 too where there is no file or it cannot be read: its worker will tell.
   `wanted`: NULL, or the point's configuration; then `lacks` says what the file was made without. */
int sweep_is_done(const struct sweep_point *, enum sweep_fate *, const struct config *wanted,
                  char lacks[256]);

/* What a worker tells of a point: small enough to be written and read whole. */
struct sweep_note {
  long point;
  enum sweep_fate fate;
  long step;
  char reason[512];
};
/* What it tells is heard; and told on, where that is the end of the point. */
void sweep_hear(struct sweep *, const struct sweep_note *);
/* All points, one after another, by the ranks of this process's group together (run/farm.h). */
void sweep_work_together(struct sweep *);
/* The worker of a launch, these points; its notes go to `fd`. It ends with its parent. */
_Noreturn void sweep_work(struct sweep *, const long *point, long count, int fd, pid_t parent);
#endif
