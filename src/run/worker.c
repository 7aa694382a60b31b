/* worker.c - computes a launch of a sweep in a child process
   The worker locks each point before it reads the run file, and holds the lock until the point is over, so that sweeps
   may share a folder. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "run/drive.h"
#include "run/extend.h"
#include "run/claim.h"
#include "run/farm.h"
#include "run/batched_run.h"
#include "run/sweep_parts.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/run_file.h"

struct sweep_launch {
  struct sweep *sweep;
  int fd; /* receives the notes; -1: apply them in this process */
  const long *point;
  struct lock **lock;      /* by point */
  struct batched_run *run; /* the runs that are computed */
  long *point_of;          /* for each run, its index in `point` */
  double *told;            /* for each run, the time of its last report */
};

void sweep_hear(struct sweep *s, const struct sweep_note *note)
{
  struct sweep_point *p = &s->points[note->point];
  int was_over = p->fate > SWEEP_RUNNING;
  p->elsewhere = note->fate == SWEEP_ELSEWHERE && farm_is_open(); /* this sweep waits for it */
  p->fate = p->elsewhere ? SWEEP_RUNNING : note->fate;
  p->step = note->step;
  if (*note->reason) snprintf(p->reason, sizeof p->reason, "%s", note->reason);
  if (p->fate > SWEEP_RUNNING && !was_over && s->look) s->look(s->context, s, note->point);
}

static struct sweep_point *launched(const struct sweep_launch *c, long at)
{
  return &c->sweep->points[c->point[at]];
}

static void report_point(const struct sweep_launch *c, long at, enum sweep_fate fate, long step,
                         const char *reason)
{
  const struct sweep_point *p = launched(c, at);
  struct sweep_note note = {.point = c->point[at], .fate = fate, .step = step};
  struct error ignored = {0};
  snprintf(note.reason, sizeof note.reason, "%.511s", reason);
  if (c->lock[at] && lock_was_taken(c->lock[at], &ignored)) /* another process considered this worker lost */
    note.fate = SWEEP_ELSEWHERE;
  else if (fate != SWEEP_FINISHED && fate != SWEEP_DIVERGED)
    claim_mark(c->lock[at], p, fate, step, note.reason);
  if (fate > SWEEP_RUNNING) {
    claim_release(c->lock[at], p);
    c->lock[at] = NULL;
  }
  if (c->fd < 0) sweep_hear(c->sweep, &note);
  while (c->fd >= 0 && write(c->fd, &note, sizeof note) < 0 && errno == EINTR) {}
}

static void tell_progress(void *context, int run, const struct trainer *t)
{
  struct sweep_launch *c = context;
  double now = clock_seconds();
  if (now - c->told[run] < TICK_MS * 1e-3) return;
  c->told[run] = now;
  report_point(c, c->point_of[run], SWEEP_RUNNING, trainer_status(t).done, "");
  if (c->fd < 0 && c->sweep->look) c->sweep->look(c->sweep->context, c->sweep, -1);
}

/* Lock a point. Returns 0, and reports why, if another process holds the lock or locking fails. */
static int take_point(struct sweep_launch *c, long at)
{
  struct sweep_point *p = launched(c, at);
  struct error e = {0};
  char lock_path[4096];
  run_sibling(lock_path, p->path, ".point");
  errno = 0;
  if (!file_make_folders(p->path, &e)) c->lock[at] = lock_take(lock_path, &e);
  if (!c->lock[at])
    report_point(c, at, errno == EWOULDBLOCK ? SWEEP_ELSEWHERE : SWEEP_FAILED, p->steps, e.text);
  return c->lock[at] != NULL;
}

/* Is the file of a point of another run? One that was being extended has the id of the shorter run. */
static int holds_another(const struct sweep_point *p)
{
  struct run_file *run = NULL, *from = NULL;
  if (access(p->path, F_OK) || run_peek(&run, p->path, NULL)) return 0;
  int is_other = strcmp(run_id(run), p->id) != 0;
  if (is_other && *p->from && !run_peek(&from, p->from, NULL)) {
    is_other = strcmp(run_id(run), run_id(from)) != 0;
    run_close(from);
  }
  run_close(run);
  return is_other;
}

/* Add the run of a locked point. Returns 0 if there is nothing to do, and reports why. */
static int enlist(struct sweep_launch *c, long at, struct batched_run *run)
{
  struct sweep_point *p = launched(c, at);
  struct error e = {0};
  enum sweep_fate fate;
  char reason[512];
  if (claim_ended(p, &fate, reason)) {
    report_point(c, at, fate, 0, reason);
    return 0;
  }
  report_point(c, at, SWEEP_RUNNING, 0, "");
  struct config *config = sweep_config_of(p, p->path, &e);
  if (!config) {
    report_point(c, at, SWEEP_FAILED, 0, e.text);
    return 0;
  }
  const struct record_options *record = config_section(config, "record");
  double max_time = ((const struct train_options *)config_section(config, "train"))->max_time;
  int extends = *p->from && !sweep_is_begun(p);
  if (!record->overwrite && holds_another(p)) {
    snprintf(reason, sizeof reason, "%.300s is now another run, as after a resume to more steps: move it",
             p->path);
    report_point(c, at, SWEEP_FAILED, 0, reason);
    config_free(config);
    return 0;
  }
  if (extends && extend_run(p->from, p->path, config, &e)) {
    report_point(c, at, SWEEP_FAILED, 0, e.text);
    config_free(config);
    return 0;
  }
  int is_over = !record->overwrite && sweep_is_done(p, &fate, NULL, NULL);
  if (is_over) report_point(c, at, fate, p->steps, fate == SWEEP_FAILED ? NONFINITE_FAILS : "");
  if (is_over || (!record->overwrite && !access(p->path, F_OK))) {
    config_free(config);
    config = NULL;
  }
  *run = (struct batched_run){.config = config, .path = p->path, .max_time = max_time};
  return !is_over;
}

