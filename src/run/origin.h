/* origin.h - what a run file tells of the run that is to go on */
#ifndef MAXLOGIT_RUN_ORIGIN_H
#define MAXLOGIT_RUN_ORIGIN_H
#include "config/config.h"
#include "storage/checkpoint.h"

struct origin {
  char id[16];
  uint64_t data_content, start_content;
  int is_over; /* it diverged */
  long last_step;
  int has_state; /* there is a checkpoint: where the weights started is of no account */
};

/* With the finished configuration, its values from where they came then. */
int origin_read(const char *path, struct config **, struct origin *, struct error *);
/* The configuration as it was, with the contents that the file tells, has the run's id: else these are other
   numerics. */
int origin_check(const char *path, const struct config *, const struct origin *, struct error *);
/* STATUS_USAGE where the state under the name of the run `id` at `path` is another run's, left there by a copy or a
   move. What this version cannot tell is taken. */
int origin_owns(const char *path, const char *id, const struct checkpoint *, struct error *);
#endif
