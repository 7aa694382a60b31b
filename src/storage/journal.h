/* journal.h - the latest rows of a run on disk: RUN.journal, beside RUN.h5
   The rows of a run are in two files. RUN.h5 has all rows up to its last snapshot; it is replaced atomically. The
   journal has the rows since. It begins with a line that names the recording, and this journal by a random number.
   Pieces follow. A piece is its length, the XXH3-64 digest of its content, and its content: the digest of the previous
   piece, a kind, and columns, rows or a note. Pieces are only appended, several in one write.
   Why a kill, at any call, loses no row that counts:
   1. A snapshot is published before the journal is truncated (journal_start), so every row is always in one of the two.
      Between these calls rows are in both; rows have numbers, and those of the run file are skipped.
   2. A partial last piece has no valid digest, and is not read. Each piece contains the digest of the previous one, so
      a piece of an earlier journal cannot be mistaken for one of this journal.
   3. Before a checkpoint of N steps is published, all rows of these steps are in a snapshot, or in the synced journal.
      A resume reads both, drops the rows from step N on, which it computes again, and makes a snapshot before it
      appends. So nothing is ever appended after a partial piece, or after dropped rows.
   4. A run file with a final state has all rows: a journal that is left beside it is ignored.
   tests/storage/check_crash kills a run, and a resume, at every call that reaches the disk. */
#ifndef MAXLOGIT_STORAGE_JOURNAL_H
#define MAXLOGIT_STORAGE_JOURNAL_H
#include "base/file.h"
#include "storage/notes.h"
#include "storage/rows.h"

/* --- writing ------------------------------------------------------------------------------------------- */

struct journal;
/* Open a journal, as append_open does. An existing one is kept, and nothing is appended, until journal_start. */
struct journal *journal_open(const char *path, const struct lock *, struct error *);
void journal_close(struct journal *);
/* Truncate the journal, because the run file has all of these rows. `started`: the run file's date. */
int journal_start(struct journal *, const char *started, const struct rows *, const struct notes *,
                  struct error *);
/* Append everything since journal_start or the last append. After a failure the next call writes it again. */
int journal_append(struct journal *, const struct rows *, const struct notes *, struct error *);
int journal_sync(struct journal *, struct error *);
/* Is a snapshot needed first? True if the journal was not started, or has more new columns than a reader has room
   for. */
int journal_is_behind(const struct journal *, const struct rows *);

/* Remove a journal, if there is one. A file of another program stays, and is STATUS_USAGE. */
int journal_remove(const char *path, struct error *);

/* --- reading ------------------------------------------------------------------------------------------- */

/* Journals may come from strangers: stated sizes are trusted only within the journal's own bytes, except the room of
   new columns, which is bounded for all of them together. */
enum { JOURNAL_ROOM = 64 << 20, JOURNAL_HEAD = 53 /* bytes of the first line */ };

struct journal_column {
  struct h5_shape shape;
  const char *name, *unit, *long_name, *definition, *label[4];
};
/* Returning 0 rejects the piece. NULL: skip pieces of this kind. */
struct journal_visitor {
  int (*column)(void *, int table, const struct journal_column *);
  int (*rows)(void *, int table, int64_t first, int64_t count, const char *row);
  int (*note)(void *, int64_t number, const char *date, const char *text);
};
/* The position of a reader in a journal. */
struct journal_reader {
  char head[JOURNAL_HEAD];
  size_t at, last_at; /* offset after, and of, the last piece read */
  uint64_t mark[2];   /* length and digest of that piece, which identify all pieces before it */
  size_t row_bytes[TABLE_COUNT];
};
/* The bytes of an open file from `from` on; the caller calls memory_free. NULL: unreadable, or more than a quarter of
   this machine's memory (errno EFBIG). */
char *journal_bytes(int fd, size_t from, size_t *length);
/* Read the first line. Returns 0 if the journal does not belong to a recording that was started then. */
int journal_begin(struct journal_reader *, const char *text, size_t length, const char *started);
/* Read the complete pieces of `text`, the bytes from r->at on. Returns 0 if one is not valid. */
int journal_read(struct journal_reader *, const char *text, size_t length, const struct journal_visitor *,
                 void *context);

/* Append all rows and notes of the journal to the existing ones; does nothing without a journal. STATUS_FAIL if it
   belongs to another recording, or if complete pieces follow a broken one; earlier pieces are kept. */
int journal_replay(const char *path, const char *started, struct rows *, struct notes *, struct error *);
#endif
