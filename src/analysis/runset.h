/* runset.h - several run files, grouped: runs that differ only in their seed are one group */
#ifndef MAXLOGIT_RUNSET_H
#define MAXLOGIT_RUNSET_H
#include "analysis/table.h"

struct run {
  char *path;
  struct run_file *file;
  char *identity; /* all that can change the numbers, but the seed: parameters, content of data and start */
  char
    kind[96]; /* its preset, "muon_split+soft_cap" with stabilisers added to it; or optimizer+stabilizers */
  int rank;   /* of that preset in the list of presets: groups stand in this order */
  long seed;
};
struct run_group {
  /* kind, and what tells it from other groups of that kind: "muon lr=0.01"; keys in full where short ones clash,
     "override.lr"; nothing where a value is none */
  char label[256];
  struct run *run;
  int count; /* in the order of their seeds */
};
struct runset {
  struct run *run;
  int runs;
  struct run_group *group;
  int groups;
};

/* Open files and folders (all *.h5 in it). STATUS_USAGE names the first that is no run file. With
   RUNSET_RECORDED a run that has just begun, without a step in its file, is left out with a warning; with
   RUNSET_ONCE the same run twice (a copy: the same id) is STATUS_USAGE: it would count as two seeds. */
enum { RUNSET_RECORDED = 1, RUNSET_ONCE = 2 };
int runset_open(struct runset *, char *const *paths, int count, unsigned flags, struct error *);
void runset_close(struct runset *);

/* Keep only the runs for which all of the conditions hold: "KEY=VALUE", or KEY=VALUE,VALUE,... for any of them.
   KEY: a key of the configuration, or "kind"; numbers compare as numbers. STATUS_USAGE: no such key, or no run
   left (says what values there are). */
int runset_where(struct runset *, char *const *conditions, int count, struct error *);
/* What groups differ in, one key a line with the values that occur: "\n  kind = adam, muon". For memory_free. */
char *runset_differences(const struct runset *);

int run_is_diverged(const struct run *);
/* The runs of a group that its means are taken over, those that did not diverge, into out[group->count]; returns
   how many. */
int run_group_counted(const struct run_group *, const struct run **out);
/* A parameter as a number; `otherwise` if it is missing. */
double run_number(const struct run *, const char *key, double otherwise);
/* One series as a table. */
int run_table(const struct run *, const char *series, struct table *, struct error *);
/* The clip threshold of the run's stabilisers ("qk_clip.tau"); NaN if it clips nothing. */
double run_threshold(const struct run *);
#endif
