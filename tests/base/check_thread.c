/* check_thread.c - the pool: every piece once, whatever the number of threads */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/limits.h"
#include "base/memory.h"
#include "base/thread.h"

enum { MOST = 5000 };
static atomic_int count[MOST];
static atomic_int busy[16], wrong;

struct job {
  struct pool *pool;
  int threads;
};

static void piece_once(void *context, long piece, int worker)
{
  const struct job *job = context;
  count[piece]++;
  if (worker < 0 || worker >= job->threads) {
    wrong++;
    return;
  }
  wrong += atomic_fetch_add(&busy[worker], 1) != 0; /* a worker is one thread at a time */
  busy[worker]--;
}

START_TEST(every_piece_once)
{
  int threads = _i + 1;
  struct job job = {pool_new(threads), threads};
  ck_assert_int_eq(pool_threads(job.pool), threads);
  long sizes[] = {0, 1, 2, 3, 17, MOST};
  for (int s = 0; s < 6; s++) {
    for (int i = 0; i < MOST; i++) count[i] = 0;
    parallel_for(job.pool, sizes[s], piece_once, &job);
    for (long i = 0; i < MOST; i++) ck_assert_int_eq(count[i], i < sizes[s]);
    ck_assert_int_eq(wrong, 0);
  }
  pool_free(job.pool);
}
END_TEST

static void piece_plain(void *context, long piece, int worker)
{
  (void)worker;
  ((long *)context)[piece] += piece + 1;
}

/* Many tiny loops one after another: no piece of one job may slip into the next, and what pieces wrote
   without atomics is seen after the loop. */
START_TEST(many_tiny_loops)
{
  struct pool *pool = pool_new(_i + 1);
  long sum[7] = {0};
  int loops = 20000;
  for (int k = 0; k < loops; k++) parallel_for(pool, 1 + k % 7, piece_plain, sum);
  for (int i = 0; i < 7; i++) {
    long times = 0;
    for (int k = 0; k < loops; k++) times += k % 7 >= i;
    ck_assert_int_eq(sum[i], times * (i + 1));
  }
  pool_free(pool);
}
END_TEST

struct nest {
  struct pool *pool;
  atomic_int begun;
  long inner[40][9];
  int same_worker[40];
};
struct inner_job {
  long *counts;
  int worker, same;
};

static void piece_inner(void *context, long piece, int worker)
{
  struct inner_job *job = context;
  job->counts[piece]++;
  job->same &= worker == job->worker;
}

static void piece_outer(void *context, long piece, int worker)
{
  struct nest *nest = context;
  struct inner_job job = {nest->inner[piece], worker, 1};
  atomic_fetch_add(&nest->begun, 1); /* every worker gets one, however busy the machine is */
  while (atomic_load(&nest->begun) < pool_threads(nest->pool)) sched_yield();
  parallel_for(nest->pool, 9, piece_inner, &job);
  nest->same_worker[piece] = job.same;
}

START_TEST(nested_calls_are_serial)
{
  struct nest nest = {.pool = pool_new(_i + 1)};
  parallel_for(nest.pool, 40, piece_outer, &nest);
  for (int i = 0; i < 40; i++) {
    ck_assert_int_eq(nest.same_worker[i], 1);
    for (int j = 0; j < 9; j++) ck_assert_int_eq(nest.inner[i][j], 1);
  }
  long after[3] = {0}; /* and the pool still works outside */
  parallel_for(nest.pool, 3, piece_plain, after);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(after[i], i + 1);
  pool_free(nest.pool);
}
END_TEST

/* A pool of one thread inside of another's piece: serial, and its own worker. */
static void piece_apart(void *context, long piece, int worker)
{
  struct nest *nest = context;
  struct inner_job job = {nest->inner[piece], 0, 1};
  struct pool *own = pool_new(1);
  atomic_fetch_add(&nest->begun, 1);
  while (atomic_load(&nest->begun) < pool_threads(nest->pool)) sched_yield();
  parallel_for(own, 9, piece_inner, &job);
  pool_free(own);
  nest->same_worker[piece] = job.same;
  parallel_for(nest->pool, 9, piece_inner, &(struct inner_job){nest->inner[piece], worker, 1});
}

