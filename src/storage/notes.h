/* notes.h - remarks in a run file: a table /notes of date and text */
#ifndef MAXLOGIT_NOTES_H
#define MAXLOGIT_NOTES_H
#include "storage/h5.h"
#include "storage/recorder.h"

struct note {
  char *date, *text; /* ISO 8601; UTF-8 */
};
struct notes {
  struct note *note;
  int count;
};
enum { NOTE_BYTES = 16384 }; /* the longest text */

void notes_add(struct notes *, const char *date, const char *text);
void notes_free(struct notes *);
void notes_read(struct h5 *, struct notes *);
void notes_write(struct h5 *, const struct notes *); /* in place of those that are there */

int run_notes(const struct run_file *, struct notes *, struct error *);
#endif
