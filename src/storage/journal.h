/* journal.h - the rows of a run as they come, on disk: RUN.journal, beside RUN.h5
   The rows of a run lie in two files. RUN.h5 has all rows up to its last snapshot; it is replaced whole, by one rename
   of a synced file. The journal has the rows since: a first line, which names the recording and this journal by a
   random number, then pieces. A piece is its length, the XXH3-64 digest of its content, and its content: the digest of
   the piece before it, a kind, and columns, rows or a note. Pieces are only appended; a few of them are one write.

   Why a kill, at any call, loses no row that counts:
   1. A snapshot is published before the journal begins anew (journal_start), so that a row is always in one of the two.
      Between these calls rows are in both: rows have numbers, and those that the run file has are passed over.
   2. What a kill leaves of the last piece has no digest, and is not read. Each piece names the one before it, so that
      no piece of an earlier journal can be taken for one of this one.
   3. Before a checkpoint of N steps is published, all rows of these steps are in a snapshot, or in the journal, synced.
      A resume reads both, forgets the rows from step N on, which it computes again, and makes a snapshot before it
      appends anything. So nothing is ever appended behind half a piece, or behind rows that were forgotten.
   4. A run file that says that its run is over has all rows: what is left of a journal beside it does not count.
   tests/storage/check_crash kills a run, and a resume, at every call that reaches the disk. */
#ifndef MAXLOGIT_STORAGE_JOURNAL_H
#define MAXLOGIT_STORAGE_JOURNAL_H
#include "storage/notes.h"
#include "storage/rows.h"

/* --- writing ------------------------------------------------------------------------------------------- */

struct journal;
/* What is there is kept, and nothing is appended, until journal_start. */
struct journal *journal_open(const char *path, struct error *);
void journal_close(struct journal *);
/* It begins anew: the run file has all of this. `started`: the run file's date. */
int journal_start(struct journal *, const char *started, const struct rows *, const struct notes *,
                  struct error *);
/* All that has come since journal_start, or since the last append. After a failure the next one makes good for it. */
int journal_append(struct journal *, const struct rows *, const struct notes *, struct error *);
int journal_sync(struct journal *, struct error *);
/* Is a snapshot wanted first: it was not started, or has more new columns than a reader makes room for? */
int journal_is_behind(const struct journal *, const struct rows *);

/* --- reading ------------------------------------------------------------------------------------------- */

/* Journals come from strangers, too: nothing that one states is believed beyond its own bytes, but for the room of new
   columns, which is bounded for all of them together. */
enum { JOURNAL_ROOM = 64 << 20, JOURNAL_HEAD = 53 /* bytes of the first line */ };

struct journal_column {
  struct h5_shape shape;
  const char *name, *unit, *long_name, *definition, *label[4];
};
/* A return of 0 refuses the piece. NULL: passed over. */
struct journal_visitor {
  int (*column)(void *, int table, const struct journal_column *);
  int (*rows)(void *, int table, int64_t first, int64_t count, const char *row);
  int (*note)(void *, int64_t number, const char *date, const char *text);
};
/* How far a journal has been read. */
struct journal_reader {
  char head[JOURNAL_HEAD];
  size_t at, last_at; /* behind, and at, the piece read last */
  uint64_t mark[2];   /* its length and digest, which stands for all pieces before it */
  size_t row_bytes[TABLE_COUNT];
};
/* The bytes of an open file from `from` on, for memory_free. NULL: more than a quarter of this machine's memory
   (errno EFBIG), or cannot be read. */
char *journal_bytes(int fd, size_t from, size_t *length);
/* Begins with the first line. 0: it is not of a recording that was started then. */
int journal_begin(struct journal_reader *, const char *text, size_t length, const char *started);
/* Whole pieces of `text`, the bytes from r->at on. 0: one does not fit. */
int journal_read(struct journal_reader *, const char *text, size_t length, const struct journal_visitor *,
                 void *context);

/* All that the journal of a recording that was started then has, behind what is there; where there is no journal:
   nothing. STATUS_FAIL, with what comes before: one of another recording, or with whole pieces behind a broken one. */
int journal_replay(const char *path, const char *started, struct rows *, struct notes *, struct error *);
#endif
