/* origin.h - the parts of a run file that a resume needs */
#ifndef MAXLOGIT_RUN_ORIGIN_H
#define MAXLOGIT_RUN_ORIGIN_H
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
/* record.batches=1 copies a text into the run file, and train.init_from weights into checkpoints beside it (`starts`).
   New files get no rights that these do not give, or a folder above them. */
void origin_keep_private(const struct config *, int starts);
/* STATUS_USAGE if an existing file, which keeps its rights, would give them to more users. */
int origin_refuse_copy(const struct config *, const char *file, struct error *);
#endif
