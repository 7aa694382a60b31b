/* sweep.h - the product of lists, run by worker processes of one run or a few, resumable */
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
  SWEEP_ELSEWHERE, /* another process is at it */
  SWEEP_FAILED
};

struct sweep_point {
  const struct config *config; /* with its axes, unfinished */
  long index;                  /* of config_point */
  char id[16], label[256];
  char *path; /* DIR/ID.h5 */
  enum sweep_fate fate;
  int elsewhere;      /* running, by another rank */
  double work, heard; /* about how many operations it takes; when that rank was last heard of */
  uint64_t holder;    /* that rank's process */
  int was_done;       /* before this sweep */
  char lacks[256]; /* record keys asked for that its file was made without, "record.pairs=1 (has 0)"; or "" */
  char from[4096]; /* a shorter run that it goes on from; or "" */
  char anew[128];  /* why it does not go on from the shorter run that is there; or "" */
  int drops;       /* its checkpoints, when it is done */
  uint64_t structure; /* points of one structure may share a launch */
  long step, steps;
  char reason[512]; /* why it failed */
};

struct sweep {
  struct sweep_point *points;
  long count;
  long doubles;   /* points left out: they are the same run as an earlier one */
  long jobs;      /* launches at a time, each a process */
  long together;  /* the most runs of a launch */
  long threads;   /* of a launch; 0: one a run, as far as the cores go */
  int one_launch; /* at a time, where nobody says: the device computes the runs of a launch itself */
  long trainers;  /* built to check the points: one for each structure */
  /* Called when something changed (point >= 0: this one) and some times a second; any may be NULL. */
  void (*look)(void *context, const struct sweep *, long point);
  /* A line that a worker wrote on its standard error, the point being one of its `count`. */
  void (*say)(void *context, const struct sweep *, long point, long count, const char *line);
  void *context;
};

/* Check points shard, shard + shards, ... (from 1) of the product, and keep only them; nothing is written.
   `name`: of the sweep, for the default folder. */
int sweep_plan(struct sweep *, const struct config *, const char *name, long shard, long shards,
               struct error *);
/* Take over the points of another sweep, but those that are the same run as one that is there; `more` is empty then.
   The configurations of both must live on. */
void sweep_join(struct sweep *, struct sweep *more);
/* How sweep_run will use the machine: fill in jobs and threads where they are 0. One run a launch on the
   CPU, where a process a run is as fast and a crash costs one run; as many launches as the cores carry. On a GPU one
   launch at a time, of many runs. */
void sweep_share(struct sweep *);
/* launch[i], from 1: which launch will compute point i; 0: it is done. */
void sweep_launches(const struct sweep *, long *launch);
/* Run what is not done, in processes of their own; a point that fails stops no other. STATUS_OK when every
   point is done or in the hands of another process, STATUS_FAIL when one failed, STATUS_STOPPED when some are
   to go on. */
int sweep_run(struct sweep *, struct error *);
void sweep_free(struct sweep *);
const char *sweep_fate_name(enum sweep_fate);
#endif
