/* h5_attributes.h - the attributes of a file, as a list of texts
   HDF5 1.10 takes the place of a text in its heap, and the sizes in an attribute's header, as the file states them. So
   attributes are read in a process that may crash, which hands this list over, and nowhere else. */
#ifndef MAXLOGIT_STORAGE_H5_ATTRIBUTES_H
#define MAXLOGIT_STORAGE_H5_ATTRIBUTES_H
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

struct h5_attributes {
  char *bytes;
  size_t size;
  const char **entry; /* [count], sorted: a key and, behind its NUL, a value; NULL: there is no list */
  size_t count;
};

/* Append value number `index` of `values` of an attribute of the object at this address. The first letter of the value
   is its kind: a text of variable (v) or fixed (s) size, a whole number (i), or the bits of a double (f). */
void h5_attributes_add(struct buffer *, uint64_t address, const char *name, int index, int values, char kind,
                       const char *text);
/* Take over the bytes of such a buffer. */
void h5_attributes_take(struct h5_attributes *, char *bytes, size_t size);
/* The value with its kind, or NULL. */
const char *h5_attributes_find(const struct h5_attributes *, uint64_t address, const char *name, int index,
                               int values);
void h5_attributes_free(struct h5_attributes *);
#endif
