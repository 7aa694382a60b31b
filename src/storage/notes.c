#include "storage/notes.h"
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

static const char place[] = "/notes";

/* What is printed must not steer the terminal. */
static char *keep(const char *text)
{
  char *kept = memory_text(text);
  for (char *c = kept; *c; c++)
    if ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') *c = '?';
  return kept;
}

void notes_add(struct notes *n, const char *date, const char *text)
{
  n->note = memory_grow(n->note, (size_t)n->count, (size_t)n->count + 1, sizeof *n->note);
  n->note[n->count++] = (struct note){keep(date), keep(text)};
}

void notes_free(struct notes *n)
{
  for (int i = 0; i < n->count; i++) {
    memory_free(n->note[i].date);
    memory_free(n->note[i].text);
  }
  memory_free(n->note);
  *n = (struct notes){0};
}

/* --- the table ------------------------------------------------------------------------------------------ */

void notes_read(struct h5 *h, struct notes *n)
{
  struct h5_shape found;
  h5_id id = h5_find(h, place);
  if (h5_get_shape(h, id, &found) && found.kind == KIND_RECORD && found.rank == 1) {
    size_t room = found.size + 1; /* no text of a row is longer than the row */
    const struct h5_field fields[] = {
      {"date", KIND_TEXT, 0, room}, {"text", KIND_TEXT, room, room}, {NULL, KIND_U8, 0, 0}};
    struct h5_shape shape = {.kind = KIND_RECORD, .size = 2 * room, .fields = fields, .rank = 1};
    char *rows = memory_new((size_t)found.dims[0] + 1, 2 * room);
    if (h5_read(h, id, &shape, 0, found.dims[0], rows))
      for (int64_t i = 0; i < found.dims[0]; i++)
        notes_add(n, rows + (size_t)i * 2 * room, rows + (size_t)i * 2 * room + room);
    memory_free(rows);
  }
  h5_done(h, id);
}

static size_t longest(const struct notes *n, size_t field)
{
  size_t most = 1;
  for (int i = 0; i < n->count; i++) {
    size_t length = strlen(field ? n->note[i].text : n->note[i].date);
    if (length > most) most = length;
  }
  return most;
}

void notes_write(struct h5 *h, const struct notes *n)
{
  size_t dates = longest(n, 0), texts = longest(n, 1), size = dates + texts;
  const struct h5_field fields[] = {
    {"date", KIND_TEXT, 0, dates}, {"text", KIND_TEXT, dates, texts}, {NULL, KIND_U8, 0, 0}};
  struct h5_shape shape = {
    .kind = KIND_RECORD, .size = size, .fields = fields, .rank = 1, .dims = {n->count}, .compress = 1};
  if (!n->count) return;
  h5_id id = h5_find(h, place);
  h5_done(h, id);
  if (id >= 0) h5_remove(h, place);
  char *rows = memory_new((size_t)n->count, size);
  for (int i = 0; i < n->count; i++) {
    memcpy(rows + (size_t)i * size, n->note[i].date, strlen(n->note[i].date));
    memcpy(rows + (size_t)i * size + dates, n->note[i].text, strlen(n->note[i].text));
  }
  id = h5_dataset(h, place, &shape);
  h5_write(h, id, &shape, 0, n->count, rows);
  h5_done(h, id);
  memory_free(rows);
}
