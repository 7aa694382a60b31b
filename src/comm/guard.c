#include "comm/guard.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/platform.h"

static struct {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ends;
  struct timespec limit;
  void (*late)(void);
  int is_there, is_over;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *watch(void *unused)
{
  (void)unused;
  pthread_mutex_lock(&guard.lock);
  while (!guard.is_over)
    if (pthread_cond_timedwait(&guard.ends, &guard.lock, &guard.limit)) break;
  if (!guard.is_over) {
    if (guard.late) guard.late();
    _exit(STATUS_FAIL); /* no exit handlers: they may wait for a lock of the stuck call */
  }
  pthread_mutex_unlock(&guard.lock);
  return NULL;
}

void guard_begin(double seconds, void (*late)(void))
{
  guard_end(); /* ends the limit of a call that did not return, but ends the process */
  clock_gettime(platform_condition(&guard.ends), &guard.limit);
  guard.limit.tv_sec += (time_t)seconds + 1;
  guard.late = late;
  guard.is_over = 0;
  guard.is_there = !pthread_create(&guard.thread, NULL, watch, NULL);
}

void guard_end(void)
{
  if (!guard.is_there) return;
  pthread_mutex_lock(&guard.lock);
  guard.is_over = 1;
  pthread_cond_signal(&guard.ends);
  pthread_mutex_unlock(&guard.lock);
  pthread_join(guard.thread, NULL);
  pthread_cond_destroy(&guard.ends);
  guard.is_there = 0;
}
