/* h5.h - the only access to the HDF5 library: whole files, built and read in memory, with a seal
   A file is built in memory and written to disk in one piece by base/file.h (temporary file, sync, rename). So the
   library never runs into a full disk, and a reader never gets a partial file. A seal (storage/seal.h) follows the last
   byte that HDF5 counts. It is checked before the library parses anything, so a damaged file is never parsed.
   Not every build of the library is thread-safe (Debian's is). So from h5_new or h5_load to h5_save or h5_free other
   threads wait before they can open a file. All calls for a file belong on one thread. */
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
size_t h5_kind_size(enum h5_kind); /* of numeric kinds */
size_t h5_row_bytes(const struct h5_shape *);

/* --- building: the first failure is kept and returned by h5_save --------------------------------------- */

struct h5 *h5_new(void);
/* Close, seal, write to `path` by file_write. Always frees h. */
struct lock;
int h5_save(struct h5 *, const char *path, const struct lock *, struct error *); /* by file_write_held */
int h5_save_in(struct h5 *, int folder, const char *path, struct error *);       /* by file_write_in */

/* The file's head (storage/seal.h): its texts. */
void h5_put_head(struct h5 *, const void *head, size_t size);

h5_id h5_group(struct h5 *, const char *path); /* creates the group and its parents if missing */
h5_id h5_dataset(struct h5 *, const char *path, const struct h5_shape *); /* Fletcher-32 sum per chunk */
void h5_write(struct h5 *, h5_id, const struct h5_shape *, int64_t first, int64_t rows, const void *data);
/* A dataset with all its rows. */
h5_id h5_put(struct h5 *, const char *path, const struct h5_shape *, const void *data);
/* Attributes. */
void h5_put_text(struct h5 *, h5_id, const char *name, const char *value); /* UTF-8 */
void h5_put_int(struct h5 *, h5_id, const char *name, int64_t value);
void h5_put_real(struct h5 *, h5_id, const char *name, double value);
/* Dimension scales: h5_dimensions names all dimensions of a dataset (NULL: no name) and attaches a scale to each (-1:
   none), once per dataset. h5_save writes the list of a scale's uses; a scale in a file from h5_change gets no more. */
void h5_make_scale(struct h5 *, h5_id, const char *name);
void h5_dimensions(struct h5 *, h5_id, int rank, const char *const *label, const h5_id *scale);
void h5_done(struct h5 *, h5_id);

/* Open a file from disk, change it by the calls above and below, write it by h5_save. It keeps its head unless it gets
   another one. The seal must be valid, as for h5_load; `unsealed` accepts a file without one, at the caller's risk. The
   caller holds the lock, and gives it to h5_save, too (file_read_held). */
int h5_change(struct h5 **, const char *path, int unsealed, struct lock *, struct error *);
void h5_extend(struct h5 *, h5_id, int64_t rows); /* a growing dataset */
void h5_remove(struct h5 *, const char *path);

/* Does the file begin with the HDF5 signature? Returns 0 also if it is unreadable or is not a file. */
int h5_is_file(const char *path);

/* --- reading ------------------------------------------------------------------------------------------- */

/* Load a file only if it has its seal and passes storage/h5_gate.h. A child process reads all of it first, because the
   library crashes, or does not end, on some files with right checksums. A file that another program has written or
   changed is rejected, too. A missing file and one without a seal are STATUS_USAGE, other failures STATUS_FAIL. */
int h5_load(struct h5 **, const char *path, struct error *);
int h5_load_held(struct h5 **, const char *path, struct lock *, struct error *); /* by file_read_held */
/* The same; `advice` is appended to the message about a missing or wrong seal. */
int h5_load_or(struct h5 **, const char *path, const char *advice, struct error *);
/* Load a file without a check of its seal. */
int h5_load_unsealed(struct h5 **, const char *path, struct error *);
void h5_free(struct h5 *);
const char *h5_get_head(const struct h5 *, size_t *length); /* NULL: there is none */

h5_id h5_find(struct h5 *, const char *path);            /* negative if there is none */
int h5_get_shape(struct h5 *, h5_id, struct h5_shape *); /* 0 if it is not one of the kinds above */
/* The following return 1 if the value exists and is readable, else 0. */
int h5_get_text(struct h5 *, h5_id, const char *name, char *out, size_t room); /* by text_fill */
int h5_get_int(struct h5 *, h5_id, const char *name, int64_t *);
int h5_get_real(struct h5 *, h5_id, const char *name, double *);
int h5_get_label(struct h5 *, h5_id, int dim, char *out, size_t room);
/* Rows into memory of the given kind, size and fields; numbers are converted. */
int h5_read(struct h5 *, h5_id, const struct h5_shape *, int64_t first, int64_t rows, void *data);
/* Read all rows of a dataset of one dimension and of this kind into new memory, with room for one more row, which is
   zero. NULL, and *rows = 0, if there is no such dataset or it is unreadable. */
void *h5_read_all(struct h5 *, const char *path, const struct h5_shape *, int64_t *rows);
/* Visit all objects except groups at a path and below it, in order of name; id -1 for an object that cannot be opened.
   Stops at the first non-zero result. */
int h5_walk(struct h5 *, const char *path, int (*each)(void *, const char *path, h5_id), void *context);

const char *h5_version(void);
#endif
