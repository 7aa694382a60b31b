/* file.c - the calls that reach the disk */
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"

/* --- the calls, each of which can be made to fail ------------------------------------------------------ */

enum call { CALL_OPEN, CALL_WRITE, CALL_FSYNC, CALL_RENAME, CALL_CUT, CALL_OTHER };
enum fault { FAULT_NONE, FAULT_ERROR, FAULT_SHORT };

static atomic_long call_count;
static atomic_int fault_done;

/* What MAXLOGIT_FAULT wants of this call; errno is set for FAULT_ERROR. */
static enum fault fault_now(enum call call)
{
  long number = atomic_fetch_add(&call_count, 1) + 1, k = 0;
  char kind[8] = "";
  const char *spec = getenv("MAXLOGIT_FAULT");
  if (!spec || sscanf(spec, "io:%ld:%7s", &k, kind) != 2 || number < k) return FAULT_NONE;
  if (!strcmp(kind, "enospc") || (!strcmp(kind, "full") && call == CALL_WRITE)) {
    errno = ENOSPC;
    return FAULT_ERROR;
  }
  if (number == k && !strcmp(kind, "kill")) raise(SIGKILL);
  if (number == k && !strcmp(kind, "int")) raise(SIGINT);
  if (number == k && !strcmp(kind, "term")) raise(SIGTERM);
  int hit = (number == k && !strcmp(kind, "eio")) || (!strcmp(kind, "fsync") && call == CALL_FSYNC) ||
            (!strcmp(kind, "short") && call == CALL_WRITE);
  if (!hit || atomic_exchange(&fault_done, 1)) return FAULT_NONE;
  errno = EIO;
  return !strcmp(kind, "short") ? FAULT_SHORT : FAULT_ERROR;
}

static int call_open(const char *path, int flags, mode_t mode)
{
  if (flags & O_CREAT && fault_now(CALL_OPEN)) return -1;
  int fd;
  do fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

static ssize_t call_write(int fd, const void *data, size_t length)
{
  enum fault fault = fault_now(CALL_WRITE);
  if (fault == FAULT_ERROR) return -1;
  ssize_t n;
  do n = write(fd, data, fault == FAULT_SHORT ? (length + 1) / 2 : length);
  while (n < 0 && errno == EINTR);
  return n;
}

static int call_fsync(int fd)
{
  if (fault_now(CALL_FSYNC)) return -1;
  return fsync(fd);
}

static int call_rename(const char *from, const char *to)
{
  return fault_now(CALL_RENAME) ? -1 : rename(from, to);
}

static int call_cut(int fd, size_t length) { return fault_now(CALL_CUT) ? -1 : ftruncate(fd, (off_t)length); }

int file_fault_point(struct error *e)
{
  if (fault_now(CALL_OTHER) == FAULT_ERROR) return error_set(e, STATUS_FAIL, "%s", strerror(errno));
  return STATUS_OK;
}

/* --- whole files --------------------------------------------------------------------------------------- */

static int fail(struct error *e, const char *what, const char *path)
{
  return error_set(e, STATUS_FAIL, "cannot %s %s: %s", what, path, strerror(errno));
}

static int write_all(int fd, const char *data, size_t length)
{
  while (length > 0) {
    ssize_t n = call_write(fd, data, length);
    if (n < 0) return -1;
    data += n;
    length -= (size_t)n;
  }
  return 0;
}

/* A file system that cannot sync folders says EINVAL. */
static int sync_folder(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return -1;
  int result = call_fsync(fd), reason = errno;
  close(fd);
  errno = reason;
  return result && reason == EINVAL ? 0 : result;
}

/* The folder that holds `path`, in memory to free. */
static char *folder_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash) return memory_text(".");
  char *folder = memory_text(path);
  folder[slash == path ? 1 : slash - path] = 0;
  return folder;
}

struct lock {
  int fd;
  char *path;
};

