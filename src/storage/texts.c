#include "storage/texts.h"
#include <string.h>
#include "base/memory.h"

void text_put(struct h5 *h, const char *path, const char *text)
{
  struct h5_shape shape = {.kind = KIND_TEXT, .size = strlen(text) + 1, .rank = 1, .dims = {1}};
  h5_done(h, h5_put(h, path, &shape, text));
}

/* The stored width of a dataset of this kind; 0 if it is missing or of another kind. */
static size_t width(struct h5 *h, const char *path, enum h5_kind kind)
{
  struct h5_shape found;
  h5_id id = h5_find(h, path);
  int is = h5_get_shape(h, id, &found) && found.kind == kind;
  h5_done(h, id);
  return is ? found.size : 0;
}

char *text_get(struct h5 *h, const char *path)
{
  int64_t rows;
  struct h5_shape shape = {.kind = KIND_TEXT, .size = width(h, path, KIND_TEXT), .rank = 1};
  return shape.size ? h5_read_all(h, path, &shape, &rows) : NULL;
}

void texts_put(struct h5 *h, const char *path, const char *const *fields, int64_t rows,
               const char *const *text, const char *flag, const char *flags)
{
  struct h5_field field[TEXT_FIELDS + 2] = {{NULL, KIND_U8, 0, 0}};
  int n = 0;
  size_t size = 0;
  while (fields[n]) n++;
  REQUIRE(n <= TEXT_FIELDS);
  for (int k = 0; k < n; k++) {
    size_t longest = 1;
    for (int64_t i = 0; i < rows; i++) {
      size_t length = strlen(text[i * n + k]);
      longest = length > longest ? length : longest;
    }
    field[k] = (struct h5_field){fields[k], KIND_TEXT, size, longest};
    size += longest;
  }
  if (flag) field[n] = (struct h5_field){flag, KIND_U8, size++, 1};
  char *table = memory_new((size_t)rows + 1, size), *row = table;
  for (int64_t i = 0; i < rows; i++, row += size) {
    for (int k = 0; k < n; k++) memcpy(row + field[k].offset, text[i * n + k], strlen(text[i * n + k]));
    if (flag) row[field[n].offset] = flags[i];
  }
  struct h5_shape shape = {
    .kind = KIND_RECORD, .size = size, .fields = field, .rank = 1, .dims = {rows}, .compress = 1};
  h5_done(h, h5_put(h, path, &shape, table));
  memory_free(table);
}

/* Fields are read with the width of the whole row, which is never too small. */
char *texts_get(struct h5 *h, const char *path, const char *const *fields, int64_t *rows, size_t *room)
{
  struct h5_field field[TEXT_FIELDS + 1] = {{NULL, KIND_U8, 0, 0}};
  struct h5_shape shape = {.kind = KIND_RECORD, .fields = field, .rank = 1};
  *rows = 0;
  *room = width(h, path, KIND_RECORD) + 1;
  for (int k = 0; fields[k]; k++) {
    REQUIRE(k < TEXT_FIELDS);
    field[k] = (struct h5_field){fields[k], KIND_TEXT, shape.size, *room};
    shape.size += *room;
  }
  return *room > 1 ? h5_read_all(h, path, &shape, rows) : NULL;
}
