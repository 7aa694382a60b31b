/* live_rows.h - some columns of a run's rows, for readers while the run is written
   Rows of the run file, followed by those of its journal (storage/journal.h). */
#ifndef MAXLOGIT_STORAGE_LIVE_ROWS_H
#define MAXLOGIT_STORAGE_LIVE_ROWS_H
#include "base/error.h"

/* val_loss: the last one up to the step. max_logit: the largest of the step (NaN counts as largest), and its place. */
enum live_field {
  LIVE_STEP,
  LIVE_LOSS,
  LIVE_VAL_LOSS,
  LIVE_LR,
  LIVE_GRAD_NORM,
  LIVE_MAX_LOGIT,
  LIVE_LAYER,
  LIVE_HEAD,
  LIVE_FIELDS
};
struct live_state;
struct live_rows {
  char path[4096], journal_path[4096], lock_path[4096];
  long rows;
  double *value[LIVE_FIELDS]; /* [rows] each */
  struct live_state *state;
};
void live_begin(struct live_rows *, const char *run_path);
/* Read new rows; `from` is the first of them. If the files were replaced, as after a snapshot or a resume, `from` is
   the first row that differs. Without a run file there are no rows. */
void live_news(struct live_rows *, long *from);
/* Has the writer ended? */
int live_is_over(const struct live_rows *);
void live_end(struct live_rows *);
/* Call `news` now, and every `interval` seconds until the writer has ended; it returns 0 to stop. STATUS_USAGE: there
   is no such run. */
int live_follow(struct live_rows *, double interval, int (*news)(void *, long from), void *context,
                struct error *);
#endif
