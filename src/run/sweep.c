/* sweep.c - a process a launch: a crash, a kill or no memory costs its points alone. Each worker holds a lock on every
   point of its own from before it looks at the run file until the launch is over, so that sweeps may share a folder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/sweep.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <search.h>
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
#include "base/thread.h"
#include "numerics/slab.h"
#include "run/bits.h"
#include "run/drive.h"
#include "run/extend.h"
#include "run/launch.h"
#include "run/plan.h"
#include "run/trainer.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/recorder.h"

enum { MOST_POINTS = 100000, TICK_MS = 100 };

const char *sweep_fate_name(enum sweep_fate fate)
{
  static const char *const names[] = {"waiting", "running",   "finished", "diverged",
                                      "stopped", "elsewhere", "failed"};
  return names[fate];
}

/* --- the plan ------------------------------------------------------------------------------------------- */

/* A point, finished: its file in place, one thread unless told otherwise. */
static struct config *point_config(const struct sweep_point *p, const char *path, struct error *e)
{
  struct config *c = config_point(p->config, p->index);
  int status = config_finish(c, e);
  if (!status && ((const struct device_options *)config_section(c, "device"))->threads == 0)
    status = config_set(c, "device.threads", "1", "sweep", e);
  if (!status && *((const struct record_options *)config_section(c, "record"))->path)
    status = error_set(e, STATUS_USAGE, "record.path: a sweep names its runs itself, in sweep.dir");
  if (!status && path) status = config_set(c, "record.path", path, "sweep", e);
  if (!status) status = config_finish(c, e);
  if (!status) return c;
  config_free(c);
  return NULL;
}

static char *make_path(const char *folder, const char *id)
{
  struct buffer b = {0};
  buffer_add(&b, "%s/%s.h5", folder, id);
  return b.text;
}

struct lacking {
  const struct run_file *run;
  char *out;
  size_t room;
};

/* Does a run recorded with `has` lack rows or series that `wanted` asks for? Intervals: 0 is off, and the rows
   of an interval are there under each that divides it. */
static int is_lacking(const struct option_row *row, const char *wanted, const char *has)
{
  if (!strcmp(wanted, has)) return 0;
  if (strcmp(row->unit, "steps")) return strcmp(wanted, row->standard) != 0;
  long interval = strtol(wanted, NULL, 10), recorded = strtol(has, NULL, 10);
  return interval && (!recorded || interval % recorded);
}

static int add_lacking(void *context, const struct config_entry *x)
{
  struct lacking *l = context;
  int is_arm = !strcmp(x->key, "arm");
  if ((strncmp(x->key, "record.", 7) && !is_arm) || !strcmp(x->row->name, "path") ||
      !strcmp(x->row->name, "overwrite"))
    return 0;
  const char *has = run_parameter(l->run, x->key);
  size_t used = strlen(l->out);
  if (!has) has = x->row->standard; /* a file older than the key */
  if (is_lacking(x->row, x->value, has))
    snprintf(l->out + used, l->room - used, "%s%s=%s (has %s)", used ? " " : "", x->key, x->value, has);
  return 0;
}

static const char nonfinite_fails[] = "diverged, and train.on_nonfinite = fail";

/* Was this run done before? 0 too where there is no file or it cannot be read: its worker will tell.
   `wanted`: NULL, or the point's configuration; then `lacks` says what the file was made without. */
static int is_done(const char *path, enum sweep_fate *fate, const struct config *wanted, char lacks[256])
{
  struct run_file *run = NULL;
  struct error e = {0};
  const char *name = text_file_name(path);
  if (access(path, F_OK) || run_open(&run, path, &e)) return 0;
  if (strncmp(name, run_id(run), strcspn(name, "."))) { /* it was to be made a longer one */
    run_close(run);
    return 0;
  }
  int finished = !strcmp(run_state(run), "finished"), diverged = !strcmp(run_state(run), "diverged");
  const char *policy = run_parameter(run, "train.on_nonfinite");
  int fails = diverged && policy && !strcmp(policy, "fail");
  if (finished || diverged) *fate = finished ? SWEEP_FINISHED : fails ? SWEEP_FAILED : SWEEP_DIVERGED;
  if (wanted) config_each(wanted, add_lacking, &(struct lacking){run, lacks, 256});
  run_close(run);
  return finished || diverged;
}

