/* config.h - the configuration: defaults < file < command line, with the origin of every value */
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

/* Read a file of `key = value` lines under [section]; errors read "FILE:LINE: KEY: ...". [arm NAME] begins a set of
   keys, complete names, which a sweep uses together; it ends at the next [. Blank lines and text after a # are ignored.
   Inside [train], `lr` is train.lr; a name with a dot is complete anywhere. A line that ends in \ continues in the
   next. Text may be quoted, with \" \\ \n \t for the characters that need it. */
int config_file(struct config *, const char *path, struct error *);
/* The same from a text in memory; `name` stands for the file in messages. */
int config_read(struct config *, const char *text, const char *name, struct error *);
/* "section.key=value" from the command line; the last assignment wins. */
int config_assign(struct config *, const char *assignment, struct error *);
/* A suggestion for an unknown key: the key for which other programs use this name, one with this last part, the
   nearest, or NULL. */
const char *config_near_key(const struct config *, const char *name);
/* Set one key to one value, taken literally, with its origin (used by sweeps, resume). */
int config_set(struct config *, const char *key, const char *value, const char *origin, struct error *);
/* Resolve everything; presets are expanded in their place. The structs must not be read before. It may be called again
   after more keys were set. STATUS_USAGE if an axis is left. */
int config_finish(struct config *, struct error *);

/* The option struct of a section ("train", "muon", ""); NULL if there is none. */
void *config_section(const struct config *, const char *prefix);

/* Walk every key: dotted name, row, text value, origin ("default", "FILE:3", "command line", "preset muon"), whether it
   is the default. `used`: it belongs to the core or to a plug-in of this run. `value` is valid until the next call.
   Stops at the first non-zero result and returns it. */
struct config_entry {
  const char *key;
  const struct option_row *row;
  const void *base;
  const char *value, *origin;
  int is_default, used;
};
int config_each(const struct config *, int (*each)(void *, const struct config_entry *), void *context);
/* The current entry of the key of "key=value"; returns 0 if the key is unknown. */
int config_assigned(const struct config *, const char *assignment, struct config_entry *);
/* Warn on standard error about each key that was given but is not used by this run, one line each. */
void config_warn_unused(const struct config *);

/* Sweep axes. The arms of a file: each also has all keys outside of arms, in the order of the file. The points come arm
   by arm, and their key `arm` is the arm's name. The other axes are keys with a comma list or a range as value; the
   first written varies slowest. A key that a later key or preset overrides is not an axis. config_points: the number of
   combinations (1 without axes), LONG_MAX for too many. config_point: an unfinished copy with the values of point i
   (from 0). */
long config_points(const struct config *);
struct config *config_point(const struct config *, long index);
/* The axes of point i as "train.lr=0.003 train.seed=1", for tables. */
void config_point_label(const struct config *, long index, char *out, size_t room);

/* 12 hex digits: the hash of everything that can change a run's numbers: resolved used values, the content of the data
   and of the initial weights (0: drawn at random), the version of the numerics. */
void config_id(const struct config *, uint64_t data_content, uint64_t start_content, char out[16]);

/* Runs of equal structure have the same programs, but different numbers (OPTION_NUMBER). */
uint64_t config_structure(const struct config *);

/* The resolved configuration of this run (its used keys) as a file that config_file reads. */
char *config_text(const struct config *); /* memory_free */
/* A value as written in a file, quoted if it would be read differently (a comma would make several values). */
struct buffer;
void config_quote(struct buffer *, const char *value);
#define NUMERICS_VERSION 5 /* raise when the same configuration gives other bits */

/* --- options of the core sections -------------------------------------------------------------------- */
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
  long cautious_decay;
  double grad_clip;
  long val_every, val_batches, seed;
  long on_nonfinite;     /* stop (a diverged run, exit 0), continue, fail (exit 3) */
  double spike;          /* loss spike: above the running median by this many running deviations; 0 off */
  double max_time;       /* seconds; 0 none */
  const char *init_from; /* "", a checkpoint, a run file (its newest checkpoint), or a folder of runs */
  const char *plant;     /* "" or LAYER:HEAD:FACTOR+...: model/boost.h */
};
struct checkpoint_options {
  long every;       /* steps; 0: only by time and at a stop */
  double seconds;   /* maximal interval; 0 off. Decides only when checkpoints are written: FREE */
  const char *keep; /* how many of the newest checkpoints, or all */
};
struct device_options {
  long threads, math; /* enum device_math */
};
enum { SHARD_NONE, SHARD_STATES, SHARD_WEIGHTS }; /* choices of comm.shard */
struct comm_options {
  long ranks;   /* 0: all ranks of the launcher */
  long context; /* ranks that share every sequence */
  long shard;
  double timeout; /* seconds */
};
struct sweep_options {
  const char *dir;
  long jobs, together, drop_checkpoints;
};
#endif
