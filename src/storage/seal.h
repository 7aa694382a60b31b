/* seal.h - what stands behind the last byte that HDF5 counts: a head, where the file has one, and the seal
   The seal is one line of text with the XXH3 digest of everything before it. The head tells in a few
   kilobytes what a run is, so that thousands of files are listed without loading them: texts, key and value
   in turn, each with its NUL, then one line with their length and digest. HDF5 ignores both, as does every
   reader built on it. */
#ifndef MAXLOGIT_STORAGE_SEAL_H
#define MAXLOGIT_STORAGE_SEAL_H
#include <stddef.h>

#define SEAL_START "maxlogit seal 1 xxh3-128 "
#define HEAD_START "maxlogit head 1 xxh3-64 "
enum {
  SEAL_DIGEST = 32,
  SEAL_BYTES = sizeof SEAL_START - 1 + SEAL_DIGEST + 1,
  HEAD_DIGEST = 16,
  HEAD_LENGTH = 10,
  HEAD_LINE = sizeof HEAD_START - 1 + HEAD_DIGEST + 1 + HEAD_LENGTH + 1
};

void seal_make(const void *bytes, size_t size, char seal[SEAL_BYTES + 1]);
enum seal_state { SEAL_MISSING, SEAL_WRONG, SEAL_RIGHT };
enum seal_state seal_check(const char *bytes, size_t size);

/* The line behind `head`. */
void head_make_line(const void *head, size_t size, char line[HEAD_LINE + 1]);
/* The head in the last `size` bytes of a file, its length in *length; NULL where none is whole in them.
   *size_wanted: so many of the last bytes would hold it (0: the file has none). */
const char *head_find(const char *last, size_t size, size_t *length, size_t *size_wanted);
/* The head of a file, without looking at the rest; NULL where it has none. For memory_free. */
char *head_read(const char *path, size_t *length);
#endif
