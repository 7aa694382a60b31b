/* runset_parts.h - the inside of sets of runs, for the files that they are made of */
#ifndef MAXLOGIT_ANALYSIS_RUNSET_PARTS_H
#define MAXLOGIT_ANALYSIS_RUNSET_PARTS_H
#include "analysis/runset.h"
#include "base/text.h"

/* Does the key separate groups? Not the seed, the preset's name (its settings are stored, too), keys that cannot change
   numbers, and names of sources that are compared by content. */
struct sort_key {
  char name[96], standard[64];
  int clashes; /* among the differences of this set another key has the same last part */
};
struct keys {
  struct sort_key *key;
  size_t count;
};

/* group.c */
void keys_init(struct keys *);
char *run_identity(const struct run *, const struct keys *);
/* The same settings have one name, whether a preset or its keys were given. */
void runset_share_names(struct runset *);
void runset_group(struct runset *, struct keys *, const struct key_list *by); /* by: may be empty */
void runset_warn_of_mixed(const struct runset *); /* recordings in a group that are no seeds of one */
/* Keys of a recording in which another one differs, and that are no names or facts of a seed; at most 3. */
void runset_add_mixed(const struct run *first, const struct run *other, struct key_list *);
const char *group_value(const struct run_group *, const struct sort_key *);
/* run.c */
void run_free(struct run *);
const char *run_parameter_or(const struct run *, const char *key, const char *otherwise);
int run_is_number(const char *text, double *number);
/* Is this of the run itself (seed, steps, state), whatever a recording has under that key? */
int is_fact(const char *key);
enum { RUN_FACTS = 6 };
extern const char *const run_facts_known[RUN_FACTS];
/* choose.c */
int runset_keep(struct runset *, const struct selection *, struct error *); /* --where */
int runset_keeps_by_metric(const struct selection *);
/* Is this a metric, not a key? A short name (val, peak), or SERIES:WINDOW:REDUCTION. */
int is_metric_name(const char *);
/* The metric of every run into its `metric`: NaN where a run has none. STATUS_USAGE where no run has it. */
int runset_measure(struct runset *, const char *metric, struct error *);
#endif
