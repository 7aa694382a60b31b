/* device.h - devices: memory for tensors, and the operations on them */
#ifndef MAXLOGIT_NUMERICS_DEVICE_H
#define MAXLOGIT_NUMERICS_DEVICE_H
#include <stddef.h>
#include "numerics/ops.h"

/* Precision of the inputs of matrix products, on a device with a choice. Sums and weights stay in single
   precision. */
enum device_math { MATH_FP32, MATH_TF32, MATH_BF16 };

enum { AHEAD_MOST = 8, BRANCHES = 4 };

/* Groups of ranks that a run is divided among: parts of a step's batch; parts of the context. */
enum rank_axis { RANKS_BATCH, RANKS_CONTEXT, RANK_AXES };
struct comm;
struct shards;
struct sum;

struct device {
  const char *name;      /* "cpu" */
  char description[256]; /* "cpu: SkylakeX, OpenBLAS 0.3.21, 2 threads" */
  struct ops ops;        /* start as ops_ref, then overridden */
  struct pool *pool;
  void *(*get)(struct device *, size_t bytes); /* zeroed memory on the device; NULL: it has no more */
  void (*put_back)(struct device *, void *);
  void (*upload)(struct device *, void *to, const void *from, size_t bytes);
  void (*download)(struct device *, void *to, const void *from, size_t bytes); /* waits */
  /* The same without waiting: `to` holds it once the host has reached a mark made afterwards. */
  void (*fetch)(struct device *, void *to, const void *from, size_t bytes);
  /* mark: a position in the device's queue of calls so far; reach: wait until the device has passed it. NULL where
     calls are synchronous. */
  long (*mark)(struct device *);
  void (*reach)(struct device *, long mark);
  int ahead; /* steps that the host may be ahead of the device, at most AHEAD_MOST */
  void (*enter)(struct device *), (*leave)(struct device *); /* around its own calls; may be NULL */
  void (*close)(struct device *);
  /* Calls between begin and end are not executed but kept; every replay executes them. NULL where a program makes its
     calls one by one. */
  void (*begin)(struct device *);
  void *(*end)(struct device *);
  void (*replay)(struct device *, void *kept);
  void (*forget)(struct device *, void *kept);
  /* For kept calls: from here on, calls do not depend on the other branches, of BRANCHES, since they were last
     joined. -1: branches are joined. Calls that need scratch, which is shared, belong to branch 0. */
  void (*branch)(struct device *, int branch);
  void (*wait)(struct device *); /* until all is done; NULL where it always is */
  /* Times of single operations on the device's own clock. stamp: before an operation (op -1) and after it; times: add
     them to op_seconds. NULL: use the host's clock. */
  void (*stamp)(struct device *, int op);
  void (*times)(struct device *);
  void *private_state;
  /* Number of runs of one layout that are computed together, and the bytes between two of their arenas. Every pointer
     of a recorded call lies in a run's arena; its target in run r lies r * stride beyond that in run 0. A device that
     computes runs as an axis of its grid replays the program of run 0 with that offset. 1 and 0 when a run is
     alone. */
  int runs;
  size_t stride;
  size_t given;           /* bytes of device_get so far, places rounded up */
  char *run_arena;        /* of a run's device (run_arena.h): its memory, ... */
  size_t run_arena_bytes; /* ... and how much of it */
  /* The queue of a device that computes asynchronously, and the guard of the current call, which its kernels read
     (NULL: always). Without a queue the guard is read before a call. */
  void *stream;
  const struct tensor *guard;
  const char *op_now; /* the last operation sent to the queue, for messages */
  int one_by_one;     /* calls are made again instead of replayed, to find the one that fails */
  enum device_math math;
  const struct comm *ranks[RANK_AXES]; /* NULL: one (ranks.h) */
  struct shards *shards;               /* of its parameters; NULL: it has all (shards.h) */
  struct shards *early;                /* groups of gradients that are summed early; NULL: none (sums.h) */
  struct sum *sums;                    /* under way, in the order in which they began */
  const void *shared;                  /* see struct ops */
  long waits;                          /* downloads so far */
  long nodes, path; /* launches so far that were kept; of these, as many as wait one for another */
  void *scratch;
  size_t scratch_bytes; /* see device_scratch */
  /* Largest declared scratch of the programs planned so far: for single calls, and for calls inside of pieces. */
  size_t scratch_wanted, worker_wanted;
  long undeclared; /* calls that took more */
  int is_worker;
  struct device *workers; /* [threads], see device_worker */
  double *op_seconds;
  long *op_calls;
  double *op_work; /* [OP_COUNT] each, or NULL: no timing */
};

/* kind: "cpu" (fast kernels), "reference" (ops_ref only), "isolated" (cpu, its memory inaccessible to the host) or
   "cuda" (where there is a GPU). threads 0: all cores. */
int device_open(struct device **, const char *kind, int threads, struct error *);
/* A "reference" device for callers of the library: OpenBLAS keeps its threads. */
struct device *device_reference(void);
/* Only cuda supports a choice. */
int device_set_math(struct device *, enum device_math, struct error *);
extern const char *const device_math_names[];
void device_close(struct device *);

/* Zeroed memory that lives as long as a run, or as its owner; device_put_back frees it. */
void *device_get(struct device *, size_t bytes);
void device_put_back(struct device *, void *);

/* Memory for one kernel's temporaries, valid until the next call. An operation must declare its size (struct ops); a
   larger one is allocated during a step, which `undeclared` counts. A worker's part lies between others and cannot
   grow. */
void *device_scratch(struct device *, size_t bytes);
/* Declare the bytes of future calls: for one call, and for each worker (device_worker). */
void device_wants_scratch(struct device *, size_t bytes, size_t worker_bytes);
/* Allocate all declared scratch, unless it exists. A run does this when it is built, so that a step allocates nothing
   and all of it lies in the run's arena; otherwise the first call does. */
void device_settle_scratch(struct device *);

/* The device for calls from inside a piece of parallel_for: the same, with a scratch of its own, untimed. */
struct device *device_worker(struct device *, int worker);

/* A tensor with memory of its own (parameters, optimizer state, inputs); zeroed. */
struct tensor *tensor_new(struct device *, enum tensor_type, long rows, long cols, const char *name);
void tensor_free(struct device *, struct tensor *);

/* A number [1] on the device; waits. */
double device_number(struct device *, const struct tensor *);

/* Fast CPU kernels: overrides rows of `ops`. The level is chosen at run time: neon on aarch64, else v4 (AVX-512), v3
   (AVX2, FMA) or base. MAXLOGIT_KERNELS=NAME selects a lower one. */
void ops_cpu_override(struct ops *);
const char *ops_cpu_level(void);
/* The same by hand, for tests: the levels of this machine, the best first (NULL after the last), and the kernels
   of one of them. */
const char *ops_cpu_level_at(int i);
void ops_cpu_override_by(struct ops *, const char *level);
/* The same attention without its maxima and entropy, to measure their cost. */
void ops_cpu_without_maxima(struct ops *);
#endif
