/* notes.h - remarks in a run file: a table /notes of date and text, and the only ways to change a file that is written
   A change builds the whole file anew in memory, under a new seal, and takes the old one's place by one rename. */
#ifndef MAXLOGIT_STORAGE_NOTES_H
#define MAXLOGIT_STORAGE_NOTES_H
#include "storage/h5.h"
#include "storage/run_file.h"

struct note {
  char *date, *text; /* ISO 8601; UTF-8 */
};
struct notes {
  struct note *note;
  int count, room;
};
enum { NOTE_BYTES = 16384 }; /* the longest text */

void notes_free(struct notes *);
void notes_add(struct notes *, const char *date, const char *text);
void notes_read(struct h5 *, struct notes *);
void notes_write(struct h5 *, const struct notes *); /* in place of those that are there */

int run_notes(const struct run_file *, struct notes *, struct error *);

/* Add a remark with today's date; the run must not be written meanwhile (STATUS_FAIL). */
int note_put(const char *path, const char *text, struct error *);
/* The notes of one run file go into another, in place of its own. */
int notes_carry(const char *from, const char *to, struct error *);
/* Take a run file that another program has changed as it is now: everything in it is read once (in a process of its
   own, which the HDF5 library may crash), then it gets a head, a seal, an event `edited` at its last step and a note
   that says so, with `text` (may be NULL) behind it. STATUS_USAGE where the seal fits: nothing was edited. */
int note_accept(const char *path, const char *text, struct error *);
#endif
