#include "storage/journal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "storage/layout.h"
#include "storage/tables.h"

static const char format[] = "maxlogit journal 2 ";
enum { PIECE_COLUMN = 1, PIECE_ROWS, PIECE_NOTE };
enum { MARK = 2 * sizeof(uint64_t) }; /* of a piece: the length and the digest of the following bytes */

/* The part of the first line that is equal in all journals of a recording. */
static void name_of(char out[JOURNAL_HEAD], const char *started)
{
  snprintf(out, JOURNAL_HEAD, "%s%016" PRIx64 " ", format, (uint64_t)XXH3_64bits(started, strlen(started)));
}

/* --- writing ------------------------------------------------------------------------------------------- */

struct journal {
  struct append *file;
  int is_started, is_torn; /* is_torn: a failed write may have left part of a piece */
  uint64_t last;           /* the digest of the last piece on disk */
  int columns[TABLE_COUNT], notes;
  int64_t rows[TABLE_COUNT];
  size_t room;          /* memory of columns that the run file does not have yet */
  unsigned char *bytes; /* of the pieces that are being built */
  size_t length, capacity, begin;
};

/* Accounting programs name their files .journal, too. */
static int refuse_foreign(const char *path, struct error *e)
{
  if (file_may_be_ours(path, "maxlogit journal ")) return STATUS_OK;
  return error_set(e, STATUS_USAGE,
                   "%s is of another program: give the run another name, or rename that file", path);
}

int journal_remove(const char *path, struct error *e)
{
  if (refuse_foreign(path, e)) return e->status;
  return file_remove(path) ? error_set(e, STATUS_FAIL, "cannot remove %s", path) : STATUS_OK;
}

struct journal *journal_open(const char *path, const struct lock *held, struct error *e)
{
  if (refuse_foreign(path, e)) return NULL;
  struct append *file = append_open(path, held, e);
  if (!file) return NULL;
  struct journal *j = memory_new(1, sizeof *j);
  j->file = file;
  return j;
}

void journal_close(struct journal *j)
{
  if (!j) return;
  append_close(j->file);
  memory_free(j->bytes);
  memory_free(j);
}

static void journal_add(struct journal *j, const void *data, size_t size)
{
  if (j->length + size > j->capacity) {
    size_t capacity = 2 * (j->length + size) + 256;
    j->bytes = memory_grow(j->bytes, j->capacity, capacity, 1);
    j->capacity = capacity;
  }
  if (size) memcpy(j->bytes + j->length, data, size);
  j->length += size;
}

static void add_number(struct journal *j, int64_t number) { journal_add(j, &number, sizeof number); }

