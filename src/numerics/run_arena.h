/* run_arena.h - many runs on one device: the memory of each is one block, a slab, all of one layout, at one stride
   A run takes its memory piece by piece in the order in which it is built; runs of equal structure ask for the same
   pieces, so that what lies at an address of run 0 lies r * stride further for run r. */
#ifndef MAXLOGIT_NUMERICS_RUN_ARENA_H
#define MAXLOGIT_NUMERICS_RUN_ARENA_H
#include "numerics/device.h"

/* Does a device of this kind compute the runs of all slabs by one replay (program_run_together)? Otherwise threads of
   the host take whole runs. Opens nothing: what a process knows of a GPU does not survive a fork, so that one that
   starts others must not look at it. */
int run_arenas_in_one_call(const char *kind);

struct run_arenas;
/* Open a device of this kind with one block of memory for `runs` slabs of `bytes` (what a run like these takes,
   built alone on as many threads). Each run's own calls use `threads` threads: runs may be computed at the same time,
   each by one thread of the host at a time. STATUS_FAIL: the device has no such block. */
int run_arenas_open(struct run_arenas **, const char *kind, int runs, size_t bytes, int threads,
                    struct error *);
/* Runs that a launch on a device of this kind should have where nobody says. One on the host: a process a run computes
   as much. */
int run_arenas_default(const char *kind);
/* Slabs of `bytes` for which such a device has free memory, 0 or more; many on the host. Looks at the device; `needs`
   gets what there is and what a slab takes. */
int run_arenas_limit(const char *kind, size_t bytes, struct error *needs);
/* All that is built on its runs' devices must be gone. */
void run_arenas_close(struct run_arenas *);
/* The device as one run sees it: memory from its slab, calls for itself alone (runs = 1). program_run_together replays
   the program of one for all of them. */
struct device *run_arenas_device(struct run_arenas *, int run);
#endif
