#include "storage/live_rows.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "storage/journal.h"
#include "storage/layout.h"
#include "storage/run_file.h"

/* The position of a value in a row of the journal; count 0: missing. */
struct spot {
  size_t at, count, axes, heads;
};

struct live_state {
  struct journal_reader journal;
  int has_journal;               /* the journal's rows follow those of the run file */
  struct file_stamp file;        /* the run file that was read */
  long room, vals, val_room;     /* of value; rows of the validation axis */
  double *val_step, *val;        /* [vals] */
  struct spot spot[LIVE_FIELDS]; /* LIVE_VAL_LOSS: in a row of the validation axis; others: of the step's */
};

void live_begin(struct live_rows *w, const char *run_path)
{
  *w = (struct live_rows){0};
  snprintf(w->path, sizeof w->path, "%s", run_path);
  run_sibling(w->journal_path, run_path, ".journal");
  run_sibling(w->lock_path, run_path, ".lock");
  w->state = memory_new(1, sizeof *w->state);
}

static void forget(struct live_rows *w)
{
  for (int f = 0; f < LIVE_FIELDS; f++) memory_free(w->value[f]), w->value[f] = NULL;
  memory_free(w->state->val_step);
  memory_free(w->state->val);
  *w->state = (struct live_state){0};
  w->rows = 0;
}

void live_end(struct live_rows *w)
{
  if (!w->state) return;
  forget(w);
  memory_free(w->state);
  *w = (struct live_rows){0};
}

/* --- rows ------------------------------------------------------------------------------------------------ */

/* Add a row with only its step. */
static void add_row(struct live_rows *w, double step)
{
  struct live_state *s = w->state;
  if (w->rows == s->room) {
    long room = 2 * s->room + 256;
    for (int f = 0; f < LIVE_FIELDS; f++)
      w->value[f] = memory_grow(w->value[f], (size_t)s->room, (size_t)room, sizeof *w->value[f]);
    s->room = room;
  }
  for (int f = 0; f < LIVE_FIELDS; f++) w->value[f][w->rows] = NAN;
  w->value[LIVE_STEP][w->rows] = step;
  w->value[LIVE_LAYER][w->rows] = w->value[LIVE_HEAD][w->rows] = -1;
  w->rows++;
}

static void add_val(struct live_state *s, double step, double value)
{
  if (s->vals == s->val_room) {
    long room = 2 * s->val_room + 64;
    s->val_step = memory_grow(s->val_step, (size_t)s->val_room, (size_t)room, sizeof *s->val_step);
    s->val = memory_grow(s->val, (size_t)s->val_room, (size_t)room, sizeof *s->val);
    s->val_room = room;
  }
  s->val_step[s->vals] = step;
  s->val[s->vals++] = value;
}

/* axes: layer, or layer and head, or none. */
static void put_largest(struct live_rows *w, long row, const double *x, size_t n, size_t axes, size_t heads)
{
  size_t best = n;
  for (size_t i = 0; i < n && (best == n || !isnan(x[best])); i++)
    if (!is_missing(x[i]) && (best == n || !(x[i] <= x[best]))) best = i;
  if (best == n) return;
  w->value[LIVE_MAX_LOGIT][row] = x[best];
  if (axes) w->value[LIVE_LAYER][row] = (double)(best / heads);
  if (axes == 2) w->value[LIVE_HEAD][row] = (double)(best % heads);
}

/* Fill in the validation loss of each row: the last one up to its step. A validation row may come after the row of its
   step. Returns the first row that changed, or their number. */
static long fill_val(struct live_rows *w)
{
  const struct live_state *s = w->state;
  long next = 0, changed = w->rows;
  for (long row = 0; row < w->rows; row++) {
    while (next < s->vals && s->val_step[next] <= w->value[LIVE_STEP][row]) next++;
    double *old = &w->value[LIVE_VAL_LOSS][row], new = next ? s->val[next - 1] : NAN;
    if (changed == w->rows && memcmp(old, &new, sizeof new) != 0) changed = row;
    *old = new;
  }
  return changed;
}

/* --- the run file ---------------------------------------------------------------------------------------- */

static const struct {
  const char *series;
  enum live_field field;
} sources[] = {{"loss", LIVE_LOSS},
               {"lr", LIVE_LR},
               {"grad_norm", LIVE_GRAD_NORM},
               {"attn/max_logit", LIVE_MAX_LOGIT},
               {"val_loss", LIVE_VAL_LOSS}};
