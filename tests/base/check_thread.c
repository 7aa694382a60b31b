/* check_thread.c - the pool: every piece once, whatever the number of threads */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
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
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
