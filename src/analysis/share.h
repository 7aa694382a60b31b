/* share.h - where the files are that come with the program: plot scripts, the page */
#ifndef MAXLOGIT_ANALYSIS_SHARE_H
#define MAXLOGIT_ANALYSIS_SHARE_H
#include <stddef.h>
#include "base/error.h"

/* The folder `name` of them, in share/ of the program's folder (as built) or beside it, or where it was installed;
   STATUS_FAIL: `what` is not found. The environment's `variable` may name another; STATUS_USAGE: that is none. */
int share_folder(const char *name, const char *what, const char *variable, char out[4096], struct error *);
/* One of the files that pages are made of ("style.css"), a NUL added, from their folder (also: MAXLOGIT_PAGE). For
   memory_free. */
int share_text(const char *name, char **text, size_t *length, struct error *);
/* Whether that file is there. */
int share_has(const char *name);
#endif
