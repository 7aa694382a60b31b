/* run_arena.h - memory of many runs on one device: one block (arena) per run, all of one layout, at a fixed stride
   A run allocates its tensors in the order in which it is built. Runs of equal structure allocate the same sizes, so a
   tensor of run 0 lies r * stride bytes further in run r. */
#ifndef MAXLOGIT_NUMERICS_RUN_ARENA_H
#define MAXLOGIT_NUMERICS_RUN_ARENA_H
#include "numerics/device.h"

/* 1 if a device of this kind computes all runs with one replay (program_run_together); 0 if host threads take whole
   runs. Does not open the device: a CUDA context does not survive fork, so a parent process must not create one. */
int run_arenas_in_one_call(const char *kind);

struct run_arenas;
/* Open a device of this kind and allocate `runs` arenas of `bytes` each (the size of one such run that was built alone
   with the same number of threads). Calls of a run use `threads` threads. Runs may be computed concurrently, each by
   one host thread at a time. STATUS_FAIL if the device cannot allocate the memory. */
int run_arenas_open(struct run_arenas **, const char *kind, int runs, size_t bytes, int threads,
                    struct error *);
/* Default number of runs per batch on a device of this kind. 1 on the host, where one process per run is as fast. */
int run_arenas_default(const char *kind);
/* How many arenas of `bytes` fit into the free memory of the device; a large number on the host. Opens the device.
   `needs` receives a text with the free memory and the size of one arena. */
int run_arenas_limit(const char *kind, size_t bytes, struct error *needs);
/* Free everything that was built on the devices of its runs first. */
void run_arenas_close(struct run_arenas *);
/* The device of one run: it allocates from the run's arena, and its calls compute this run only (runs = 1).
   program_run_together replays the program of one run for all of them. */
struct device *run_arenas_device(struct run_arenas *, int run);
#endif