struct planning {
  struct sweep *sweep;
  struct plan *plan;
  const char *folder;
  struct shorter *shorter;
  void *seen; /* tsearch: the points by id */
};

static int by_id(const void *a, const void *b)
{
  return strcmp(((const struct sweep_point *)a)->id, ((const struct sweep_point *)b)->id);
}

/* Is there a file of this very run? */
static int is_begun(const struct sweep_point *p)
{
  struct run_file *run = NULL;
  struct error e = {0};
  if (access(p->path, F_OK) || run_peek(&run, p->path, &e)) return 0;
  int same = !strcmp(run_id(run), p->id);
  run_close(run);
  return same;
}

/* Fill in a point of the product; 0 in *is_new where it is the same run as an earlier one. */
static int plan_point(struct planning *g, struct sweep_point *p, int *is_new, struct error *e)
{
  config_point_label(p->config, p->index, p->label, sizeof p->label);
  struct config *c = point_config(p, NULL, e);
  int status = c ? plan_check(g->plan, c, p->id, e) : e->status;
  if (status && *p->label) error_prefix(e, "point %ld (%s)", p->index + 1, p->label);
  *is_new = !status && *(struct sweep_point **)tsearch(p, &g->seen, by_id) == p;
  if (*is_new) {
    const struct record_options *record = config_section(c, "record");
    p->structure = config_structure(c);
    p->steps = ((const struct train_options *)config_section(c, "train"))->steps;
    p->path = make_path(g->folder, p->id);
    p->was_done = !record->overwrite && is_done(p->path, &p->fate, c, p->lacks);
    if (p->was_done && p->fate == SWEEP_FAILED) snprintf(p->reason, sizeof p->reason, "%s", nonfinite_fails);
    p->drops = ((const struct sweep_options *)config_section(c, "sweep"))->drop_checkpoints != 0;
    if (!p->was_done && !record->overwrite && !is_begun(p)) shorter_find(g->shorter, c, p->from, p->anew);
  }
  config_free(c);
  return status;
}

static int plan_points(struct planning *g, const struct config *config, long points, long shard, long shards,
                       struct error *e)
{
  struct sweep *s = g->sweep;
  int status = STATUS_OK, is_new;
  s->points = memory_new((size_t)(points / shards) + 1, sizeof *s->points);
  for (long i = shard - 1; i < points && !status; i += shards) {
    struct sweep_point *p = &s->points[s->count];
    *p = (struct sweep_point){.config = config, .index = i};
    status = plan_point(g, p, &is_new, e);
    if (is_new)
      s->count++;
    else
      s->doubles++;
  }
  for (long i = 0; i < s->count; i++) tdelete(&s->points[i], &g->seen, by_id);
  return status;
}

int sweep_plan(struct sweep *s, const struct config *config, const char *name, long shard, long shards,
               struct error *e)
{
  *s = (struct sweep){0};
  REQUIRE(shard >= 1 && shard <= shards);
  long points = config_points(config);
  if (points > MOST_POINTS)
    return error_set(e, STATUS_USAGE, "the product of the lists has more than %d points", MOST_POINTS);
  struct config *first = config_point(config, 0);
  int status = config_finish(first, e);
  const struct sweep_options *o = config_section(first, "sweep");
  struct buffer folder = {0};
  if (!status) {
    buffer_add(&folder, "%s%s", *o->dir ? o->dir : "runs/", *o->dir ? "" : name);
    const char *device = ((const struct top_options *)config_section(first, ""))->device;
    s->jobs = o->jobs;
    s->one_launch = slabs_in_one_call(device);
    s->together = o->together ? o->together : slabs_pay(device);
    s->threads = ((const struct device_options *)config_section(first, "device"))->threads;
    struct planning planning = {.sweep = s, .plan = plan_new(), .folder = folder.text};
    planning.shorter = shorter_new(folder.text);
    status = plan_points(&planning, config, points, shard, shards, e);
    s->trainers = plan_trainers(planning.plan);
    plan_free(planning.plan);
    shorter_free(planning.shorter);
  }
  memory_free(folder.text);
  config_free(first);
  return status;
}

