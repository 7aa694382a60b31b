#include "storage/journal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"

enum { LEAST_ROW = 16 << 20 }; /* bytes that a row may have in any journal */
enum { PIECE_COLUMN = 1, PIECE_ROW, PIECE_BACK, PIECE_NOTE };

struct journal {
  struct append *file;
  char head[64];
  unsigned char *bytes; /* of the piece that is being made */
  size_t length, room;
};

/* A piece begins with these. */
struct journal_mark {
  uint64_t length, digest; /* of what follows */
};

static void head_of(char out[64], const char *id) { snprintf(out, 64, "maxlogit journal 1 %.32s\n", id); }

struct journal *journal_open(const char *path, const char *id, struct error *e)
{
  struct append *file = append_open(path, e);
  if (!file) return NULL;
  struct journal *j = memory_new(1, sizeof *j);
  j->file = file;
  head_of(j->head, id);
  return j;
}

void journal_close(struct journal *j)
{
  if (!j) return;
  append_close(j->file);
  memory_free(j->bytes);
  memory_free(j);
}

/* --- making pieces ------------------------------------------------------------------------------------- */

static void journal_add(struct journal *j, const void *data, size_t size)
{
  if (j->length + size > j->room) {
    size_t room = 2 * (j->length + size) + 256;
    j->bytes = memory_grow(j->bytes, j->room, room, 1);
    j->room = room;
  }
  if (size) memcpy(j->bytes + j->length, data, size);
  j->length += size;
}

static void add_number(struct journal *j, int64_t number) { journal_add(j, &number, sizeof number); }

