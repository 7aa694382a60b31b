/* sweep.c - a process a launch: a crash, a kill or no memory costs its points alone. Each worker holds a lock on every
   point of its own from before it looks at the run file until the launch is over, so that sweeps may share a folder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/sweep_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/bits.h"
#include "run/drive.h"
#include "run/extend.h"
#include "run/launch.h"
#include "run/trainer.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/recorder.h"

enum { TICK_MS = 100 };

/* --- a worker ------------------------------------------------------------------------------------------- */

/* What a worker tells of a point: small enough to be written and read whole. */
struct note {
  long point;
  enum sweep_fate fate;
  long step;
  char reason[512];
};

/* A launch as its worker knows it; arrays by run. */
struct sweep_launch {
  struct sweep *sweep;
  int fd; /* takes the notes */
  long count;
  const long *point;
  struct lock **lock;
  char **lock_path;
  struct launch_run *run;
  long *berth; /* which point the runs that are computed belong to */
  double *told;
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
  tell(c, c->berth[run], SWEEP_RUNNING, trainer_step_count(t), "");
}

static struct sweep_point *point_of(const struct sweep_launch *c, long at)
{
  return &c->sweep->points[c->point[at]];
}

/* The run of a point, to be computed; 0 where there is nothing to do, which is told. */
static int enlist(struct sweep_launch *c, long at, struct launch_run *run)
{
  struct sweep_point *p = point_of(c, at);
  struct error e = {0};
  struct buffer lock_path = {0};
  enum sweep_fate fate;
  buffer_add(&lock_path, "%.*s.point", (int)strlen(p->path) - 3, p->path);
  c->lock_path[at] = lock_path.text;
  errno = 0;
  if (!file_make_folders(p->path, &e)) c->lock[at] = lock_take(lock_path.text, &e);
  if (!c->lock[at]) {
    tell(c, at, errno == EWOULDBLOCK ? SWEEP_ELSEWHERE : SWEEP_FAILED, p->steps, e.text);
    return 0;
  }
  struct config *config = sweep_point_config(p, p->path, &e);
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
  int is_over = !record->overwrite && sweep_is_done(p->path, &fate, NULL, NULL);
  if (is_over) tell(c, at, fate, p->steps, fate == SWEEP_FAILED ? sweep_nonfinite_fails : "");
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
  const struct sweep_point *p = point_of(c, c->berth[number]);
  enum sweep_fate fate = SWEEP_FAILED;
  if (run->status == STATUS_STOPPED)
    fate = SWEEP_STOPPED;
  else if (run->status == STATUS_DIVERGED)
    error_set(&run->error, run->status, "%s", sweep_nonfinite_fails);
  else if (run->status == STATUS_OK && !sweep_is_done(p->path, &fate, NULL, NULL))
    fate = SWEEP_FAILED;
  if (p->drops && (fate == SWEEP_FINISHED || fate == SWEEP_DIVERGED)) drop_checkpoints(p, &run->error);
  tell(c, c->berth[number], fate, p->steps, run->error.text);
}

static _Noreturn void work(struct sweep *s, const long *point, long count, int fd, pid_t parent)
{
  size_t n = (size_t)count;
  struct sweep_launch c = {.sweep = s, .fd = fd, .count = count, .point = point};
  int runs = 0;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(STATUS_STOPPED);
  c.lock = memory_new(n, sizeof *c.lock);
  c.lock_path = memory_new(n, sizeof *c.lock_path);
  c.run = memory_new(n, sizeof *c.run);
  c.berth = memory_new(n, sizeof *c.berth);
  c.told = memory_new(n, sizeof *c.told);
  for (long i = 0; i < count; i++)
    if (enlist(&c, i, &c.run[runs])) c.berth[runs++] = i;
  launch_drive(c.run, runs, (int)s->threads, &(struct launch_ears){tell_progress, tell_end, &c});
  for (long i = 0; i < count; i++)
    if (c.lock[i]) lock_release(c.lock[i], c.lock_path[i]);
  _exit(STATUS_OK); /* without the parent's buffers and exit handlers */
}

/* --- the parent ---------------------------------------------------------------------------------------- */

struct worker {
  pid_t pid;
  long *point, count; /* its points */
  int notes, text;
  struct buffer line;
};

static void look(struct sweep *s, long point)
{
  if (s->look) s->look(s->context, s, point);
}

static int open_pipe(int ends[2], struct error *e)
{
  if (pipe2(ends, O_CLOEXEC)) return error_set(e, STATUS_FAIL, "cannot open a pipe: %s", strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return STATUS_OK;
}

static int start(struct sweep *s, struct worker *w, struct error *e)
{
  int notes[2], text[2];
  w->count = sweep_next_launch(s, sweep_next_waiting(s, 0), NULL, w->point);
  if (open_pipe(notes, e)) return e->status;
  if (open_pipe(text, e)) {
    close(notes[0]);
    close(notes[1]);
    return e->status;
  }
  if (!s->one_launch) bits_warn("cpu");
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    dup2(text[1], STDERR_FILENO);
    work(s, w->point, w->count, notes[1], parent);
  }
  close(notes[1]);
  close(text[1]);
  w->pid = pid, w->notes = notes[0], w->text = text[0];
  for (long i = 0; pid > 0 && i < w->count; i++) s->points[w->point[i]].fate = SWEEP_RUNNING;
  if (pid > 0) return STATUS_OK;
  close(notes[0]);
  close(text[0]);
  w->pid = 0;
  return error_set(e, STATUS_FAIL, "cannot start a process: %s", strerror(errno));
}