enum { SOURCES = sizeof sources / sizeof *sources };

static void take_series(struct live_rows *w, const struct run_series *x, enum live_field field)
{
  size_t width = (size_t)x->width, heads = x->axes == 2 ? (size_t)x->size[1] : 1;
  if (field == LIVE_VAL_LOSS && !strcmp(x->steps, "val_step"))
    for (long i = 0; i < x->rows; i++) add_val(w->state, x->step[i], width == 1 ? x->value[i] : NAN);
  if (strcmp(x->steps, "step")) return;
  for (long i = w->rows; i < x->rows; i++) add_row(w, x->step[i]);
  for (long i = 0; i < x->rows; i++) {
    if (field == LIVE_MAX_LOGIT)
      put_largest(w, i, x->value + (size_t)i * width, width, (size_t)x->axes, heads);
    else if (width == 1 && field != LIVE_STEP && field != LIVE_VAL_LOSS)
      w->value[field][i] = x->value[i];
  }
}

struct live_reading {
  struct live_rows *rows;
  struct run_file *run;
};

static int take_name(void *context, const char *name)
{
  const struct live_reading *r = context;
  struct run_series x;
  int i = 0;
  while (i < SOURCES && strcmp(sources[i].series, name)) i++;
  if (i == SOURCES && (r->rows->rows || run_has_unread(r->run))) return 0; /* steps are known */
  if (run_read_all(r->run, name, &x, NULL)) return 0;
  take_series(r->rows, &x, i < SOURCES ? sources[i].field : LIVE_STEP);
  run_series_free(&x);
  return 0;
}

/* *started: the date of the run, if its journal counts, else "". */
static void read_file(struct live_rows *w, char started[32])
{
  struct run_file *run = NULL;
  *started = 0;
  w->state->file = file_stamp(w->path);
  if (!w->state->file.inode || run_open(&run, w->path, NULL)) return;
  run_series_names(run, take_name, &(struct live_reading){w, run});
  if (!strcmp(run_state(run), "running")) text_fill(started, 32, run_date(run));
  run_close(run);
}

/* --- the journal ----------------------------------------------------------------------------------------- */

static int see_column(void *context, int table, const struct journal_column *c)
{
  struct live_rows *w = context;
  struct live_state *s = w->state;
  size_t bytes = h5_row_bytes(&c->shape);
  for (int i = 0; i < SOURCES; i++) {
    enum live_field f = sources[i].field;
    enum h5_kind kind = f == LIVE_MAX_LOGIT ? KIND_F32 : KIND_F64;
    if (strcmp(c->name, sources[i].series) || table != (f == LIVE_VAL_LOSS ? AXIS_VAL : AXIS_STEP) ||
        c->shape.kind != kind || (kind == KIND_F64 && c->shape.rank > 1))
      continue;
    s->spot[f] = (struct spot){s->journal.row_bytes[table] - bytes, bytes / h5_kind_size(kind),
                               (size_t)c->shape.rank - 1, c->shape.rank == 3 ? (size_t)c->shape.dims[2] : 1};
  }
  return 1;
}

static double number_at(const char *row, const struct spot *spot)
{
  double x = NAN;
  if (spot->count) memcpy(&x, row + spot->at, sizeof x);
  return x;
}

static void see_row(struct live_rows *w, double step, const char *row, double *logit)
{
  static const enum live_field numbers[] = {LIVE_LOSS, LIVE_LR, LIVE_GRAD_NORM};
  const struct live_state *s = w->state;
  const struct spot *max = &s->spot[LIVE_MAX_LOGIT];
  add_row(w, step);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    w->value[numbers[i]][w->rows - 1] = number_at(row, &s->spot[numbers[i]]);
  for (size_t i = 0; i < max->count; i++) {
    float x;
    memcpy(&x, row + max->at + i * sizeof x, sizeof x);
    logit[i] = (double)x;
  }
  put_largest(w, w->rows - 1, logit, max->count, max->axes, max->heads);
}

