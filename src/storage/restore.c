/* restore.c - a recorder that goes on: the rows of its run file and checkpoint */
#include <stdio.h>
#include <string.h>
#include "storage/recorder_state.h"

/* A run began when it began first. */
static void read_date(struct recorder *r, struct h5 *h)
{
  h5_id root = h5_find(h, "/");
  h5_get_text(h, root, "date", r->started, sizeof r->started);
  h5_done(h, root);
}

static int place_rows(struct recorder *r, long step, const struct rows *from, int repeats, struct error *e)
{
  static const struct rows none;
  if (!from) from = &none;
  if (repeats)
    rows_go_back(&r->rows, step);
  else
    rows_cut_steps(&r->rows, step);
  return repeats ? STATUS_OK : rows_append(&r->rows, from, e);
}

static int restore(struct recorder **out, const char *path, const struct config *config,
                   const struct run_facts *facts, long step, const struct rows *rows, int repeats,
                   struct error *e)
{
  struct recorder *r = NULL;
  struct h5 *h = NULL;
  int status = recorder_begin(&r, path, config, facts, e);
  if (status) return status;
  status = h5_load(&h, path, e);
  if (!status) {
    read_date(r, h);
    notes_read(h, &r->notes);
    status = tables_read(h, &r->rows, e);
    h5_free(h);
    if (status) error_prefix(e, "%s", path);
  }
  if (!status) {
    tables_start(&r->rows);
    status = place_rows(r, step, rows, repeats, e);
    if (status) error_prefix(e, "%s at step %ld", path, step);
  }
  if (!status) status = recorder_cut_live(r, e);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

int recorder_resume(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, const struct rows *rows, struct error *e)
{
  return restore(out, path, config, facts, step, rows, 0, e);
}

int recorder_repeat(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, const struct rows *rows, struct error *e)
{
  return restore(out, path, config, facts, step, rows, 1, e);
}

int recorder_forget(struct recorder *r, long step, long every, struct error *e)
{
  const struct row_table *t = &r->rows.table[AXIS_STEP];
  int64_t last[2] = {-1, -1}; /* the last steps that have rows */
  for (int64_t i = 0; i < 2 && i < t->rows; i++)
    memcpy(&last[i], column_row(&t->column[0], t->rows - 1 - i), sizeof *last);
  if (last[0] != step || step % every == 0) return STATUS_OK;
  if (last[1] == step - 1 && last[1] % every) return STATUS_OK; /* rows were more often */
  table_cut(&r->rows.table[AXIS_STEP], r->rows.table[AXIS_STEP].rows - 1);
  append_close(r->live);
  return recorder_cut_live(r, e);
}
