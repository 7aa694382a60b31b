/* batched_run.h - runs of equal structure computed together on one device: a slab, files, events and an end for each */
#ifndef MAXLOGIT_RUN_BATCHED_RUN_H
#define MAXLOGIT_RUN_BATCHED_RUN_H
#include "run/trainer.h"

struct batched_run {
  struct config *config; /* finished, of a fresh run; must outlive the call. NULL: ... */
  const char *path;      /* ... the run of this file goes on */
  unsigned flags;        /* of a fresh run, see trainer_init */
  double max_time;       /* as drive() takes it: the caller's, whatever the run was begun with */
  /* out: as of drive(), with the reason where it failed */
  int status;
  struct error error;
};

/* Who is told, one call at a time, from any thread; each may be NULL. */
struct batched_run_hooks {
  void (*step)(void *context, int run, const struct trainer *); /* after every step of a run */
  void (*end)(void *context, int run); /* its status and error stand, its files are written */
  void *context;
};

/* Train all of them to their ends, those of equal structure (config_structure) at the same time, the others after
   them. On the host whole runs go to `threads` threads, the one that has most steps left first; more threads than runs
   share a run. A device that computes runs itself (run_arenas_in_one_call) does a step of all of them at a time, as
   many as its memory holds, and the threads draw batches and make rows and files. A run that fails, diverges, ends or is
   stopped leaves the others alone, and every run has the bits that it has alone. */
void batched_run_drive(struct batched_run *, int count, int threads, const struct batched_run_hooks *);
#endif