/* With its NUL; of NULL as if it were empty. */
static void add_text(struct journal *j, const char *text)
{
  journal_add(j, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void begin(struct journal *j, int64_t kind)
{
  static const struct journal_mark later;
  j->length = 0;
  journal_add(j, &later, sizeof later);
  add_number(j, kind);
}

static int end(struct journal *j, struct error *e)
{
  struct journal_mark mark = {.length = j->length - sizeof mark};
  mark.digest = XXH3_64bits(j->bytes + sizeof mark, mark.length);
  memcpy(j->bytes, &mark, sizeof mark);
  return append_write(j->file, j->bytes, j->length, e);
}

int journal_column(struct journal *j, int table, const struct row_column *c, struct error *e)
{
  begin(j, PIECE_COLUMN);
  add_number(j, table);
  add_number(j, (int64_t)c->shape.kind);
  add_number(j, c->shape.rank);
  for (int i = 1; i < 4; i++) add_number(j, i < c->shape.rank ? c->shape.dims[i] : 0);
  add_text(j, c->name);
  add_text(j, c->unit);
  add_text(j, c->long_name);
  add_text(j, c->definition);
  for (int i = 1; i < 4; i++) add_text(j, i < c->shape.rank ? c->label[i] : NULL);
  return end(j, e);
}

int journal_start(struct journal *j, const struct rows *rows, struct error *e)
{
  int status = append_cut(j->file, 0, e);
  if (!status) status = append_write(j->file, j->head, strlen(j->head), e);
  for (int t = 0; t < TABLE_COUNT; t++)
    for (int c = 0; c < rows->table[t].columns && !status; c++)
      status = journal_column(j, t, &rows->table[t].column[c], e);
  return status;
}

int journal_row(struct journal *j, int table, const struct row_table *t, struct error *e)
{
  int64_t row = t->rows - 1;
  begin(j, PIECE_ROW);
  add_number(j, table);
  add_number(j, row);
  for (int i = 0; i < t->columns; i++) journal_add(j, column_row(&t->column[i], row), t->column[i].row_bytes);
  return end(j, e);
}

int journal_back(struct journal *j, int64_t step, struct error *e)
{
  begin(j, PIECE_BACK);
  add_number(j, step);
  return end(j, e);
}

int journal_note(struct journal *j, const struct notes *n, struct error *e)
{
  begin(j, PIECE_NOTE);
  add_number(j, n->count - 1);
  add_text(j, n->note[n->count - 1].date);
  add_text(j, n->note[n->count - 1].text);
  return end(j, e);
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* The columns of the journal by their order, as places in the tables. */
struct journal_order {
  int *column;
  int count, room;
};

struct replay {
  const char *at, *end; /* the rest of a piece */
  struct journal_order order[TABLE_COUNT];
  size_t row_bytes[TABLE_COUNT], most; /* of new columns; what they may have together */
  struct rows *rows;
  struct notes *notes;
};

static int64_t take_number(struct replay *x)
{
  int64_t number = -1;
  if ((size_t)(x->end - x->at) < sizeof number) {
    x->at = x->end;
    return number;
  }
  memcpy(&number, x->at, sizeof number);
  x->at += sizeof number;
  return number;
}

static const char *take_text(struct replay *x)
{
  const char *text = x->at, *nul = x->at < x->end ? memchr(x->at, 0, (size_t)(x->end - x->at)) : NULL;
  if (!nul) return "";
  x->at = nul + 1;
  return text;
}

static int is_table(int64_t table) { return table >= 0 && table < TABLE_COUNT; }

/* Can a table have one more column like this? A row has all of them, and a file its rows. */
static int column_fits(struct replay *x, int64_t table, const struct h5_shape *s)
{
  size_t bytes;
  if (s->kind != KIND_F32 && s->kind != KIND_F64) return 0;
  if (!memory_bytes(s->dims + 1, s->rank - 1, h5_kind_size(s->kind), x->most, &bytes) || !bytes) return 0;
  x->row_bytes[table] += bytes;
  return x->row_bytes[table] <= x->most;
}

static int replay_column(struct replay *x)
{
  int64_t table = take_number(x), kind = take_number(x), rank = take_number(x), dims[4];
  const char *text[4], *label[4];
  for (int i = 1; i < 4; i++) dims[i] = take_number(x);
  for (int i = 0; i < 4; i++) text[i] = take_text(x);
  for (int i = 1; i < 4; i++) label[i] = take_text(x);
  if (!is_table(table) || rank < 1 || rank > 4 || !*text[0]) return 0;
  struct row_table *t = &x->rows->table[table];
  struct h5_shape shape = {.kind = (enum h5_kind)kind, .rank = (int)rank};
  for (int i = 1; i < rank; i++) shape.dims[i] = dims[i];
  struct row_column *c = table_find(t, text[0]);
  if (!c && !column_fits(x, table, &shape)) return 0;
  if (!c) {
    c = table_add(t, text[0], &shape);
    c->unit = rows_own(x->rows, text[1]);
    c->long_name = rows_own(x->rows, text[2]);
    c->definition = rows_own(x->rows, text[3]);
    for (int i = 1; i < rank; i++) c->label[i] = rows_own(x->rows, label[i]);
  } else if (c->shape.kind != shape.kind || c->shape.rank != shape.rank ||
             (kind < KIND_TEXT && c->row_bytes != h5_row_bytes(&shape)))
    return 0;
  struct journal_order *o = &x->order[table];
  if (o->count == o->room) {
    o->column = memory_grow(o->column, (size_t)o->room, (size_t)o->room + 64, sizeof *o->column);
    o->room += 64;
  }
  o->column[o->count++] = (int)(c - t->column);
  return 1;
}

/* A row that is there already is passed over; one beyond the next is of another file. */
static int replay_row(struct replay *x)
{
  int64_t table = take_number(x), row = take_number(x);
  if (!is_table(table) || row < 0) return 0;
  struct row_table *t = &x->rows->table[table];
  const struct journal_order *o = &x->order[table];
  size_t bytes = 0;
  for (int i = 0; i < o->count; i++) bytes += t->column[o->column[i]].row_bytes;
  if (row > t->rows || !o->count || bytes != (size_t)(x->end - x->at)) return 0;
  if (row < t->rows) return 1;
  for (int i = 0; i < o->count; i++) {
    struct row_column *c = &t->column[o->column[i]];
    memcpy(table_row(t, c), x->at, c->row_bytes);
    x->at += c->row_bytes;
  }
  table_end(t);
  return 1;
}

static int replay_note(struct replay *x)
{
  int64_t number = take_number(x);
  const char *date = take_text(x), *text = take_text(x);
  if (number >= x->notes->count) notes_add(x->notes, date, text);
  return 1;
}

static int replay_piece(struct replay *x)
{
  switch (take_number(x)) {
  case PIECE_COLUMN: return replay_column(x);
  case PIECE_ROW: return replay_row(x);
  case PIECE_BACK: rows_go_back(x->rows, take_number(x)); return 1;
  case PIECE_NOTE: return replay_note(x);
  default: return 0;
  }
}

/* The length of the whole piece that begins at `text`, of which `rest` bytes are there; 0: none does. */
static size_t whole_piece(const char *text, size_t rest)
{
  struct journal_mark mark;
  if (rest < sizeof mark) return 0;
  memcpy(&mark, text, sizeof mark);
  if (!mark.length || mark.length > rest - sizeof mark) return 0;
  return XXH3_64bits(text + sizeof mark, mark.length) == mark.digest ? sizeof mark + mark.length : 0;
}

/* What a kill left of the last piece has none behind it. */
static int piece_follows(const char *text, size_t rest)
{
  struct journal_mark mark = {0};
  for (size_t hashed = 0, most = 16 * rest; rest && !whole_piece(text, rest); text++, rest--) {
    if (rest >= sizeof mark) memcpy(&mark, text, sizeof mark);
    if (mark.length <= rest && (hashed += mark.length) > most)
      return 1; /* no kill leaves so many beginnings */
  }
  return rest > 0;
}

int journal_replay(const char *path, const char *id, struct rows *rows, struct notes *notes, struct error *e)
{
  struct replay x = {.rows = rows, .notes = notes};
  char *text = NULL, head[64];
  size_t length = 0, at, piece;
  if (access(path, F_OK)) return STATUS_OK;
  int status = file_read(path, &text, &length, e), fits = 1, is_whole = 1;
  if (status) return status;
  x.most = length > LEAST_ROW ? length : LEAST_ROW;
  head_of(head, id);
  at = strlen(head) < length ? strlen(head) : length;
  fits = !memcmp(text, head, at);
  while (fits && (piece = whole_piece(text + at, length - at))) {
    x.at = text + at + sizeof(struct journal_mark);
    x.end = text + at + piece;
    at += piece;
    fits = replay_piece(&x);
  }
  if (fits) is_whole = !piece_follows(text + at, length - at);
  for (int t = 0; t < TABLE_COUNT; t++) memory_free(x.order[t].column);
  memory_free(text);
  if (!fits)
    return error_set(e, STATUS_FAIL,
                     "%s does not continue the run file beside it: it is of another copy; remove it to go on "
                     "from the run file alone",
                     path);
  if (!is_whole)
    return error_set(
      e, STATUS_FAIL,
      "%s is damaged %zu bytes from its beginning, and rows follow there: keep a copy of it, then "
      "remove it to go on from the run file alone",
      path, at);
  return STATUS_OK;
}