/* Skip rows that the run file has; a row beyond the next belongs to a newer file. */
static int see_rows(void *context, int table, int64_t first, int64_t count, const char *row)
{
  struct live_rows *w = context;
  struct live_state *s = w->state;
  if (table != AXIS_STEP && table != AXIS_VAL) return 1;
  /* of one row of the step axis, so that the count is bounded by the bytes read */
  double *logit = table == AXIS_STEP ? memory_new(s->spot[LIVE_MAX_LOGIT].count + 1, sizeof *logit) : NULL;
  int fits = 1;
  for (int64_t i = first; i < first + count && fits; i++, row += s->journal.row_bytes[table]) {
    int64_t step, rows = table == AXIS_STEP ? w->rows : s->vals;
    memcpy(&step, row, sizeof step);
    fits = i <= rows;
    if (i == rows && table == AXIS_STEP) see_row(w, (double)step, row, logit);
    if (i == rows && table == AXIS_VAL) add_val(s, (double)step, number_at(row, &s->spot[LIVE_VAL_LOSS]));
  }
  memory_free(logit);
  return fits;
}

static void read_journal(struct live_rows *w, int fd)
{
  static const struct journal_visitor visitor = {see_column, see_rows, NULL};
  struct live_state *s = w->state;
  size_t length, from = s->journal.at;
  char *text = journal_bytes(fd, from, &length);
  s->has_journal = text && journal_read(&s->journal, text, length, &visitor, w);
  memory_free(text);
}

/* Is this the journal that was read, and does it still have all that was read? The first line and the digest of the
   last piece identify them. */
static int is_same_journal(const struct live_state *s, int fd)
{
  char head[JOURNAL_HEAD];
  uint64_t mark[2];
  const struct journal_reader *j = &s->journal;
  if (!s->has_journal || pread(fd, head, sizeof head, 0) != sizeof head || memcmp(head, j->head, sizeof head))
    return 0;
  return !j->last_at || (pread(fd, mark, sizeof mark, (off_t)j->last_at) == sizeof mark &&
                         !memcmp(mark, j->mark, sizeof mark));
}

/* --- together -------------------------------------------------------------------------------------------- */

/* The first row that differs, or that one of them lacks. */
static long first_difference(const struct live_rows *a, const struct live_rows *b)
{
  for (long row = 0; row < a->rows && row < b->rows; row++)
    for (int f = 0; f < LIVE_FIELDS; f++)
      if (memcmp(&a->value[f][row], &b->value[f][row], sizeof(double)) != 0) return row;
  return a->rows < b->rows ? a->rows : b->rows;
}

/* The journal must be opened before the run file: any snapshot read later then has the rows before this journal's. */
static void read_again(struct live_rows *w, int fd, long *from)
{
  struct live_rows old = *w;
  char started[32], head[JOURNAL_HEAD];
  w->state = memory_new(1, sizeof *w->state);
  memset(w->value, 0, sizeof w->value);
  w->rows = 0;
  ssize_t n = fd < 0 ? 0 : pread(fd, head, sizeof head, 0);
  read_file(w, started);
  if (*started && n == sizeof head && journal_begin(&w->state->journal, head, sizeof head, started))
    read_journal(w, fd);
  fill_val(w);
  *from = first_difference(&old, w);
  forget(&old);
  memory_free(old.state);
}

void live_news(struct live_rows *w, long *from)
{
  int fd = file_open_plain(w->journal_path, NULL);
  *from = w->rows;
  if (fd >= 0 && is_same_journal(w->state, fd)) {
    read_journal(w, fd);
    long changed = fill_val(w);
    if (changed < *from) *from = changed;
  } else if (w->state->has_journal || file_has_changed(w->path, &w->state->file) || fd >= 0)
    read_again(w, fd, from);
  if (fd >= 0) close(fd);
}

/* A writer holds the lock file and removes it at the end. After a kill the file stays, unlocked. */
int live_is_over(const struct live_rows *w) { return !lock_is_held(w->lock_path); }

int live_follow(struct live_rows *w, double interval, int (*news)(void *, long from), void *context,
                struct error *e)
{
  struct timespec pause = {(time_t)interval, (long)(fmod(interval, 1) * 1e9)};
  struct run_file *run;
  if (access(w->path, F_OK) && access(w->lock_path, F_OK))
    return error_set(e, STATUS_USAGE, "%s: no such run", w->path);
  if (!access(w->path, F_OK)) { /* do not wait for a file that is not a run */
    int status = run_open_trained(&run, w->path, e);
    if (status) return status;
    run_close(run);
  }
  for (int over = 0;;) {
    long from;
    live_news(w, &from);
    if (!news(context, from) || over) return STATUS_OK;
    over = live_is_over(w);
    if (!over) nanosleep(&pause, NULL);
  }
}
