/* worker.c - a launch of a sweep, in a process of its own: it holds a lock on every point of its own from before it
   looks at the run file until the launch is over, so that sweeps may share a folder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/extend.h"
#include "run/launch.h"
#include "run/sweep_parts.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"

struct sweep_launch {
  struct sweep *sweep;
  int fd; /* takes the notes */
  const long *point;
  struct lock **lock;     /* by point */
  struct launch_run *run; /* those that are computed, and of each: */
  long *point_of;         /* which of the points it is */
  double *told;           /* when its progress was last told */
};

static void tell(const struct sweep_launch *c, long at, enum sweep_fate fate, long step, const char *reason)
{
  struct note note = {.point = c->point[at], .fate = fate, .step = step};
  snprintf(note.reason, sizeof note.reason, "%.511s", reason);
  while (write(c->fd, &note, sizeof note) < 0 && errno == EINTR) {}
}

static void tell_progress(void *context, int run, const struct trainer *t)
{
  struct sweep_launch *c = context;
  double now = clock_seconds();
  if (now - c->told[run] < TICK_MS * 1e-3) return;
  c->told[run] = now;
  tell(c, c->point_of[run], SWEEP_RUNNING, trainer_step_count(t), "");
}

static struct sweep_point *launched(const struct sweep_launch *c, long at)
{
  return &c->sweep->points[c->point[at]];
}

/* The run of a point, to be computed; 0 where there is nothing to do, which is told. */
static int enlist(struct sweep_launch *c, long at, struct launch_run *run)
{
  struct sweep_point *p = launched(c, at);
  struct error e = {0};
  enum sweep_fate fate;
  char lock_path[4096];
  run_sibling(lock_path, p->path, ".point");
  errno = 0;
  if (!file_make_folders(p->path, &e)) c->lock[at] = lock_take(lock_path, &e);
  if (!c->lock[at]) {
    tell(c, at, errno == EWOULDBLOCK ? SWEEP_ELSEWHERE : SWEEP_FAILED, p->steps, e.text);
    return 0;
  }
  struct config *config = sweep_config_of(p, p->path, &e);
  if (!config) {
    tell(c, at, SWEEP_FAILED, 0, e.text);
    return 0;
  }
  const struct record_options *record = config_section(config, "record");
  double max_time = ((const struct train_options *)config_section(config, "train"))->max_time;
  int extends = *p->from && !sweep_is_begun(p);
  if (extends && extend_run(p->from, p->path, config, &e)) {
    tell(c, at, SWEEP_FAILED, 0, e.text);
    config_free(config);
    return 0;
  }
  int is_over = !record->overwrite && sweep_is_done(p, &fate, NULL, NULL);
  if (is_over) tell(c, at, fate, p->steps, fate == SWEEP_FAILED ? NONFINITE_FAILS : "");
  if (is_over || (!record->overwrite && !access(p->path, F_OK))) {
    config_free(config);
    config = NULL;
  }
  *run = (struct launch_run){.config = config, .path = p->path, .max_time = max_time};
  return !is_over;
}

/* What its checkpoints were for is over. */
static void drop_checkpoints(const struct sweep_point *p, struct error *e)
{
  char folder[4096];
  run_sibling(folder, p->path, ".ckpt");
  if (!checkpoint_remove_all(p->path, e)) rmdir(folder);
}

static void tell_end(void *context, int number)
{
  const struct sweep_launch *c = context;
  struct launch_run *run = &c->run[number];
  const struct sweep_point *p = launched(c, c->point_of[number]);
  enum sweep_fate fate = SWEEP_FAILED;
  if (run->status == STATUS_STOPPED)
    fate = SWEEP_STOPPED;
  else if (run->status == STATUS_DIVERGED)
    error_set(&run->error, run->status, NONFINITE_FAILS);
  else if (run->status == STATUS_OK && !sweep_is_done(p, &fate, NULL, NULL))
    fate = SWEEP_FAILED;
  if (p->drops && (fate == SWEEP_FINISHED || fate == SWEEP_DIVERGED)) drop_checkpoints(p, &run->error);
  tell(c, c->point_of[number], fate, p->steps, run->error.text);
}

_Noreturn void sweep_work(struct sweep *s, const long *point, long count, int fd, pid_t parent)
{
  size_t n = (size_t)count;
  struct sweep_launch c = {.sweep = s, .fd = fd, .point = point};
  int runs = 0;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(STATUS_STOPPED);
  c.lock = memory_new(n, sizeof *c.lock);
  c.run = memory_new(n, sizeof *c.run);
  c.point_of = memory_new(n, sizeof *c.point_of);
  c.told = memory_new(n, sizeof *c.told);
  for (long i = 0; i < count; i++)
    if (enlist(&c, i, &c.run[runs])) c.point_of[runs++] = i;
  launch_drive(c.run, runs, (int)s->threads, &(struct launch_ears){tell_progress, tell_end, &c});
  for (long i = 0; i < count; i++) {
    char lock_path[4096];
    run_sibling(lock_path, launched(&c, i)->path, ".point");
    if (c.lock[i]) lock_release(c.lock[i], lock_path);
  }
  _exit(STATUS_OK); /* without the parent's buffers and exit handlers */
}
