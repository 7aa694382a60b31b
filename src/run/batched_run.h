/* batched_run.h - runs of equal structure computed together on one device; each has its own memory, files and end */
#ifndef MAXLOGIT_RUN_BATCHED_RUN_H
#define MAXLOGIT_RUN_BATCHED_RUN_H
#include "run/trainer.h"

struct batched_run {
  struct config
    *config;        /* a new run with this finished configuration, which must outlive the call; or NULL ... */
  const char *path; /* ... to resume the run of this file */
  unsigned flags;   /* of a new run, see trainer_init */
  double max_time;  /* seconds, see drive(); replaces the value that is stored in a resumed run */
  /* out: as from drive(), with the reason if the run failed */
  int status;
  struct error error;
};

/* Callbacks, serialized, from any thread; each may be NULL. */
struct batched_run_hooks {
  void (*step)(void *context, int run, const struct trainer *); /* after every step of a run */
  void (*end)(void *context, int run); /* its status and error are set, its files are written */
  void *context;
};

/* Train all runs to their ends: runs of equal structure (config_structure) together, one structure after another.
   On the host, `threads` threads take whole runs, the run with most steps left first; with more threads than runs,
   several threads share a run. A device with run_arenas_in_one_call steps as many runs at once as its memory holds,
   while the threads draw batches and write rows and files. A run that fails, diverges, ends or is stopped does not
   affect the others. Every run has the same bits as if it were computed alone. */
void batched_run_drive(struct batched_run *, int count, int threads, const struct batched_run_hooks *);
#endif
