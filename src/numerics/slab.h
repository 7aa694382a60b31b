/* slab.h - many runs on one device: the memory of each is one block, a slab, all of one layout, at one stride
   A run takes its memory piece by piece in the order in which it is built; runs of equal structure ask for the same
   pieces, so that what lies at an address of run 0 lies r * stride further for run r. */
#ifndef MAXLOGIT_SLAB_H
#define MAXLOGIT_SLAB_H
#include "numerics/device.h"

struct slabs;
/* Open a device of this kind with one block of memory for `runs` slabs of `bytes` (what a run like these takes,
   built alone on as many threads). Each run's own calls use `threads` threads: runs may be computed at the same time,
   each by one thread of the host at a time. */
int slabs_open(struct slabs **, const char *kind, int runs, size_t bytes, int threads, struct error *);
/* Runs that a launch on a device of this kind should have where nobody says. One on the host: a process a run computes
   as much. */
int slabs_pay(const char *kind);
/* All that is built on its runs' devices must be gone. */
void slabs_close(struct slabs *);
/* The device as one run sees it: memory from its slab, calls for itself alone (runs = 1). Who replays the program of
   run 0 for all of them sets the `runs` of its device for as long. */
struct device *slabs_device(struct slabs *, int run);
#endif
