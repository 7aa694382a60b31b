#include "run/claim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/farm.h"
#include "run/sweep_parts.h"
#include "storage/layout.h"

static const double look_seconds = 0.5;

/* --- marks ------------------------------------------------------------------------------------------------------ */

struct point_mark {
  uint64_t farm;   /* farm that wrote the mark; other farms ignore its result */
  uint64_t holder; /* process of that farm */
  int kills;       /* workers killed while computing this point */
  int fate;
  long step;
  char reason[512];
};

/* Returns 0 if there is no file. An unreadable mark gets farm 0, which matches no farm. */
static int read_mark(const char *path, struct point_mark *m)
{
  char *text;
  size_t length;
  int at = 0;
  struct error ignored = {0};
  *m = (struct point_mark){.fate = SWEEP_RUNNING};
  if (file_read_real(path, &text, &length, &ignored)) return 0;
  int known = sscanf(text, "%" SCNx64 " %" SCNx64 " %d %d %ld %n", &m->farm, &m->holder, &m->kills, &m->fate,
                     &m->step, &at) == 5;
  known = known && at && m->kills >= 0 && m->step >= 0 && m->fate > SWEEP_WAITING &&
          m->fate <= SWEEP_FAILED && m->fate != SWEEP_ELSEWHERE;
  if (!known) *m = (struct point_mark){.fate = SWEEP_RUNNING};
  text[at + strcspn(text + at, "\n")] = 0;
  text_fill(m->reason, sizeof m->reason, known ? text + at : "");
  memory_free(text);
  return 1;
}

static void write_mark(struct lock *lock, const struct point_mark *m)
{
  char text[700];
  snprintf(text, sizeof text, "%016" PRIx64 " %016" PRIx64 " %d %d %ld %s\n", farm_id(), farm_self(),
           m->kills, m->fate, m->step, m->reason);
  lock_write(lock, text);
}

static int is_ours(const struct point_mark *m) { return m->farm == farm_id(); }

void claim_mark(struct lock *lock, const struct sweep_point *p, enum sweep_fate fate, long step,
                const char *reason)
{
  char path[4096];
  struct point_mark m;
  if (!farm_is_open() || !lock) return;
  run_sibling(path, p->path, ".point");
  if (!read_mark(path, &m) || !is_ours(&m)) m.kills = 0;
  m.fate = (int)fate;
  m.step = step;
  snprintf(m.reason, sizeof m.reason, "%s", reason);
  write_mark(lock, &m);
}

int claim_ended(const struct sweep_point *p, enum sweep_fate *fate, char reason[512])
{
  char path[4096];
  struct point_mark m;
  run_sibling(path, p->path, ".point");
  if (!farm_is_open() || !read_mark(path, &m) || !is_ours(&m) || m.fate == SWEEP_RUNNING) return 0;
  *fate = (enum sweep_fate)m.fate;
  snprintf(reason, 512, "%s", m.reason);
  return 1;
}

void claim_release(struct lock *lock, const struct sweep_point *p)
{
  char path[4096], reason[512];
  enum sweep_fate fate;
  run_sibling(path, p->path, ".point");
  lock_release(lock, claim_ended(p, &fate, reason) ? NULL : path);
}

void claim_bury(struct sweep_point *p, int signal, const char *reason)
{
  char path[4096];
  struct point_mark m;
  struct error ignored = {0};
  run_sibling(path, p->path, ".point");
  struct lock *lock = lock_take(path, &ignored);
  if (!lock) { /* another process is computing it again */
    p->fate = SWEEP_RUNNING;
    p->elsewhere = 1;
    return;
  }
  if (!read_mark(path, &m) || !is_ours(&m)) m.kills = 0;
  int again = signal == SIGKILL && !m.kills++;
  m.fate = again ? SWEEP_RUNNING : SWEEP_FAILED;
  snprintf(m.reason, sizeof m.reason, "%s", again ? "" : reason);
  write_mark(lock, &m);
  lock_release(lock, NULL);
  p->fate = again ? SWEEP_WAITING : SWEEP_FAILED;
  if (again) message("%s %s: its process was %s; it is taken up again", p->id, p->label, reason);
}

/* --- the points of others --------------------------------------------------------------------------------------- */

/* The holder may still be alive. Removing its lock file makes it lose the lock and end before it writes again. */
static void take_from(struct sweep_point *p, const char *path)
{
  char lock[4096];
  run_sibling(lock, p->path, ".lock");
  file_remove(lock); /* first, before another process can claim the point */
  file_remove(path);
  p->fate = SWEEP_WAITING;
  message("%s %s: its process has not been heard of for %g s (comm.timeout); it is taken up again", p->id,
          p->label, farm_patience());
}

void claim_look(struct sweep_point *p)
{
  char path[4096];
  struct point_mark m;
  double now = clock_seconds();
  run_sibling(path, p->path, ".point");
  p->elsewhere = 0;
  if (claim_ended(p, &p->fate, p->reason)) return;
  if (!read_mark(path, &m)) {
    if (!sweep_is_done(p, &p->fate, NULL, NULL)) p->fate = SWEEP_WAITING;
  } else if (!lock_is_held(path)) {
    p->fate = SWEEP_WAITING;
  } else {
    if (p->fate != SWEEP_RUNNING || m.step != p->step || m.holder != p->holder || !p->heard) p->heard = now;
    p->holder = m.holder;
    p->fate = SWEEP_RUNNING;
    p->elsewhere = 1;
    p->step = m.step;
    if (is_ours(&m) && now - p->heard >= farm_patience()) take_from(p, path);
  }
  if (!p->elsewhere) p->heard = 0;
}

int claim_look_around(struct sweep *s)
{
  static double looked;
  int any = 0, waiting = 0;
  if (!farm_is_open()) return 0;
  for (long i = 0; i < s->count; i++) {
    any |= s->points[i].elsewhere;
    waiting |= s->points[i].fate == SWEEP_WAITING;
  }
  /* a process with waiting points of its own needs no progress of others, unless it prints */
  if (!any || clock_seconds() - looked < look_seconds || (waiting && !farm_tells())) return any;
  looked = clock_seconds();
  for (long i = 0; i < s->count; i++) {
    struct sweep_point *p = &s->points[i];
    if (!p->elsewhere) continue;
    claim_look(p);
    if (p->fate > SWEEP_RUNNING && s->look) s->look(s->context, s, i);
  }
  return 1;
}

/* Is point i at most as long as `before` (in a strict order), and may both share a launch? */
static int follows(const struct sweep *s, long i, long before)
{
  const struct sweep_point *p = &s->points[i], *b = &s->points[before];
  return p->structure == b->structure && (p->work < b->work || (p->work == b->work && i > before));
}

/* The longest waiting point, among those that may follow `before` in its launch (-1: among all); s->count: none. */
static long longest(struct sweep *s, long before)
{
  for (;;) {
    long best = s->count;
    for (long i = 0; i < s->count; i++)
      if (s->points[i].fate == SWEEP_WAITING && (before < 0 || follows(s, i, before)) &&
          (best == s->count || s->points[i].work > s->points[best].work))
        best = i;
    if (best == s->count) return best;
    claim_look(&s->points[best]);
    if (s->points[best].fate == SWEEP_WAITING) return best;
    if (s->points[best].fate > SWEEP_RUNNING && s->look) s->look(s->context, s, best);
  }
}

long claim_longest(struct sweep *s) { return longest(s, -1); }

long claim_launch(struct sweep *s, long first, long *point)
{
  long n = 0;
  for (long i = first; i < s->count && n < s->together; i = longest(s, i)) point[n++] = i;
  return n;
}
