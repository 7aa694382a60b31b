/* file.h - the system calls that reach the disk, in one place for fault injection
   Other users may be able to write to the folder of a file, so writing never follows a symbolic link.
   MAXLOGIT_FAULT=io:K:kill|int|term|eio|enospc|full|short|fsync acts at the K-th call made through this file (from 1):
   kill, int, term, eio: that call; enospc: that call and all later ones; full: all writes from there on, but not opens,
   locks or renames; short: the first write from there on takes only half of its bytes; fsync: the first sync from there
   on fails. */
#ifndef MAXLOGIT_BASE_FILE_H
#define MAXLOGIT_BASE_FILE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/error.h"

/* Whole-file replacement: write PATH.XXXXXXXX.tmp, sync it, rename it over `path` and sync the folder. The write is
   atomic: a reader never gets a partial file. If several processes write one path, the last one wins; each holds a lock
   on its temporary file until the rename. The next write removes files of killed writers. The new file keeps mode,
   owner and extended attributes of the old one. A link in place of a folder of `path` is followed only if it belongs to
   this user or root, or if only its owner can write to the folder that contains it. This holds for all functions that
   write, remove or lock. */
int file_write(const char *path, const void *data, size_t length, struct error *);
/* The same for the holder of a lock (may be NULL). If another process has taken the lock, nothing is renamed:
   STATUS_FAIL. */
struct lock;
int file_write_held(const char *path, const void *data, size_t length, const struct lock *, struct error *);
int file_copy(const char *from, const char *to, struct error *); /* reads all of it into memory; not a link */
int file_remove(const char *path);                               /* a missing file is not an error */
int file_make_folders(const char *path, struct error *);         /* the folders above `path` */
int file_is_folder(const char *path);
/* Is this file or folder beside the program, and not laid there by another user? Sets its path. */
int file_beside_program(char path[4096], const char *name);
/* Changes when the file is modified or replaced; zeros: there is no file. */
struct file_stamp {
  uint64_t inode, size, seconds, nanoseconds;
};
struct file_stamp file_stamp(const char *path);
int file_has_changed(const char *path, const struct file_stamp *since);

/* Open a folder. The descriptor stays valid whatever happens to the path. FOLDER_MAKE creates it and its parents,
   durably; FOLDER_REAL rejects a link, because its name is predictable. Returns a descriptor to close, or -1 with
   errno. */
enum { FOLDER_MAKE = 1, FOLDER_REAL = 2 };
int folder_open(const char *path, int how, struct error *);
int file_remove_folder(const char *path); /* an empty one; else STATUS_FAIL */
/* In an open folder; only the last name of `path` is used, the rest is for messages. */
int file_write_in(int folder, const char *path, const void *data, size_t length, struct error *);
int file_remove_in(int folder, const char *name);

/* Resolve a path that a user has given, once, at the entry. A symbolic link of this user or of root is replaced by its
   target, so that files beside the target are found and the link stays. Other paths are returned unchanged; `out` may
   hold the result. */
const char *file_resolve(const char *path, char out[4096]);
/* From now on this process creates files that are unreadable for users without read access to `path`. */
void file_keep_private(const char *path);
/* The same for these rights of group and others (S_IRWXG, S_IRWXO). */
void file_close_to(mode_t closed);
/* Those that a file, or a folder above it, does not give to users of a group, and to others; where one has an access
   list, at least those. of_copy: at most those, of what anybody else may have. */
mode_t file_closed(const char *path, gid_t group, int of_copy);
/* The group of a file, or the one that a new file gets. */
gid_t file_group(const char *path);
/* Open a regular file for reading; /dev/stdin, /dev/fd/N and /proc/self/fd/N may be of any type. -1: the file cannot be
   opened; STATUS_USAGE: it is a folder, a pipe, a socket or a device, which may never end. Never blocks. */
int file_open(const char *path, struct error *);
/* The same for a file with a predictable name: never follows a symbolic link. */
int file_open_plain(const char *path, struct error *);
/* 0 if a file is there that begins otherwise, so that it is not ours to write or remove. An empty one
   has no owner, nor have zeros, which a power failure leaves. */
int file_may_be_ours(const char *path, const char *begin);
/* NUL added. A file of more than a third of the memory is refused. */
int file_read(const char *path, char **text, size_t *length, struct error *);
/* The same for a file with a predictable name: rejects a link. Sets errno on failure. */
int file_read_real(const char *path, char **text, size_t *length, struct error *);
/* For a file that will be mapped, which may exceed the memory: STATUS_FAIL if it is larger than a third of the memory
   and less than half of it is stored. Some file systems report no blocks; their files pass. */
int file_check_mapped(int fd, const char *path, struct error *);

/* The last `most` bytes of a file as file_read_held opens it, or all of it; the caller calls memory_free. NULL if it
   cannot be read. */
char *file_read_end(const char *path, size_t most, size_t *length);

/* Append-only text with one write per call; after a failure the file is as before the call. An existing file must be
   regular and have one name. A new one is as private as the file that the lock (may be NULL) guards. append_cut
   shortens it to `length` bytes; to 0 it replaces a file of another user, or one that is less private. */
struct append;
struct append *append_open(const char *path, const struct lock *, struct error *);
int append_write(struct append *, const void *data, size_t length, struct error *);
size_t append_length(const struct append *); /* bytes in the file */
int append_cut(struct append *, size_t length, struct error *);
int append_sync(struct append *, struct error *); /* makes earlier writes durable */
int append_close(struct append *);

/* Take an exclusive lock on `path` (created if missing), held until release or death. NULL with STATUS_FAIL, and errno
   EWOULDBLOCK if another process holds it. */
struct lock *lock_take(const char *path, struct error *);
/* Does another process hold the lock? Does not create the file. */
int lock_is_held(const char *path);
/* Release the lock and remove `path`, unless another process has taken the lock (lock_was_taken). */
void lock_release(struct lock *, const char *remove_path_or_null);
/* The lock guards the file at `path`, as it is now: file_write_held keeps the mode and owner of that file, not those
   of a file that another user puts in its place. */
void lock_guard(struct lock *, const char *path);
/* file_close_to what the guarded file does not give. For programs: it narrows the umask. */
void lock_keep_private(const struct lock *);
/* file_read of a file in a folder that others may write to: a link of another user except root is refused,
   because it may lead to any file of the reader. The lock (may be NULL) guards the file that was read. */
int file_read_held(const char *path, char **text, size_t *length, struct lock *, struct error *);
/* Write a text to the lock's file, for other processes. */
void lock_write(struct lock *, const char *text);
/* STATUS_FAIL if another process has removed the lock's file to lock one of its own. */
int lock_was_taken(const struct lock *, struct error *);
/* This process is run_apart's child: its locks are held by the parent, which waits. */
void lock_is_parents(void);

/* Called by storage around the HDF5 library's own writes, to count them as fault points, too. */
int file_fault_point(struct error *);
#endif
