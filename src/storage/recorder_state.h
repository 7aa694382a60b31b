/* recorder_state.h - the internals of a recorder, for the files that implement it */
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

/* The names of the places of an axis. */
struct axis_names {
  const char *axis;
  const char **name;
  long size;
};

struct recorder {
  int is_null;
  void (*close)(struct recorder *); /* closes its files; NULL: there are none */
  char path[4096], lock_path[4096], journal_path[4096];
  struct lock *lock;
  struct journal *journal; /* NULL: all rows are written with the snapshot at the end */
  double appended_at;
  struct arena *arena; /* owns every text below */
  struct run_facts facts;
  struct provenance code;
  struct parameter *parameter;
  int parameters;
  struct axis_names *axis;
  int axes;
  const char *config_text;
  char started[32];
  struct notes notes; /* notes of the resumed file */
  struct rows rows;
  struct error problem; /* an error that could not be returned yet; returned by the next call that can */
};

const char *recorder_own(struct recorder *, const char *text); /* owned copy; NULL: "" */
void recorder_facts(struct recorder *, const struct run_facts *);
/* Take the lock and set facts and parameters; no rows yet. */
int recorder_begin(struct recorder **, const char *path, const struct config *, const struct run_facts *,
                   struct error *);
int recorder_open_journal(struct recorder *, struct error *);
int recorder_has(const struct recorder *, int series); /* is there a series of this number? */
struct row_table *recorder_table(struct recorder *, int series);
struct row_column *recorder_column(struct recorder *, int series);
#endif
