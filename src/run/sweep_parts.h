/* sweep_parts.h - what planning a sweep and running it share */
#ifndef MAXLOGIT_SWEEP_PARTS_H
#define MAXLOGIT_SWEEP_PARTS_H
#include "run/sweep.h"

extern const char sweep_nonfinite_fails[]; /* what is said of a diverged run that fails */
/* A point, finished: its file in place, one thread unless told otherwise. */
struct config *sweep_point_config(const struct sweep_point *, const char *path, struct error *);
/* Was this run done before? 0 too where there is no file or it cannot be read: its worker will tell.
   `wanted`: NULL, or the point's configuration; then `lacks` says what the file was made without. */
int sweep_is_done(const char *path, enum sweep_fate *, const struct config *wanted, char lacks[256]);
/* Is there a file of this very run? */
int sweep_is_begun(const struct sweep_point *);
long sweep_next_waiting(const struct sweep *, long from);
/* The waiting points that share a launch with the first of them, it included; returns how many. None that is `taken`
   already (may be NULL). */
long sweep_next_launch(const struct sweep *, long first, const long *taken, long *point);
#endif
