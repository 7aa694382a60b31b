/* calls.c - a library to preload: each call of a program that makes, writes, syncs, renames, removes or locks a file
   below $CALLS_ROOT and succeeds is a line of $CALLS_LOG, in the order of the calls:
     THREAD PROCESS PARENT CALL PATH [OTHER PATH]
   CALLS_DELAY=MS:CALL:CALL...: before each of these calls the program waits for so many milliseconds.
   CALLS_SWAP=N:FOLDER:TARGET: before call N that names a file the folder becomes a symbolic link to TARGET, another
   user's where this one is root; it is FOLDER.was then. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The path of an open file, without " (deleted)". */
static void path_of(int fd, char out[PATH_MAX])
{
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, out, PATH_MAX - 1);
  out[n > 0 ? n : 0] = 0;
  char *end = strstr(out, " (deleted)");
  if (end) *end = 0;
}

/* The absolute form of a path that is relative to a folder: a descriptor or AT_FDCWD. */
static void path_at(int folder, const char *path, char out[PATH_MAX])
{
  char base[PATH_MAX] = "";
  if (*path != '/' && folder != AT_FDCWD) path_of(folder, base);
  if (*path != '/' && folder == AT_FDCWD && !getcwd(base, sizeof base)) *base = 0;
  if (snprintf(out, PATH_MAX, "%s%s%s", base, *path == '/' ? "" : "/", path) >= PATH_MAX) abort();
}

static int is_below_root(const char *path)
{
  const char *root = getenv("CALLS_ROOT");
  return root && *path && !strncmp(path, root, strlen(root));
}

static void swap(const char *call)
{
  static int calls;
  const char *spec = getenv("CALLS_SWAP");
  char folder[PATH_MAX], was[PATH_MAX + 4], target[PATH_MAX];
  int number = 0;
  if (strcmp(call, "open") && strcmp(call, "rename") && strcmp(call, "remove")) return;
  if (!spec || sscanf(spec, "%d:%4000[^:]:%4000s", &number, folder, target) != 3 || ++calls != number) return;
  snprintf(was, sizeof was, "%s.was", folder);
  if (syscall(SYS_renameat2, AT_FDCWD, folder, AT_FDCWD, was, 0)) {
    calls--; /* it is not there yet: before a later call */
    return;
  }
  if (symlink(target, folder)) abort();
  if (!geteuid() && lchown(folder, 65534, 65534)) abort();
}

static void delay(const char *call, const char *path)
{
  if (is_below_root(path)) swap(call);
  const char *all = getenv("CALLS_DELAY"), *at = all ? strstr(all, call) : NULL;
  const char end = at ? at[strlen(call)] : 1;
  if (!is_below_root(path) || !at || at == all || at[-1] != ':' || (end && end != ':')) return;
  const long ms = strtol(all, NULL, 10);
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void record(const char *call, const char *path, const char *other)
{
  static __thread int log = -1;
  static __thread long thread;
  const char *file = getenv("CALLS_LOG");
  const int reason = errno;
  char line[3 * PATH_MAX];
  if (!file || !is_below_root(path)) return;
  if (thread != syscall(SYS_gettid)) { /* the first call, or a child that was forked */
    thread = syscall(SYS_gettid);
    log = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  }
  const int n = snprintf(line, sizeof line, "%ld %d %d %s %s %s\n", thread, (int)getpid(), (int)getppid(),
                         call, path, other);
  if (syscall(SYS_write, log, line, (size_t)n) != n) abort();
  errno = reason;
}

/* --- opening: "make" a file that was not there, "empty" one that was, or "open" it to write ---------------- */

static int open_any(int folder, const char *path, int flags, mode_t mode)
{
  char full[PATH_MAX];
  struct stat info;
  path_at(folder, path, full);
  const int was_there = !fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW);
  if (flags & O_CREAT) delay("open", full);
  const int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
  if (fd < 0) return fd;
  if (flags & O_CREAT && !was_there)
    record("make", full, "");
  else if (flags & O_TRUNC)
    record("empty", full, "");
  else if ((flags & O_ACCMODE) != O_RDONLY)
    record("open", full, "");
  return fd;
}

static mode_t mode_of(int flags, va_list list)
{
  return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_any(AT_FDCWD, path, flags, mode);
}
int open64(const char *, int, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...)
{
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_any(folder, path, flags, mode);
}
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));

/* --- calls on what is open --------------------------------------------------------------------------------- */

static long done(long result, const char *call, const char *path)
{
  if (result >= 0) record(call, path, "");
  return result;
}

#define ON_OPEN(type, name, call, number, arguments, ...) \
  type name arguments \
  { \
    char path[PATH_MAX]; \
    path_of(fd, path); \
    delay(call, path); \
    return (type)done(syscall(number, __VA_ARGS__), call, path); \
  }

ON_OPEN(ssize_t, write, "write", SYS_write, (int fd, const void *data, size_t n), fd, data, n)
ON_OPEN(ssize_t, pwrite, "write", SYS_pwrite64, (int fd, const void *data, size_t n, off_t at), fd, data, n,
        at)
ON_OPEN(ssize_t, pwrite64, "write", SYS_pwrite64, (int fd, const void *data, size_t n, off64_t at), fd, data,
        n, at)
ON_OPEN(int, ftruncate, "cut", SYS_ftruncate, (int fd, off_t length), fd, length)
ON_OPEN(int, ftruncate64, "cut", SYS_ftruncate, (int fd, off64_t length), fd, length)
ON_OPEN(int, fsync, "sync", SYS_fsync, (int fd), fd)
ON_OPEN(int, fdatasync, "sync", SYS_fdatasync, (int fd), fd)
ON_OPEN(int, close, "close", SYS_close, (int fd), fd)
ON_OPEN(int, flock,
        operation &LOCK_EX   ? "lock"
        : operation &LOCK_UN ? "unlock"
                             : "share",
        SYS_flock, (int fd, int operation), fd, operation)

/* --- calls on names ---------------------------------------------------------------------------------------- */

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
  char a[PATH_MAX], b[PATH_MAX];
  path_at(from_folder, from, a), path_at(to_folder, to, b);
  delay("rename", b);
  const int result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
  if (!result) record("rename", a, b);
  return result;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int folder, const char *name, int flags)
{
  char path[PATH_MAX];
  path_at(folder, name, path);
  delay("remove", path);
  return (int)done(syscall(SYS_unlinkat, folder, name, flags), "remove", path);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
