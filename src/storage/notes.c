#include "storage/notes.h"
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/texts.h"

static const char place[] = "/notes";

void notes_add(struct notes *n, const char *date, const char *text)
{
  if (n->count == n->room) {
    const int room = 2 * n->room + 4;
    n->note = memory_grow(n->note, (size_t)n->room, (size_t)room, sizeof *n->note);
    n->room = room;
  }
  n->note[n->count++] = (struct note){text_cleaned(date, ""), text_cleaned(text, "\n\t")};
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

static const char *const fields[] = {"date", "text", NULL};

int notes_read(struct h5 *h, struct notes *n, struct error *e)
{
  int64_t rows;
  size_t room;
  char *texts = texts_get(h, place, fields, &rows, &room), *row = texts;
  for (int64_t i = 0; i < rows; i++, row += 2 * room) notes_add(n, row, row + room);
  memory_free(texts);
  if (texts) return STATUS_OK;
  h5_id id = h5_find(h, place);
  h5_done(h, id);
  return id < 0 ? STATUS_OK : error_set(e, STATUS_FAIL, "the notes cannot be read");
}

void notes_write(struct h5 *h, const struct notes *n)
{
  if (!n->count) return;
  h5_id id = h5_find(h, place);
  h5_done(h, id);
  if (id >= 0) h5_remove(h, place);
  const char **text = memory_new((size_t)n->count, 2 * sizeof *text);
  for (int i = 0; i < n->count; i++) {
    text[2 * i] = n->note[i].date;
    text[2 * i + 1] = n->note[i].text;
  }
  texts_put(h, place, fields, n->count, text, NULL, NULL);
  memory_free(text);
}
