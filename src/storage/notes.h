/* notes.h - notes in a run file: a table /notes of date and text, and the only functions that change a finished file
   A change builds the whole file anew in memory, with a new seal, and replaces the old one atomically. */
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
int notes_read(struct h5 *, struct notes *, struct error *); /* STATUS_FAIL if they are of another kind */
void notes_write(struct h5 *, const struct notes *);         /* replaces the existing notes */

/* Without an error to fill, unreadable notes are reported once, and run_has_unread returns 1. */
int run_notes(const struct run_file *, struct notes *, struct error *);

/* Add a note with today's date. STATUS_FAIL if the run is being written. */
int note_put(const char *path, const char *text, struct error *);
/* Write the file `run`, a repetition of the run `from`, with the notes of that as `to`. The caller holds the lock of
   `to`, or NULL: it is taken. */
struct lock;
int notes_carry(const char *from, const char *run, const char *to, struct lock *, struct error *);
/* Accept a run file that another program has changed. Everything in it is read once, in a child process, because the
   HDF5 library may crash. Then the file gets a head, a seal, an event `edited` at its last step and a note about it,
   with `text` (may be NULL). STATUS_USAGE if the seal is valid: nothing was edited. */
int note_accept(const char *path, const char *text, struct error *);
#endif