START_TEST(a_pool_of_one_inside_another)
{
  struct nest nest = {.pool = pool_new(_i + 1)};
  parallel_for(nest.pool, 40, piece_apart, &nest);
  for (int i = 0; i < 40; i++) {
    ck_assert_int_eq(nest.same_worker[i], 1);
    for (int j = 0; j < 9; j++) ck_assert_int_eq(nest.inner[i][j], 2);
  }
  pool_free(nest.pool);
}
END_TEST

struct shares {
  struct pool *pool;
  atomic_int begun;
  int worker_of[12];
};

static void piece_of_share(void *context, long piece, int worker)
{
  struct shares *s = context;
  atomic_fetch_add(&s->begun, 1); /* nobody has a second one before each has its first */
  while (atomic_load(&s->begun) < pool_threads(s->pool)) sched_yield();
  s->worker_of[piece] = worker;
}

/* What a thread had in one job it has in the next. */
START_TEST(each_begins_with_its_own)
{
  struct shares s = {.pool = pool_new(_i + 1)};
  for (int k = 0; k < 100; k++) {
    s.begun = 0;
    parallel_for(s.pool, _i + 1, piece_of_share, &s);
    for (int i = 0; i <= _i; i++) ck_assert_int_eq(s.worker_of[i], i);
    s.begun = 0;
    parallel_for(s.pool, 3 * (_i + 1), piece_of_share, &s);
    for (int i = 0; i <= _i; i++) ck_assert_int_eq(s.worker_of[3 * i], i);
  }
  pool_free(s.pool);
}
END_TEST

static void piece_slow(void *context, long piece, int worker)
{
  (void)worker;
  volatile long i = 0;
  while (i < (piece == 0 ? 20000000 : 10)) i++;
  ((long *)context)[piece] = 1;
}

/* One long piece: the others fall asleep and must wake for the next job. */
START_TEST(sleepers_wake)
{
  struct pool *pool = pool_new(4);
  for (int k = 0; k < 5; k++) {
    long done[8] = {0};
    parallel_for(pool, 8, piece_slow, done);
    for (int i = 0; i < 8; i++) ck_assert_int_eq(done[i], 1);
  }
  pool_free(pool);
}
END_TEST

/* Shares lie side by side, cut where pieces times thread is divided by the threads, rounded up: with every thread held
   in its first piece, that is where its share begins. */
START_TEST(shares_are_fixed)
{
  for (int threads = 2; threads < 5; threads++) {
    struct pool *pool = pool_new(threads);
    for (long pieces = threads; pieces <= 12; pieces++) {
      struct shares s = {.pool = pool};
      for (int i = 0; i < 12; i++) s.worker_of[i] = -1;
      parallel_for(pool, pieces, piece_of_share, &s);
      for (int i = 0; i < threads; i++)
        ck_assert_int_eq(s.worker_of[(pieces * i + threads - 1) / threads], i);
      for (long i = 0; i < 12; i++)
        ck_assert((s.worker_of[i] >= 0) == (i < pieces) && s.worker_of[i] < threads);
    }
    pool_free(pool);
  }
}
END_TEST

struct order {
  long next;
  int wrong;
};
static void piece_in_order(void *context, long piece, int worker)
{
  struct order *o = context;
  o->wrong += piece != o->next++ || worker != 0;
}

/* One thread goes through its pieces in their order, and so does a single piece of a pool of many: on the caller. */
START_TEST(alone_is_in_order)
{
  struct order o = {0};
  struct pool *one = pool_new(1), *many = pool_new(3);
  parallel_for(one, 100, piece_in_order, &o);
  ck_assert(o.next == 100 && !o.wrong);
  o.next = 0;
  parallel_for(many, 1, piece_in_order, &o);
  parallel_for(many, 0, piece_in_order, &o);
  ck_assert(o.next == 1 && !o.wrong);
  ck_assert_int_eq(pool_threads(one), 1);
  ck_assert_int_eq(pool_threads(many), 3);
  pool_free(one);
  pool_free(many);
}
END_TEST

