/* bench.h - shared by all benches: stacks, runs of them, and the time of each operation of a step */
#ifndef MAXLOGIT_APP_BENCH_H
#define MAXLOGIT_APP_BENCH_H
#include <jansson.h>
#include "analysis/statistics.h"
#include "numerics/cuda_plugin.h"
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

/* One step, its calls made one by one and timed. */
struct bench_operations {
  double seconds[OP_COUNT], work[OP_COUNT];
  long calls[OP_COUNT];
};
int bench_step(struct trainer *, struct bench_operations *, struct error *);
double bench_sum(const double of_operations[OP_COUNT]);
json_t *bench_operations(const struct bench_operations *, int has_work);

/* A relative difference with its 95 % interval, as a line of text or as `name` in an object. */
void bench_put(json_t *object, const char *name, const char *line, const struct median *);
json_t *bench_ratio(const struct median *);

/* The name of the present measurement, on standard error: one line that is overwritten on a terminal, else one line
   each. NULL clears the terminal's line before other output. */
void bench_doing(const char *what, const char *which);

/* Two ways in turn, the order changes every round, for so many seconds, and rounds at the least. Returns the rounds;
   0 after a time that is NaN. */
struct contrast {
  struct median ratio, x; /* of paired times: the first by the second; the first's */
  double least[2];
};
int bench_contrast(double seconds, int rounds, double (*time)(void *context, int which), void *context,
                   struct contrast *);

/* The benches; each prints text or JSON. */
int bench_products(const struct bench *, struct error *);
int bench_steps(const struct bench *, struct error *);
int bench_cuda(const struct bench *, struct error *);
/* Called by all ranks of a launcher; rank 0 prints. */
int bench_ranks(const struct bench *, struct comm *all, struct error *);

/* A part of bench_cuda: attention by itself. Heads of 64 and 128 on 4096 tokens, and those of the toy stack, in fp32,
   tf32 and bf16; tiny: one small head. A table, or rows of `rows` where that is not NULL. */
int bench_attention(struct device *, const struct cuda_limits *, int tiny, double seconds, json_t *rows,
                    struct error *);

/* The best square product of OpenBLAS on one thread, of all times that it was asked for. */
struct limit {
  double gflops;
  int size;
};
void bench_limit(struct limit *);
#endif
