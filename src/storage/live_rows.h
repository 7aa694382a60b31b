/* live_rows.h - RUN.live.tsv as somebody else reads it while it grows */
#ifndef MAXLOGIT_STORAGE_LIVE_ROWS_H
#define MAXLOGIT_STORAGE_LIVE_ROWS_H
#include <sys/types.h>
#include "base/error.h"

/* Columns that are used, found by name: a newer file may have more. */
enum live_field { LIVE_STEP, LIVE_LOSS, LIVE_VAL_LOSS, LIVE_MAX_LOGIT, LIVE_LAYER, LIVE_HEAD, LIVE_FIELDS };
struct live_rows {
  char path[4096], lock_path[4096];
  long rows, room;
  double *value[LIVE_FIELDS]; /* [rows] each */
  long offset;                /* of the first byte not yet understood */
  int place[LIVE_FIELDS];     /* column of each field */
  ino_t inode;
  double last_news;
};
void live_begin(struct live_rows *, const char *run_path);
/* Whole lines that have come since, the first in row `from`; a file that has become shorter (a resume cut it), or is
   another one, is read again. No file: no rows. STATUS_USAGE: its first line lacks a column. */
int live_news(struct live_rows *, long *from, struct error *);
/* Has its writer gone? */
int live_is_over(const struct live_rows *);
void live_end(struct live_rows *);
#endif
