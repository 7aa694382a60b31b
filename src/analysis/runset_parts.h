/* runset_parts.h - the inside of sets of runs, for the files that they are made of */
#ifndef MAXLOGIT_RUNSET_PARTS_H
#define MAXLOGIT_RUNSET_PARTS_H
#include "analysis/runset.h"

/* A key that tells groups apart. Not so the seed, the preset's name (its settings are stored too), keys that
   cannot change the numbers, and names of sources whose content counts. */
struct key {
  char name[96], standard[64];
  int clashes; /* among the differences of this set another key has the same last part */
};
struct keys {
  struct key *key;
  size_t count;
};

/* group.c */
void keys_init(struct keys *);
char *run_identity(const struct run *, const struct keys *);
void runset_group(struct runset *, struct keys *);
const char *group_value(const struct run_group *, const struct key *);
/* kind.c */
void run_name_kind(struct run *);
/* runset.c */
void run_free(struct run *);
const char *run_parameter_or(const struct run *, const char *key, const char *otherwise);
#endif
