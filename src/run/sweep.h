/* sweep.h - runs the product of lists in worker processes of one or a few runs each, resumable */
#ifndef MAXLOGIT_RUN_SWEEP_H
#define MAXLOGIT_RUN_SWEEP_H
#include <stdint.h>
#include <sys/types.h>
#include "config/config.h"

enum sweep_fate {
  SWEEP_WAITING,
  SWEEP_RUNNING,
  SWEEP_FINISHED,
  SWEEP_DIVERGED,  /* done */
  SWEEP_STOPPED,   /* by a signal or train.max_time: start the sweep again */
  SWEEP_ELSEWHERE, /* another process computes it */
  SWEEP_FAILED
};

struct sweep_point {
  const struct config *config; /* with its axes, unfinished */
  long index;                  /* of config_point */
  char id[16], label[256];
  char *path; /* DIR/ID.h5 */
  enum sweep_fate fate;
  int elsewhere;      /* running, on another rank */
  double work, heard; /* approximate number of operations; when that rank last wrote its mark */
  uint64_t holder;    /* the process of that rank */
  int was_done;       /* before this sweep */
  char lacks[256]; /* requested record keys that its file was made without, "record.pairs=1 (has 0)"; or "" */
  char from[4096]; /* a shorter run that it continues; or "" */
  char anew[128];  /* why it does not continue the existing shorter run; or "" */
  int drops;       /* remove its checkpoints when it is done */
  uint64_t structure; /* points of equal structure may share a launch */
  long step, steps;
  char reason[512]; /* why it failed */
};

struct sweep {
  struct sweep_point *points;
  long count;
  long doubles;   /* points left out because an earlier point is the same run */
  long jobs;      /* launches at a time, each a process */
  long together;  /* the maximal number of runs in a launch */
  long threads;   /* per launch; 0: one per run, as far as the cores suffice */
  int one_launch; /* default to one launch at a time: the device computes all runs of a launch itself */
  long trainers;  /* built to check the points: one for each structure */
  /* Called when point >= 0 has changed, and with -1 a few times per second. Both hooks may be NULL. */
  void (*look)(void *context, const struct sweep *, long point);
  /* A line that a worker wrote on its standard error; `point` is the first of its `count` points. */
  void (*say)(void *context, const struct sweep *, long point, long count, const char *line);
  void *context;
};

/* Check points shard, shard + shards, ... (from 1) of the product, and keep only them; nothing is written. `name`: the
   name of the sweep, for the default folder. */
int sweep_plan(struct sweep *, const struct config *, const char *name, long shard, long shards,
               struct error *);
/* Move the points of another sweep here, except those that are the same run as an existing one; `more` is empty
   afterwards. Both configurations must outlive the sweep. */
void sweep_join(struct sweep *, struct sweep *more);
/* Fill in jobs and threads where they are 0. The CPU gets one run per launch, and as many launches as the cores carry:
   this is as fast, and a crash costs one run. A GPU gets one launch of many runs at a time. */
void sweep_share(struct sweep *);
/* launch[i], from 1: the launch that will compute point i; 0: it is done. */
void sweep_launches(const struct sweep *, long *launch);
/* Run all points that are not done, in child processes; a failed point does not stop the others. STATUS_OK: every point
   is done or computed by another process. STATUS_FAIL: one failed. STATUS_STOPPED: some were stopped and can be
   resumed. */
int sweep_run(struct sweep *, struct error *);
void sweep_free(struct sweep *);
#define SWEEP_PLAN \
  "sweep.plan" /* in the folder of the runs: a line for each point of the last sweep, ID TAB LABEL */
const char *sweep_fate_name(enum sweep_fate);
#endif
