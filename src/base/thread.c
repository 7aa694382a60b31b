/* thread.c - a pool of threads for a fixed division of work
   For each job every thread has a share of adjacent pieces. These are the same rows in successive jobs, so they are in
   the thread's caches. One atomic word per thread holds the number of the job and the number of pieces of its share
   that are not claimed yet. A thread that decrements it owns a piece; it begins with its own share. A job with
   unclaimed pieces cannot have ended, so a late worker finds either a live job or nothing, and no thread waits for a
   sleeping one. */
#include "base/thread.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/platform.h"

typedef void piece_fn(void *context, long piece, int worker);

/* Each variable that other threads poll has its own cache line. */
struct pool_member {
  _Alignas(64) _Atomic uint64_t ticket; /* number of the job << 32 | pieces of its share not yet claimed */
  _Alignas(64) atomic_long finished;    /* pieces that this thread has run, of all jobs */
  _Alignas(64) struct pool *pool;
  int worker;
  pthread_t thread;
  uint64_t seen; /* number of the last job it worked on */
};

struct pool {
  _Alignas(64) _Atomic uint64_t job; /* number of the job */
  _Atomic(piece_fn *) fn;            /* changes only when no piece is left */
  _Atomic(void *) context;
  atomic_long pieces;
  _Alignas(64) atomic_int sleepers; /* workers asleep */
  atomic_int caller_sleeps, stop;
  long ordered;    /* pieces of all jobs */
  double patience; /* seconds to spin before sleeping */
  int threads;
  struct pool_member *members; /* [threads]; 0 is the caller */
  pthread_mutex_t lock;
  pthread_cond_t wake, finished;
};

static _Thread_local const struct pool_member *self; /* set during a piece */

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}

/* Spin until ready(member) or a timeout; returns whether it was ready. */
static int spin(const struct pool_member *m, int (*ready)(const struct pool_member *))
{
  if (ready(m)) return 1;
  double end = m->pool->patience > 0 ? clock_seconds() + m->pool->patience : 0;
  do {
    for (int i = 0; i < 16; i++) {
      relax();
      if (ready(m)) return 1;
    }
  } while (end > 0 && clock_seconds() < end);
  return 0;
}

static int work_or_stop(const struct pool_member *m) { return m->pool->job != m->seen || m->pool->stop; }

static int all_finished(const struct pool_member *m)
{
  const struct pool *p = m->pool;
  long finished = 0;
  for (int i = 0; i < p->threads; i++) finished += p->members[i].finished;
  return finished == p->ordered;
}

/* The start of a thread's share. The caller starts first, so it has the largest share. */
static long share_at(const struct pool *p, long pieces, int thread)
{
  return (pieces * thread + p->threads - 1) / p->threads;
}

/* Run pieces of a share until none is left; returns their number. */
static long take_share(struct pool *p, int of, int worker)
{
  struct pool_member *owner = &p->members[of];
  long taken = 0;
  for (uint64_t ticket = owner->ticket; (uint32_t)ticket > 0; ticket = owner->ticket) {
    piece_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    void *context = atomic_load_explicit(&p->context, memory_order_relaxed);
    long pieces = atomic_load_explicit(&p->pieces, memory_order_relaxed);
    if (!atomic_compare_exchange_weak(&owner->ticket, &ticket, ticket - 1)) continue;
    fn(context, share_at(p, pieces, of + 1) - (long)(uint32_t)ticket, worker);
    taken++;
  }
  return taken;
}

/* Run the own share, then the rest of other shares. */
static void take_part(struct pool *p, struct pool_member *m)
{
  long taken = 0;
  self = m;
  for (int i = 0; i < p->threads; i++) taken += take_share(p, (m->worker + i) % p->threads, m->worker);
  self = NULL;
  if (!taken) return;
  m->finished += taken;
  if (p->caller_sleeps) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
  }
}

