/* h5_texts.h - texts of attributes, as the checking process has read them
   A text of variable length lies in a heap of the file, at a place that the file states. HDF5 1.10 does not compare
   that place with the size of the heap. So such texts are read in a process that may crash, and nowhere else. */
#ifndef MAXLOGIT_STORAGE_H5_TEXTS_H
#define MAXLOGIT_STORAGE_H5_TEXTS_H
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

struct h5_texts {
  char *bytes;
  size_t size;
  const char **entry; /* [count], sorted: a key and, behind its NUL, a text */
  size_t count;
};

/* Append value number `index` of an attribute of the object at this address. */
void h5_texts_add(struct buffer *, uint64_t address, const char *name, int index, const char *text);
/* Take over the bytes of such a buffer, which end with a NUL unless there are none. */
void h5_texts_take(struct h5_texts *, char *bytes, size_t size);
const char *h5_texts_find(const struct h5_texts *, uint64_t address, const char *name,
                          int index); /* or NULL */
void h5_texts_free(struct h5_texts *);
#endif