/* Does `path` still name the file that is open as fd? Who held a lock on it may have renamed or removed it. */
static int is_same_file(int fd, const char *path)
{
  struct stat open_file, named;
  return !fstat(fd, &open_file) && !stat(path, &named) && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

int lock_was_taken(const struct lock *lock, struct error *e)
{
  if (is_same_file(lock->fd, lock->path)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "%s was removed: another process has taken this run over", lock->path);
}

/* The new file replaces one that is there: with its mode, owner and extended attributes. If its owner or group
   cannot be kept, the new file loses the rights of that owner or group, so that no other user gains access. */
static void keep_attributes(int fd, const char *path)
{
  enum { LONGEST = 1 << 16 }; /* of a list and of a value, on Linux */
  struct stat old, new;
  if (lstat(path, &old) || !S_ISREG(old.st_mode) || fstat(fd, &new)) return;
  mode_t mode = old.st_mode & 07777;
  int same_group = old.st_gid == new.st_gid || !fchown(fd, (uid_t)-1, old.st_gid);
  int same_owner = old.st_uid == new.st_uid || !fchown(fd, old.st_uid, (gid_t)-1);
  if (!same_group) mode &= (mode_t)~02070;
  if (!same_owner) mode &= (mode_t)~04002;
  char *names = memory_new(LONGEST, 2), *value = names + LONGEST;
  ssize_t length = same_group && same_owner ? llistxattr(path, names, LONGEST) : 0;
  for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
    ssize_t size = lgetxattr(path, names + at, value, LONGEST);
    if (size >= 0 && fsetxattr(fd, names + at, value, (size_t)size, 0))
      continue; /* not one that can be set here */
  }
  memory_free(names);
  fchmod(fd, mode);
}

/* file_publish of what is open as fd, which stays open: a lock on it lasts until the file has its name. */
static int publish(int fd, const char *temporary, const char *path, const struct lock *held, struct error *e)
{
  char *folder = folder_of(path);
  int status = STATUS_OK;
  keep_attributes(fd, path);
  if (call_fsync(fd))
    status = fail(e, "sync", path);
  else if (held && lock_was_taken(held, e)) /* now: to sync may have taken long */
    status = e->status;
  else if (call_rename(temporary, path))
    status = fail(e, "write", path);
  if (status)
    unlink(temporary);
  else if (sync_folder(folder))
    status = fail(e, "sync folder", folder);
  memory_free(folder);
  return status;
}

