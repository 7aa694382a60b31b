/* sweep.h - the product of lists, run by worker processes, resumable */
#ifndef MAXLOGIT_SWEEP_H
#define MAXLOGIT_SWEEP_H
#include "storage/config.h"

struct sweep_request {
  const struct config *config;   /* with its axes, unfinished */
  const char *name;              /* of the sweep file, for the default folder */
  long shard, shards;            /* run points shard, shard + shards, ...; from 1 */
  long jobs;                     /* processes at a time; 0: sweep.jobs, else one a core */
  int quiet;
};

enum sweep_fate { SWEEP_WAITING, SWEEP_SKIPPED, SWEEP_DONE, SWEEP_STOPPED, SWEEP_LOCKED, SWEEP_FAILED };

struct sweep_point {
  char id[16], label[512], *path;
  struct config *config;         /* finished, record.path set */
  enum sweep_fate fate;
  char reason[512];              /* why it failed */
};

struct sweep { struct sweep_point *points; long count; char *dir; };

/* Check every point of this shard; nothing is written. Points that are the same run are taken once. */
int sweep_plan(struct sweep *, const struct sweep_request *, struct error *);
/* Run what is not finished. STATUS_OK when every point is done, STATUS_FAIL when one failed,
   STATUS_STOPPED after a signal. */
int sweep_run(struct sweep *, const struct sweep_request *, struct error *);
void sweep_free(struct sweep *);
#endif
