#include "storage/rows.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"

enum { BLOCK_BYTES = 256 << 10, BLOCK_ROWS = 1024 };

static void free_table(struct table *table)
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
  free_table(&r->ring);
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

/* --- the ring ------------------------------------------------------------------------------------------- */

static int has_steps(const struct table *t)
{
  return t->columns && t->column[0].row_bytes == sizeof(int64_t);
}

static int64_t step_at(const struct table *t, int64_t row)
{
  int64_t step;
  memcpy(&step, column_row(&t->column[0], row), sizeof step);
  return step;
}

/* Move a row to another place of this table, or of another one that has its columns. */
static void copy_row(struct table *to, int64_t at, const struct table *from, int64_t row)
{
  for (int i = 0; i < from->columns; i++) {
    struct column *c = table_find(to, from->column[i].name);
    if (c) memcpy(column_space(c, at), column_row(&from->column[i], row), c->row_bytes);
  }
}

static void put_aside(struct rows *r, int64_t of, int64_t first_step)
{
  struct table *t = &r->table[AXIS_STEP], *ring = &r->ring;
  int64_t old = 0;
  for (int i = 0; i < t->columns; i++)
    if (!table_find(ring, t->column[i].name)) table_add(ring, t->column[i].name, &t->column[i].shape);
  while (old < ring->rows && step_at(ring, old) < first_step) old++;
  for (int64_t row = old; old && row < ring->rows; row++) copy_row(ring, row - old, ring, row);
  ring->rows -= old;
  for (int i = 0; i < ring->columns; i++) fill(&ring->column[i], ring->rows);
  copy_row(ring, ring->rows++, t, of);
}

void rows_aside(struct rows *r, int64_t first_step)
{
  struct table *t = &r->table[AXIS_STEP];
  put_aside(r, t->rows, first_step);
  t->building = 0;
}

void rows_recall(struct rows *r, int64_t first_step)
{
  struct table *t = &r->table[AXIS_STEP], *ring = &r->ring;
  for (int64_t i = 0; i < ring->rows; i++) {
    int64_t step = step_at(ring, i), at = t->rows;
    while (at && step_at(t, at - 1) > step) at--;
    if (step < first_step || (at && step_at(t, at - 1) == step))
      continue; /* there already: of a life before a kill */
    for (int c = 0; c < t->columns; c++) fill(&t->column[c], t->rows);
    for (int64_t row = t->rows++; row > at; row--) copy_row(t, row, t, row - 1);
    for (int c = 0; c < t->columns; c++) fill(&t->column[c], at);
    copy_row(t, at, ring, i);
    if (t->saved > at) t->saved = at;
  }
  ring->rows = 0;
}

void rows_cut_steps(struct rows *r, int64_t step)
{
  struct table *t = &r->table[AXIS_STEP];
  int64_t rows = t->rows;
  while (rows && has_steps(t) && step_at(t, rows - 1) >= step) rows--;
  table_cut(t, rows);
}

void rows_forget(struct rows *r, int64_t first_step)
{
  struct table *t = &r->table[AXIS_STEP];
  if (first_step <= step_at(t, t->rows - 1)) put_aside(r, t->rows - 1, first_step);
  table_cut(t, t->rows - 1);
}

