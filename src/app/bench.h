/* bench.h - shared by all benches: stacks, runs of them, pairs of ways in turn, the time of each operation of a step */
#ifndef MAXLOGIT_APP_BENCH_H
#define MAXLOGIT_APP_BENCH_H
#include <jansson.h>
#include "analysis/statistics.h"
#include "run/trainer.h"

struct bench {
  const char *stack; /* NULL: all that the device takes */
  double seconds;    /* for each figure */
  int quick, json;
  json_t *earlier; /* the output of an earlier bench to compare with, or NULL */
  long most_runs;  /* at a time, on a GPU */
  int costs; /* on a GPU: only attention by itself, and the costs of maxima, recording and stabilizers */
  char folder[64]; /* for runs that record */
};

/* So many stacks each takes; the last, tiny, is for tests, by name. */
enum { BENCH_QUICK = 2, BENCH_ON_CPU = 4, BENCH_ON_GPU, BENCH_STACKS };
struct bench_stack {
  const char *name, *math, *keys[8];
};
extern const struct bench_stack bench_stacks[BENCH_STACKS];
extern const char *const bench_stack_names[]; /* NULL-terminated */

/* The configuration of a run of a stack, with additional keys (NULL-terminated), without spectra and validation. With
   `file` >= 0 the run records into the folder; bench_forget removes its files. NULL: see `e`. */
struct config *bench_config(const struct bench *, const struct bench_stack *, const char *const *keys,
                            int file, struct error *e);
void bench_forget(const struct bench *, int file);

/* A trainer and its configuration. engine_open owns the configuration, which may be NULL: then the status is that of
   `e`. engine_step: seconds of one step with the engine's operations; NaN after an error. */
struct engine {
  struct config *config;
  struct trainer *trainer;
  struct ops ops;
};
int engine_open(struct engine *, struct config *, int flags, struct error *e);
double engine_step(struct engine *, struct error *e);
void engine_close(struct engine *);

/* One step, its calls made one by one and timed. */
struct bench_operations {
  double seconds[OP_COUNT], work[OP_COUNT];
  long calls[OP_COUNT];
};
int bench_step(struct trainer *, struct bench_operations *, struct error *e);
double bench_sum(const double of_operations[OP_COUNT]);
/* Their seconds, calls and counted work: as an object, or as lines of those that take more than a share of all. */
json_t *bench_operations(const struct bench_operations *);
void bench_print_operations(const struct bench_operations *, double share);

/* Of 6 ratios the ends are a 95 % interval of their median. */
enum { BENCH_ROUNDS = 6, BENCH_MOST_ROUNDS = 400 };
/* Two ways in turn, after once each, for so many seconds and rounds at the least; the order changes every round.
   Returns the rounds; 0 after a time that is NaN. */
struct contrast {
  struct median ratio, seconds[2]; /* ratio: of paired times, the first by the second */
  double least[2];
};
int bench_contrast(double seconds, int rounds, double (*time)(void *context, int which), void *context,
                   struct contrast *);
/* Ways for bench_contrast: two programs, each replayed so many times, and the seconds of all replays of one. */
struct bench_programs {
  struct program *of[2];
  int repeat;
};
double bench_seconds_of(void *programs, int which);

/* Output: a relative difference with its 95 % interval, as a line of text or as `name` in an object; an interval as
   JSON; the whole as JSON, which is taken and printed unless it is NULL or `status` is an error. Returns `status`. */
void bench_put(json_t *object, const char *name, const char *line, const struct median *);
json_t *bench_ratio(const struct median *);
int bench_print(json_t *all, int status);
/* The name of the present measurement, on standard error: one line that is overwritten on a terminal, else one line
   each. NULL clears the terminal's line before other output. */
void bench_doing(const char *what, const char *which);

/* The benches; each prints text or JSON. */
int bench_products(const struct bench *, struct error *e);
int bench_steps(const struct bench *, struct error *e);
int bench_cuda(const struct bench *, struct error *e);
/* Called by all ranks of a launcher; rank 0 prints. */
int bench_ranks(const struct bench *, struct comm *all, struct error *e);

/* The best square product of OpenBLAS on one thread, of all times that it was asked for. */
struct limit {
  double gflops;
  int size;
};
void bench_limit(struct limit *);
#endif
