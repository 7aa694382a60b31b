/* recorder_state.h - the inside of a recorder, for the files that it is made of */
#ifndef MAXLOGIT_STORAGE_RECORDER_STATE_H
#define MAXLOGIT_STORAGE_RECORDER_STATE_H
#include "base/file.h"
#include "base/memory.h"
#include "storage/layout.h"
#include "storage/notes.h"
#include "storage/provenance.h"
#include "storage/recorder.h"
#include "storage/tables.h"

struct parameter {
  const char *name, *value, *unit, *help, *origin;
  enum option_type type;
  int64_t integer;
  double number;
  int is_default;
};

/* What the places of an axis are called. */
struct axis_names {
  const char *axis;
  const char **name;
  long size;
};

struct recorder {
  int is_null;
  char path[4096], lock_path[4096], live_path[4096];
  struct lock *lock;
  struct append *live;
  int64_t live_step;   /* of its last line, -1 before the first */
  struct arena *arena; /* every text below */
  struct run_facts facts;
  struct provenance code;
  struct parameter *parameter;
  int parameters;
  struct axis_names *axis;
  int axes;
  const char *config_text;
  char started[32];
  struct notes notes; /* those of the file that is resumed */
  struct rows rows;
  size_t carried; /* bytes that checkpoints have carried since the last snapshot */
  int snapshots;
  struct error problem; /* found where none could be reported; given by the next call that can */
};

/* Lock, facts and parameters; no rows yet. */
int recorder_begin(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                   struct error *);

/* live.c: RUN.live.tsv from its start, or cut to the rows that are kept. */
int recorder_open_live(struct recorder *, struct error *);
int recorder_cut_live(struct recorder *, struct error *);
#endif
