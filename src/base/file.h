/* file.h - the few system calls that reach the disk, in one place so that each can be made to fail
   Others may be able to write to the folder of a file: what is written never goes through a symbolic link.
   MAXLOGIT_FAULT=io:K:kill|int|term|eio|enospc|full|short|fsync acts at the K-th call made through this file (from 1):
   kill, eio: that call; enospc: that call and all later ones; full: all writes from there on, not what opens,
   locks or renames; short: the first write from there on takes only half of its bytes; fsync: the first sync
   from there on fails. */
#ifndef MAXLOGIT_BASE_FILE_H
#define MAXLOGIT_BASE_FILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* Whole-file replacement: write PATH.XXXXXXXX.tmp, then file_publish syncs it, renames it over `path` and syncs the
   folder. A reader sees the old file or the new one, never a mixture. If several write one path, the last one counts;
   each holds a lock on its temporary file until that is renamed. The next write removes files of killed writers. The
   new file keeps mode, owner and extended attributes of the one that it replaces. Here and in all that writes, removes
   or locks, a link in place of a folder of `path` is followed only if it is this user's, root's, or in a folder that
   nobody but its owner can write to. */
int file_publish(const char *temporary, const char *path, struct error *);         /* removes it on failure */
int file_write(const char *path, const void *data, size_t length, struct error *); /* both steps */
struct lock;
/* The same for who holds a lock (may be NULL): nothing is renamed, STATUS_FAIL, where it was taken away meanwhile. */
int file_write_held(const char *path, const void *data, size_t length, const struct lock *, struct error *);
int file_copy(const char *from, const char *to, struct error *); /* all of it in memory; no link */
int file_remove(const char *path);                               /* a missing file is no error */
int file_make_folders(const char *path, struct error *);         /* the folders above `path` */
int file_is_folder(const char *path);
/* Another one after whatever is done to the file, or put in its place; zeros: there is no file. */
struct file_stamp {
  uint64_t inode, size, seconds, nanoseconds;
};
struct file_stamp file_stamp(const char *path);
int file_has_changed(const char *path, const struct file_stamp *since);

/* A folder that is open stays the same one, whatever becomes of its path. FOLDER_MAKE makes it and those above it,
   durably; FOLDER_REAL refuses a link in its own place: others can foresee its name. Returns a descriptor to close, or
   -1 with errno. */
enum { FOLDER_MAKE = 1, FOLDER_REAL = 2 };
int folder_open(const char *path, int how, struct error *);
int file_remove_folder(const char *path); /* an empty one; STATUS_FAIL: it is not, or cannot be removed */
/* In such a folder; of `path` the last name counts, the rest is for messages. */
int file_write_in(int folder, const char *path, const void *data, size_t length, struct error *);
int file_remove_in(int folder, const char *name);

/* Resolves a path that a user has given, once, at the entry: a symbolic link of this user or of root is replaced by
   its target, so that files beside the target are found and the link stays. Other paths are returned as they are; `out`
   may hold the result. */
const char *file_resolve(const char *path, char out[4096]);
/* Files that this process makes from now on are closed to users who cannot read `path`. */
void file_keep_private(const char *path);
/* A descriptor to read a regular file by; of /dev/stdin, /dev/fd/N and /proc/self/fd/N whatever that is. -1: the file
   cannot be opened, or is a folder, a pipe, a socket or a device, which may never end: STATUS_USAGE. Never waits. */
int file_open(const char *path, struct error *);
/* The same of a file whose name others can foresee: never through a symbolic link. */
int file_open_plain(const char *path, struct error *);
int file_read(const char *path, char **text, size_t *length, struct error *); /* NUL added */
/* The same for a name that others can foresee: a link in its place is refused. Sets errno on failure. */
int file_read_real(const char *path, char **text, size_t *length, struct error *);

/* The last `most` bytes of a file, or all of it; NULL where it cannot be read. For memory_free. */
char *file_read_end(const char *path, size_t most, size_t *length);

/* Append-only text with one write per call; after a failure the file is what it was before the call. A file that is
   there must be regular, of this user and have one name; so must that of a lock.
   append_cut shortens it to `length` bytes. */
struct append;
struct append *append_open(const char *path, struct error *);
int append_write(struct append *, const void *data, size_t length, struct error *);
size_t append_length(const struct append *); /* bytes in the file */
int append_cut(struct append *, size_t length, struct error *);
int append_sync(struct append *, struct error *); /* what was written lasts */
int append_close(struct append *);

/* An exclusive lock on `path` (created if missing), held until unlock or death; NULL with
   STATUS_FAIL, and errno EWOULDBLOCK when another process holds it. */
struct lock *lock_take(const char *path, struct error *);
/* `path` is removed, unless another has taken the lock since (lock_was_taken). */
void lock_release(struct lock *, const char *remove_path_or_null);
/* The text of the lock's file, for others to read. */
void lock_write(struct lock *, const char *text);
/* Has another process removed the lock's file, to lock one of its own? STATUS_FAIL, then. */
int lock_was_taken(const struct lock *, struct error *);

/* Called by storage around the HDF5 library's own writes, to count them as fault points too. */
int file_fault_point(struct error *);
#endif
