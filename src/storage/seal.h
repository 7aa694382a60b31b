/* seal.h - the end of a file after the last byte that HDF5 counts: an optional head, and the seal
   The seal is one line of text with the XXH3 digest of everything before it. The head summarizes a run in a few
   kilobytes, so that thousands of files are listed without loading them. It has texts, key and value in turn, each with
   its NUL, then one line with their length and digest. HDF5 and all readers based on it ignore both. */
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
  HEAD_LINE = sizeof HEAD_START - 1 + HEAD_DIGEST + 1 + HEAD_LENGTH + 1,
  HEAD_MOST = 4 << 20 /* a longer one is not used: its facts are read from the file */
};

void seal_make(const void *bytes, size_t size, char seal[SEAL_BYTES + 1]);
enum seal_state { SEAL_MISSING, SEAL_WRONG, SEAL_RIGHT };
enum seal_state seal_check(const char *bytes, size_t size);

/* The line after `head`. */
void head_make_line(const void *head, size_t size, char line[HEAD_LINE + 1]);
/* Find the head in the last `size` bytes of a file, its length in *length; NULL if they do not have all of it.
   *size_wanted is the number of last bytes that would (0: the file has no head). */
const char *head_find(const char *last, size_t size, size_t *length, size_t *size_wanted);
/* Read only the head of a file; NULL if there is none. The caller calls memory_free. */
char *head_read(const char *path, size_t *length);
#endif
