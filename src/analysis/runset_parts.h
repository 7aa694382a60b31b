/* runset_parts.h - the inside of sets of runs, for the files that they are made of */
#ifndef MAXLOGIT_RUNSET_PARTS_H
#define MAXLOGIT_RUNSET_PARTS_H
#include "analysis/runset.h"
#include "base/text.h"

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

/* A list of keys, "train.lr,kind": each is one that conditions know. */
struct key_list {
  char (*name)[96];
  int count;
};

/* group.c */
void keys_init(struct keys *);
char *run_identity(const struct run *, const struct keys *);
/* The same settings have one name, whether a preset or its keys were given. */
void runset_share_names(struct runset *);
void runset_group(struct runset *, struct keys *, const struct key_list *by); /* by: may be empty */
const char *group_value(const struct run_group *, const struct key *);
/* The set's groups with the same values of these keys as one, in the order in which they first occur, whatever they are
   sorted by; of[g]: in which group g is. The runs of one are neighbours in the set. Free out->group alone. */
void runset_merge(const struct runset *, const struct key_list *by, struct runset *out, int *of);
/* kind.c */
void run_name_kind(struct run *);
/* runset.c */
void run_free(struct run *);
const char *run_parameter_or(const struct run *, const char *key, const char *otherwise);
/* choose.c */
int runset_keep(struct runset *, const struct selection *, struct error *); /* --where */
int key_list_read(struct key_list *, const char *option, const char *text, struct error *);
void key_list_free(struct key_list *);
/* Order of two runs by a key: numbers as numbers, and before texts; kinds as presets are listed. */
int run_compare(const struct run *, const struct run *, const char *key);
#endif
