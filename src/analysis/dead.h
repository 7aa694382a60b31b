/* dead.h - heads that die, found in the recorded series when a run is read */
#ifndef MAXLOGIT_ANALYSIS_DEAD_H
#define MAXLOGIT_ANALYSIS_DEAD_H
#include "storage/run_file.h"

/* A head is dead in a series from the first row below `share` of its first value, and comes back with the first row
   after it that is at least twice that share. It may die again. A first value that is not above zero, and values that
   are not finite, count for nothing; nor does the max logit of a head that QK-Clip scaled. */
#define DEAD_SHARE 0.1 /* where nothing else is asked for */
struct dead_head {
  const char *series; /* attn/max_logit, or a norm of queries or keys */
  int layer, head;
  double step, start, least; /* when it died; its first value; the smallest while it was dead */
  double back;               /* the step at which it came back; NaN: it did not */
};

/* By series, layer, head and step; for memory_free. *looked: how many of the series the run has. */
int dead_heads(const struct run_file *, double share, struct dead_head **, long *count, int *looked,
               struct error *);
#endif
