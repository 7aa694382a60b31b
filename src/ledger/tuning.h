/* tuning.h - the best value of a key (or two) for each of several arms, found by runs
   Around the start value of each arm a grid of five values, a factor of sqrt(3) apart, is run on separate seeds. It
   grows until the best value of every arm is not at an end. The seeds of the choice are not those of the comparison,
   because the best of many looks better on the seeds that chose it. Runs are points of one sweep in one folder, so that
   a stopped search continues from the files, which are its only state. */
#ifndef MAXLOGIT_LEDGER_TUNING_H
#define MAXLOGIT_LEDGER_TUNING_H
#include "analysis/metric.h"
#include "ledger/optimum.h"
#include "run/sweep.h"

enum { TUNING_KEYS = 2, TUNING_SEED = 2101, TUNING_SEEDS = 6, TUNING_START = 5, TUNING_MOST = 17 };
#define TUNING_FACTOR 1.7320508075688772 /* ratio of successive values */
#define TUNING_METRIC "val_loss:last3:mean"

struct tuning_run {
  long seed;
  char id[16], *path;
  enum sweep_fate fate;
  struct measured value;
};
struct tuning_point {
  int at[TUNING_KEYS]; /* factors away from the start */
  double value[TUNING_KEYS];
  char text[TUNING_KEYS][32];
  struct tuning_run *run; /* [seeds] */
  double score;           /* mean over the seeds; the worst infinity if a run diverged or has no value */
  int diverged, blown_up, missing; /* numbers of runs; a run that blew up counts with its value */
  double behind;                   /* how much better the mean of the best point is */
  int worse;                       /* number of seeds on which the best point is better */
  double chosen;                   /* share of resamples of the seeds in which this point is the best */
};
enum tuning_end {
  TUNING_OPEN,
  TUNING_BRACKETED,
  TUNING_AT_LIMIT, /* the best is at a limit of the key */
  TUNING_FLAT,     /* all are equally good */
  TUNING_TOO_FAR,  /* TUNING_MOST values, but the best is still at an end */
  TUNING_NOTHING   /* no point has a score */
};
#define TUNING_UNNAMED "tuned" /* the name of an arm without one */
struct tuning_arm {
  char name[64];
  struct config *config; /* unfinished, one point; owned */
  double start[TUNING_KEYS];
  int low[TUNING_KEYS], high[TUNING_KEYS]; /* of the grid */
  struct tuning_point *point;              /* by the first key, then the second; ascending once tuned */
  int points, best;                        /* -1: none */
  enum tuning_end end;
};

struct tuning {
  const char *key[TUNING_KEYS];
  int keys;
  const char *of; /* the metric, TUNING_METRIC */
  struct metric metric;
  int maximise;
  long seeds, jobs;
  const char *name; /* of the sweep, for the default folder */
  struct tuning_arm *arm;
  int arms;
  /* As in sweep.h; `begin` is called before each round with its sweep. Any may be NULL. */
  void (*begin)(void *context, const struct sweep *);
  void (*look)(void *context, const struct sweep *, long point);
  void (*say)(void *context, const struct sweep *, long point, long count, const char *line);
  void *context;
  char *folder; /* once run */
};

/* Add an arm; its configuration, which must have one point, is copied. STATUS_USAGE: a key is not a number, or its
   start value is not above zero. */
int tuning_add(struct tuning *, const char *name, const struct config *, struct error *);
/* Run, grow, choose. STATUS_STOPPED: start again to go on; STATUS_FAIL: a run could not be done. */
int tuning_run(struct tuning *, struct error *);
void tuning_free(struct tuning *);

/* The point next to the best, `step` -1 or 1 along a key; 0: the best itself. NULL if it does not exist. */
const struct tuning_point *tuning_beside(const struct tuning_arm *, int key, int step);
/* The score of one run. A run without a value has the worst, an infinite one. */
double tuning_worth(const struct tuning *, const struct tuning_run *);
/* The optimum between the values of a single key (optimum.h); n 0 if there is none, fewer than three seeds, or values
   beside the best that are not a factor away. */
struct interval tuning_optimum(const struct tuning *, const struct tuning_arm *);
const char *tuning_end_text(enum tuning_end); /* "bracketed" */
#endif