/* Remove the checkpoints of a finished point. */
static void drop_checkpoints(const struct sweep_point *p, struct error *e)
{
  checkpoint_remove_folder(p->path, e);
}

static void tell_end(void *context, int number)
{
  const struct sweep_launch *c = context;
  struct batched_run *run = &c->run[number];
  const struct sweep_point *p = launched(c, c->point_of[number]);
  enum sweep_fate fate = SWEEP_FAILED;
  if (run->status == STATUS_STOPPED)
    fate = SWEEP_STOPPED;
  else if (run->status == STATUS_DIVERGED)
    error_set(&run->error, run->status, NONFINITE_FAILS);
  else if (run->status == STATUS_OK && !sweep_is_done(p, &fate, NULL, NULL))
    fate = SWEEP_FAILED;
  if (p->drops && (fate == SWEEP_FINISHED || fate == SWEEP_DIVERGED)) drop_checkpoints(p, &run->error);
  report_point(c, c->point_of[number], fate, p->steps, run->error.text);
}

_Noreturn void sweep_work(struct sweep *s, const long *point, long count, int fd, pid_t parent)
{
  size_t n = (size_t)count;
  struct sweep_launch c = {.sweep = s, .fd = fd, .point = point};
  int runs = 0;
  messages_to(NULL); /* rank 0's message hook belongs to the parent */
  platform_end_with_parent();
  if (getppid() != parent) _exit(STATUS_STOPPED);
  c.lock = memory_new(n, sizeof *c.lock);
  c.run = memory_new(n, sizeof *c.run);
  c.point_of = memory_new(n, sizeof *c.point_of);
  c.told = memory_new(n, sizeof *c.told);
  /* Ranks that choose the same launch at the same time must not split it: the rank that locks the first point also
     locks the others, and all other ranks leave them to it. */
  for (long i = 0; i < count; i++)
    if (i && !c.lock[0] && farm_is_open())
      report_point(&c, i, SWEEP_WAITING, 0, "");
    else
      take_point(&c, i);
  for (long i = 0; i < count; i++)
    if (c.lock[i] && enlist(&c, i, &c.run[runs])) c.point_of[runs++] = i;
  batched_run_drive(c.run, runs, (int)s->threads, &(struct batched_run_hooks){tell_progress, tell_end, &c});
  _exit(STATUS_OK); /* without the parent's buffers and exit handlers */
}

/* --- a run by the ranks of a group ------------------------------------------------------------------------------ */

/* An order of the group's rank 0 to the other ranks. */
struct work_order {
  enum { WAIT, END, TRAIN } what;
  int goes_on; /* from its file */
  long point;
};

static void tick(void *context, const struct trainer *t)
{
  if (!farm_group()->rank) tell_progress(context, 0, t);
  farm_stops();
  if (!farm_group()->rank) claim_look_around(((struct sweep_launch *)context)->sweep);
}

/* Rank 0 of the group holds the lock. A failure on any rank ends this run on all ranks, but not the sweep. */
static void train(struct sweep_launch *c, const struct work_order *o)
{
  struct sweep_point *p = launched(c, 0);
  struct batched_run *run = c->run;
  struct trainer *t = NULL;
  struct config *config = sweep_config_of(p, p->path, &run->error);
  if (!config)
    run->status = run->error.status;
  else if (o->goes_on)
    run->status = trainer_resume(&t, p->path, NULL, 0, &run->error);
  else
    run->status = trainer_init(&t, config, 0, &run->error);
  if (!run->status)
    run->status = drive(t, ((const struct train_options *)config_section(config, "train"))->max_time, tick, c,
                        &run->error);
  if (comm_agree(farm_group(), NULL, &run->error)) run->status = run->error.status;
  farm_group()->status = STATUS_OK;
  config_free(config);
}

static struct work_order next_order(struct sweep *s, struct sweep_launch *c, long *point)
{
  while (!farm_stops() && (*point = claim_longest(s)) < s->count) {
    int goes = take_point(c, 0) && enlist(c, 0, c->run), fresh = c->run->config != NULL;
    config_free(c->run->config);
    if (goes) return (struct work_order){TRAIN, !fresh, *point};
  }
  int goes_on = claim_look_around(s) && !farm_stops();
  return (struct work_order){goes_on ? WAIT : END, 0, 0};
}

void sweep_work_together(struct sweep *s)
{
  struct comm *group = farm_group();
  struct work_order *said = memory_new((size_t)group->ranks, sizeof *said), own;
  for (;;) {
    struct lock *lock = NULL;
    long point = 0, point_of = 0;
    double told = 0;
    struct batched_run run = {0};
    struct sweep_launch c = {s, -1, &point, &lock, &run, &point_of, &told};
    own = group->rank ? (struct work_order){0} : next_order(s, &c, &point);
    comm_gather(group, &own, said, sizeof own);
    farm_stops(); /* a signal to any rank reaches all */
    if (said->what == END) break;
    if (said->what == WAIT) {
      usleep(TICK_MS * 1000);
      if (!group->rank && s->look) s->look(s->context, s, -1);
      continue;
    }
    point = said->point;
    train(&c, said);
    if (!group->rank) tell_end(&c, 0);
  }
  for (long i = 0; group->rank && i < s->count; i++)
    if (s->points[i].fate <= SWEEP_RUNNING) claim_look(&s->points[i]);
  memory_free(said);
}
