#include "storage/h5_texts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

enum { KEY_BYTES = 256 };

static int make_key(char out[KEY_BYTES], uint64_t address, const char *name, int index)
{
  return snprintf(out, KEY_BYTES, "%" PRIx64 " %d %s", address, index, name) < KEY_BYTES;
}

void h5_texts_add(struct buffer *b, uint64_t address, const char *name, int index, const char *text)
{
  char key[KEY_BYTES];
  if (make_key(key, address, name, index)) buffer_add(b, "%s%c%s%c", key, 0, text, 0);
}

static int compare_entries(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void h5_texts_take(struct h5_texts *t, char *bytes, size_t size)
{
  size_t ends = 0;
  if (size) bytes[size - 1] = 0;
  for (size_t i = 0; i < size; i++) ends += !bytes[i];
  *t = (struct h5_texts){.bytes = bytes, .size = size, .entry = memory_new(ends / 2 + 1, sizeof *t->entry)};
  for (const char *at = bytes; t->count < ends / 2; at += strlen(at) + 1) {
    t->entry[t->count++] = at;
    at += strlen(at) + 1;
  }
  qsort(t->entry, t->count, sizeof *t->entry, compare_entries);
}

const char *h5_texts_find(const struct h5_texts *t, uint64_t address, const char *name, int index)
{
  char key[KEY_BYTES];
  const char *wanted = key;
  if (!t->count || !make_key(key, address, name, index)) return NULL;
  const char **found = bsearch(&wanted, t->entry, t->count, sizeof *t->entry, compare_entries);
  return found ? *found + strlen(*found) + 1 : NULL;
}

void h5_texts_free(struct h5_texts *t)
{
  memory_free(t->bytes);
  memory_free(t->entry);
}
