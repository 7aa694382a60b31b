/* sweep.c - divides the machine among the launches of a sweep, starts the workers and reads their reports
   Each launch is a process, so that a crash, a kill or lack of memory costs only its own points. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"
#include "base/thread.h"
#include "run/bits.h"
#include "run/drive.h"
#include "run/claim.h"
#include "run/farm.h"
#include "run/sweep_parts.h"

/* --- how the machine is shared ---------------------------------------------------------------------------- */

/* In a farm a launch is at most an equal share of the waiting points, so that no rank idles. A group of several ranks
   computes one point at a time. */
static long farm_share(const struct sweep *s)
{
  long waiting = 0, groups = farm_groups();
  for (long i = 0; i < s->count; i++) waiting += s->points[i].fate == SWEEP_WAITING;
  return farm_group()->ranks > 1 || waiting < groups ? 1 : (waiting + groups - 1) / groups;
}

void sweep_share(struct sweep *s)
{
  if (farm_is_open() && farm_share(s) < s->together) s->together = farm_share(s);
  long cores = thread_cores() / (farm_is_open() ? comm_neighbours() : 1); /* of this rank */
  if (cores < 1) cores = 1;
  long most = s->together < s->count ? s->together : s->count; /* threads that a launch can use */
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

/* List the waiting points that share a launch with `first`, which is included; returns their number. Skips points that
   are already `taken` (may be NULL). */
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

/* --- the workers ------------------------------------------------------------------------------------------ */

struct sweep_worker {
  pid_t pid;
  long *point, count; /* its points */
  int notes, text;
  double heard; /* time of the last report */
  struct buffer line;
};

static void look(struct sweep *s, long point)
{
  if (s->look) s->look(s->context, s, point);
}

static int open_pipe(int ends[2], struct error *e)
{
  if (platform_pipe(ends)) return error_set(e, STATUS_FAIL, "cannot open a pipe: %s", strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return STATUS_OK;
}

/* The first point of the next launch; s->count: none. */
static long next_first(struct sweep *s) { return farm_is_open() ? claim_longest(s) : next_waiting(s, 0); }

static int start(struct sweep *s, struct sweep_worker *w, long first, struct error *e)
{
  int notes[2], text[2];
  w->count = farm_is_open() ? claim_launch(s, first, w->point) : next_launch(s, first, NULL, w->point);
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
    sweep_work(s, w->point, w->count, notes[1], parent);
  }
  close(notes[1]);
  close(text[1]);
  w->heard = clock_seconds();
  w->pid = pid, w->notes = notes[0], w->text = text[0];
  for (long i = 0; pid > 0 && i < w->count; i++) s->points[w->point[i]].fate = SWEEP_RUNNING;
  if (pid > 0) return STATUS_OK;
  close(notes[0]);
  close(text[0]);
  w->pid = 0;
  return error_set(e, STATUS_FAIL, "cannot start a process: %s", strerror(errno));
}

static void hear_notes(struct sweep *s, struct sweep_worker *w)
{
  struct sweep_note note;
  while (read(w->notes, &note, sizeof note) == (ssize_t)sizeof note) {
    sweep_hear(s, &note);
    w->heard = clock_seconds();
  }
}

static void hear_text(struct sweep *s, struct sweep_worker *w)
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

/* The worker has ended: read its last reports, and mark its unfinished points as failed. */
static void bury(struct sweep *s, struct sweep_worker *w, int status)
{
  hear_notes(s, w);
  hear_text(s, w);
  for (long i = 0; i < w->count; i++) {
    struct sweep_point *p = &s->points[w->point[i]];
    if (p->fate != SWEEP_RUNNING || p->elsewhere) continue;
    p->fate = SWEEP_FAILED;
    if (WIFSIGNALED(status))
      snprintf(p->reason, sizeof p->reason, "killed by signal %d (%s)", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    else
      snprintf(p->reason, sizeof p->reason, "ended with status %d", WEXITSTATUS(status));
    if (farm_is_open()) claim_bury(p, WIFSIGNALED(status) ? WTERMSIG(status) : 0, p->reason);
    if (p->fate == SWEEP_FAILED) look(s, w->point[i]);
  }
  close(w->notes);
  close(w->text);
  memory_free(w->line.text);
  *w = (struct sweep_worker){.point = w->point};
}

static void reap(struct sweep *s, struct sweep_worker *workers, long count)
{
  for (long i = 0; i < count; i++) {
    int status, stuck = farm_is_open() && clock_seconds() - workers[i].heard >= farm_patience();
    if (workers[i].pid && stuck) kill(workers[i].pid, SIGKILL);
    if (workers[i].pid && waitpid(workers[i].pid, &status, WNOHANG) == workers[i].pid)
      bury(s, &workers[i], status);
  }
}

/* Sleep until a worker writes or a tick has passed. */
static void listen_to(struct sweep *s, struct sweep_worker *workers, long count, struct pollfd *hooks)
{
  for (long i = 0; i < count; i++) {
    hooks[2 * i] = (struct pollfd){.fd = workers[i].pid ? workers[i].notes : -1, .events = POLLIN};
    hooks[2 * i + 1] = (struct pollfd){.fd = workers[i].pid ? workers[i].text : -1, .events = POLLIN};
  }
  poll(hooks, (nfds_t)(2 * count), TICK_MS);
  for (long i = 0; i < count; i++)
    if (workers[i].pid) {
      hear_notes(s, &workers[i]);
      hear_text(s, &workers[i]);
    }
  claim_look_around(s);
  look(s, -1);
}

/* Keep the workers busy until no point is waiting; returns the number of workers that still run. */
static long keep_busy(struct sweep *s, struct sweep_worker *workers, long count, struct error *e)
{
  long busy = 0;
  for (long i = 0; i < count; i++) {
    long first = workers[i].pid || drive_stopping() || e->status ? s->count : next_first(s);
    if (first < s->count) start(s, &workers[i], first, e);
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
    open |= fate == SWEEP_STOPPED || fate == SWEEP_WAITING || fate == SWEEP_RUNNING;
  }
  return failed ? STATUS_FAIL : open ? STATUS_STOPPED : STATUS_OK;
}

/* Check write access to the folder once; otherwise each run would report the same error. */
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
  if (first < s->count) prepare_folder(s->points[first].path, e);
  if (farm_barrier(e)) return e->status;
  sweep_share(s);
  if (farm_group() && farm_group()->ranks > 1) {
    sweep_work_together(s);
    return outcome(s, e);
  }
  long count = s->jobs < s->count ? s->jobs : s->count, most = s->together;
  struct sweep_worker *workers = memory_new((size_t)count, sizeof *workers);
  long *points = memory_new((size_t)(count * most), sizeof *points);
  for (long i = 0; i < count; i++) workers[i].point = points + i * most;
  struct pollfd *hooks = memory_new(2 * (size_t)count, sizeof *hooks);
  drive_catch_signals();
  for (int told = 0; keep_busy(s, workers, count, e) || (claim_look_around(s) && !farm_stops());) {
    listen_to(s, workers, count, hooks);
    if (farm_is_open() && e->status) drive_stop(); /* a rank that fails stops the others */
    int stop = farm_stops();                       /* read once: a signal may come at any time */
    for (long i = 0; i < count && stop && !told; i++)
      if (workers[i].pid) kill(workers[i].pid, SIGTERM);
    told = stop;
    reap(s, workers, count);
  }
  memory_free(hooks);
  memory_free(points);
  memory_free(workers);
  return outcome(s, e);
}
