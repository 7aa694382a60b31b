/* journal.h - rows on disk as they come: what the run file does not have yet, of a recording that no
   checkpoint carries
   RUN.journal is a line of text that names the run, then pieces: length, XXH3-64 of what follows, kind,
   content. Each is one write. What a kill left of the last one is not read. A snapshot lets it begin anew;
   one that was killed before that is no harm, for rows have their numbers: those that the file has are passed
   over. */
#ifndef MAXLOGIT_STORAGE_JOURNAL_H
#define MAXLOGIT_STORAGE_JOURNAL_H
#include "storage/notes.h"
#include "storage/rows.h"

struct journal;
/* Of a run by its id; what is there is kept until journal_start. */
struct journal *journal_open(const char *path, const char *id, struct error *);
void journal_close(struct journal *);

/* Empty, but for the columns of all tables. */
int journal_start(struct journal *, const struct rows *, struct error *);
int journal_column(struct journal *, int table, const struct row_column *, struct error *);
/* The last complete row of a table, which has the columns that were told. */
int journal_row(struct journal *, int table, const struct row_table *, struct error *);
/* Rows from `step` on are forgotten. */
int journal_back(struct journal *, int64_t step, struct error *);
int journal_note(struct journal *, const struct notes *, struct error *); /* the last one */

/* All that a journal of this run has, behind what is there; where there is none: nothing. Of another run, or with whole
   pieces behind a broken one: an error, for what it has would be lost. */
int journal_replay(const char *path, const char *id, struct rows *, struct notes *, struct error *);
#endif
