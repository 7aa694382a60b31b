/* thread.h - a pool of threads over fixed pieces of work
   Bits never depend on the number of threads: what a piece is follows from shapes alone, every piece
   writes its own output, and partial sums are added in the order of the pieces. */
#ifndef MAXLOGIT_BASE_THREAD_H
#define MAXLOGIT_BASE_THREAD_H

#include <stddef.h>

/* Cores that this process may run on, and that its control group leaves to it: at least 1. */
int thread_cores(void);

/* The set of cores that this process may run on: a cpu_set_t of so many bytes, for CPU_FREE; NULL: unknown. */
void *thread_affinity(size_t *bytes);

struct pool;
struct pool *pool_new(int threads); /* threads >= 1 including the caller */
void pool_free(struct pool *);
int pool_threads(const struct pool *);

/* Run fn(context, piece, worker) for piece = 0..pieces-1, worker in [0, threads), who begins with its share of them,
   always the same. Returns when all are done. Inside a piece it runs serially on that worker: the same bits. */
void parallel_for(struct pool *, long pieces, void (*fn)(void *context, long piece, int worker),
                  void *context);

/* Run fn(context, thread) for thread = 0..count-1 at the same time, the caller being thread 0; each may use a pool of
   its own. A system that gives fewer threads gets the rest done one after another. */
void threads_run(int count, void (*fn)(void *context, int thread), void *context);
#endif
