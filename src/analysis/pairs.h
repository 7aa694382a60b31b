/* pairs.h - two sets of runs compared: pairs of equal seed, their difference, and how sure it is
   Runs of equal shape, data and seed start from the same weights and train on the same batches. Two of them differ
   only because of their settings. */
#ifndef MAXLOGIT_ANALYSIS_PAIRS_H
#define MAXLOGIT_ANALYSIS_PAIRS_H
#include "analysis/metric.h"

/* Did the two start from the same weights? Decided by the first losses, or by the norms before the first step of all
   tensors that both runs have; unknown if neither was recorded. */
enum start { START_EQUAL, START_DIFFERS, START_UNKNOWN };

struct pair {
  const struct run *a, *b; /* NULL: the other has no partner */
  enum start start;
  char shape_key[96]; /* a setting of model, data or batch in which they differ; "": none */
};
/* Pairs of two sets whose runs have the same seed and the same values of `by` (keys separated by commas;
   NULL: none), in the order of these; memory_free(*pairs). STATUS_USAGE where a set has two runs for one
   place, naming a key in which they differ, or where there is no pair at all. */
int pairs_of(const struct runset *a, const struct runset *b, const char *by, struct pair **pairs, int *count,
             struct error *);
/* Have two pairs the same values of `by`? */
int pairs_together(const struct pair *, const struct pair *, const char *by);
/* These values, "train.lr=0.01 kind=muon", or, in short, "lr=0.01 kind=muon"; "" where `by` is NULL. */
void pairs_values(const struct pair *, const char *by, int in_short, char *out, size_t room);

/* The keys that both runs of a pair have, and in which those of any pair differ, "optimizer, train.steps"; NULL: none.
   For memory_free. */
char *pairs_difference(const struct pair *, int count);

enum contrast {
  CONTRAST_DIFFERENCE, /* B - A */
  CONTRAST_RATIO,      /* B / A, by logarithms */
  CONTRAST_SHARE       /* of claims: the share of B's runs above a level minus that of A's */
};
const char *contrast_name(enum contrast); /* "difference" */

/* The statistics of a metric over pairs [0, count). A pair counts if both values are finite and count
   (metric_counts), above zero for a ratio, none censored. */
struct comparison {
  int n, diverged, blown_up;  /* pairs that count; with a run that diverged; else with one that blew up */
  int left_out;               /* with no value, or a censored one */
  int unfinished;             /* pairs that count, with a run that has not finished */
  struct interval a, b;       /* of the arms, over these pairs; geometric for a ratio */
  struct interval effect;     /* of the contrast; t on the pairs */
  struct interval bootstrap;  /* n < 8: rough */
  double p, holm, rank_p;     /* t, corrected (the caller's), signed ranks */
  double detectable;          /* the contrast that n such pairs would find with a chance of 80 % */
  double margin, equivalence; /* p of two one-sided tests; NaN without margin */
};
struct arm_values { /* metrics_of each set */
  const struct runset *set;
  const struct metric *metric; /* [metrics] */
  const struct measured *value;
  int metrics;
};
/* margin: of the difference, or the ratio's (1.1: within a tenth); 0: none. */
struct comparison pairs_compare(const struct pair *, int count, const struct arm_values *a,
                                const struct arm_values *b, int metric, enum contrast, double margin);
#endif
