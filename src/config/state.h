/* state.h - the internals of a configuration, for the files that implement it */
#ifndef MAXLOGIT_CONFIG_STATE_H
#define MAXLOGIT_CONFIG_STATE_H
#include "base/memory.h"
#include "config/config.h"

enum { MOST_NAMES = 256, MOST_VALUES = 100000, MOST_ARMS = 1000 };

struct key {
  const char *name; /* dotted */
  const struct option_row *row;
  const struct config_section *section;
  void *base;         /* the section's struct */
  const char *origin; /* NULL: default */
};

/* A key and its values: several make an axis. */
struct assignment {
  int key;
  const char *origin;
  int count;
  const char **value;
  int arm; /* from 1; 0: of all arms */
};

struct config {
  struct arena *arena;
  const struct config_section *sections;
  void **structs; /* one per section */
  struct key *keys;
  int key_count;
  struct assignment *list;
  int count, room;
  const char **arm;  /* names */
  int arms, arm_now; /* arm_now: the arm that is being read */
};

int config_find_key(const struct config *, const char *name); /* -1: there is none */
/* A key of an earlier version, with a value that had no effect: ignored. */
int config_is_ignored(const char *name, const char *value);
int config_unknown_key(const struct config *, const char *name, struct error *);
/* Is the value valid? Changes nothing. */
int config_check_value(const struct key *, const char *value, struct error *);
/* A copy owned by the configuration; lists have no blanks around +. */
const char *config_keep_value(struct config *, const struct key *, const char *value);
const char **config_values_new(struct config *, int count);
/* Reset every section to its defaults. */
void config_set_defaults(struct config *);
void config_add(struct config *, struct assignment);

int config_is_preset(const struct config *, int key);
/* Call each(context, key, value) for the settings of a preset; "" has none. Stops at the first non-zero. */
int config_preset_settings(const struct config *, const char *name,
                           int (*each)(void *, int key, const char *value), void *context);

/* The first key that has several values and is not overridden later; NULL if there is none. */
const struct assignment *config_first_axis(const struct config *);
#endif
