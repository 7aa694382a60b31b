/* file.c - the system calls that reach the disk */
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/platform.h"

/* --- system calls with fault injection --------------------------------------------------------------- */

enum call { CALL_OPEN, CALL_WRITE, CALL_FSYNC, CALL_RENAME, CALL_CUT, CALL_OTHER };
enum fault { FAULT_NONE, FAULT_ERROR, FAULT_SHORT };

static atomic_long call_count;
static atomic_int fault_done;

/* The fault that MAXLOGIT_FAULT sets for this call; errno is set for FAULT_ERROR. */
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

/* Rights that new files of this process do not give: where a folder has a default ACL, no umask counts (acl(5)). */
static mode_t closed_to;

static int call_open(int folder, const char *name, int flags, mode_t mode)
{
  if (flags & O_CREAT && fault_now(CALL_OPEN)) return -1;
  int fd;
  do fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW, mode & ~closed_to);
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

static int call_rename(int from_folder, const char *from, int to_folder, const char *to)
{
  return fault_now(CALL_RENAME) ? -1 : renameat(from_folder, from, to_folder, to);
}

static int call_cut(int fd, size_t length) { return fault_now(CALL_CUT) ? -1 : ftruncate(fd, (off_t)length); }

int file_fault_point(struct error *e)
{
  if (fault_now(CALL_OTHER) == FAULT_ERROR) return error_set(e, STATUS_FAIL, "%s", strerror(errno));
  return STATUS_OK;
}

