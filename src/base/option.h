/* option.h - one row per option, for parsing, help, range errors, HDF5 attributes, sweep axes and the run id */
#ifndef MAXLOGIT_BASE_OPTION_H
#define MAXLOGIT_BASE_OPTION_H
#include <stddef.h>
#include "base/error.h"

enum option_type {
  OPTION_INT,    /* long */
  OPTION_REAL,   /* double */
  OPTION_BOOL,   /* long, 0 or 1 */
  OPTION_CHOICE, /* long, index into choices; written and stored as its name */
  OPTION_TEXT    /* const char * */
};

enum {                     /* flags */
       OPTION_FREE = 1,    /* cannot change the numbers: not in the run id, may change on resume */
       OPTION_EXTEND = 2,  /* may change on resume under a rule that its owner checks (train.steps) */
       OPTION_LIST = 4,    /* text: a list joined by + */
       OPTION_CONTENT = 8, /* text: names a source; the run id has its content instead of its name */
       /* The programs of a step are recorded once and may serve many runs at a time. Is the option only a number in
          them, or does it determine calls, shapes and constants? A real is a number unless flagged otherwise,
          everything else is structure. */
       OPTION_NUMBER = 16,
       OPTION_STRUCTURE = 32,
       OPTION_OFF = 64,       /* a real with 0 for off: zero or not is structure */
       OPTION_LATER = 128,    /* added when run files already existed: its default is not in the run id */
       OPTION_THRESHOLD = 256 /* a max logit at which the plug-in acts: figures show it */
};

struct option_row {
  const char *name; /* within its section: "tau" */
  enum option_type type;
  size_t offset;              /* of the field in the section's struct */
  const char *standard;       /* default, as text */
  double min, max;            /* numbers: inclusive range */
  const char *const *choices; /* NULL-terminated */
  const char *unit;           /* "1" if none */
  const char *help;           /* one line: its meaning, without name, default and range */
  unsigned flags;
};

#define INT_ROW(S, field, standard_, min_, max_, unit_, help_, flags_) \
  { \
#field, OPTION_INT, offsetof(S, field), standard_, min_, max_, NULL, unit_, help_, flags_ \
  }
#define REAL_ROW(S, field, standard_, min_, max_, unit_, help_, flags_) \
  { \
#field, OPTION_REAL, offsetof(S, field), standard_, min_, max_, NULL, unit_, help_, flags_ \
  }
#define BOOL_ROW(S, field, standard_, help_, flags_) \
  { \
#field, OPTION_BOOL, offsetof(S, field), standard_, 0, 1, NULL, "1", help_, flags_ \
  }
#define CHOICE_ROW(S, field, standard_, choices_, help_, flags_) \
  { \
#field, OPTION_CHOICE, offsetof(S, field), standard_, 0, 0, choices_, "1", help_, flags_ \
  }
#define TEXT_ROW(S, field, standard_, help_, flags_) \
  { \
#field, OPTION_TEXT, offsetof(S, field), standard_, 0, 0, NULL, "1", help_, flags_ \
  }
#define END_ROW \
  { \
    NULL, OPTION_INT, 0, NULL, 0, 0, NULL, NULL, NULL, 0 \
  }

/* Parse `text` into the row's field of `base`. A text value points to `text`, which must outlive it. The message has
   the allowed values; the caller adds the place. */
int option_parse(const struct option_row *, void *base, const char *text, struct error *);
/* Format the field as text that parses back to the same value. */
void option_format(const struct option_row *, const void *base, char *out, size_t room);
/* The allowed values for messages: "1 to 64", "mha, gqa, mla", "a list joined by +". */
void option_allowed(const struct option_row *, char *out, size_t room);
/* Can runs with different values share their programs? See OPTION_NUMBER. */
int option_is_number(const struct option_row *);
/* Set every field to its default. */
void option_defaults(const struct option_row *rows, void *base);

#endif
