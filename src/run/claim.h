/* claim.h - the points of a sweep among ranks: what each tells of its own in the file of their lock, ID.point
   Others tell progress by it, hear what failed, and take a point whose holder has been silent for comm.timeout. Where
   there is no farm nothing is told. */
#ifndef MAXLOGIT_RUN_CLAIM_H
#define MAXLOGIT_RUN_CLAIM_H
#include "base/file.h"
#include "run/sweep.h"

/* What its holder tells of a point. */
void claim_mark(struct lock *, const struct sweep_point *, enum sweep_fate, long step, const char *reason);
/* What is marked as its end by one of this farm; 0: nothing. */
int claim_ended(const struct sweep_point *, enum sweep_fate *, char reason[512]);
/* The holder has done with it; the mark of its end stays, unless the run file tells. */
void claim_release(struct lock *, const struct sweep_point *);
/* The worker of this point was killed by a signal: others try it once more, or hear that it has failed. */
void claim_bury(struct sweep_point *, int signal, const char *reason);
/* What is known of a point that this process does not hold: waiting, running elsewhere, or over. */
void claim_look(struct sweep_point *);
/* The same for all of them, some times a second, and who changed is told. Does another process compute one still? */
int claim_look_around(struct sweep *);
/* The waiting point that takes longest; s->count: none. */
long claim_longest(struct sweep *);
/* It, and those that wait and may share its launch, the longest first: how many, s->together at most. */
long claim_launch(struct sweep *, long first, long *point);
#endif
