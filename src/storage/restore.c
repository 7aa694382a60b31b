/* restore.c - a recorder that goes on: the rows of its run file and checkpoint */
#include <stdio.h>
#include <string.h>
#include "storage/recorder_state.h"

static const char *text_of(struct recorder *r, struct h5 *h, h5_id id, const char *name)
{
  char text[2048];
  return h5_get_text(h, id, name, text, sizeof text) ? recorder_own(r, text) : NULL;
}

/* A column of the run file with its rows. The first of a table, its steps, says how many rows there are. */
static void read_column(struct recorder *r, struct table *t, struct h5 *h, h5_id id, const char *name)
{
  struct h5_shape shape;
  if (!h5_get_shape(h, id, &shape) || (t->columns && shape.dims[0] != t->rows)) {
    error_set(&r->problem, STATUS_FAIL, "%s: %s cannot be read", r->path, name);
    return;
  }
  int64_t rows = shape.dims[0];
  if (shape.kind == KIND_RECORD) shape = recorder_event_shape;
  struct column *c = table_add(t, name, &shape);
  c->unit = text_of(r, h, id, "units");
  c->long_name = text_of(r, h, id, "long_name");
  c->definition = text_of(r, h, id, "definition");
  for (int dim = 1; dim < shape.rank; dim++) {
    char label[64] = "";
    h5_get_label(h, id, dim, label, sizeof label);
    c->label[dim] = recorder_own(r, label);
  }
  for (int64_t row = 0; row < rows; row += c->block_rows) {
    int64_t n = rows - row < c->block_rows ? rows - row : c->block_rows;
    if (!h5_read(h, id, &c->shape, row, n, column_space(c, row)))
      error_set(&r->problem, STATUS_FAIL, "%s: %s cannot be read", r->path, name);
  }
  t->rows = rows;
}

static void read_steps(struct recorder *r, struct h5 *h)
{
  for (int t = 0; t < TABLE_COUNT; t++) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", table_places[t].folder, table_places[t].step);
    h5_id id = h5_find(h, path);
    if (id >= 0) read_column(r, &r->rows.table[t], h, id, table_places[t].step);
    h5_done(h, id);
  }
}

/* A run began when it began first. */
static void read_date(struct recorder *r, struct h5 *h)
{
  h5_id root = h5_find(h, "/");
  h5_get_text(h, root, "date", r->started, sizeof r->started);
  h5_done(h, root);
}

struct placing {
  struct recorder *r;
  struct h5 *h;
};

/* A dataset belongs to the table whose step axis labels its first dimension; scales have no label. */
static int place_dataset(void *context, const char *path, h5_id id)
{
  struct placing *p = context;
  char label[64];
  if (!h5_get_label(p->h, id, 0, label, sizeof label)) return 0;
  for (int t = 0; t < TABLE_EVENTS; t++) {
    size_t folder = strlen(table_places[t].folder);
    if (!strncmp(path, table_places[t].folder, folder) && path[folder] == '/' &&
        !strcmp(label, table_places[t].step))
      read_column(p->r, &p->r->rows.table[t], p->h, id, path + folder + 1);
  }
  return 0;
}

static int place_rows(struct recorder *r, long step, const void *rows, size_t rows_size, int repeats,
                      struct error *e)
{
  if (!repeats) {
    rows_cut_steps(&r->rows, step);
    return rows_unpack(&r->rows, rows, rows_size, e);
  }
  rows_go_back(&r->rows, step);
  return rows_unpack_ring(&r->rows, rows, rows_size, e);
}

static int restore(struct recorder **out, const char *path, const struct config *config,
                   const struct run_facts *facts, long step, const void *rows, size_t rows_size, int repeats,
                   struct error *e)
{
  struct recorder *r = NULL;
  int status = recorder_begin(&r, path, config, facts, e);
  if (status) return status;
  struct placing placing = {.r = r};
  status = h5_load(&placing.h, path, e);
  if (!status) {
    read_date(r, placing.h);
    read_steps(r, placing.h);
    notes_read(placing.h, &r->notes);
    h5_walk(placing.h, "/", place_dataset, &placing);
    h5_free(placing.h);
    recorder_start_tables(&r->rows);
    if (r->problem.status)
      status = error_set(e, r->problem.status, "%s", r->problem.text);
    else if (place_rows(r, step, rows, rows_size, repeats, e))
      status = error_prefix(e, "%s at step %ld", path, step);
  }
  if (!status) status = recorder_cut_live(r, e);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

int recorder_resume(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, const void *rows, size_t rows_size,
                    struct error *e)
{
  return restore(out, path, config, facts, step, rows, rows_size, 0, e);
}

int recorder_repeat(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, const void *rows, size_t rows_size,
                    struct error *e)
{
  return restore(out, path, config, facts, step, rows, rows_size, 1, e);
}

static int has_event(const struct recorder *r, const char *kind, int64_t step)
{
  const struct table *t = &r->rows.table[TABLE_EVENTS];
  struct event_record event;
  for (int64_t row = t->rows; row-- > 0;) {
    memcpy(&event, column_row(&t->column[0], row), sizeof event);
    if (event.step == step && !strcmp(event.kind, kind)) return 1;
  }
  return 0;
}

/* Would a row of this step be there without being a run's last? */
static int row_is_due(const struct recorder *r, int64_t step, int64_t every)
{
  return step % every == 0 || has_event(r, "dense_end", step);
}

int recorder_forget(struct recorder *r, long step, long every, long first_step, struct error *e)
{
  const struct table *t = &r->rows.table[AXIS_STEP];
  int64_t last[2] = {-1, -1}; /* the last steps that have rows */
  for (int64_t i = 0; i < 2 && i < t->rows; i++)
    memcpy(&last[i], column_row(&t->column[0], t->rows - 1 - i), sizeof *last);
  if (last[0] != step || row_is_due(r, step, every)) return STATUS_OK;
  if (last[1] == step - 1 && !row_is_due(r, last[1], every)) return STATUS_OK; /* rows were more often */
  rows_forget(&r->rows, first_step);
  append_close(r->live);
  return recorder_cut_live(r, e);
}
