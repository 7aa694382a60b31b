/* change.h - the only ways to change a file that is written: a note is added, carried over, or an edited file accepted
   A change builds the whole file anew in memory, under a new seal, and takes the old one's place by one rename. */
#ifndef MAXLOGIT_CHANGE_H
#define MAXLOGIT_CHANGE_H
#include "base/error.h"

/* Add a remark with today's date; the run must not be written meanwhile (STATUS_FAIL). */
int note_put(const char *path, const char *text, struct error *);
/* The notes of one run file go into another, in place of its own. */
int notes_carry(const char *from, const char *to, struct error *);
/* Take a run file that another program has changed as it is now: everything in it is read once (in a process of its
   own, which the HDF5 library may crash), then it gets a head, a seal, an event `edited` at its last step and a note
   that says so, with `text` (may be NULL) behind it. STATUS_USAGE where the seal fits: nothing was edited. */
int note_accept(const char *path, const char *text, struct error *);
#endif