void sweep_join(struct sweep *s, struct sweep *more)
{
  size_t room = (size_t)(s->count + more->count) + 1;
  void *seen = NULL;
  if (!s->count) s->jobs = more->jobs, s->together = more->together, s->threads = more->threads;
  s->points = memory_grow(s->points, (size_t)s->count, room, sizeof *s->points);
  for (long i = 0; i < s->count; i++) tsearch(&s->points[i], &seen, by_id);
  for (long i = 0; i < more->count; i++) {
    struct sweep_point *p = &s->points[s->count];
    *p = more->points[i];
    if (*(struct sweep_point **)tsearch(p, &seen, by_id) == p) {
      more->points[i].path = NULL; /* it has moved */
      s->count++;
    } else
      s->doubles++;
  }
  for (long i = 0; i < s->count; i++) tdelete(&s->points[i], &seen, by_id);
  s->doubles += more->doubles;
  s->trainers += more->trainers;
  sweep_free(more);
}

void sweep_free(struct sweep *s)
{
  for (long i = 0; i < s->count; i++) memory_free(s->points[i].path);
  memory_free(s->points);
  *s = (struct sweep){0};
}

/* --- how the machine is shared ---------------------------------------------------------------------------- */

void sweep_share(struct sweep *s)
{
  long cores = thread_cores();
  long most = s->together < s->count ? s->together : s->count; /* threads that a launch can use well */
  if (!s->jobs && s->one_launch) s->jobs = 1;
  if (!s->threads) {
    long share = s->jobs ? cores / s->jobs : cores;
    s->threads = share < most ? share : most;
    if (s->threads < 1) s->threads = 1;
  }
  if (!s->jobs) s->jobs = cores / s->threads;
  if (s->jobs < 1) s->jobs = 1;
}

static long next_waiting(const struct sweep *s, long from)
{
  while (from < s->count && s->points[from].fate != SWEEP_WAITING) from++;
  return from;
}

/* The waiting points that share a launch with the first of them, it included; returns how many. None that is `taken`
   already (may be NULL). */
static long next_launch(const struct sweep *s, long first, const long *taken, long *point)
{
  long n = 0;
  for (long i = first; i < s->count && n < s->together; i = next_waiting(s, i + 1))
    if (!(taken && taken[i]) && s->points[i].structure == s->points[first].structure) point[n++] = i;
  return n;
}

void sweep_launches(const struct sweep *s, long *launch)
{
  long number = 0, *point = memory_new((size_t)s->together, sizeof *point);
  for (long i = 0; i < s->count; i++) launch[i] = 0;
  for (long i = next_waiting(s, 0); i < s->count; i = next_waiting(s, i + 1)) {
    if (launch[i]) continue;
    number++;
    for (long n = next_launch(s, i, launch, point); n--;) launch[point[n]] = number;
  }
  memory_free(point);
}

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
  struct config *config = point_config(p, p->path, &e);
  if (!config) {
    tell(c, at, SWEEP_FAILED, 0, e.text);
    return 0;
  }
  const struct record_options *record = config_section(config, "record");
  double max_time = ((const struct train_options *)config_section(config, "train"))->max_time;
  int extends = *p->from && !is_begun(p);
  if (extends && extend_run(p->from, p->path, config, &e)) {
    tell(c, at, SWEEP_FAILED, 0, e.text);
    config_free(config);
    return 0;
  }
  int is_over = !record->overwrite && is_done(p->path, &fate, NULL, NULL);
  if (is_over) tell(c, at, fate, p->steps, fate == SWEEP_FAILED ? nonfinite_fails : "");
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
    error_set(&run->error, run->status, "%s", nonfinite_fails);
  else if (run->status == STATUS_OK && !is_done(p->path, &fate, NULL, NULL))
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
  w->count = next_launch(s, next_waiting(s, 0), NULL, w->point);
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
    int waiting = next_waiting(s, 0) < s->count;
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
  long first = next_waiting(s, 0);
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
