#include "storage/tables.h"
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "storage/layout.h"

/* The folders of the tables in the file. */
static const char *const folders[TABLE_COUNT] = {
  [AXIS_STEP] = "/series",    [AXIS_SPECTRA] = "/series",   [AXIS_VAL] = "/series", [AXIS_PROBE] = "/series",
  [TABLE_TIMING] = "/timing", [TABLE_BATCHES] = "/batches", [TABLE_EVENTS] = "",
};

static const char *path_of(char out[256], int table, const char *name)
{
  snprintf(out, 256, "%s/%s", folders[table], name);
  return out;
}

/* --- writing ------------------------------------------------------------------------------------------- */

static void write_dimensions(struct h5 *h, h5_id id, int table, const struct row_column *c, h5_id steps)
{
  char path[256];
  const char *label[4] = {table_steps[table]};
  h5_id scale[4] = {steps, -1, -1, -1};
  for (int dim = 1; dim < c->shape.rank && c->label[dim]; dim++) {
    label[dim] = c->label[dim];
    scale[dim] = h5_find(h, path_of(path, table, c->label[dim]));
  }
  h5_dimensions(h, id, c->shape.rank, label, scale);
  for (int dim = 1; dim < c->shape.rank; dim++) h5_done(h, scale[dim]);
}

static h5_id write_column(struct h5 *h, int table, const struct row_column *c, int64_t rows, int compress)
{
  char path[256];
  struct h5_shape shape = c->shape;
  shape.dims[0] = rows;
  shape.chunk = c->block_rows;
  shape.growing = 1;
  shape.compress = compress;
  h5_id id = h5_dataset(h, path_of(path, table, c->name), &shape);
  for (int64_t row = 0, next; row < rows; row = next) {
    next = row + c->block_rows < rows ? row + c->block_rows : rows;
    h5_write(h, id, &shape, row, next - row, column_row(c, row));
  }
  if (c->unit) h5_put_text(h, id, "units", c->unit);
  if (c->long_name) h5_put_text(h, id, "long_name", c->long_name);
  if (c->definition) h5_put_text(h, id, "definition", c->definition);
  return id;
}

/* The step column comes first and becomes the scale. */
static void write_table(struct h5 *h, int table, const struct row_table *t, int compress)
{
  h5_id steps = -1;
  for (int i = 0; i < t->columns; i++) {
    h5_id id = write_column(h, table, &t->column[i], t->rows, compress);
    if (i) write_dimensions(h, id, table, &t->column[i], steps);
    if (!i && table != TABLE_EVENTS)
      h5_make_scale(h, steps = id, table_steps[table]);
    else
      h5_done(h, id);
  }
  h5_done(h, steps);
}

void tables_write(struct h5 *h, const struct rows *r, int compress)
{
  for (int t = 0; t < TABLE_COUNT; t++) write_table(h, t, &r->table[t], compress);
}

/* --- reading ------------------------------------------------------------------------------------------- */

int table_takes(const struct h5_shape *s, int table, int column)
{
  int64_t bytes = 8;
  if (table == TABLE_EVENTS) return s->kind == KIND_RECORD && s->rank == 1;
  if (!column) return s->kind == KIND_I64 && s->rank == 1;
  if (table == TABLE_TIMING) return s->kind == KIND_F64 && s->rank == 1; /* see recorder_timing */
  for (int i = 1; i < s->rank; i++)
    if (s->dims[i] < 1 || __builtin_mul_overflow(bytes, s->dims[i], &bytes)) return 0;
  return s->kind < KIND_TEXT && bytes < INT64_MAX / 2;
}

static const char *text_of(struct rows *r, struct h5 *h, h5_id id, const char *name)
{
  char text[2048];
  return rows_own(r, h5_get_text(h, id, name, text, sizeof text) ? text : NULL);
}

struct table_reading {
  struct h5 *h;
  struct rows *rows;
  struct error *error;
};

/* Read a column. The first column of a table, its steps, sets the number of rows. */
static int read_column(struct table_reading *x, int table, const char *path, h5_id id)
{
  struct row_table *t = &x->rows->table[table];
  struct h5_shape shape;
  if (t->columns > TABLE_COLUMNS)
    return error_set(x->error, STATUS_FAIL, "%s: at most %d series of these rows are read", path,
                     TABLE_COLUMNS);
  int ok = h5_get_shape(x->h, id, &shape) && table_takes(&shape, table, t->columns) &&
           (!t->columns || shape.dims[0] == t->rows);
  int64_t rows = shape.dims[0];
  if (shape.kind == KIND_RECORD) shape = event_shape;
  struct row_column *c = ok ? table_add(t, path + strlen(folders[table]) + 1, &shape) : NULL;
  for (int dim = 1; c && dim < shape.rank; dim++) {
    char label[64] = "";
    h5_get_label(x->h, id, dim, label, sizeof label);
    c->label[dim] = rows_own(x->rows, label);
  }
  for (int64_t row = 0; ok && row < rows; row += c->block_rows) {
    int64_t n = rows - row < c->block_rows ? rows - row : c->block_rows;
    ok = h5_read(x->h, id, &shape, row, n, column_space(c, row));
  }
  if (!ok) return error_set(x->error, STATUS_FAIL, "%s cannot be read", path);
  c->unit = text_of(x->rows, x->h, id, "units");
  c->long_name = text_of(x->rows, x->h, id, "long_name");
  c->definition = text_of(x->rows, x->h, id, "definition");
  t->rows = rows;
  return STATUS_OK;
}

/* A dataset belongs to the table with the step axis that labels its first dimension; scales have no label. */
static int place_dataset(void *context, const char *path, h5_id id)
{
  struct table_reading *x = context;
  char label[64];
  int status = STATUS_OK;
  if (!h5_get_label(x->h, id, 0, label, sizeof label)) return status;
  for (int t = 0; t < TABLE_COUNT && !status; t++) {
    size_t folder = strlen(folders[t]);
    if (t != TABLE_EVENTS && !strncmp(path, folders[t], folder) && path[folder] == '/' &&
        !strcmp(label, table_steps[t]))
      status = read_column(x, t, path, id);
  }
  return status;
}

int tables_read(struct h5 *h, struct rows *rows, struct error *e)
{
  struct table_reading x = {h, rows, e};
  char path[256];
  int status = STATUS_OK;
  for (int t = 0; t < TABLE_COUNT && !status; t++) {
    h5_id id = h5_find(h, path_of(path, t, table_steps[t]));
    if (id >= 0) status = read_column(&x, t, path, id);
    h5_done(h, id);
  }
  return status ? status : h5_walk(h, "/", place_dataset, &x);
}
