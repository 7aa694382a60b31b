/* runset.h - several run files, chosen and grouped: runs that differ only in their seed are one group */
#ifndef MAXLOGIT_ANALYSIS_RUNSET_H
#define MAXLOGIT_ANALYSIS_RUNSET_H
#include "analysis/table.h"

struct run {
  char *path;
  char *shown; /* the path as it is printed: cleaned (text_clean) */
  struct run_file *file;
  char *identity; /* all that can change the numbers, but the seed: parameters, content of data and start */
  char *mark;     /* the key of its group: the identity, or the values of chosen keys */
  char
    kind[96]; /* its preset, "muon_split+soft_cap" with stabilizers added to it; or optimizer+stabilizers */
  int rank;   /* of that preset in the list of presets: groups stand in this order */
  long seed;
  int is_copy;   /* of another run of the set, which stays */
  double metric; /* of the condition or order by a metric that is being looked at */
};
struct run_group {
  /* the kind, and the keys in which it differs from other groups of that kind: "muon lr=0.01"; keys in full if short
     ones clash, "override.lr"; groups by chosen keys: their values */
  char label[256];
  int kind_length; /* length of the kind at the beginning of the label: the kind determines the color */
  struct run *run;
  int count; /* in the order of their seeds */
};
struct runset {
  struct run *run; /* group by group */
  int runs;
  struct run_group *group;
  int groups;
  struct run **list;   /* [runs] in the order that was asked for */
  int damage;          /* STATUS_FAIL where files were left out */
  int is_bare, copies; /* how many were left out (RUNSET_FIRST); one of them: "a.h5 is a copy of b.h5" */
  char copy[512];
};

/* Which runs, how grouped, in which order; NULL and 0 where nothing is asked. */
struct selection {
  char *const *path; /* files, and folders: all *.h5 in it */
  int paths;
  /* "KEY OP VALUE & ...", OP one of = != < <= > >=; VALUE,VALUE,... for any of them (=) or none of them
     (!=). All must hold. KEY: a key of the configuration or of a recording, kind, state, id, seed, steps (done), date
     (started), or a metric (metric.h). Numbers compare as numbers; a run that does not have the key has no value:
     only != holds. */
  char *const *where;
  int wheres;
  const char *x, *y; /* keys along axes, only checked */
  const char *by;    /* "KEY,KEY,...": runs that have the same values of these are a group */
  const char *sort;  /* "KEY", "-KEY" downwards; also the order of the groups, by their first run */
  long last;         /* keep so many: the last in that order; without one, those started last */
};

/* Choose what is selected by heads alone where files have one. A file that cannot be read, damaged or no run
   file, is left out and named on standard error; it is an error where no run is left. STATUS_USAGE names a file
   that is not there, a key that is none (with the nearest), or a condition that leaves no run (with the values there
   are). With RUNSET_RECORDED a run that has just begun, without a step in its file, is left out with a
   warning; with RUNSET_ONCE the same run twice (a copy: the same id) is STATUS_USAGE: it would count as two
   seeds. With RUNSET_BARE labels have no folders. */
/* With RUNSET_MEANS it warns of groups of recordings that are no seeds of one. */
enum { RUNSET_RECORDED = 1, RUNSET_ONCE = 2, RUNSET_BARE = 4, RUNSET_FIRST = 8, RUNSET_MEANS = 16 };
int runset_select(struct runset *, const struct selection *, unsigned flags, struct error *);
void runset_close(struct runset *);
/* The status for a command to end with: STATUS_FAIL where files were left out, or a series could not be read. */
int runset_damage(const struct runset *);

/* A list of keys, "train.lr,kind". Read: each is one that conditions know, or that a run of the set has. */
struct key_list {
  char (*name)[96];
  int count;
};
void key_list_split(struct key_list *, const char *text);
int key_list_read(struct key_list *, const char *option, const char *text, const struct runset *,
                  struct error *);
void key_list_free(struct key_list *);
/* The last part of a key, "lr" of train.lr; the whole key where another one of the list has the same last part. */
const char *key_list_short(const struct key_list *, int);
/* The set's groups with the same values of these keys as one, in the order in which they first occur, whatever they are
   sorted by; of[g]: in which group g is. The runs of one are neighbours in the set. Free out->group alone. */
void runset_merge(const struct runset *, const struct key_list *by, struct runset *out, int *of);

/* The keys in which groups differ, one per line with its values: "\n  kind = adam, muon". For memory_free. */
char *runset_differences(const struct runset *);

/* The keys in which runs that have them differ, for columns of a table: without `but` (NULL: all), optimizer and
   stabilizers, which the kind states. key_list_free frees them. */
void runset_columns(const struct runset *, const char *but, struct key_list *);
/* The same for a table that is read: of more than 8 keys, those that have one value in each preset are in `rest`, and
   the preset is a column. */
void runset_text_columns(const struct runset *, const char *but, struct key_list *, struct key_list *rest);

/* Do the runs of each group differ in their seed alone? Of chosen keys they may differ in more. */
int runset_over_seeds(const struct runset *);

/* Its kind and rank, from its file alone (kind.c). */
void run_name_kind(struct run *);
int run_is_diverged(const struct run *);
int run_has_failed(const struct run *);    /* diverged, or blew up (run_blew_up): no mean is taken over it */
int run_is_unfinished(const struct run *); /* stopped, or still running: neither finished nor failed */
int run_group_unfinished(const struct run_group *group); /* how many: they count in means as they stand */
struct run_failures {
  int diverged, blown_up;
};
struct run_failures run_group_failures(const struct run_group *);
const char *run_failures_text(struct run_failures, char out[64]); /* "1 diverged, 2 blown up"; returns out */
/* The runs of a group that its means are taken over, those that did not fail, into out[group->count];
   returns how many. */
int run_group_counted(const struct run_group *, const struct run **out);
/* The value that a condition compares, of "kind", "state", "train.lr" ...; "" if the run has none. `room` holds values
   that are put together. */
enum { RUN_VALUE = 32 };
const char *run_value(const struct run *, const char *key, char room[RUN_VALUE]);
/* Order of two runs by a key: numbers as numbers, and before texts; kinds as presets are listed. */
int run_order(const struct run *, const struct run *, const char *key);
/* A parameter as a number; `otherwise` if it is missing. */
double run_number(const struct run *, const char *key, double otherwise);
/* One series as a table. */
int run_table(const struct run *, const char *series, struct table *, struct error *);
/* Are there fewer rows than steps, by record.every? Then the largest of the rows need not be that of the run. */
int run_is_thin(const struct run *);
/* The unit that the runs so far have a series in; begin with zeros. STATUS_USAGE where a run has another one: a mean or
   a comparison of the two makes no sense. "" is unknown. */
struct one_unit {
  const struct run *run;
  char unit[32];
};
int one_unit_add(struct one_unit *, const char *series, const struct run *, const char *unit, struct error *);
/* The same of all these runs, from their files. */
int runs_have_one_unit(const struct run *, int runs, const char *series, struct error *);
/* The threshold of the first of the run's stabilizers that has one (OPTION_THRESHOLD); NaN: there is none. */
double run_threshold(const struct run *);
#endif
