/* recorder_state.h - the inside of a recorder, for the files that it is made of */
#ifndef MAXLOGIT_STORAGE_RECORDER_STATE_H
#define MAXLOGIT_STORAGE_RECORDER_STATE_H
#include "base/file.h"
#include "base/memory.h"
#include "storage/journal.h"
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
  void (*close)(struct recorder *); /* of its files; NULL: it has none */
  char path[4096], lock_path[4096], journal_path[4096];
  struct lock *lock;
  struct journal *journal; /* NULL: all rows come with the snapshot at the end */
  double appended_at;
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
  struct error problem; /* found where none could be reported; given by the next call that can */
};

const char *recorder_own(struct recorder *, const char *text); /* a copy that lives as long; NULL is "" */
void recorder_facts(struct recorder *, const struct run_facts *);
/* Lock, facts and parameters; no rows yet. */
int recorder_begin(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                   struct error *);
int recorder_open_journal(struct recorder *, struct error *);
#endif
