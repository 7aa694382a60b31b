/* thread.h - a pool of threads for a fixed division of work
   Bits never depend on the number of threads: the pieces depend only on shapes, every piece writes its own output, and
   partial sums are added in the order of the pieces. */
#ifndef MAXLOGIT_BASE_THREAD_H
#define MAXLOGIT_BASE_THREAD_H

#include <stddef.h>

/* The number of cores that the affinity and the control group allow: at least 1. */
int thread_cores(void);

struct pool;
struct pool *pool_new(int threads); /* threads >= 1 including the caller */
void pool_free(struct pool *);
int pool_threads(const struct pool *);

/* Run fn(context, piece, worker) for piece = 0..pieces-1 and worker in [0, threads). A worker begins with its share of
   the pieces, which is always the same. Returns when all are done. Inside a piece it runs serially on that worker: the
   same bits. */
void parallel_for(struct pool *, long pieces, void (*fn)(void *context, long piece, int worker),
                  void *context);

/* Run fn(context, thread) for thread = 0..count-1 at the same time; the caller is thread 0, and each may use its own
   pool. If the system gives fewer threads, the rest run one after another. */
void threads_run(int count, void (*fn)(void *context, int thread), void *context);
#endif
