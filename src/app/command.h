/* command.h - one file and one row per subcommand */
#ifndef MAXLOGIT_COMMAND_H
#define MAXLOGIT_COMMAND_H

struct command {
  const char *name, *arguments, *help; /* "run", "[FILE.conf] [key=value ...]", one line */
  /* argv[0] is "maxlogit run"; uses argp for its options; returns an exit status (base/error.h) */
  int (*run)(int argc, char **argv);
};
extern const struct command *const commands[]; /* NULL-terminated, generated registry */
const struct command *command_find(const char *name);

/* What `maxlogit help` says without a topic, on standard output. */
void command_overview(void);
#endif
