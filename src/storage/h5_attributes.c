#include "storage/h5_attributes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

enum { KEY_BYTES = 256 };

static int make_key(char out[KEY_BYTES], uint64_t address, const char *name, int index, int values)
{
  return snprintf(out, KEY_BYTES, "%" PRIx64 " %d/%d %s", address, index, values, name) < KEY_BYTES;
}

void h5_attributes_add(struct buffer *b, uint64_t address, const char *name, int index, int values, char kind,
                       const char *text)
{
  char key[KEY_BYTES];
  if (make_key(key, address, name, index, values)) buffer_add(b, "%s%c%c%s%c", key, 0, kind, text, 0);
}

static int compare_entries(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void h5_attributes_take(struct h5_attributes *a, char *bytes, size_t size)
{
  size_t ends = 0;
  if (size) bytes[size - 1] = 0;
  for (size_t i = 0; i < size; i++) ends += !bytes[i];
  *a =
    (struct h5_attributes){.bytes = bytes, .size = size, .entry = memory_new(ends / 2 + 1, sizeof *a->entry)};
  for (const char *at = bytes; a->count < ends / 2; at += strlen(at) + 1) {
    a->entry[a->count++] = at;
    at += strlen(at) + 1;
  }
  qsort(a->entry, a->count, sizeof *a->entry, compare_entries);
}

const char *h5_attributes_find(const struct h5_attributes *a, uint64_t address, const char *name, int index,
                               int values)
{
  char key[KEY_BYTES];
  const char *wanted = key;
  if (!a->count || !make_key(key, address, name, index, values)) return NULL;
  const char **found = bsearch(&wanted, a->entry, a->count, sizeof *a->entry, compare_entries);
  return found ? *found + strlen(*found) + 1 : NULL;
}

void h5_attributes_free(struct h5_attributes *a)
{
  memory_free(a->bytes);
  memory_free(a->entry);
}