void rows_go_back(struct rows *r, int64_t step)
{
  for (int i = 0; i < TABLE_COUNT; i++) {
    struct table *t = &r->table[i];
    int64_t rows = 0;
    if (!t->columns || t->column[0].row_bytes < sizeof step) continue; /* a record begins with its step */
    while (rows < t->rows && step_at(t, rows) < step) rows++;
    table_cut(t, rows);
  }
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

static size_t packed_bytes(const struct table *t)
{
  size_t bytes = sizeof(struct packed_table) + (size_t)t->columns * sizeof(struct packed_column);
  for (int c = 0; c < t->columns; c++) bytes += (size_t)(t->rows - t->saved) * t->column[c].row_bytes;
  return bytes;
}

static char *pack_table(char *p, const struct table *table)
{
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
  return p;
}

/* The ring comes last, where there is one: who does not know it does not look there. */
void *rows_pack(const struct rows *r, size_t *size)
{
  size_t room = sizeof magic + (r->ring.rows ? packed_bytes(&r->ring) : 0);
  for (int t = 0; t < TABLE_COUNT; t++) room += packed_bytes(&r->table[t]);
  char *bytes = memory_new(room, 1), *p = bytes;
  p = add(p, magic, sizeof magic);
  for (int t = 0; t < TABLE_COUNT; t++) p = pack_table(p, &r->table[t]);
  if (r->ring.rows) p = pack_table(p, &r->ring);
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

/* Packed rows count: what the file has of their steps may be of a life before a kill. So may rows before them that
   were recalled into the step axis: these stay, and are not recalled twice. */
static void make_way(struct table *t, const struct packed_table *head, const struct cursor *in, int has_ring)
{
  int64_t first, rows = t->rows;
  if (!has_ring)
    table_cut(t, head->first);
  else if (head->rows && head->columns &&
           sizeof(struct packed_column) + sizeof first <= (size_t)(in->end - in->at)) {
    memcpy(&first, in->at + sizeof(struct packed_column), sizeof first);
    while (rows > head->first && step_at(t, rows - 1) >= first) rows--;
    table_cut(t, rows);
  }
  t->saved = t->rows;
}

static int unpack_table(struct table *t, struct cursor *in, int has_ring)
{
  struct packed_table head;
  if (!take(in, &head, sizeof head) || head.first < 0 || head.rows < 0 || head.columns < 0 ||
      t->rows + has_ring < head.first) /* one may be forgotten: rows_forget */
    return 0;
  if (t->columns > head.columns && head.rows) return 0;
  make_way(t, &head, in, has_ring);
  int64_t from = t->rows, wanted = from + head.rows;
  for (int64_t i = 0; i < head.columns; i++) {
    struct packed_column about;
    if (!take(in, &about, sizeof about) || !column_fits(&about)) return 0;
    struct column *c = match(t, &about, from);
    if (!c || (uint64_t)head.rows > (size_t)(in->end - in->at) / c->row_bytes) return 0;
    for (int64_t row = from; row < wanted; row++, in->at += c->row_bytes)
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
  table_cut(&r->ring, 0);
  if (!take(&in, head, sizeof head) || memcmp(head, magic, sizeof magic))
    return error_set(e, STATUS_FAIL, "the rows in the checkpoint are of another version");
  for (int t = 0; t < TABLE_COUNT; t++)
    if (!unpack_table(&r->table[t], &in, t == AXIS_STEP && has_steps(&r->table[t])))
      return error_set(e, STATUS_FAIL,
                       "the rows in the checkpoint do not continue the run file: it is an older "
                       "copy, or that of another run");
  if (in.at < in.end && !(unpack_table(&r->ring, &in, 0) && has_steps(&r->ring)))
    return error_set(e, STATUS_FAIL, "the latest rows in the checkpoint cannot be read");
  r->ring.saved = 0;
  return STATUS_OK;
}

static int skip_table(struct cursor *in)
{
  struct packed_table head;
  if (!take(in, &head, sizeof head) || head.rows < 0 || head.columns < 0) return 0;
  for (int64_t i = 0; i < head.columns; i++) {
    struct packed_column about;
    if (!take(in, &about, sizeof about) || !column_fits(&about)) return 0;
    struct h5_shape shape = {.kind = (enum h5_kind)about.kind,
                             .size = (size_t)about.size,
                             .rank = (int)about.rank,
                             .dims = {0, about.dims[0], about.dims[1], about.dims[2]}};
    size_t bytes = h5_row_bytes(&shape);
    if ((uint64_t)head.rows > (size_t)(in->end - in->at) / bytes) return 0;
    in->at += (size_t)head.rows * bytes;
  }
  return 1;
}

int rows_unpack_ring(struct rows *r, const void *bytes, size_t size, struct error *e)
{
  struct cursor in = {bytes, (const char *)bytes + size};
  char head[sizeof magic];
  int ok = take(&in, head, sizeof head) && !memcmp(head, magic, sizeof magic);
  for (int t = 0; t < TABLE_COUNT && ok; t++) ok = skip_table(&in);
  if (ok && in.at < in.end) ok = unpack_table(&r->ring, &in, 0) && has_steps(&r->ring);
  r->ring.saved = 0;
  return ok ? STATUS_OK : error_set(e, STATUS_FAIL, "the rows in the checkpoint cannot be read");
}
