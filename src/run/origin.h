/* origin.h - the parts of a run file that a resume needs */
#ifndef MAXLOGIT_RUN_ORIGIN_H
#define MAXLOGIT_RUN_ORIGIN_H
#include <sys/types.h>
#include "config/config.h"
#include "storage/checkpoint.h"

struct origin {
  char id[16];
  uint64_t data_content, start_content;
  int is_over;   /* the run diverged */
  int has_ended; /* it was not killed */
  long last_step;
  int has_state;          /* there is a checkpoint: the origin of the initial weights is irrelevant */
  struct error additions; /* see run_check_additions: a reason not to write the file anew */
};

/* Read the finished configuration, with the original source of each value. */
int origin_read(const char *path, struct config **, struct origin *, struct error *);
/* Check that the stored configuration and contents still give the stored id. STATUS_FAIL: this version computes other
   numbers. */
int origin_check(const char *path, const struct config *, const struct origin *, struct error *);
/* STATUS_USAGE if the checkpoint beside `path` belongs to another run than `id`, because of a copy or a move. If that
   cannot be decided, the checkpoint is accepted. */
int origin_owns(const char *path, const char *id, const struct checkpoint *, struct error *);
/* STATUS_USAGE if the configuration of a file, which may be a stranger's, makes a copy of a text (record.batches) or of
   weights (train.init_from) that some users cannot read, in or beside a file that is closed to fewer (file_closed). */
int origin_refuse_copies(const struct config *, mode_t closed, const char *file, int starts, struct error *);
#endif
