/* config.h - the configuration: defaults < file < command line, every value with where it came from */
#ifndef MAXLOGIT_CONFIG_H
#define MAXLOGIT_CONFIG_H
#include <stdint.h>
#include "base/error.h"
#include "base/option.h"

/* A section: prefix "" (top level: optimizer, stabilizers, preset, data, device), "train", "muon", ... */
struct config_section { const char *prefix; const struct option_row *rows; size_t size; };

struct config;
/* All sections of the program: the core ones and one per plug-in (config_sections.c gathers them). */
struct config *config_new(void);
void config_free(struct config *);

/* A file of `key = value` lines under [section]; problems read "FILE:LINE: KEY: ...". */
int config_file(struct config *, const char *path, struct error *);
/* The same from a text in memory; `name` stands for the file in messages. */
int config_read(struct config *, const char *text, const char *name, struct error *);
/* "section.key=value" from the command line; a later one counts. */
int config_assign(struct config *, const char *assignment, struct error *);
/* Set one key, saying where it came from (used by presets, sweeps, resume). */
int config_set(struct config *, const char *key, const char *value, const char *origin, struct error *);
/* Presets unfolded, plug-in names checked; before this the structs are not to be read. */
int config_finish(struct config *, struct error *);

/* The option struct of a section ("train", "muon", ""); never NULL for a known prefix. */
void *config_section(const struct config *, const char *prefix);

/* Walk every key: dotted name, row, text value, origin ("default", "FILE:3", "command line", "preset
   muon"), whether it is the default. `used` = it belongs to the core or to a plug-in that this run has. */
struct config_entry {
  char key[96]; const struct option_row *row; const void *base;
  char value[512]; const char *origin; int is_default, used;
};
int config_each(const struct config *, int (*each)(void *, const struct config_entry *), void *context);

/* Sweep axes: keys whose value is a comma list or a range. A finished config has none; config_points
   gives the number of combinations, config_point a copy with point i's values set (i from 0). */
long config_points(const struct config *);
struct config *config_point(const struct config *, long index, struct error *);
/* The axes of point i as "train.lr=0.003 seed=1", for tables. */
void config_point_label(const struct config *, long index, char *out, size_t room);

/* 12 hex digits: the hash of everything that can change a run's numbers: resolved used values, the data's
   content, the version of the numerics. */
void config_id(const struct config *, uint64_t data_content, char out[16]);

/* The whole resolved configuration as a file that config_file reads. */
char *config_text(const struct config *); /* memory_free */
#define NUMERICS_VERSION 1 /* raise when the same configuration gives other bits */

/* --- core sections that have no better home ---------------------------------------------------------- */
struct top_options { const char *optimizer, *stabilizers, *preset, *data, *device; };
struct train_options {
  long steps, batch, micro_batches; double lr; long warmup; const char *schedule;
  double weight_decay; long decay; long decay_gains; double grad_clip; long val_every, val_batches, seed;
  long on_nonfinite;  /* stop (a diverged run, exit 0), continue, fail (exit 3) */
  double spike;       /* loss spike: above the running median by this many running deviations; 0 off */
  double max_time;    /* seconds; 0 none */
};
struct record_options {
  const char *path;          /* "": runs/<preset or optimizer>-<id>.h5 */
  long overwrite, every, spectra_every, batches;
  long probe_every;          /* steps between passes over the fixed probe batch; 0 off */
};
struct checkpoint_options {
  long every;                /* steps; 0: only by time and at a stop */
  double seconds;            /* and at least this often; 0 off. Decides when, never what: FREE */
  const char *keep;          /* how many of the newest, or all */
};
struct device_options { long threads; };
extern const struct option_row top_rows[], train_rows[], record_rows[], checkpoint_rows[], device_rows[];
#endif
