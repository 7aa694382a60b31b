/* claim.h - the points of a sweep among ranks: each rank marks its points in their lock files, ID.point
   Other ranks read progress and failures from the marks, and claim a point if its holder is silent for comm.timeout.
   Without a farm no marks are written. */
#ifndef MAXLOGIT_RUN_CLAIM_H
#define MAXLOGIT_RUN_CLAIM_H
#include "base/file.h"
#include "run/sweep.h"

/* Write the state of a point into the lock file that this process holds. Does nothing without a farm or a lock. */
void claim_mark(struct lock *, const struct sweep_point *, enum sweep_fate, long step, const char *reason);
/* Returns 1 and the result if a process of this farm has marked the point as ended, else 0. */
int claim_ended(const struct sweep_point *, enum sweep_fate *, char reason[512]);
/* Release the lock of a point. The file stays if it marks the end of the point, else it is removed. */
void claim_release(struct lock *, const struct sweep_point *);
/* The worker of this point has died. After SIGKILL the point is tried once more; otherwise it is marked as failed. */
void claim_bury(struct sweep_point *, int signal, const char *reason);
/* Update the state of a point that this process does not hold: waiting, running elsewhere, or over. */
void claim_look(struct sweep_point *);
/* Update all points that run elsewhere, a few times per second, and call the `look` hook for those that ended. Returns
   whether another process still computes one. */
int claim_look_around(struct sweep *);
/* The waiting point with the most work; s->count: none. */
long claim_longest(struct sweep *);
/* List `first` and the waiting points that may share its launch, longest first. Returns their number, at most
   s->together. */
long claim_launch(struct sweep *, long first, long *point);
#endif
