#include "storage/rows.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

enum { BLOCK_BYTES = 256 << 10, BLOCK_ROWS = 1024 };

void rows_free(struct rows *r)
{
  for (int t = 0; t < TABLE_COUNT; t++) {
    struct table *table = &r->table[t];
    for (int c = 0; c < table->columns; c++) {
      for (int64_t b = 0; b < table->column[c].blocks; b++) memory_free(table->column[c].block[b]);
      memory_free(table->column[c].block);
    }
    memory_free(table->column);
  }
  *r = (struct rows){0};
}

struct column *table_find(const struct table *t, const char *name)
{
  for (int c = 0; c < t->columns; c++)
    if (!strcmp(t->column[c].name, name)) return &t->column[c];
  return NULL;
}

void *column_space(struct column *c, int64_t row)
{
  int64_t b = row / c->block_rows;
  if (b >= c->room) {
    c->block = memory_grow(c->block, (size_t)c->room, (size_t)(2 * b + 8), sizeof *c->block);
    c->room = 2 * b + 8;
  }
  for (; c->blocks <= b; c->blocks++) c->block[c->blocks] = memory_new((size_t)c->block_rows, c->row_bytes);
  return c->block[b] + (size_t)(row % c->block_rows) * c->row_bytes;
}

const void *column_row(const struct column *c, int64_t row)
{
  return c->block[row / c->block_rows] + (size_t)(row % c->block_rows) * c->row_bytes;
}

static void fill(struct column *c, int64_t row)
{
  void *out = column_space(c, row);
  memset(out, 0, c->row_bytes);
  float *f = out;
  double *d = out;
  if (c->shape.kind == KIND_F32)
    for (size_t i = 0; i < c->row_bytes / sizeof *f; i++) f[i] = NAN;
  if (c->shape.kind == KIND_F64)
    for (size_t i = 0; i < c->row_bytes / sizeof *d; i++) d[i] = NAN;
}

struct column *table_add(struct table *t, const char *name, const struct h5_shape *shape)
{
  t->column = memory_grow(t->column, (size_t)t->columns, (size_t)t->columns + 1, sizeof *t->column);
  struct column *c = &t->column[t->columns++];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->shape = *shape;
  c->row_bytes = h5_row_bytes(shape);
  c->block_rows = BLOCK_BYTES / (int64_t)c->row_bytes;
  c->block_rows = c->block_rows < 1 ? 1 : c->block_rows > BLOCK_ROWS ? BLOCK_ROWS : c->block_rows;
  for (int64_t row = 0; row < t->rows + t->building; row++) fill(c, row);
  return c;
}

void *table_row(struct table *t, struct column *c)
{
  if (!t->building)
    for (int i = 0; i < t->columns; i++) fill(&t->column[i], t->rows);
  t->building = 1;
  return column_space(c, t->rows);
}

void table_end(struct table *t)
{
  t->rows++;
  t->building = 0;
}

void table_cut(struct table *t, int64_t rows)
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

/* --- packed rows: a head, then tables in order, each with its columns and their rows ------------------- */

static const char magic[16] = "maxlogit rows 1";
struct packed_table {
  int64_t columns, first, rows;
};
struct packed_column {
  char name[96];
  int64_t kind, size, rank, dims[3];
};

static char *add(char *to, const void *from, size_t size)
{
  memcpy(to, from, size);
  return to + size;
}