static int fail(struct error *e, const char *what, const char *path)
{
  return error_set(e, STATUS_FAIL, "cannot %s %s: %s%s", what, path, strerror(errno),
                   errno == EMFILE ? " (see ulimit -n)" : "");
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

/* --- folders ------------------------------------------------------------------------------------------- */

/* A folder that others can write to may become a link at any moment. So a path is walked once, from open folder to open
   folder. Files are then opened, renamed and removed by name in the open folder. */

enum { MOST_LINKS = 40, PATH_ROOM = 8192 };

static const char *name_in(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Ignores EINVAL, which a file system returns if it cannot sync folders. */
static int sync_folder(int folder)
{
  int fd = openat(folder, ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return -1;
  int result = call_fsync(fd), reason = errno;
  close(fd);
  errno = reason;
  return result && reason == EINVAL ? 0 : result;
}

static int is_own_link(const struct stat *info)
{
  return S_ISLNK(info->st_mode) && (info->st_uid == geteuid() || !info->st_uid);
}

/* A link of another user may lead anywhere. It is trusted only if its owner also owns the folder, and no other user can
   write there. */
static int is_trusted_link(const struct stat *info, int folder)
{
  struct stat holder;
  if (!S_ISLNK(info->st_mode) || is_own_link(info)) return S_ISLNK(info->st_mode);
  return !fstat(folder, &holder) && holder.st_uid == info->st_uid && !(holder.st_mode & 022);
}

/* The target of the link that is open as fd; "": unknown. */
static const char *read_link(int fd, char target[4096])
{
  platform_read_link(fd, target, 4096);
  return target;
}

/* Open a subfolder; -1 with errno. If the name is a link that may be followed, `target` is set. */
static int step_into(int folder, const char *name, int how, int is_last, char target[4096])
{
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  struct stat info;
  int fd = openat(folder, name, flags);
  *target = 0;
  if (fd < 0 && errno == ENOENT && how & FOLDER_MAKE) {
    if (mkdirat(folder, name, 0777 & ~closed_to) ? errno != EEXIST : sync_folder(folder)) return -1;
    fd = openat(folder, name, flags);
  }
  if (fd >= 0 || (errno != EACCES && errno != ENOTDIR && errno != ELOOP)) return fd;
  fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* a link, or a folder that cannot be listed */
  if (fd < 0 || fstat(fd, &info) || S_ISDIR(info.st_mode)) return fd;
  if (!(is_last && how & FOLDER_REAL) && is_trusted_link(&info, folder)) read_link(fd, target);
  close(fd);
  errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
  return -1;
}

/* Open the folder with the path of the first *length bytes of `path`. -1 with errno; *length then ends after the folder
   that could not be reached. */
static int walk(const char *path, size_t *length, int how)
{
  char rest[PATH_ROOM], name[PATH_ROOM], target[4096];
  const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  int at = open(*path == '/' ? "/" : ".", flags), links = 0;
  if (at < 0 || snprintf(rest, sizeof rest, "%.*s", (int)*length, path) >= PATH_ROOM) {
    if (at >= 0) close(at), errno = ENAMETOOLONG;
    return -1;
  }
  for (const char *from = rest + strspn(rest, "/"), *behind; at >= 0 && *from; from = behind) {
    size_t size = strcspn(from, "/"), begin = 0;
    behind = from + size + strspn(from + size, "/");
    if (!links) *length = (size_t)(from - rest) + size;
    snprintf(name, sizeof name, "%.*s", (int)size, from);
    int next = step_into(at, name, how, !*behind, target), reason = errno;
    if (*target && links++ < MOST_LINKS && (begin = strlen(target)) + strlen(behind) + 2 < PATH_ROOM) {
      memmove(rest + begin + 1, behind, strlen(behind) + 1);
      memcpy(rest, target, begin), rest[begin] = '/';
      behind = rest + strspn(rest, "/");
      next = *target == '/' ? open("/", flags) : fcntl(at, F_DUPFD_CLOEXEC, 0);
    }
    close(at);
    at = next;
    errno = reason;
  }
  return at;
}

/* Open the folder of `path` for an action, which the error message names. -1, with an error and errno. */
static int folder_of(const char *path, const char *what, struct error *e)
{
  size_t length = (size_t)(name_in(path) - path);
  int folder = walk(path, &length, 0), reason = errno;
  if (folder >= 0) return folder;
  if (reason == ELOOP)
    error_set(
      e, STATUS_FAIL,
      "cannot %s %s: %.*s is a symbolic link that another user may have laid; name the folder behind it",
      what, path, (int)length, path);
  else
    fail(e, what, path);
  errno = reason;
  return -1;
}

/* In a folder such as /tmp, another user may have made the folder runs before. */
static void warn_of_laid(const char *path)
{
  static atomic_int said;
  struct stat above, own;
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "/"), path);
  if (*name == '.' || stat(".", &above) || stat(name, &own) || !(above.st_mode & S_ISVTX) || !own.st_uid ||
      own.st_uid == geteuid() || own.st_uid == above.st_uid || atomic_exchange(&said, 1))
    return;
  warning("the folder %s is another user's, who can exchange what is in it", name);
}

static int open_folder(const char *path, size_t length, int how, struct error *e)
{
  if (how & FOLDER_MAKE && !strncmp(path, "~/", 2)) { /* a later `rm -r ~` could remove the home folder */
    error_set(e, STATUS_USAGE, "%s: the shell has left ~ as it is, which would be a folder; write $HOME",
              path);
    return -1;
  }
  int whole = (int)(length > 1 && path[length - 1] == '/' ? length - 1 : length);
  int folder = walk(path, &length, how), reason = errno;
  if (folder < 0 && reason == ELOOP)
    error_set(e, STATUS_FAIL, "%.*s is a symbolic link, and may lead to a folder of yours; remove it",
              (int)length, path);
  else if (folder < 0)
    error_set(e, STATUS_FAIL, "cannot %s the folder %.*s: %s", how & FOLDER_MAKE ? "make" : "open", whole,
              path, strerror(reason));
  if (folder >= 0 && how & FOLDER_MAKE && *path != '/') warn_of_laid(path);
  errno = reason;
  return folder;
}

int folder_open(const char *path, int how, struct error *e)
{
  return open_folder(path, strlen(path), how, e);
}

int file_make_folders(const char *path, struct error *e)
{
  int fd = open_folder(path, (size_t)(name_in(path) - path), FOLDER_MAKE, e);
  if (fd < 0) return e && e->status ? e->status : STATUS_FAIL;
  close(fd);
  return STATUS_OK;
}

int file_remove_in(int folder, const char *name)
{
  return unlinkat(folder, name, 0) && errno != ENOENT ? STATUS_FAIL : STATUS_OK;
}

static int remove_any(const char *path, int flags)
{
  size_t length = (size_t)(name_in(path) - path);
  int folder = walk(path, &length, 0);
  if (folder < 0) return errno == ENOENT ? STATUS_OK : STATUS_FAIL;
  int status = unlinkat(folder, name_in(path), flags) && errno != ENOENT ? STATUS_FAIL : STATUS_OK;
  close(folder);
  return status;
}

int file_remove(const char *path) { return remove_any(path, 0); }
int file_remove_folder(const char *path) { return remove_any(path, AT_REMOVEDIR); }

int file_is_folder(const char *path)
{
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

int file_beside_program(char path[4096], const char *name)
{
  struct stat program, found;
  platform_program(path, 4096);
  char *end = strrchr(path, '/');
  if (!end || stat(path, &program) || (size_t)(end + 1 - path) + strlen(name) >= 4096) return 0;
  memcpy(end + 1, name, strlen(name) + 1);
  do { /* each folder of the name could be of another user */
    end = strchr(end + 1, '/');
    if (end) *end = 0;
    if (stat(path, &found) || (found.st_uid && found.st_uid != geteuid() && found.st_uid != program.st_uid))
      return 0;
    if (end) *end = '/';
  } while (end);
  return 1;
}

struct file_stamp file_stamp(const char *path)
{
  struct stat info;
  if (stat(path, &info)) return (struct file_stamp){0};
  return (struct file_stamp){(uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                             (uint64_t)info.st_mtim.tv_nsec};
}

int file_has_changed(const char *path, const struct file_stamp *since)
{
  const struct file_stamp now = file_stamp(path);
  return memcmp(&now, since, sizeof now) != 0;
}

const char *file_resolve(const char *path, char out[4096])
{
  char longer[8192], target[4096];
  const char *found = path;
  for (int links = 0; links < MOST_LINKS; links++) {
    struct stat info;
    int fd = open(found, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int is_link = fd >= 0 && !fstat(fd, &info) && is_own_link(&info) && *read_link(fd, target);
    if (fd >= 0) close(fd);
    if (!is_link) break;
    int before = *target == '/' ? 0 : (int)(name_in(found) - found);
    int length = snprintf(longer, sizeof longer, "%.*s%s", before, found, target);
    if (length >= 4096) return path;
    memcpy(out, longer, (size_t)length + 1);
    found = out;
  }
  return access(found, F_OK) ? path : found; /* the link text in /proc is not a path */
}

/* For users of `group`. To pass through a folder is to read its files. */
static mode_t closed_by(const struct stat *info, gid_t group)
{
  const mode_t open = S_ISDIR(info->st_mode) ? (info->st_mode & (S_IXGRP | S_IXOTH)) << 2 : info->st_mode;
  const int to_group = open & S_IRGRP && (info->st_gid == group || open & S_IROTH);
  return (to_group ? 0 : S_IRWXG) | (open & S_IROTH ? 0 : S_IRWXO);
}

void file_close_to(mode_t closed)
{
  closed_to |= closed;
  umask(umask(closed) | closed);
}

/* With an access list the rights of the group are the most that anybody named in it may have. */
static mode_t closed_at(const char *path, const struct stat *info, gid_t group, int of_copy)
{
  if (!platform_has_access_list(path)) return closed_by(info, group);
  const mode_t closed = closed_by(info, info->st_gid);
  return closed & S_IRWXO && !of_copy ? closed | S_IRWXG : closed;
}

mode_t file_closed(const char *path, gid_t group, int of_copy)
{
  char real[PATH_MAX];
  struct stat info;
  if (stat(path, &info)) return 0;
  mode_t closed = closed_at(path, &info, group, of_copy);
  if (!realpath(path, real)) return closed; /* a pipe */
  for (char *slash; (slash = strrchr(real, '/')) && slash > real;) {
    *slash = 0;
    if (!stat(real, &info)) closed |= closed_at(real, &info, group, of_copy);
  }
  return closed;
}

gid_t file_group(const char *path)
{
  char above[PATH_MAX];
  struct stat info;
  if (!stat(path, &info)) return info.st_gid;
  snprintf(above, sizeof above, "./%s", path);
  char *begin = *path == '/' ? above + 2 : above;
  for (char *slash; (slash = strrchr(begin, '/'));) {
    slash[slash == begin] = 0;
    if (!stat(begin, &info)) return info.st_mode & S_ISGID ? info.st_gid : getegid();
    if (slash == begin) break;
  }
  return getegid();
}

void file_keep_private(const char *path)
{
  struct stat info;
  if (!stat(path, &info)) file_close_to(closed_by(&info, info.st_gid));
}

/* --- whole files --------------------------------------------------------------------------------------- */

struct lock {
  int fd;
  char *path;
  struct stat *guarded; /* the file at its last writing, st_nlink = 0 if there was none; NULL: not known */
};

/* Is this the file that is open as fd? Another process may have renamed or removed it. */
static int is_same_file(int fd, int folder, const char *name)
{
  struct stat open_file, named;
  return !fstat(fd, &open_file) && !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static int is_parents; /* the files of locks are closed here */
void lock_is_parents(void) { is_parents = 1; }

int lock_was_taken(const struct lock *lock, struct error *e)
{
  if (is_parents) return STATUS_OK;
  if (is_same_file(lock->fd, AT_FDCWD, lock->path)) return STATUS_OK;
  return error_set(e, STATUS_FAIL, "%s was removed: another process has taken this run over", lock->path);
}

/* A new file may have the number of a removed one, but not its owner. */
static int is_that_file(const struct stat *a, const struct stat *b)
{
  return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_uid == b->st_uid;
}

/* The file whose attributes the next one gets. It is the one of that name, or the one that the lock guards if another
   user has renamed or replaced that: a file of more rights may lie there now. Returns 0 if there is none. */
static int find_former(struct stat *former, int folder, const char *name, const struct lock *held)
{
  const struct stat *last = held ? held->guarded : NULL;
  if (fstatat(folder, name, former, AT_SYMLINK_NOFOLLOW) || !S_ISREG(former->st_mode))
    *former = (struct stat){0};
  if (last && !is_that_file(former, last)) *former = *last;
  return former->st_nlink != 0;
}

/* The new file gets mode, owner and extended attributes of the file that it replaces. If owner or group cannot be kept,
   the new file loses their rights, so that no other user gains access. */
static void keep_attributes(int fd, int folder, const char *name, const struct lock *held)
{
  struct stat old, new;
  if (!find_former(&old, folder, name, held) || fstat(fd, &new)) return;
  mode_t mode = old.st_mode & 07777;
  int same_group = old.st_gid == new.st_gid || !fchown(fd, (uid_t)-1, old.st_gid);
  int same_owner = old.st_uid == new.st_uid || !fchown(fd, old.st_uid, (gid_t)-1);
  if (!same_group) mode &= (mode_t)~02070;
  if (!same_owner) mode &= (mode_t)~04002;
  struct stat now;
  int from = call_open(folder, name, O_RDONLY | O_NONBLOCK, 0);
  char *buffer = memory_new(PLATFORM_ATTRIBUTES, 1);
  if (from >= 0 && same_group && same_owner && !fstat(from, &now) && is_that_file(&now, &old))
    platform_copy_attributes(from, fd, buffer);
  memory_free(buffer);
  if (from >= 0) close(from);
  fchmod(fd, mode & ~closed_to);
}

/* A pending rename in an open folder. */
struct file_move {
  int folder;
  const char *from, *to, *path; /* path: of `to`, for messages */
};

/* Sync a file that is open as fd, and rename it. It stays open, so that a lock on it lasts until the rename is done. */
static int publish(int fd, const struct file_move *p, const struct lock *held, struct error *e)
{
  int status = STATUS_OK;
  keep_attributes(fd, p->folder, p->to, held);
  if (call_fsync(fd))
    status = fail(e, "sync", p->path);
  else if (held && lock_was_taken(held, e)) /* checked here, because the sync may take long */
    status = e->status;
  else if (call_rename(p->folder, p->from, p->folder, p->to))
    status = fail(e, "write", p->path);
  else if (held && held->guarded && fstat(fd, held->guarded))
    *held->guarded = (struct stat){0};
  if (status)
    unlinkat(p->folder, p->from, 0);
  else if (sync_folder(p->folder)) {
    int length = (int)(name_in(p->path) - p->path);
    status = error_set(e, STATUS_FAIL, "cannot sync folder %.*s: %s", length > 1 ? length - 1 : 1,
                       length ? p->path : ".", strerror(errno));
  }
  return status;
}

/* The temporary file of `path` is PATH.XXXXXXXX.tmp. It has one of the first SLOTS numbers, so that a killed writer's
   file can be found, or a random number if these are in use. */
enum { SLOTS = 4, TEMPORARY_END = 13, NAME_ROOM = 4096 };

static void temporary_name(char out[NAME_ROOM], const char *name, int number)
{
  uint32_t word = (uint32_t)number;
  if (number >= SLOTS && platform_random(&word, sizeof word)) word = (uint32_t)(getpid() + clock());
  snprintf(out, NAME_ROOM, "%.4000s.%08x.tmp", name, (unsigned)word);
}

/* Remove a killed writer's file: regular, of this user, and not locked. A live writer holds a lock on its file. */
static void remove_left(int folder, const char *name)
{
  struct stat info;
  int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      !flock(fd, LOCK_EX | LOCK_NB) &&
      is_same_file(fd, folder, name)) /* otherwise it was renamed in the meantime */
    unlinkat(folder, name, 0);
  close(fd);
}

/* A look of another process takes the lock for a moment. */
static int lock_exclusively(int fd)
{
  int failed = flock(fd, LOCK_EX | LOCK_NB);
  for (int tries = 20; failed && errno == EWOULDBLOCK && tries > 0; tries--) {
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    failed = flock(fd, LOCK_EX | LOCK_NB);
  }
  return failed;
}

/* Create a temporary file. Until it is locked, another writer may remove it as a killed writer's file. */
static int open_temporary(char name[NAME_ROOM], int folder, const char *to, mode_t mode)
{
  for (int tries = 0; tries < 100; tries++) {
    temporary_name(name, to, tries);
    int fd = call_open(folder, name, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return -1;
    /* another writer may hold it for a moment, in remove_left; a reader of the folder may hold it for ever */
    const int is_held = lock_exclusively(fd) && errno == EWOULDBLOCK;
    if (!is_held && is_same_file(fd, folder, name))
      return fd; /* without locks on this file system, continue */
    if (is_held) unlinkat(folder, name, 0);
    close(fd);
  }
  return -1;
}

/* file_write_held, into an open folder. */
static int write_in(int folder, const char *path, const void *data, size_t length, const struct lock *held,
                    struct error *e)
{
  char temporary[NAME_ROOM], left[NAME_ROOM];
  const char *name = name_in(path);
  struct stat old;
  if (strlen(path) + TEMPORARY_END >= 4096)
    return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  if (!fstatat(folder, name, &old, 0) && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))
    return error_set(e, STATUS_FAIL, "cannot write %s: it must be a regular file, got a device or a pipe",
                     path);
  int replaces = find_former(&old, folder, name, held), status;
  int fd = open_temporary(temporary, folder, name, replaces ? old.st_mode & 0600 : 0666);
  if (fd < 0) return fail(e, "write", path);
  if (write_all(fd, data, length)) {
    status = fail(e, "write", path);
    unlinkat(folder, temporary, 0);
  } else
    status = publish(fd, &(struct file_move){folder, temporary, name, path}, held, e);
  close(fd); /* cannot fail: all of it has been synced */
  for (int i = 0; i < SLOTS; i++) {
    temporary_name(left, name, i);
    remove_left(folder, left);
  }
  return status;
}

int file_write_in(int folder, const char *path, const void *data, size_t length, struct error *e)
{
  return write_in(folder, path, data, length, NULL, e);
}

int file_write(const char *path, const void *data, size_t length, struct error *e)
{
  return file_write_held(path, data, length, NULL, e);
}

int file_write_held(const char *path, const void *data, size_t length, const struct lock *held,
                    struct error *e)
{
  if (strlen(path) + TEMPORARY_END >= 4096)
    return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  int folder = folder_of(path, "write", e);
  if (folder < 0) return STATUS_FAIL;
  int status = write_in(folder, path, data, length, held, e);
  close(folder);
  return status;
}

/* Does the path name a descriptor of this process, for example from a shell's <(...)? */
static int is_descriptor(const char *path)
{
  return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/self/fd/", 14);
}

static int open_to_read(int folder, const char *name, int flags, const char *path, struct error *e)
{
  struct stat info;
  int fd = openat(folder, name, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &info)) {
    int reason = errno;
    if (reason == ELOOP && flags & O_NOFOLLOW)
      error_set(e, STATUS_FAIL, "cannot read %s: it is a symbolic link, which may lead to any file", path);
    else if (reason == EMFILE)
      fail(e, "read", path);
    else
      error_set(e, STATUS_USAGE, "cannot read %s: %s", path, strerror(reason));
    if (fd >= 0) close(fd);
    errno = reason;
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

int file_open(const char *path, struct error *e) { return open_to_read(AT_FDCWD, path, 0, path, e); }

/* Follows no link of another user; in place of a folder, those that `walk` trusts. */
static int open_unforeign(const char *path, struct error *e)
{
  char resolved[4096];
  struct error found = {0};
  if (is_descriptor(path)) return file_open(path, e);
  const char *target = file_resolve(path, resolved);
  int folder = folder_of(target, "read", &found), reason = errno, fd = -1;
  if (folder >= 0) {
    errno = 0;
    fd = open_to_read(folder, name_in(target), O_NOFOLLOW, path, &found);
    reason = errno;
    close(folder);
    if (fd < 0 && reason == ELOOP)
      snprintf(found.text, sizeof found.text,
               "%s is a symbolic link of another user, or leads to one, and so to any file: name its target",
               path);
  }
  if (fd >= 0) return fd;
  if (access(path, F_OK)) /* the plain reason, for an own link that leads nowhere, too */
    error_set(e, STATUS_USAGE, "cannot read %s: %s", path, strerror(errno));
  else
    error_set(e, found.status, "%s", found.text);
  errno = reason;
  return fd;
}

int file_open_plain(const char *path, struct error *e)
{
  return open_to_read(AT_FDCWD, path, O_NOFOLLOW, path, e);
}

int file_may_be_ours(const char *path, const char *begin)
{
  char text[64];
  struct error unread = {0}; /* the caller's own attempt reports it */
  const int fd = access(path, F_OK) ? -1 : file_open_plain(path, &unread);
  const size_t most = strlen(begin) < sizeof text ? strlen(begin) : sizeof text;
  const ssize_t length = fd < 0 ? 0 : read(fd, text, most);
  if (fd >= 0) close(fd);
  return length <= 0 || !*text || !memcmp(text, begin, (size_t)length);
}

/* A sparse file may state any size. A reader keeps the bytes and at least as much beside them, and the machine ends a
   process that takes more memory than there is. */
static int fits_memory(off_t size)
{
  enum { SMALL = 64 << 20 }; /* the limits are not read for every file */
  return size <= SMALL || (double)size < memory_there_is() / 3;
}

static int refuse_size(off_t size, const char *path, struct error *e)
{
  return error_set(e, STATUS_FAIL, "cannot read %s: its %.1f GiB do not fit into memory", path,
                   (double)size / 0x1p30);
}

int file_check_mapped(int fd, const char *path, struct error *e)
{
  struct stat info = {0};
  if (fstat(fd, &info) || fits_memory(info.st_size)) return STATUS_OK;
  if (!info.st_blocks || info.st_blocks >= info.st_size / 1024) return STATUS_OK; /* blocks of 512 bytes */
  return refuse_size(info.st_size, path, e);
}

/* Read everything from fd and close it. */
static int read_whole(int fd, const char *path, char **text, size_t *length, struct error *e)
{
  if (fd < 0) return STATUS_USAGE;
  struct stat info = {0};
  size_t room = fstat(fd, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size + 2 : 65536, used = 0;
  if (!fits_memory(info.st_size)) {
    close(fd);
    return refuse_size(info.st_size, path, e);
  }
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

int file_read(const char *path, char **text, size_t *length, struct error *e)
{
  return read_whole(file_open(path, e), path, text, length, e);
}

int file_read_held(const char *path, char **text, size_t *length, struct lock *lock, struct error *e)
{
  int fd = open_unforeign(path, e);
  if (lock && !lock->guarded) lock->guarded = memory_new(1, sizeof *lock->guarded);
  if (lock && (fd < 0 || fstat(fd, lock->guarded))) *lock->guarded = (struct stat){0};
  if (fd < 0) return e && e->status ? e->status : STATUS_FAIL;
  return read_whole(fd, path, text, length, e);
}

int file_read_real(const char *path, char **text, size_t *length, struct error *e)
{
  int folder = folder_of(path, "read", e);
  if (folder < 0) return STATUS_FAIL;
  int fd = open_to_read(folder, name_in(path), O_NOFOLLOW, path, e), reason = errno;
  close(folder);
  errno = reason;
  return read_whole(fd, path, text, length, e);
}

int file_copy(const char *from, const char *to, struct error *e)
{
  char *text = NULL;
  size_t length = 0;
  int status = file_read_real(from, &text, &length, e);
  if (!status) status = file_write(to, text, length, e);
  memory_free(text);
  return status;
}

char *file_read_end(const char *path, size_t most, size_t *length)
{
  int fd = open_unforeign(path, NULL);
  struct stat info;
  char *data = NULL;
  if (fd >= 0 && fstat(fd, &info) == 0) {
    size_t size = (size_t)info.st_size < most ? (size_t)info.st_size : most, used = 0;
    if (!fits_memory((off_t)size)) {
      close(fd);
      return NULL;
    }
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
  mode_t mode; /* of a new file */
  int is_laid; /* others have it, or may have opened it: append_cut replaces it before it is written */
};

/* Open or create a file with a predictable name, in a folder that others may write to. It must be a regular file with
   one name, and of this user or the folder's owner (some file systems give all files one owner), unless `of_anybody`.
   -1, with an error, otherwise. */
static int open_own(const char *path, int flags, mode_t mode, int of_anybody, const char *what,
                    struct stat *info, struct error *e)
{
  struct stat above = {.st_uid = geteuid()};
  int folder = folder_of(path, what, e);
  if (folder < 0) return -1;
  int fd = call_open(folder, name_in(path), flags | O_NONBLOCK, mode), reason = errno;
  if (fstat(folder, &above)) above.st_uid = geteuid();
  close(folder);
  errno = reason;
  if (fd < 0 && errno == ELOOP)
    error_set(e, STATUS_FAIL,
              "cannot %s %s: it is a symbolic link, and may lead to a file of yours; remove it", what, path);
  else if (fd < 0 || fstat(fd, info))
    fail(e, what, path);
  else {
    const int own = of_anybody || info->st_uid == geteuid() || info->st_uid == above.st_uid;
    if (own && S_ISREG(info->st_mode) && info->st_nlink <= 1) return fd;
    error_set(e, STATUS_FAIL, "cannot %s %s: it is %s; move it away", what, path,
              !S_ISREG(info->st_mode) ? "not a regular file"
              : info->st_nlink > 1    ? "a file with more than one hard link"
                                      : "another user's file");
  }
  if (fd >= 0) close(fd);
  return -1;
}

enum { APPENDS = O_WRONLY | O_CREAT | O_APPEND };

struct append *append_open(const char *path, const struct lock *held, struct error *e)
{
  const struct stat *run = held && held->guarded && held->guarded->st_nlink ? held->guarded : NULL;
  const mode_t closed = closed_to | (run ? closed_by(run, run->st_gid) : 0), mode = 0666 & ~closed;
  struct stat now;
  int fd = open_own(path, APPENDS, mode, 1, "write", &now, e);
  if (fd < 0) return NULL;
  struct append *a = memory_new(1, sizeof *a);
  *a = (struct append){.fd = fd,
                       .length = (size_t)now.st_size,
                       .path = memory_text(path),
                       .mode = mode,
                       .is_laid = now.st_uid != geteuid() || (now.st_mode & closed)};
  return a;
}

static int begin_anew(struct append *a, struct error *e)
{
  int folder = folder_of(a->path, "write", e);
  if (folder < 0) return e->status;
  const int there = unlinkat(folder, name_in(a->path), 0);
  int fd = there ? -1 : call_open(folder, name_in(a->path), APPENDS | O_EXCL, a->mode), reason = errno;
  close(folder);
  if (fd < 0)
    return error_set(e, STATUS_FAIL, "cannot write %s: others could read it, and it cannot be replaced: %s",
                     a->path, strerror(reason));
  close(a->fd);
  a->fd = fd, a->length = 0, a->is_laid = 0;
  return STATUS_OK;
}

int append_write(struct append *a, const void *data, size_t length, struct error *e)
{
  if (write_all(a->fd, data, length)) {
    int status = fail(e, "write", a->path);
    if (ftruncate(a->fd, (off_t)a->length)) /* undo a partial write */
      warning("%s may end in half a line", a->path);
    return status;
  }
  a->length += length;
  return STATUS_OK;
}

size_t append_length(const struct append *a) { return a->length; }

int append_cut(struct append *a, size_t length, struct error *e)
{
  if (a->is_laid && !length) return begin_anew(a, e);
  if (call_cut(a->fd, length)) return fail(e, "shorten", a->path);
  a->length = length;
  return STATUS_OK;
}

int append_sync(struct append *a, struct error *e)
{
  return call_fsync(a->fd) ? fail(e, "write", a->path) : STATUS_OK;
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

int lock_is_held(const char *path)
{
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return 0;
  int held = flock(fd, LOCK_SH | LOCK_NB);
  close(fd);
  return held != 0;
}

/* A run's lock is an empty file. Other programs have files of such names: uv.lock */
static int is_foreign_lock(const char *path, const struct stat *info)
{
  const char *end = strrchr(path, '.');
  return info->st_size && end && !strcmp(end, ".lock");
}

struct lock *lock_take(const char *path, struct error *e)
{
  for (;;) {
    struct stat info;
    int fd = open_own(path, O_RDWR | O_CREAT, 0666, 0, "lock", &info, e);
    if (fd < 0) return NULL;
    if (is_foreign_lock(path, &info)) {
      error_set(e, STATUS_USAGE, "%s is not empty, so it is of another program: give the run another name",
                path);
      close(fd);
      errno = EEXIST;
      return NULL;
    }
    if (lock_exclusively(fd)) {
      int reason = errno;
      if (reason == EWOULDBLOCK)
        error_set(e, STATUS_FAIL, "%s is locked: another process is writing this run", path);
      else
        fail(e, "lock", path);
      close(fd);
      errno = reason;
      return NULL;
    }
    if (is_same_file(fd, AT_FDCWD, path)) {
      struct lock *lock = memory_new(1, sizeof *lock);
      lock->fd = fd;
      lock->path = memory_text(path);
      return lock;
    }
    close(fd);
  }
}

void lock_guard(struct lock *lock, const char *path)
{
  if (!lock->guarded) lock->guarded = memory_new(1, sizeof *lock->guarded);
  if (lstat(path, lock->guarded) || !S_ISREG(lock->guarded->st_mode)) *lock->guarded = (struct stat){0};
}

void lock_keep_private(const struct lock *lock)
{
  const struct stat *guarded = lock->guarded;
  if (guarded && guarded->st_nlink) file_close_to(closed_by(guarded, guarded->st_gid));
}

void lock_write(struct lock *lock, const char *text)
{
  ssize_t length = (ssize_t)strlen(text); /* never empty: the new text, then the cut */
  if (pwrite(lock->fd, text, (size_t)length, 0) == length && ftruncate(lock->fd, length)) return;
}

void lock_release(struct lock *lock, const char *path)
{
  if (!lock) return;
  size_t length = path ? (size_t)(name_in(path) - path) : 0;
  int folder = path ? walk(path, &length, 0) : -1;
  if (folder >= 0 && is_same_file(lock->fd, folder, name_in(path))) unlinkat(folder, name_in(path), 0);
  if (folder >= 0) close(folder);
  close(lock->fd);
  memory_free(lock->guarded);
  memory_free(lock->path);
  memory_free(lock);
}
