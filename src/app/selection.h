/* selection.h - the words and options by which every command chooses runs: RUN.h5 ... --where --by --sort
   --last An argp child: the command's own parser gives it `struct chosen` in child_inputs at ARGP_KEY_INIT,
   and leaves it the words that are runs. */
#ifndef MAXLOGIT_SELECTION_H
#define MAXLOGIT_SELECTION_H
#include <argp.h>
#include "analysis/runset.h"

struct chosen {
  struct selection selection;
  char **path, **where; /* those of the selection */
};
extern const struct argp_child selection_child[]; /* for the command's struct argp */
#define SELECTION_HELP \
  "A folder stands for all run files in it. A file of several that cannot be read is named and left out; " \
  "the exit status is then 1."
void chosen_free(struct chosen *);
#endif