static void hear_notes(struct sweep *s, struct worker *w)
{
  struct note note;
  while (read(w->notes, &note, sizeof note) == (ssize_t)sizeof note) {
    struct sweep_point *p = &s->points[note.point];
    int was_over = p->fate > SWEEP_RUNNING;
    p->fate = note.fate;
    p->step = note.step;
    if (*note.reason) snprintf(p->reason, sizeof p->reason, "%s", note.reason);
    if (p->fate > SWEEP_RUNNING && !was_over) look(s, note.point);
  }
}

static void hear_text(struct sweep *s, struct worker *w)
{
  char piece[4096], *end;
  ssize_t n;
  while ((n = read(w->text, piece, sizeof piece)) > 0) buffer_add(&w->line, "%.*s", (int)n, piece);
  while (w->line.length && (end = strchr(w->line.text, '\n'))) {
    *end = 0;
    if (s->say) s->say(s->context, s, w->point[0], w->count, w->line.text);
    w->line.length -= (size_t)(end + 1 - w->line.text);
    memmove(w->line.text, end + 1, w->line.length + 1);
  }
}

/* The worker is gone: its last words, and what became of its points. */
static void bury(struct sweep *s, struct worker *w, int status)
{
  hear_notes(s, w);
  hear_text(s, w);
  for (long i = 0; i < w->count; i++) {
    struct sweep_point *p = &s->points[w->point[i]];
    if (p->fate != SWEEP_RUNNING) continue;
    p->fate = SWEEP_FAILED;
    if (WIFSIGNALED(status))
      snprintf(p->reason, sizeof p->reason, "killed by signal %d (%s)", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    else
      snprintf(p->reason, sizeof p->reason, "ended with status %d", WEXITSTATUS(status));
    look(s, w->point[i]);
  }
  close(w->notes);
  close(w->text);
  memory_free(w->line.text);
  *w = (struct worker){.point = w->point};
}

static void reap(struct sweep *s, struct worker *workers, long count)
{
  for (long i = 0; i < count; i++) {
    int status;
    if (workers[i].pid && waitpid(workers[i].pid, &status, WNOHANG) == workers[i].pid)
      bury(s, &workers[i], status);
  }
}

/* Sleep until a worker says something or a tick has passed. */
static void listen_to(struct sweep *s, struct worker *workers, long count, struct pollfd *ears)
{
  for (long i = 0; i < count; i++) {
    ears[2 * i] = (struct pollfd){.fd = workers[i].pid ? workers[i].notes : -1, .events = POLLIN};
    ears[2 * i + 1] = (struct pollfd){.fd = workers[i].pid ? workers[i].text : -1, .events = POLLIN};
  }
  poll(ears, (nfds_t)(2 * count), TICK_MS);
  for (long i = 0; i < count; i++)
    if (workers[i].pid) {
      hear_notes(s, &workers[i]);
      hear_text(s, &workers[i]);
    }
  look(s, -1);
}

/* Keep the workers busy until the points are used up; returns the number still at work. */
static long keep_busy(struct sweep *s, struct worker *workers, long count, struct error *e)
{
  long busy = 0;
  for (long i = 0; i < count; i++) {
    int waiting = sweep_next_waiting(s, 0) < s->count;
    if (!workers[i].pid && waiting && !drive_stopping() && !e->status) start(s, &workers[i], e);
    busy += workers[i].pid != 0;
  }
  return busy;
}

static int outcome(const struct sweep *s, const struct error *e)
{
  int failed = e->status != STATUS_OK, open = 0;
  for (long i = 0; i < s->count; i++) {
    enum sweep_fate fate = s->points[i].fate;
    failed |= fate == SWEEP_FAILED;
    open |= fate == SWEEP_STOPPED || fate == SWEEP_WAITING;
  }
  return failed ? STATUS_FAIL : open ? STATUS_STOPPED : STATUS_OK;
}

/* Can runs be written beside this one? Asked once, where else each of them would say so. */
static int prepare_folder(const char *path, struct error *e)
{
  struct buffer folder = {0};
  int status = file_make_folders(path, e);
  buffer_add(&folder, "%.*s.", (int)(strrchr(path, '/') + 1 - path), path);
  if (!status && access(folder.text, W_OK | X_OK))
    status = error_set(e, STATUS_FAIL, "cannot write in the folder %.*s: %s", (int)folder.length - 2,
                       folder.text, strerror(errno));
  memory_free(folder.text);
  return status;
}

int sweep_run(struct sweep *s, struct error *e)
{
  long first = sweep_next_waiting(s, 0);
  if (first < s->count && prepare_folder(s->points[first].path, e)) return e->status;
  sweep_share(s);
  long count = s->jobs < s->count ? s->jobs : s->count, most = s->together;
  struct worker *workers = memory_new((size_t)count, sizeof *workers);
  long *points = memory_new((size_t)(count * most), sizeof *points);
  for (long i = 0; i < count; i++) workers[i].point = points + i * most;
  struct pollfd *ears = memory_new(2 * (size_t)count, sizeof *ears);
  drive_catch_signals();
  for (int told = 0; keep_busy(s, workers, count, e);) {
    listen_to(s, workers, count, ears);
    int stop = drive_stopping(); /* asked once: a signal may come at any time */
    for (long i = 0; i < count && stop && !told; i++)
      if (workers[i].pid) kill(workers[i].pid, SIGTERM);
    told = stop;
    reap(s, workers, count);
  }
  memory_free(ears);
  memory_free(points);
  memory_free(workers);
  return outcome(s, e);
}