int file_publish(const char *temporary, const char *path, struct error *e)
{
  int fd = open(temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return fail(e, "sync", temporary);
  int status = publish(fd, temporary, path, NULL, e);
  close(fd);
  return status;
}

/* The temporary file of `path` is PATH.XXXXXXXX.tmp: other users cannot guess the name and put a link there. */
enum { RANDOM_DIGITS = 8, TEMPORARY_END = RANDOM_DIGITS + 5 };

static int temporary_name(char out[4096], const char *path)
{
  uint32_t word;
  if (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word) word = (uint32_t)(getpid() + clock());
  return snprintf(out, 4096, "%s.%08x.tmp", path, (unsigned)word) < 4096;
}

/* Is this the name of a file on its way to one called `base`? */
static int is_temporary(const char *name, const char *base)
{
  size_t length = strlen(base), digits;
  if (strncmp(name, base, length) || strlen(name) != length + TEMPORARY_END || name[length] != '.') return 0;
  digits = strspn(name + length + 1, "0123456789abcdef");
  return digits == RANDOM_DIGITS && !strcmp(name + length + 1 + digits, ".tmp");
}

/* A new file. Its writer holds a lock on it; until that is taken, another may remove it as a killed writer's. */
static int open_temporary(char name[4096], const char *path, mode_t mode)
{
  for (int tries = 0; tries < 100; tries++) {
    temporary_name(name, path);
    int fd = call_open(name, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return -1;
    int failed;
    do failed = flock(fd, LOCK_EX); /* another may look for a moment whether it is a killed writer's */
    while (failed && errno == EINTR);
    if (is_same_file(fd, name)) return fd; /* where locks cannot be had, all go on */
    close(fd);
  }
  return -1;
}

/* Files of killed writers: regular, of this user, and not locked. */
static void remove_left(const char *path)
{
  char *folder = folder_of(path);
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  DIR *d = opendir(folder);
  for (struct dirent *entry; d && (entry = readdir(d));) {
    struct stat info;
    if (!is_temporary(entry->d_name, base)) continue;
    if (fstatat(dirfd(d), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode)) continue;
    int fd = info.st_uid == geteuid()
               ? openat(dirfd(d), entry->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
               : -1;
    if (fd < 0) continue;
    struct stat again; /* it may have got its name meanwhile */
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstatat(dirfd(d), entry->d_name, &again, AT_SYMLINK_NOFOLLOW) &&
        again.st_ino == info.st_ino && again.st_dev == info.st_dev)
      unlinkat(dirfd(d), entry->d_name, 0);
    close(fd);
  }
  if (d) closedir(d);
  memory_free(folder);
}

int file_write(const char *path, const void *data, size_t length, struct error *e)
{
  return file_write_held(path, data, length, NULL, e);
}

int file_write_held(const char *path, const void *data, size_t length, const struct lock *held,
                    struct error *e)
{
  char temporary[4096];
  struct stat old;
  if (!temporary_name(temporary, path)) return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  if (!stat(path, &old) && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))
    return error_set(e, STATUS_FAIL, "cannot write %s: it must be a regular file, got a device or a pipe",
                     path);
  int replaces = !lstat(path, &old) && S_ISREG(old.st_mode);
  int fd = open_temporary(temporary, path, replaces ? old.st_mode & 0600 : 0666), status;
  if (fd < 0) return fail(e, "write", path);
  if (write_all(fd, data, length)) {
    status = fail(e, "write", path);
    unlink(temporary);
  } else
    status = publish(fd, temporary, path, held, e);
  close(fd); /* all of it has been synced: nothing is left to fail */
  remove_left(path);
  return status;
}

int file_copy(const char *from, const char *to, struct error *e)
{
  char *text = NULL;
  size_t length = 0;
  if (file_is_link(from))
    return error_set(e, STATUS_FAIL, "cannot copy %s: it is a symbolic link, which may lead to any file",
                     from);
  int status = file_read(from, &text, &length, e);
  if (!status) status = file_write(to, text, length, e);
  memory_free(text);
  return status;
}

int file_remove(const char *path) { return unlink(path) && errno != ENOENT ? STATUS_FAIL : STATUS_OK; }

int file_is_link(const char *path)
{
  struct stat info;
  return !lstat(path, &info) && S_ISLNK(info.st_mode);
}

const char *file_resolve(const char *path, char out[4096])
{
  struct stat info;
  int own = !lstat(path, &info) && S_ISLNK(info.st_mode) && (info.st_uid == geteuid() || !info.st_uid);
  return own && realpath(path, out) ? out : path;
}

int file_is_folder(const char *path)
{
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

int file_make_folders(const char *path, struct error *e)
{
  if (!strncmp(path, "~/", 2)) /* whoever removes that folder may remove another one */
    return error_set(e, STATUS_USAGE,
                     "%s: the shell has left ~ as it is, which would be a folder; write $HOME", path);
  char *folder = folder_of(path);
  int status = STATUS_OK;
  for (char *c = folder + 1; !status; c++) {
    char old = *c;
    if (old && old != '/') continue;
    *c = 0;
    if (mkdir(folder, 0777) && errno != EEXIST) status = fail(e, "make the folder", folder);
    *c = old;
    if (!old) break;
  }
  memory_free(folder);
  return status;
}

/* A descriptor of this process that the user has named: from a shell's <(...), for instance. */
static int is_descriptor(const char *path)
{
  return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/self/fd/", 14);
}

int file_open(const char *path, struct error *e)
{
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &info)) {
    error_set(e, STATUS_USAGE, "cannot read %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
  }
  const char *found = S_ISDIR(info.st_mode)                          ? "a folder"
                      : S_ISREG(info.st_mode) || is_descriptor(path) ? NULL
                      : S_ISFIFO(info.st_mode)                       ? "a named pipe, which need not end"
                                                                     : "a device, which need not end";
  if (!found) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
  }
  error_set(e, STATUS_USAGE, "cannot read %s: %s; a file is wanted", path, found);
  close(fd);
  return -1;
}

