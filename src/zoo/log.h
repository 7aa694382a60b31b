/* log.h - what other programs have logged: columns of numbers over steps, and what series they are */
#ifndef MAXLOGIT_ZOO_LOG_H
#define MAXLOGIT_ZOO_LOG_H
#include <stdio.h>
#include "base/error.h"
#include "base/names.h"

/* Forms of logs. LOG_GUESS: by the name, and by how the file begins. */
enum log_form { LOG_GUESS, LOG_CSV, LOG_JSONL, LOG_NPZ, LOG_TENSORBOARD, LOG_PRINTED, LOG_FORMS };
extern const char *const log_forms[]; /* by name, NULL-terminated */

struct log_column {
  char *name; /* as the log has it; a list's element is NAME:l0, of a list of lists NAME:l0h0 */
  char unit[32];
  long count, room;
  double *step, *value; /* [count], as they came; log_settle: by steps, the last to come of equal ones */
};
struct log {
  struct log_column *column;
  int columns, room;
  struct name_table names; /* of the columns */
  const char *step;        /* what the column of the steps is called; NULL: guessed, and told here */
  char step_found[256];
  long skipped; /* lines without a step */
};

/* Read a file behind what is there. STATUS_USAGE: "FILE:LINE: what", or a form that this build cannot read and why. */
int log_read(struct log *, const char *path, enum log_form, struct error *);
/* Columns in the order of their steps. STATUS_USAGE: nothing is there. */
int log_settle(struct log *, struct error *);
void log_free(struct log *);

/* --- the readers; `f` is at the beginning, `path` for messages --------------------------------------- */
int log_csv(struct log *, FILE *f, const char *path, struct error *);
int log_jsonl(struct log *, FILE *f, const char *path, struct error *);
/* Megatron-LM's lines "iteration N/M | name: value | ...", and dictionaries as Hugging Face's trainer and
   ms-swift print them; other lines are passed over. */
int log_printed(struct log *, FILE *f, const char *path, struct error *);
int log_npz(struct log *, const char *path, struct error *);
int log_tensorboard(struct log *, const char *path, struct error *);

/* What they share. log_put: a value of a column, which is new where there is none of this name. */
struct log_column *log_put(struct log *, const char *name, double step, double value);
/* Is this a name that steps have, or the one that was asked for? */
int log_is_step(const struct log *, const char *name);
/* A whole number from 0 on, also as "5/100"; -1: it is none. */
double log_step(const char *text);
/* A number as programs print it; 0: it is none. */
int log_number(const char *text, double *value);

/* --- what series the columns are --------------------------------------------------------------------- */

/* Where a column goes: series NAME, place [layer, head] of it (-1: it has no such axis). */
struct log_place {
  char series[96];
  char pattern[256]; /* the column's name with {l} and {h} for its numbers */
  long at[2];
  const char *axis[2]; /* "layer", "head", "expert"; NULL */
};
/* Rules "SERIES=PATTERN" or "SERIES[l,h]=PATTERN", with commas between; in a pattern {l}, {h}, {e} are the numbers of a
   layer, head and expert; \\ before a comma of a name. SERIES "-": left out. */
struct log_map {
  struct log_rule {
    char series[96], letters[3];
    char *pattern;
    int used;
  } * rule;
  int rules;
};
int log_map_read(struct log_map *, const char *text, struct error *); /* appends */
void log_map_free(struct log_map *);
/* By the first rule that fits, else by its name. 0: it is left out. */
int log_place(struct log_map *, const char *column, struct log_place *);

/* --- configurations ---------------------------------------------------------------------------------- */

/* Keys and values of a JSON or YAML file, of nested ones "a.b". Returns what `each` returns where that is not 0. */
int log_settings(const char *path, int (*each)(void *, const char *key, const char *value), void *,
                 struct error *);
#endif