static void *work(void *argument)
{
  struct pool_member *m = argument;
  struct pool *p = m->pool;
  while (!p->stop) {
    if (!spin(m, work_or_stop)) {
      pthread_mutex_lock(&p->lock);
      p->sleepers++;
      while (!work_or_stop(m)) pthread_cond_wait(&p->wake, &p->lock);
      p->sleepers--;
      pthread_mutex_unlock(&p->lock);
    }
    m->seen = p->job;
    take_part(p, m);
  }
  return NULL;
}

int thread_cores(void)
{
  size_t bytes;
  int cores = 1, limit = limits_cores("");
  free(platform_affinity(&bytes, &cores));
  return cores < 1 ? 1 : limit && limit < cores ? limit : cores;
}

struct pool *pool_new(int threads)
{
  REQUIRE(threads >= 1);
  struct pool *p = memory_new(1, sizeof *p);
  p->members = memory_new((size_t)threads, sizeof *p->members);
  p->patience = threads > 1 && threads <= thread_cores() ? 50e-6 : 0;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->finished, NULL);
  for (int i = 0; i < threads; i++) p->members[i] = (struct pool_member){.pool = p, .worker = i};
  /* with fewer threads the results are the same, only later */
  for (p->threads = 1; p->threads < threads; p->threads++) {
    struct pool_member *m = &p->members[p->threads];
    if (pthread_create(&m->thread, NULL, work, m) != 0) break;
  }
  return p;
}

static void wake_all(struct pool *p)
{
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

void pool_free(struct pool *p)
{
  if (p == NULL) return;
  p->stop = 1;
  wake_all(p);
  for (int i = 1; i < p->threads; i++) pthread_join(p->members[i].thread, NULL);
  pthread_cond_destroy(&p->finished);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->lock);
  memory_free(p->members);
  memory_free(p);
}

int pool_threads(const struct pool *p) { return p->threads; }

void parallel_for(struct pool *p, long pieces, piece_fn *fn, void *context)
{
  const struct pool_member *outer = self; /* if it belongs to another pool, this pool must have one thread */
  int inside = outer && outer->pool == p;
  REQUIRE(!outer || inside || p->threads == 1);
  if (outer || p->threads == 1 || pieces <= 1) {
    self = inside ? outer : &p->members[0];
    for (long i = 0; i < pieces; i++) fn(context, i, self->worker);
    self = outer;
    return;
  }
  REQUIRE(pieces <= UINT32_MAX);
  atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&p->context, context, memory_order_relaxed);
  atomic_store_explicit(&p->pieces, pieces, memory_order_relaxed);
  p->ordered += pieces;
  const uint64_t job = p->job + 1;
  for (int i = p->threads; i-- > 0;)
    atomic_store_explicit(&p->members[i].ticket,
                          job << 32 | (uint64_t)(share_at(p, pieces, i + 1) - share_at(p, pieces, i)),
                          memory_order_release);
  p->job = job;
  if (p->sleepers > 0) wake_all(p);
  take_part(p, &p->members[0]);
  if (spin(&p->members[0], all_finished)) return;
  pthread_mutex_lock(&p->lock);
  p->caller_sleeps = 1;
  while (!all_finished(&p->members[0])) pthread_cond_wait(&p->finished, &p->lock);
  p->caller_sleeps = 0;
  pthread_mutex_unlock(&p->lock);
}

/* --- threads without a pool -------------------------------------------------------------------------------- */

struct pool_task {
  void (*fn)(void *context, int thread);
  void *context;
  int thread, started;
  pthread_t handle;
};

static void *run_task(void *argument)
{
  struct pool_task *x = argument;
  x->fn(x->context, x->thread);
  return NULL;
}

void threads_run(int count, void (*fn)(void *context, int thread), void *context)
{
  struct pool_task *task = memory_new((size_t)count, sizeof *task);
  for (int i = 0; i < count; i++) task[i] = (struct pool_task){.fn = fn, .context = context, .thread = i};
  for (int i = 1; i < count; i++)
    task[i].started = !pthread_create(&task[i].handle, NULL, run_task, &task[i]);
  for (int i = 0; i < count; i++)
    if (!task[i].started) run_task(&task[i]);
  for (int i = 1; i < count; i++)
    if (task[i].started) pthread_join(task[i].handle, NULL);
  memory_free(task);
}