/* Add a text with its NUL; NULL counts as "". */
static void add_text(struct journal *j, const char *text)
{
  journal_add(j, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void begin(struct journal *j, uint64_t before, int64_t kind)
{
  static const char later[MARK];
  j->begin = j->length;
  journal_add(j, later, sizeof later);
  journal_add(j, &before, sizeof before);
  add_number(j, kind);
}

/* Finish the piece; returns its digest, for the next piece. */
static uint64_t end(struct journal *j)
{
  uint64_t mark[2] = {j->length - j->begin - MARK};
  mark[1] = XXH3_64bits(j->bytes + j->begin + MARK, mark[0]);
  memcpy(j->bytes + j->begin, mark, MARK);
  return mark[1];
}

static uint64_t add_column(struct journal *j, uint64_t before, int table, const struct row_column *c)
{
  begin(j, before, PIECE_COLUMN);
  add_number(j, table);
  add_number(j, (int64_t)c->shape.kind);
  add_number(j, c->shape.rank);
  for (int i = 1; i < 4; i++) add_number(j, i < c->shape.rank ? c->shape.dims[i] : 0);
  add_text(j, c->name);
  add_text(j, c->unit);
  add_text(j, c->long_name);
  add_text(j, c->definition);
  for (int i = 1; i < 4; i++) add_text(j, i < c->shape.rank ? c->label[i] : NULL);
  return end(j);
}

static uint64_t add_columns(struct journal *j, uint64_t last, const struct rows *rows)
{
  for (int t = 0; t < TABLE_COUNT; t++)
    for (int c = j->columns[t]; c < rows->table[t].columns; c++)
      last = add_column(j, last, t, &rows->table[t].column[c]);
  return last;
}

/* Add the new rows of all tables as one piece: either all are read or none. */
static uint64_t add_rows(struct journal *j, uint64_t last, const struct rows *rows)
{
  int any = 0;
  for (int i = 0; i < TABLE_COUNT; i++) {
    const struct row_table *t = &rows->table[i];
    if (t->rows <= j->rows[i]) continue;
    if (!any++) begin(j, last, PIECE_ROWS);
    add_number(j, i);
    add_number(j, j->rows[i]);
    add_number(j, t->rows - j->rows[i]);
    for (int64_t row = j->rows[i]; row < t->rows; row++)
      for (int c = 0; c < t->columns; c++)
        journal_add(j, column_row(&t->column[c], row), t->column[c].row_bytes);
  }
  return any ? end(j) : last;
}

static uint64_t add_notes(struct journal *j, uint64_t last, const struct notes *n)
{
  for (int i = j->notes; i < n->count; i++) {
    begin(j, last, PIECE_NOTE);
    add_number(j, i);
    add_text(j, n->note[i].date);
    add_text(j, n->note[i].text);
    last = end(j);
  }
  return last;
}

static int write_pieces(struct journal *j, uint64_t last, const struct rows *rows, const struct notes *n,
                        struct error *e)
{
  if (j->is_torn && append_cut(j->file, append_length(j->file), e)) return e->status;
  j->is_torn = 1;
  if (j->length && append_write(j->file, j->bytes, j->length, e)) return e->status;
  j->is_torn = 0;
  j->last = last;
  j->notes = n->count;
  for (int t = 0; t < TABLE_COUNT; t++)
    j->columns[t] = rows->table[t].columns, j->rows[t] = rows->table[t].rows;
  return STATUS_OK;
}

int journal_start(struct journal *j, const char *started, const struct rows *rows, const struct notes *n,
                  struct error *e)
{
  char head[JOURNAL_HEAD + 1];
  uint64_t number;
  name_of(head, started);
  if (platform_random(&number, sizeof number))
    return error_set(e, STATUS_FAIL, "no random number: %s", strerror(errno));
  snprintf(head + strlen(head), 18, "%016" PRIx64 "\n", number);
  j->is_started = j->is_torn = 0;
  j->length = j->room = 0;
  memset(j->columns, 0, sizeof j->columns);
  if (append_cut(j->file, 0, e)) return e->status;
  journal_add(j, head, JOURNAL_HEAD);
  j->is_started = !write_pieces(j, add_columns(j, XXH3_64bits(head, JOURNAL_HEAD), rows), rows, n, e);
  return j->is_started ? STATUS_OK : e->status;
}

/* Memory that a reader needs for the columns added since the last append. */
static size_t new_room(const struct journal *j, const struct rows *rows)
{
  size_t room = j->room;
  for (int t = 0; t < TABLE_COUNT; t++)
    for (int c = j->columns[t]; c < rows->table[t].columns; c++)
      room += column_room(&rows->table[t].column[c], j->rows[t]);
  return room;
}

int journal_is_behind(const struct journal *j, const struct rows *rows)
{
  return !j->is_started || new_room(j, rows) > JOURNAL_ROOM;
}

int journal_append(struct journal *j, const struct rows *rows, const struct notes *n, struct error *e)
{
  if (!j->is_started) return STATUS_OK;
  size_t room = new_room(j, rows);
  j->length = 0;
  int status = write_pieces(j, add_notes(j, add_rows(j, add_columns(j, j->last, rows), rows), n), rows, n, e);
  if (!status) j->room = room;
  return status;
}

int journal_sync(struct journal *j, struct error *e) { return append_sync(j->file, e); }

/* --- reading ------------------------------------------------------------------------------------------- */

/* A journal is small compared with its run file, which is in memory as a whole. */
char *journal_bytes(int fd, size_t from, size_t *length)
{
  struct stat info;
  ssize_t n = 1;
  *length = 0;
  if (fstat(fd, &info) || (size_t)info.st_size < from) return NULL;
  if ((double)info.st_size > memory_there_is() / 4) {
    errno = EFBIG;
    return NULL;
  }
  size_t room = (size_t)info.st_size - from;
  char *text = memory_new(room + 1, 1);
  for (; n > 0 && *length<room; *length += n> 0 ? (size_t)n : 0)
    n = pread(fd, text + *length, room - *length, (off_t)(from + *length));
  if (n >= 0) return text;
  int reason = errno;
  memory_free(text);
  errno = reason;
  return NULL;
}

int journal_begin(struct journal_reader *r, const char *text, size_t length, const char *started)
{
  char name[JOURNAL_HEAD];
  name_of(name, started);
  *r = (struct journal_reader){.at = JOURNAL_HEAD};
  if (length < JOURNAL_HEAD || memcmp(text, name, strlen(name))) return 0;
  memcpy(r->head, text, JOURNAL_HEAD);
  r->mark[1] = XXH3_64bits(text, JOURNAL_HEAD);
  return 1;
}

/* The unread part of a piece. */
struct rest {
  const char *at, *end;
};

static int64_t take_number(struct rest *x)
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

static const char *take_text(struct rest *x)
{
  const char *text = x->at, *nul = x->at < x->end ? memchr(x->at, 0, (size_t)(x->end - x->at)) : NULL;
  if (!nul) return "";
  x->at = nul + 1;
  return text;
}

static int is_table(int64_t table) { return table >= 0 && table < TABLE_COUNT; }

static int read_column(struct journal_reader *r, struct rest *x, const struct journal_visitor *v,
                       void *context)
{
  struct journal_column c = {.name = NULL};
  int64_t table = take_number(x), kind = take_number(x), rank = take_number(x), dims[4];
  const char *label[4];
  size_t bytes;
  for (int i = 1; i < 4; i++) dims[i] = take_number(x);
  c.name = take_text(x);
  c.unit = take_text(x);
  c.long_name = take_text(x);
  c.definition = take_text(x);
  for (int i = 1; i < 4; i++) label[i] = take_text(x);
  if (!is_table(table) || kind < 0 || kind > KIND_RECORD || rank < 1 || rank > 4 || !*c.name) return 0;
  c.shape = kind == KIND_RECORD ? event_shape : (struct h5_shape){.kind = (enum h5_kind)kind};
  c.shape.rank = (int)rank;
  for (int i = 1; i < rank; i++) c.shape.dims[i] = dims[i], c.label[i] = label[i];
  if (!table_takes(&c.shape, (int)table, r->row_bytes[table] > 0)) return 0;
  bytes = h5_row_bytes(&c.shape);
  if (__builtin_add_overflow(r->row_bytes[table], bytes, &r->row_bytes[table])) return 0;
  return !v->column || v->column(context, (int)table, &c);
}

static int read_rows(const struct journal_reader *r, struct rest *x, const struct journal_visitor *v,
                     void *context)
{
  while (x->at < x->end) {
    int64_t table = take_number(x), first = take_number(x), count = take_number(x);
    if (!is_table(table) || first < 0 || count < 1) return 0;
    size_t width = r->row_bytes[table], rest = (size_t)(x->end - x->at);
    if (!width || (uint64_t)count > rest / width || first > INT64_MAX - count) return 0;
    if (v->rows && !v->rows(context, (int)table, first, count, x->at)) return 0;
    x->at += (size_t)count * width;
  }
  return 1;
}

/* The length of the complete piece that begins at `text`, of which `rest` bytes exist; 0: there is none. */
static size_t whole_piece(const char *text, size_t rest)
{
  uint64_t mark[2];
  if (rest < MARK) return 0;
  memcpy(mark, text, MARK);
  if (mark[0] < 2 * sizeof(uint64_t) || mark[0] > rest - MARK) return 0;
  return XXH3_64bits(text + MARK, mark[0]) == mark[1] ? MARK + mark[0] : 0;
}

int journal_read(struct journal_reader *r, const char *text, size_t length, const struct journal_visitor *v,
                 void *context)
{
  int fits = 1;
  for (size_t at = 0, piece; fits && (piece = whole_piece(text + at, length - at)); at += piece) {
    struct rest x = {text + at + MARK, text + at + piece};
    if ((uint64_t)take_number(&x) != r->mark[1]) return 0;
    r->last_at = r->at;
    r->at += piece;
    memcpy(r->mark, text + at, MARK);
    int64_t kind = take_number(&x), number;
    const char *date;
    if (kind == PIECE_COLUMN)
      fits = read_column(r, &x, v, context);
    else if (kind == PIECE_ROWS)
      fits = read_rows(r, &x, v, context);
    else if (kind == PIECE_NOTE) {
      number = take_number(&x), date = take_text(&x);
      fits = !v->note || v->note(context, number, date, take_text(&x));
    } else
      fits = 0;
  }
  return fits;
}

/* --- into a record ------------------------------------------------------------------------------------- */

struct replay {
  struct rows *rows;
  struct notes *notes;
  struct { /* for each column of the journal, in order, its index in the table */
    int *column;
    int count, room;
  } order[TABLE_COUNT];
  size_t left; /* room for new columns */
};

static struct row_column *new_column(struct replay *x, struct row_table *t, const struct journal_column *like)
{
  size_t room = column_room(&(struct row_column){.row_bytes = h5_row_bytes(&like->shape)}, t->rows);
  if (room > x->left || t->columns > TABLE_COLUMNS) return NULL;
  x->left -= room;
  struct row_column *c = table_add(t, like->name, &like->shape);
  c->unit = rows_own(x->rows, like->unit);
  c->long_name = rows_own(x->rows, like->long_name);
  c->definition = rows_own(x->rows, like->definition);
  for (int i = 1; i < like->shape.rank; i++) c->label[i] = rows_own(x->rows, like->label[i]);
  return c;
}

static int replay_column(void *context, int table, const struct journal_column *like)
{
  struct replay *x = context;
  struct row_table *t = &x->rows->table[table];
  const int next =
    x->order[table].count; /* an honest journal has the file's columns, each once, in their order */
  struct row_column *c = next < t->columns && !strcmp(t->column[next].name, like->name)
                           ? &t->column[next]
                           : table_find(t, like->name);
  if (!c) c = new_column(x, t, like);
  if (!c || next >= t->columns || c->shape.kind != like->shape.kind || c->shape.rank != like->shape.rank ||
      c->row_bytes != h5_row_bytes(&like->shape))
    return 0;
  if (x->order[table].count == x->order[table].room) {
    int room = x->order[table].room + 64;
    x->order[table].column =
      memory_grow(x->order[table].column, (size_t)room - 64, (size_t)room, sizeof(int));
    x->order[table].room = room;
  }
  x->order[table].column[x->order[table].count++] = (int)(c - t->column);
  return 1;
}

/* Skip rows that exist already. A row beyond the next, or without all columns, belongs to another file. */
static int replay_rows(void *context, int table, int64_t first, int64_t count, const char *row)
{
  struct replay *x = context;
  struct row_table *t = &x->rows->table[table];
  int columns = x->order[table].count;
  for (int64_t i = first; i < first + count; i++) {
    int is_new = i == t->rows;
    if (i > t->rows || (is_new && columns != t->columns)) return 0;
    for (int k = 0; k < columns; k++) {
      struct row_column *c = &t->column[x->order[table].column[k]];
      if (is_new) memcpy(table_row(t, c), row, c->row_bytes);
      row += c->row_bytes;
    }
    if (is_new) table_end(t);
  }
  return 1;
}

static int replay_note(void *context, int64_t number, const char *date, const char *text)
{
  struct notes *n = ((struct replay *)context)->notes;
  const struct note *same = number >= 0 && number < n->count ? &n->note[number] : NULL;
  if (!same || strcmp(same->date, date) != 0 || strcmp(same->text, text) != 0) notes_add(n, date, text);
  return 1;
}

/* Is there a complete piece in the rest? After a kill there is only a partial last piece. */
static int piece_follows(const char *text, size_t rest)
{
  uint64_t length = 0;
  for (size_t hashed = 0, most = 16 * rest; rest && !whole_piece(text, rest); text++, rest--) {
    if (rest >= MARK) memcpy(&length, text, sizeof length);
    if (length <= rest && (hashed += length) > most) return 1; /* not left by a kill */
  }
  return rest > 0;
}

static int load(const char *path, char **text, size_t *length, struct error *e)
{
  int fd = file_open_plain(path, e);
  if (fd < 0) return e->status;
  *text = journal_bytes(fd, 0, length);
  int reason = errno;
  close(fd);
  if (*text) return STATUS_OK;
  if (reason == EFBIG)
    return error_set(e, STATUS_FAIL, "%s is larger than a quarter of this machine's memory", path);
  return error_set(e, STATUS_FAIL, "cannot read %s: %s", path, strerror(reason));
}

int journal_replay(const char *path, const char *started, struct rows *rows, struct notes *notes,
                   struct error *e)
{
  static const struct journal_visitor visitor = {replay_column, replay_rows, replay_note};
  struct replay x = {.rows = rows, .notes = notes, .left = JOURNAL_ROOM};
  struct journal_reader r;
  char *text = NULL;
  size_t length = 0;
  if (access(path, F_OK)) return STATUS_OK;
  if (load(path, &text, &length, e)) return e->status;
  size_t known = length < sizeof format - 1 ? length : sizeof format - 1;
  int is_of_ours = !memcmp(text, format, known), is_known = journal_begin(&r, text, length, started);
  int fits = is_known || (is_of_ours && length < JOURNAL_HEAD), is_whole = 1;
  if (is_known) {
    fits = journal_read(&r, text + r.at, length - r.at, &visitor, &x);
    is_whole = !fits || !piece_follows(text + r.at, length - r.at);
  }
  for (int t = 0; t < TABLE_COUNT; t++) memory_free(x.order[t].column);
  memory_free(text);
  if (!is_of_ours)
    return error_set(e, STATUS_FAIL,
                     "%s is not a journal of this version; remove it to go on from the run file "
                     "alone",
                     path);
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
      path, r.at);
  return STATUS_OK;
}
