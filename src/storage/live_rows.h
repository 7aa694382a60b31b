/* live_rows.h - some columns of a run's rows, as somebody else reads them while they are written
   Rows of the run file, and behind them those of its journal (storage/journal.h). */
#ifndef MAXLOGIT_STORAGE_LIVE_ROWS_H
#define MAXLOGIT_STORAGE_LIVE_ROWS_H
#include "base/error.h"

/* val_loss: the last one up to the step. max_logit: the largest of the step, a NaN above all, and where it is. */
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
  double last_news;
  struct live_state *state;
};
void live_begin(struct live_rows *, const char *run_path);
/* Rows that have come since, the first in row `from`. Where the files are no longer those that were read, as after a
   snapshot or a resume, `from` is the first row that is another one. No run file: no rows. */
void live_news(struct live_rows *, long *from);
/* Has its writer gone? */
int live_is_over(const struct live_rows *);
void live_end(struct live_rows *);
/* Calls `news` now, and every `interval` seconds until the writer has gone; it returns 0 to stop. STATUS_USAGE: there
   is no such run. */
int live_follow(struct live_rows *, double interval, int (*news)(void *, long from), void *context,
                struct error *);
#endif
