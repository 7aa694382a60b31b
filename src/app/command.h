/* command.h - one file and one row per subcommand, in it one row per option: the parser, --help, the manual and the
   completion of shells all come from them */
#ifndef MAXLOGIT_APP_COMMAND_H
#define MAXLOGIT_APP_COMMAND_H
#include <limits.h>
#include "base/option.h"
#include "base/text.h"

struct words {
  char **word;
  int count;
};
/* The first member of every command's request. */
struct request {
  struct words words;   /* behind its options */
  const char **setting; /* those of them that say key=value, where it takes such */
  int settings;
  long help, usage, version; /* asked for */
};

enum { OPTION_MANY = 1 << 16 }; /* a text that may be repeated: its field is a struct words */
struct command_option {
  /* Its field in the request. The option is named after the last part of the field, without a final _: "dry_run" is
     --dry-run. Default: `standard`, which may lie outside a number's range; NULL: a text is NULL, a choice -1. */
  struct option_row row;
  char letter;          /* 'n' of -n, or 0 */
  const char *argument; /* its argument in help, "DIR"; a choice lists its values */
  const char *alone; /* its meaning without an argument; NULL: the argument is required (except for a flag) */
  void (*tell)(struct buffer *); /* adds to its help */
};
/* Rows of a command; its request is named struct options. */
#define FLAG(field, letter_, help) \
  { \
    .row = BOOL_ROW(struct options, field, "0", help, 0), .letter = letter_ \
  }
#define CHOICE(field, letter_, choices, standard, help) \
  { \
    .row = CHOICE_ROW(struct options, field, standard, choices, help, 0), .letter = letter_ \
  }
#define TEXT(field, letter_, argument_, standard, help) \
  { \
    .row = TEXT_ROW(struct options, field, standard, help, 0), .letter = letter_, .argument = argument_ \
  }
#define MANY(field, argument_, help) \
  { \
    .row = TEXT_ROW(struct options, field, NULL, help, OPTION_MANY), .argument = argument_ \
  }
#define WHOLE(field, letter_, argument_, standard, least, most, help) \
  { \
    .row = INT_ROW(struct options, field, standard, least, most, "1", help, 0), .letter = letter_, \
    .argument = argument_ \
  }
#define DECIMAL(field, letter_, argument_, standard, least, most, help) \
  { \
    .row = REAL_ROW(struct options, field, standard, least, most, "1", help, 0), .letter = letter_, \
    .argument = argument_ \
  }
#define NO_LIMIT ((double)LONG_MAX) /* of a whole number */
#define NO_OPTION \
  { \
    .row = END_ROW \
  }
#define JOBS_HELP "Launches at a time, each a process (without it: sweep.jobs, or as many as the cores carry)"

#define OPTIONS .options = options, .size = sizeof(struct options)
#define ONE_RUN .wanted = "which run?", .most = 1, .once = "one run at a time"

enum { MANY_WORDS = INT_MAX };
struct command {
  const char *name, *help; /* "run", one line */
  const char *arguments;   /* the words: "RUN.h5 [key=value ...]"; other forms in lines of their own */
  const char *about;       /* --help, before the options */
  const char *more;        /* and behind them, or NULL */
  void (*tell)(struct buffer *);
  const struct command_option *options; /* ends with NO_OPTION */
  const struct command_option *shared;  /* of commands that choose runs: selection_options */
  size_t size;                          /* of the request, which is zero but for its options */
  const char *wanted; /* the question if no word is given, "which run?"; NULL: words are optional */
  int most;           /* words */
  const char *once;   /* the message for one word too many */
  int settings;       /* does it take key=value? */
  int (*run)(void *request, struct error *); /* returns an exit status (base/error.h) */
};
/* NULL-terminated, generated registry; and the names in it. */
extern const struct command *const commands[];
extern const char *const command_names[];
const struct command *command_find(const char *name);

/* All options of a command: its own, those it shares with others, those of every command. */
enum { MOST_OPTIONS = 32, OPTION_NAME = 32 };
int command_options(const struct command *, const struct command_option *out[MOST_OPTIONS]);
void command_option_name(const struct command_option *, char out[OPTION_NAME]);

/* The request of a command line, for command_free; NULL: STATUS_USAGE. argv[0] is not part of it. Where help, usage or
   version is asked for nothing else counts. */
void *command_parse(const struct command *, int argc, char **argv, struct error *);
void command_free(const struct command *, void *request);
/* Print --help, COLUMNS wide; usage: only the first line, with all options. */
void command_explain(const struct command *, int usage);

/* Takes the words for which `is` holds out of a list; count: how many before were left there. The words taken are for
   memory_free. */
struct words words_take(struct words *, int (*is)(const char *word, int count));
#endif
