/* names.h - numbers of names, found by a hash, so that many names of a stranger's file cost no more than few each */
#ifndef MAXLOGIT_BASE_NAMES_H
#define MAXLOGIT_BASE_NAMES_H
#include <stdint.h>

/* Zero-initialized. Names are numbered from 0 on and lent: they must stay as they are until names_free. */
struct name_table {
  const char **name;
  long count, room, *slot; /* slot: number + 1; 0: free */
  uint64_t seed;
};
long names_find(const struct name_table *, const char *name); /* -1: it is not there */
long names_add(struct name_table *, const char *name);        /* one that is not there; its number */
void names_free(struct name_table *);
#endif