static double of_clock(clockid_t id)
{
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Who has nothing to do sleeps: a pool that is idle costs nothing. */
START_TEST(idle_costs_nothing)
{
  struct pool *pool = pool_new(4);
  long sum[64] = {0};
  for (int k = 0; k < 3; k++) parallel_for(pool, 64, piece_plain, sum);
  usleep(20000);
  const double before = of_clock(CLOCK_PROCESS_CPUTIME_ID);
  usleep(200000);
  ck_assert_double_lt(of_clock(CLOCK_PROCESS_CPUTIME_ID) - before, 0.05);
  parallel_for(pool, 64, piece_plain, sum);
  for (int i = 0; i < 64; i++) ck_assert_int_eq(sum[i], 4 * (i + 1));
  pool_free(pool);
}
END_TEST

/* --- threads of their own ---------------------------------------------------------------------------------- */

struct together {
  int count, meet;
  atomic_int begun;
  pthread_t self[9];
  atomic_int runs[9];
};

static void one_of_them(void *context, int thread)
{
  struct together *x = context;
  x->self[thread] = pthread_self();
  x->runs[thread]++;
  atomic_fetch_add(&x->begun, 1);
  while (x->meet && atomic_load(&x->begun) < x->count) sched_yield(); /* all at the same time */
}

START_TEST(threads_of_their_own)
{
  const size_t held = memory_held();
  for (int threads = 1; threads < 9; threads++) {
    struct together x = {.count = threads, .meet = 1};
    threads_run(threads, one_of_them, &x);
    for (int i = 0; i < 9; i++) ck_assert_int_eq(x.runs[i], i < threads);
    for (int i = 0; i < threads; i++) ck_assert_int_eq(pthread_equal(x.self[i], pthread_self()) != 0, i == 0);
  }
  threads_run(0, one_of_them, &(struct together){0});
  ck_assert_uint_eq(memory_held(), held);
}
END_TEST

/* A system that gives no threads gets everything done all the same: stacks that are larger than any address. */
START_TEST(where_there_are_no_threads)
{
  pthread_attr_t large;
  pthread_attr_init(&large);
  ck_assert_int_eq(pthread_attr_setstacksize(&large, (size_t)1 << 50), 0);
  ck_assert_int_eq(pthread_setattr_default_np(&large), 0);
  struct together x = {.count = 5};
  threads_run(5, one_of_them, &x);
  for (int i = 0; i < 5; i++) ck_assert(x.runs[i] == 1 && pthread_equal(x.self[i], pthread_self()));
  struct pool *pool = pool_new(4);
  ck_assert_int_eq(pool_threads(pool), 1);
  struct order o = {0};
  parallel_for(pool, 30, piece_in_order, &o);
  ck_assert(o.next == 30 && !o.wrong);
  pool_free(pool);
}
END_TEST

static int kernel_cpus; /* not 0: a machine of so many, of which 3000 are there */

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
  CPU_ZERO_S(size, set);
  if (!kernel_cpus) return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
  if (size * 8 < (size_t)kernel_cpus) return errno = EINVAL, -1;
  for (int i = 0; i < 3000; i++) CPU_SET_S(i, size, set);
  return 0;
}

/* As many cores as this process may run on, not as many as there are. */
START_TEST(cores_of_this_process)
{
  cpu_set_t all, one;
  ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
  const int limit = limits_cores(""), cores = CPU_COUNT(&all);
  ck_assert_int_eq(thread_cores(), limit && limit < cores ? limit : cores);
  kernel_cpus = 4096; /* a set of 1024 is too small there */
  ck_assert_int_eq(thread_cores(), limit ? limit : 3000);
  kernel_cpus = 0;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  ck_assert_int_eq(thread_cores(), 1);
  ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

START_TEST(empty_life)
{
  for (int i = 0; i < 50; i++) pool_free(pool_new(1 + i % 8));
  pool_free(NULL);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("thread");
  TCase *tcase = tcase_create("pool");
  tcase_set_timeout(tcase, 60);
  suite_add_tcase(suite, tcase);
  tcase_add_loop_test(tcase, every_piece_once, 0, 12); /* more threads than cores too */
  tcase_add_loop_test(tcase, many_tiny_loops, 0, 5);
  tcase_add_loop_test(tcase, nested_calls_are_serial, 0, 4);
  tcase_add_loop_test(tcase, a_pool_of_one_inside_another, 0, 4);
  tcase_add_loop_test(tcase, each_begins_with_its_own, 0, 4);
  tcase_add_test(tcase, sleepers_wake);
  tcase_add_test(tcase, empty_life);
  tcase_add_test(tcase, shares_are_fixed);
  tcase_add_test(tcase, alone_is_in_order);
  tcase_add_test(tcase, idle_costs_nothing);
  tcase_add_test(tcase, threads_of_their_own);
  tcase_add_test(tcase, where_there_are_no_threads);
  tcase_add_test(tcase, cores_of_this_process);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
