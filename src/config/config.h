/* config.h - the configuration: defaults < file < command line, every value with where it came from */
#ifndef MAXLOGIT_CONFIG_CONFIG_H
#define MAXLOGIT_CONFIG_CONFIG_H
#include <stdint.h>
#include "base/error.h"
#include "base/option.h"
#include "observe/options.h"

/* A section: prefix "" (top level: optimizer, stabilizers, preset, data, device), "train", "muon", ... */
struct config_section {
  const char *prefix, *help;
  const struct option_row *rows;
  size_t size;
  int is_plugin;
};
/* All sections of the program: the core ones and one per plug-in; ends with rows NULL. */
const struct config_section *config_sections(void);

struct config;
struct config *config_new(void); /* everything at its default, unfinished */
void config_free(struct config *);

/* A file of `key = value` lines under [section]; problems read "FILE:LINE: KEY: ...".
   [arm NAME] begins a set of keys, complete names, that a sweep takes or leaves together: up to the next [.
   Blank lines and what follows a # are ignored. Inside [train], `lr` is train.lr; a name with a dot is
   complete anywhere. A line that ends in \ goes on in the next. Text may stand in quotes, with
   \" \\ \n \t for the characters that need it. */
int config_file(struct config *, const char *path, struct error *);
/* The same from a text in memory; `name` stands for the file in messages. */
int config_read(struct config *, const char *text, const char *name, struct error *);
/* "section.key=value" from the command line; a later one counts. */
int config_assign(struct config *, const char *assignment, struct error *);
/* The key that an unknown one may stand for: what other programs call so, one with this last part, the nearest, or
   NULL. */
const char *config_near_key(const struct config *, const char *name);
/* Set one key to one value, taken literally, saying where it came from (used by sweeps, resume). */
int config_set(struct config *, const char *key, const char *value, const char *origin, struct error *);
/* Settle everything, presets unfolded in their place; before this the structs are not to be read. May be
   called again after more keys were set. STATUS_USAGE if an axis is left. */
int config_finish(struct config *, struct error *);

/* The option struct of a section ("train", "muon", ""); NULL if there is none. */
void *config_section(const struct config *, const char *prefix);

/* Walk every key: dotted name, row, text value, origin ("default", "FILE:3", "command line", "preset
   muon"), whether it is the default. `used` = it belongs to the core or to a plug-in that this run has.
   `value` is valid until the next call. Stops at the first non-zero and returns it. */
struct config_entry {
  const char *key;
  const struct option_row *row;
  const void *base;
  const char *value, *origin;
  int is_default, used;
};
int config_each(const struct config *, int (*each)(void *, const struct config_entry *), void *context);
/* The entry that "key=value" would change, as it is now; 0 where no such key is known. */
int config_assigned(const struct config *, const char *assignment, struct config_entry *);
/* One line on standard error for each key that was given but belongs to no part of this run. */
void config_warn_unused(const struct config *);

/* Sweep axes. The arms of a file: each with all that is written outside of arms, by the order of writing; its name is
   the key `arm` of its points, which come arm by arm. And keys whose value is a comma list or a range, the first
   written varying slowest. An axis that a later key or preset overrides is none. config_points gives the number of
   combinations (1 without axes), config_point an unfinished copy with point i's values set (i from 0); LONG_MAX
   stands for too many. */
long config_points(const struct config *);
struct config *config_point(const struct config *, long index);
/* The axes of point i as "train.lr=0.003 train.seed=1", for tables. */
void config_point_label(const struct config *, long index, char *out, size_t room);

/* 12 hex digits: the hash of everything that can change a run's numbers: resolved used values, the content of
   the data and of the weights it starts from (0: drawn), the version of the numerics. */
void config_id(const struct config *, uint64_t data_content, uint64_t start_content, char out[16]);

/* Runs whose structures are equal have the same programs, with other numbers (OPTION_NUMBER). */
uint64_t config_structure(const struct config *);

/* The resolved configuration of this run (its used keys) as a file that config_file reads. */
char *config_text(const struct config *); /* memory_free */
/* A value as a file has it: in quotes where it would be read as something else (a comma: as several). */
struct buffer;
void config_quote(struct buffer *, const char *value);
#define NUMERICS_VERSION 5 /* raise when the same configuration gives other bits */

/* --- core sections that have no better home ---------------------------------------------------------- */
struct top_options {
  const char *optimizer, *stabilizers, *preset, *data, *device, *arm;
};
enum { ON_NONFINITE_STOP, ON_NONFINITE_CONTINUE, ON_NONFINITE_FAIL }; /* choices of train.on_nonfinite */
struct train_options {
  long steps, batch, micro_batches;
  double lr;
  long warmup;
  const char *schedule;
  double weight_decay;
  long decay;
  long decay_gains;
  double grad_clip;
  long val_every, val_batches, seed;
  long on_nonfinite; /* stop (a diverged run, exit 0), continue, fail (exit 3) */
  double spike;      /* loss spike: above the running median by this many running deviations; 0 off */
  double max_time;   /* seconds; 0 none */
  const char
    *init_from;      /* "" or a checkpoint, a run file whose latest it is, or a folder of runs: its weights */
  const char *plant; /* "" or LAYER:HEAD:FACTOR+...: model/boost.h */
};
struct checkpoint_options {
  long every;       /* steps; 0: only by time and at a stop */
  double seconds;   /* and at least this often; 0 off. Decides when, never what: FREE */
  const char *keep; /* how many of the newest, or all */
};
struct device_options {
  long threads, math; /* enum device_math */
};
enum { SHARD_NONE, SHARD_STATES, SHARD_WEIGHTS }; /* choices of comm.shard */
struct comm_options {
  long ranks;   /* 0: all that the launcher has started */
  long context; /* ranks that have each a part of every sequence */
  long shard;
  double timeout; /* seconds */
};
struct sweep_options {
  const char *dir;
  long jobs, together, drop_checkpoints;
};
#endif
