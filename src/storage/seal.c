#include "storage/seal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"

void seal_make(const void *bytes, size_t size, char seal[SEAL_BYTES + 1])
{
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, size));
  size_t at = sizeof SEAL_START - 1;
  memcpy(seal, SEAL_START, at);
  for (size_t i = 0; i < sizeof digest.digest; i++, at += 2) snprintf(seal + at, 3, "%02x", digest.digest[i]);
  memcpy(seal + at, "\n", 2);
}

enum seal_state seal_check(const char *bytes, size_t size)
{
  if (size < SEAL_BYTES) return SEAL_MISSING;
  const char *found = bytes + size - SEAL_BYTES;
  if (memcmp(found, SEAL_START, sizeof SEAL_START - 1)) return SEAL_MISSING;
  char wanted[SEAL_BYTES + 1];
  seal_make(bytes, size - SEAL_BYTES, wanted);
  return memcmp(found, wanted, SEAL_BYTES) ? SEAL_WRONG : SEAL_RIGHT;
}

void head_make_line(const void *head, size_t size, char line[HEAD_LINE + 1])
{
  snprintf(line, HEAD_LINE + 1, HEAD_START "%016llx %010zu\n", (unsigned long long)XXH3_64bits(head, size),
           size);
}

const char *head_find(const char *last, size_t size, size_t *length, size_t *size_wanted)
{
  enum { BEHIND = HEAD_LINE + SEAL_BYTES };
  *size_wanted = 0;
  if (size < BEHIND) return NULL;
  const char *line = last + size - BEHIND;
  if (memcmp(line, HEAD_START, sizeof HEAD_START - 1)) return NULL;
  char wanted[HEAD_LINE + 1];
  const char *digits = line + HEAD_LINE - 1 - HEAD_LENGTH;
  if (strspn(digits, "0123456789") != HEAD_LENGTH) return NULL;
  *length = strtoul(digits, NULL, 10);
  if (*length > HEAD_MOST) return NULL;
  *size_wanted = *length + BEHIND;
  if (size < *size_wanted) return NULL;
  const char *head = line - *length;
  head_make_line(head, *length, wanted);
  return memcmp(line, wanted, HEAD_LINE) ? NULL : head;
}

char *head_read(const char *path, size_t *length)
{
  char *bytes = NULL, *copy = NULL;
  for (size_t wanted = 8192, last = 0; wanted > last;) {
    size_t size;
    memory_free(bytes);
    bytes = file_read_end(path, last = wanted, &size);
    const char *head = bytes ? head_find(bytes, size, length, &wanted) : NULL;
    if (head) {
      copy = memory_new(*length + 1, 1);
      memcpy(copy, head, *length);
    }
    if (head || !bytes) break;
  }
  memory_free(bytes);
  return copy;
}
