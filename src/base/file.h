/* file.h - the few system calls that reach the disk, in one place so that each can be made to fail
   MAXLOGIT_FAULT=io:K:kill|eio|enospc|short|fsync acts at the K-th call made through this file. */
#ifndef MAXLOGIT_FILE_H
#define MAXLOGIT_FILE_H
#include <stddef.h>
#include "base/error.h"

/* Whole-file replacement: write `path.tmp`, then file_publish syncs it, renames it over `path` and
   syncs the folder. A reader sees the old file or the new one, never a mixture. */
int file_publish(const char *temporary, const char *path, struct error *);
int file_remove(const char *path);                    /* a missing file is no error */
int file_make_folders(const char *path, struct error *); /* the folders above `path` */
int file_read(const char *path, char **text, size_t *length, struct error *); /* NUL added */

/* Append-only text with one write per call; file_append_cut truncates to `length` bytes. */
struct append;
struct append *append_open(const char *path, struct error *);
int append_write(struct append *, const void *data, size_t length, struct error *);
int append_close(struct append *);

/* An exclusive lock on `path` (created if missing), held until unlock or death; NULL with
   STATUS_FAIL when another process holds it. */
struct lock;
struct lock *lock_take(const char *path, struct error *);
void lock_release(struct lock *, const char *remove_path_or_null);

/* Called by storage around the HDF5 library's own writes, to count them as fault points too. */
int file_fault_point(struct error *);
#endif