void *rows_pack(const struct rows *r, size_t *size)
{
  size_t room = sizeof magic + rows_bytes(r, 1);
  for (int t = 0; t < TABLE_COUNT; t++)
    room += sizeof(struct packed_table) + (size_t)r->table[t].columns * sizeof(struct packed_column);
  char *bytes = memory_new(room, 1), *p = bytes;
  p = add(p, magic, sizeof magic);
  for (int t = 0; t < TABLE_COUNT; t++) {
    const struct table *table = &r->table[t];
    struct packed_table head = {table->columns, table->saved, table->rows - table->saved};
    p = add(p, &head, sizeof head);
    for (int i = 0; i < table->columns; i++) {
      const struct column *c = &table->column[i];
      struct packed_column about = {"",
                                    c->shape.kind,
                                    (int64_t)c->shape.size,
                                    c->shape.rank,
                                    {c->shape.dims[1], c->shape.dims[2], c->shape.dims[3]}};
      memcpy(about.name, c->name, sizeof about.name);
      p = add(p, &about, sizeof about);
      for (int64_t row = table->saved; row < table->rows; row++) p = add(p, column_row(c, row), c->row_bytes);
    }
  }
  REQUIRE(p == bytes + room);
  *size = room;
  return bytes;
}

struct cursor {
  const char *at, *end;
};

static int take(struct cursor *c, void *out, size_t size)
{
  if ((size_t)(c->end - c->at) < size) return 0;
  memcpy(out, c->at, size);
  c->at += size;
  return 1;
}

/* The column that a packed one continues: there already, or new where none of its rows are in the file. */
static struct column *match(struct table *t, const struct packed_column *about, int64_t first)
{
  struct column *c = memchr(about->name, 0, sizeof about->name) ? table_find(t, about->name) : NULL;
  struct h5_shape shape = {.kind = (enum h5_kind)about->kind,
                           .size = (size_t)about->size,
                           .rank = (int)about->rank,
                           .dims = {0, about->dims[0], about->dims[1], about->dims[2]}};
  if (c) return c->shape.kind == shape.kind && c->row_bytes == h5_row_bytes(&shape) ? c : NULL;
  return first ? NULL : table_add(t, about->name, &shape);
}

static int column_fits(const struct packed_column *about)
{
  int64_t bytes = about->kind < KIND_TEXT ? 8 : about->size;
  if (about->kind < 0 || about->kind > KIND_RECORD || about->rank < 1 || about->rank > 4 || bytes < 1)
    return 0;
  for (int i = 0; i < about->rank - 1; i++)
    if (about->dims[i] < 1 || __builtin_mul_overflow(bytes, about->dims[i], &bytes)) return 0;
  return bytes < INT64_MAX / 2;
}

static int unpack_table(struct table *t, struct cursor *in)
{
  struct packed_table head;
  if (!take(in, &head, sizeof head) || head.first < 0 || head.rows < 0 || head.columns < 0 ||
      t->rows < head.first)
    return 0;
  int64_t wanted = head.first + head.rows;
  if (t->columns > head.columns && head.rows) return 0;
  table_cut(t, head.rows ? head.first
                         : wanted); /* packed rows count: the file's may be of a life before a kill */
  t->saved = t->rows;
  for (int64_t i = 0; i < head.columns; i++) {
    struct packed_column about;
    if (!take(in, &about, sizeof about) || !column_fits(&about)) return 0;
    struct column *c = match(t, &about, head.first);
    if (!c || (uint64_t)head.rows > (size_t)(in->end - in->at) / c->row_bytes) return 0;
    for (int64_t row = head.first; row < wanted; row++, in->at += c->row_bytes)
      memcpy(column_space(c, row), in->at, c->row_bytes);
  }
  t->rows = wanted;
  return 1;
}

int rows_unpack(struct rows *r, const void *bytes, size_t size, struct error *e)
{
  struct cursor in = {bytes, (const char *)bytes + size};
  char head[sizeof magic];
  if (!size) {
    for (int t = 0; t < TABLE_COUNT; t++) table_cut(&r->table[t], 0);
    return STATUS_OK;
  }
  if (!take(&in, head, sizeof head) || memcmp(head, magic, sizeof magic))
    return error_set(e, STATUS_FAIL, "the rows in the checkpoint are of another version");
  for (int t = 0; t < TABLE_COUNT; t++)
    if (!unpack_table(&r->table[t], &in))
      return error_set(e, STATUS_FAIL,
                       "the rows in the checkpoint do not continue the run file: it is an older "
                       "copy, or that of another run");
  return STATUS_OK;
}
