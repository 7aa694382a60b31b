/* h5.h - the only door to the HDF5 library: whole files, built and read in memory, under a seal
   A file is built in memory and then goes to disk in one piece through base/file.h (beside, synced, renamed), so
   the library never meets a full disk, and a file on disk is never half of one. Behind the last byte that HDF5
   counts stands a seal (storage/seal.h). Reading checks the seal before the library sees a byte: a damaged file is
   never parsed.
   Not every build of the library knows threads (Debian's does), and its high-level part never does: from h5_new or
   h5_load to h5_save or h5_free no other thread can have a file open, and waits. All of it belongs on one thread. */
#ifndef MAXLOGIT_STORAGE_H5_H
#define MAXLOGIT_STORAGE_H5_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct h5;
typedef int64_t h5_id; /* an open group or dataset; negative: none */

enum h5_kind { KIND_U8, KIND_I32, KIND_I64, KIND_F32, KIND_F64, KIND_TEXT, KIND_RECORD };

/* A field of a KIND_RECORD; a list ends with name NULL. `size` is that of a text. */
struct h5_field {
  const char *name;
  enum h5_kind kind;
  size_t offset, size;
};

struct h5_shape {
  enum h5_kind kind;
  size_t size;                   /* bytes of an element; KIND_TEXT and KIND_RECORD need it */
  const struct h5_field *fields; /* KIND_RECORD */
  int rank;                      /* 1 to 4 */
  int64_t dims[4];               /* dims[0]: rows */
  int64_t chunk;                 /* rows of a chunk; 0: chosen */
  int growing;                   /* unlimited in dims[0] */
  int compress;                  /* shuffle and gzip */
};
size_t h5_kind_size(enum h5_kind); /* of the numbers */
size_t h5_row_bytes(const struct h5_shape *);

/* --- building: the first failure is kept and reported by h5_save --------------------------------------- */

struct h5 *h5_new(void);
/* Close, seal, write to `path` by file_write. Frees h in every case. */
int h5_save(struct h5 *, const char *path, struct error *);
struct lock;
int h5_save_held(struct h5 *, const char *path, const struct lock *, struct error *); /* by file_write_held */
int h5_save_in(struct h5 *, int folder, const char *path, struct error *);            /* by file_write_in */

/* The file's head (storage/seal.h): its texts. */
void h5_put_head(struct h5 *, const void *head, size_t size);

h5_id h5_group(struct h5 *, const char *path); /* made where missing, with those above it */
h5_id h5_dataset(struct h5 *, const char *path, const struct h5_shape *); /* with a Fletcher-32 sum a chunk */
void h5_write(struct h5 *, h5_id, const struct h5_shape *, int64_t first, int64_t rows, const void *data);
/* A dataset with all its rows. */
h5_id h5_put(struct h5 *, const char *path, const struct h5_shape *, const void *data);
/* Attributes. */
void h5_put_text(struct h5 *, h5_id, const char *name, const char *value); /* UTF-8 */
void h5_put_int(struct h5 *, h5_id, const char *name, int64_t value);
void h5_put_real(struct h5 *, h5_id, const char *name, double value);
/* Dimension scales: name dimension `dim` and attach the scale to it (-1: none). */
void h5_make_scale(struct h5 *, h5_id, const char *name);
void h5_dimension(struct h5 *, h5_id, int dim, const char *label, h5_id scale);
void h5_done(struct h5 *, h5_id);

/* A file from disk, to be changed by the calls above and below and then written by h5_save; it keeps its head where
   it gets no other. With its seal only, as h5_load; `unsealed` takes it without one, at the caller's risk (below). */
int h5_change(struct h5 **, const char *path, int unsealed, struct error *);
void h5_extend(struct h5 *, h5_id, int64_t rows); /* a growing dataset */
void h5_remove(struct h5 *, const char *path);

/* Does a file begin as one of HDF5 does? 0 too of what is not a file, or cannot be read. */
int h5_is_file(const char *path);

/* --- reading ------------------------------------------------------------------------------------------- */

/* Only a file with its seal, and one that passes storage/h5_gate.h: a child process reads all of it first, because
   the library crashes, or does not end, on some files whose checksums are right. A file that another program has
   written or changed is refused, too. A missing file and one without a seal are STATUS_USAGE; the rest STATUS_FAIL. */
int h5_load(struct h5 **, const char *path, struct error *);
/* The same; `advice` follows what is said of a seal that is missing or does not fit. */
int h5_load_or(struct h5 **, const char *path, const char *advice, struct error *);
/* Without a check of its seal. */
int h5_load_unsealed(struct h5 **, const char *path, struct error *);
void h5_free(struct h5 *);
const char *h5_get_head(const struct h5 *, size_t *length); /* NULL: it has none */

h5_id h5_find(struct h5 *, const char *path);            /* negative if there is none */
int h5_get_shape(struct h5 *, h5_id, struct h5_shape *); /* 0 if it is none of the kinds above */
/* The rest gives 1 when it was there and readable, else 0. */
int h5_get_text(struct h5 *, h5_id, const char *name, char *out, size_t room); /* by text_fill */
int h5_get_int(struct h5 *, h5_id, const char *name, int64_t *);
int h5_get_real(struct h5 *, h5_id, const char *name, double *);
int h5_get_label(struct h5 *, h5_id, int dim, char *out, size_t room);
/* Rows into memory of the given kind, size and fields; numbers are converted. */
int h5_read(struct h5 *, h5_id, const struct h5_shape *, int64_t first, int64_t rows, void *data);
/* All rows of a dataset of one dimension and of this kind, into new memory with room for one more, which is zero;
   NULL, and no rows, where there is none that can be read so. */
void *h5_read_all(struct h5 *, const char *path, const struct h5_shape *, int64_t *rows);
/* All that is no group at a place and below it, in order of name, -1 for what cannot be opened; stops at the first
   non-zero. */
int h5_walk(struct h5 *, const char *path, int (*each)(void *, const char *path, h5_id), void *context);

const char *h5_version(void);
#endif
