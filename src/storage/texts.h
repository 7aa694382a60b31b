/* texts.h - texts in a file, single or as a table of fixed-size columns, which can have checksums */
#ifndef MAXLOGIT_STORAGE_TEXTS_H
#define MAXLOGIT_STORAGE_TEXTS_H
#include "storage/h5.h"

enum { TEXT_FIELDS = 6 }; /* at most */

void text_put(struct h5 *, const char *path, const char *text);
char *text_get(struct h5 *, const char *path); /* memory_free; NULL: there is none */

/* Write text [rows, fields]; if `flag` is not NULL, a last column of that name has flags[rows]. */
void texts_put(struct h5 *, const char *path, const char *const *fields, int64_t rows,
               const char *const *text, const char *flag, const char *flags);
/* Read [*rows, fields] texts of *room bytes each; the caller calls memory_free. NULL: there are none. */
char *texts_get(struct h5 *, const char *path, const char *const *fields, int64_t *rows, size_t *room);
#endif