int file_read(const char *path, char **text, size_t *length, struct error *e)
{
  int fd = file_open(path, e);
  if (fd < 0) return STATUS_USAGE;
  struct stat info = {0};
  size_t room = fstat(fd, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size + 2 : 65536, used = 0;
  char *data = memory_new(room, 1);
  ssize_t n;
  while ((n = read(fd, data + used, room - used - 1)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    used += (size_t)n;
    if (used == room - 1) {
      data = memory_grow(data, room, 2 * room, 1);
      room *= 2;
    }
  }
  int reason = errno;
  close(fd);
  if (n) {
    memory_free(data);
    return error_set(e, STATUS_FAIL, "cannot read %s: %s", path, strerror(reason));
  }
  data[used] = 0;
  *text = data;
  if (length) *length = used;
  return STATUS_OK;
}

char *file_read_end(const char *path, size_t most, size_t *length)
{
  int fd = file_open(path, NULL);
  struct stat info;
  char *data = NULL;
  if (fd >= 0 && fstat(fd, &info) == 0) {
    size_t size = (size_t)info.st_size < most ? (size_t)info.st_size : most, used = 0;
    data = memory_new(size + 1, 1);
    for (ssize_t n = 1; used < size && n > 0; used += n > 0 ? (size_t)n : 0)
      n = pread(fd, data + used, size - used, info.st_size - (off_t)(size - used));
    *length = used;
    if (used < size) {
      memory_free(data);
      data = NULL;
    }
  }
  if (fd >= 0) close(fd);
  return data;
}

/* --- append-only text ---------------------------------------------------------------------------------- */

struct append {
  int fd;
  size_t length;
  char *path;
};

/* Opens, or makes, a file whose name others can foresee, in a folder that others may write to: a regular file of this
   user (or of the folder's owner: some file systems give all files one) with one name. -1, with an error, otherwise. */
static int open_own(const char *path, int flags, const char *what, struct stat *info, struct error *e)
{
  struct stat folder_info;
  int fd = call_open(path, flags | O_NONBLOCK, 0666);
  if (fd < 0 && errno == ELOOP)
    error_set(e, STATUS_FAIL,
              "cannot %s %s: it is a symbolic link, and may lead to a file of yours; remove it", what, path);
  else if (fd < 0 || fstat(fd, info))
    fail(e, what, path);
  else {
    char *folder = folder_of(path);
    int known = !stat(folder, &folder_info), own = info->st_uid == geteuid();
    memory_free(folder);
    if (S_ISREG(info->st_mode) && info->st_nlink <= 1 &&
        (own || (known && info->st_uid == folder_info.st_uid)))
      return fd;
    error_set(e, STATUS_FAIL, "cannot %s %s: it is %s; remove it", what, path,
              !S_ISREG(info->st_mode) ? "not a regular file"
              : info->st_nlink > 1    ? "a file with more than one hard link"
                                      : "another user's file");
  }
  if (fd >= 0) close(fd);
  return -1;
}

struct append *append_open(const char *path, struct error *e)
{
  struct stat now;
  int fd = open_own(path, O_WRONLY | O_CREAT | O_APPEND, "write", &now, e);
  if (fd < 0) return NULL;
  struct append *a = memory_new(1, sizeof *a);
  *a = (struct append){.fd = fd, .length = (size_t)now.st_size, .path = memory_text(path)};
  return a;
}

int append_write(struct append *a, const void *data, size_t length, struct error *e)
{
  if (write_all(a->fd, data, length)) {
    int status = fail(e, "write", a->path);
    if (ftruncate(a->fd, (off_t)a->length)) /* what was there stays whole */
      warning("%s may end in half a line", a->path);
    return status;
  }
  a->length += length;
  return STATUS_OK;
}

size_t append_length(const struct append *a) { return a->length; }

int append_cut(struct append *a, size_t length, struct error *e)
{
  if (call_cut(a->fd, length)) return fail(e, "shorten", a->path);
  a->length = length;
  return STATUS_OK;
}

int append_close(struct append *a)
{
  if (!a) return STATUS_OK;
  int failed = close(a->fd);
  memory_free(a->path);
  memory_free(a);
  return failed ? STATUS_FAIL : STATUS_OK;
}

/* --- locks --------------------------------------------------------------------------------------------- */

struct lock *lock_take(const char *path, struct error *e)
{
  for (;;) {
    struct stat info;
    int fd = open_own(path, O_RDWR | O_CREAT, "lock", &info, e);
    if (fd < 0) return NULL;
    if (flock(fd, LOCK_EX | LOCK_NB)) {
      int reason = errno;
      if (reason == EWOULDBLOCK)
        error_set(e, STATUS_FAIL, "%s is locked: another process is writing this run", path);
      else
        fail(e, "lock", path);
      close(fd);
      errno = reason;
      return NULL;
    }
    if (is_same_file(fd, path)) {
      struct lock *lock = memory_new(1, sizeof *lock);
      lock->fd = fd;
      lock->path = memory_text(path);
      return lock;
    }
    close(fd);
  }
}

void lock_write(struct lock *lock, const char *text)
{
  ssize_t length = (ssize_t)strlen(text); /* never empty between: first the new text, then its end */
  if (pwrite(lock->fd, text, (size_t)length, 0) == length && ftruncate(lock->fd, length)) return;
}

void lock_release(struct lock *lock, const char *path)
{
  if (!lock) return;
  if (path && is_same_file(lock->fd, path)) unlink(path);
  close(lock->fd);
  memory_free(lock->path);
  memory_free(lock);
}
