/* checkpoint.h - the state of a run after N updates, written atomically
   RUN.ckpt/step-%08ld.h5: /params/<name>, /state/<rule>/<name>, the step, the configuration text, and an XXH3 checksum
   over everything. A checkpoint is written to a temporary file, synced and renamed. Then older ones are removed
   according to checkpoint.keep. Checkpoints of version 2 also have rows, which are not read. */
#ifndef MAXLOGIT_STORAGE_CHECKPOINT_H
#define MAXLOGIT_STORAGE_CHECKPOINT_H
#include <stddef.h>
#include "base/error.h"

struct checkpoint_tensor {
  char name[160];
  long rows, cols;
  void *data;
}; /* real, host memory */

struct checkpoint {
  long step;         /* updates done */
  char id[16];       /* of the run */
  char *config_text; /* resolved configuration */
  int count;
  struct checkpoint_tensor *tensors; /* "params/...", "state/..." */
  double wall;
  double peak; /* the largest max logit of the run so far; NaN counts as largest; -INFINITY: none yet */
  long peak_step, peak_at; /* layer * heads + head */
  char core[64];           /* OpenBLAS core type that computed it */
};

void checkpoint_path(char out[4096], const char *run_path, long step);
/* Write a checkpoint, then keep only the newest `keep` (0: all). */
int checkpoint_write(const char *run_path, const struct checkpoint *, long keep, struct error *);
/* Read one file. Any corruption is STATUS_FAIL with the file's name. */
int checkpoint_read(const char *path, struct checkpoint *, struct error *);
/* Read the newest intact checkpoint of a run; a warning names newer damaged ones. STATUS_USAGE if there is none. */
int checkpoint_latest(const char *run_path, struct checkpoint *, struct error *);
/* The newest intact checkpoint of at most `step` updates. STATUS_USAGE if there is none. */
int checkpoint_before(const char *run_path, long step, struct checkpoint *, struct error *);
int checkpoint_is_there(const char *run_path);
int checkpoint_remove_all(const char *run_path, struct error *);
int checkpoint_remove_folder(const char *run_path, struct error *); /* and the folder, if it is empty then */
int checkpoint_copy(const char *from_run, const char *to_run, long step, struct error *);
/* The tensor "group/name" (group NULL: just `name`); NULL if there is none. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *, const char *group,
                                                const char *name);
void checkpoint_free(struct checkpoint *);
#endif
