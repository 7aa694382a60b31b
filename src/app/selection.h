/* selection.h - the words and options by which every command chooses runs: RUN.h5 ... --where --by --sort --last */
#ifndef MAXLOGIT_APP_SELECTION_H
#define MAXLOGIT_APP_SELECTION_H
#include "analysis/runset.h"
#include "app/command.h"

/* The first member of such a command's request. */
struct selected_runs {
  struct request request;
  struct words where;
  struct selection selection;
};
extern const struct command_option selection_options[]; /* the command's `shared` */
#define SELECTION_HELP \
  "A folder stands for all run files in it. A file of several that cannot be read is named and left out; " \
  "the exit status is then 1."
/* The requested selection; the remaining words are its runs. */
const struct selection *selected_runs_open(struct selected_runs *);
#endif
