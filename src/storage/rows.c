#include "storage/rows.h"
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "storage/layout.h"

enum { BLOCK_BYTES = 256 << 10, BLOCK_ROWS = 1024 };

/* --- kinds --------------------------------------------------------------------------------------------- */

size_t h5_kind_size(enum h5_kind kind)
{
  static const size_t size[] = {
    [KIND_U8] = 1, [KIND_I32] = 4, [KIND_I64] = 8, [KIND_F32] = 4, [KIND_F64] = 8};
  REQUIRE(kind < KIND_TEXT);
  return size[kind];
}

size_t h5_row_bytes(const struct h5_shape *s)
{
  size_t bytes = s->kind < KIND_TEXT ? h5_kind_size(s->kind) : s->size;
  for (int i = 1; i < s->rank; i++) bytes *= (size_t)s->dims[i];
  return bytes;
}

/* --- tables -------------------------------------------------------------------------------------------- */

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

static int64_t block_rows_of(const struct row_column *c)
{
  int64_t rows = BLOCK_BYTES / (int64_t)c->row_bytes;
  return rows < 1 ? 1 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
}

size_t column_room(const struct row_column *c, int64_t rows)
{
  int64_t block = block_rows_of(c);
  size_t bytes;
  return __builtin_mul_overflow((size_t)((rows / block + 1) * block), c->row_bytes, &bytes) ? SIZE_MAX
                                                                                            : bytes;
}

struct row_column *table_add(struct row_table *t, const char *name, const struct h5_shape *shape)
{
  if (t->columns == t->room) {
    const int room = 2 * t->room + 8;
    t->column = memory_grow(t->column, (size_t)t->room, (size_t)room, sizeof *t->column);
    t->room = room;
  }
  struct row_column *c = &t->column[t->columns++];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->shape = *shape;
  c->row_bytes = h5_row_bytes(shape);
  c->block_rows = block_rows_of(c);
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

const char *const table_steps[TABLE_COUNT] = {
  [AXIS_STEP] = "step",        [AXIS_SPECTRA] = "spectra_step", [AXIS_VAL] = "val_step",
  [AXIS_PROBE] = "probe_step", [TABLE_TIMING] = "step",         [TABLE_BATCHES] = "step",
  [TABLE_EVENTS] = "events",
};

void rows_start(struct rows *rows)
{
  static const struct h5_shape step = {.kind = KIND_I64, .rank = 1}, seconds = {.kind = KIND_F64, .rank = 1};
  for (int t = 0; t < TABLE_COUNT; t++) {
    struct row_table *table = &rows->table[t];
    if (t != TABLE_BATCHES && !table->columns) /* batches: their shape is known with the first one */
      table_add(table, table_steps[t], t == TABLE_EVENTS ? &event_shape : &step);
  }
  for (int t = 0; t < AXIS_COUNT; t++) {
    rows->table[t].column[0].unit = "1";
    rows->table[t].column[0].long_name = "training step";
  }
  struct row_table *timing = &rows->table[TABLE_TIMING];
  struct row_column *c = table_find(timing, "seconds");
  if (!c) c = table_add(timing, "seconds", &seconds);
  c->unit = "s";
  c->long_name = "time of the step";
  c->definition = "wall-clock time from the start of the step to its end, recording included";
}

size_t rows_bytes(const struct rows *r, int only_unsaved)
{
  size_t bytes = 0;
  for (int i = 0; i < TABLE_COUNT; i++) {
    const struct row_table *t = &r->table[i];
    for (int c = 0; c < t->columns; c++)
      bytes += (size_t)(t->rows - (only_unsaved ? t->saved : 0)) * t->column[c].row_bytes;
  }
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

void rows_go_back(struct rows *r, int64_t step)
{
  for (int i = 0; i < TABLE_COUNT; i++) {
    struct row_table *t = &r->table[i];
    int64_t rows = 0;
    if (!t->columns) continue; /* others begin with steps, or records that begin with a step */
    while (rows < t->rows && step_at(t, rows) < step) rows++;
    table_cut(t, rows);
  }
}
