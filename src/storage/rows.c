#include "storage/rows.h"
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

enum { BLOCK_BYTES = 256 << 10, BLOCK_ROWS = 1024 };

static void free_table(struct row_table *table)
{
  for (int c = 0; c < table->columns; c++) {
    for (int64_t b = 0; b < table->column[c].blocks; b++) memory_free(table->column[c].block[b]);
    memory_free(table->column[c].block);
  }
  memory_free(table->column);
}

void rows_free(struct rows *r)
{
  for (int t = 0; t < TABLE_COUNT; t++) free_table(&r->table[t]);
  arena_free(r->texts);
  *r = (struct rows){0};
}

const char *rows_own(struct rows *r, const char *text)
{
  if (!text) return NULL;
  if (!r->texts) r->texts = arena_new();
  char *own = arena_text(r->texts, text);
  text_clean(own, strlen(own) + 1, "");
  return own;
}

struct row_column *table_find(const struct row_table *t, const char *name)
{
  for (int c = 0; c < t->columns; c++)
    if (!strcmp(t->column[c].name, name)) return &t->column[c];
  return NULL;
}

void *column_space(struct row_column *c, int64_t row)
{
  int64_t b = row / c->block_rows;
  if (b >= c->room) {
    c->block = memory_grow(c->block, (size_t)c->room, (size_t)(2 * b + 8), sizeof *c->block);
    c->room = 2 * b + 8;
  }
  for (; c->blocks <= b; c->blocks++) c->block[c->blocks] = memory_new((size_t)c->block_rows, c->row_bytes);
  return c->block[b] + (size_t)(row % c->block_rows) * c->row_bytes;
}

const void *column_row(const struct row_column *c, int64_t row)
{
  return c->block[row / c->block_rows] + (size_t)(row % c->block_rows) * c->row_bytes;
}

static void fill(struct row_column *c, int64_t row)
{
  void *out = column_space(c, row);
  memset(out, 0, c->row_bytes);
  float *f = out;
  double *d = out;
  if (c->shape.kind == KIND_F32)
    for (size_t i = 0; i < c->row_bytes / sizeof *f; i++) f[i] = (float)missing_value();
  if (c->shape.kind == KIND_F64)
    for (size_t i = 0; i < c->row_bytes / sizeof *d; i++) d[i] = missing_value();
}

struct row_column *table_add(struct row_table *t, const char *name, const struct h5_shape *shape)
{
  t->column = memory_grow(t->column, (size_t)t->columns, (size_t)t->columns + 1, sizeof *t->column);
  struct row_column *c = &t->column[t->columns++];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->shape = *shape;
  c->row_bytes = h5_row_bytes(shape);
  c->block_rows = BLOCK_BYTES / (int64_t)c->row_bytes;
  c->block_rows = c->block_rows < 1 ? 1 : c->block_rows > BLOCK_ROWS ? BLOCK_ROWS : c->block_rows;
  for (int64_t row = 0; row < t->rows + t->building; row++) fill(c, row);
  return c;
}

void *table_row(struct row_table *t, struct row_column *c)
{
  if (!t->building)
    for (int i = 0; i < t->columns; i++) fill(&t->column[i], t->rows);
  t->building = 1;
  return column_space(c, t->rows);
}

void table_end(struct row_table *t)
{
  t->rows++;
  t->building = 0;
}

void table_cut(struct row_table *t, int64_t rows)
{
  if (t->rows > rows) t->rows = rows;
  if (t->saved > t->rows) t->saved = t->rows;
  t->building = 0;
}

size_t rows_bytes(const struct rows *r, int only_unsaved)
{
  size_t bytes = 0;
  for (int t = 0; t < TABLE_COUNT; t++)
    for (int c = 0; c < r->table[t].columns; c++)
      bytes +=
        (size_t)(r->table[t].rows - (only_unsaved ? r->table[t].saved : 0)) * r->table[t].column[c].row_bytes;
  return bytes;
}

void rows_saved(struct rows *r)
{
  for (int t = 0; t < TABLE_COUNT; t++) r->table[t].saved = r->table[t].rows;
}

/* --- by their steps ------------------------------------------------------------------------------------------- */

static int64_t step_at(const struct row_table *t, int64_t row)
{
  int64_t step;
  memcpy(&step, column_row(&t->column[0], row), sizeof step);
  return step;
}

void rows_cut_steps(struct rows *r, int64_t step)
{
  struct row_table *t = &r->table[AXIS_STEP];
  int64_t rows = t->rows;
  while (rows && step_at(t, rows - 1) >= step) rows--;
  table_cut(t, rows);
}

void rows_go_back(struct rows *r, int64_t step)
{
  for (int i = 0; i < TABLE_COUNT; i++) {
    struct row_table *t = &r->table[i];
    int64_t rows = 0;
    if (!t->columns || t->column[0].row_bytes < sizeof step) continue; /* a record begins with its step */
    while (rows < t->rows && step_at(t, rows) < step) rows++;
    table_cut(t, rows);
  }
}

/* --- rows of a checkpoint -------------------------------------------------------------------------------- */

/* The column that another continues: there already, or new where the table has no rows. */
static struct row_column *match(struct rows *r, struct row_table *t, const struct row_column *other)
{
  struct row_column *c = table_find(t, other->name);
  if (c) return c->shape.kind == other->shape.kind && c->row_bytes == other->row_bytes ? c : NULL;
  if (t->rows) return NULL;
  c = table_add(t, other->name, &other->shape);
  c->unit = rows_own(r, other->unit);
  c->long_name = rows_own(r, other->long_name);
  c->definition = rows_own(r, other->definition);
  for (int dim = 1; dim < 4; dim++) c->label[dim] = rows_own(r, other->label[dim]);
  return c;
}

static int append(struct rows *r, int table, const struct row_table *from)
{
  struct row_table *t = &r->table[table];
  if (t->rows + (table == AXIS_STEP) < from->saved) return 0; /* one may be forgotten: recorder_forget */
  if (t->columns > from->columns && from->rows) return 0;
  /* what the file has of these steps may be of a life before a kill */
  table_cut(t, from->saved);
  t->saved = t->rows;
  for (int i = 0; i < from->columns; i++) {
    struct row_column *c = match(r, t, &from->column[i]);
    if (!c) return 0;
    for (int64_t row = 0; row < from->rows; row++)
      memcpy(column_space(c, t->rows + row), column_row(&from->column[i], row), c->row_bytes);
  }
  t->rows += from->rows;
  return 1;
}

int rows_append(struct rows *r, const struct rows *from, struct error *e)
{
  for (int t = 0; t < TABLE_COUNT; t++)
    if (!append(r, t, &from->table[t]))
      return error_set(e, STATUS_FAIL,
                       "the rows in the checkpoint do not continue the run file: it is an older "
                       "copy, or that of another run");
  return STATUS_OK;
}
