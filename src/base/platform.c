#include "base/platform.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/limits.h"
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <sys/random.h>
#include <sys/sysctl.h>
#else
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#endif
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

static void close_each(int first)
{
  long most = sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < (most > 0 && most < 4096 ? most : 4096); fd++) close(fd);
}

#ifdef __APPLE__

struct sorting {
  int (*compare)(const void *, const void *, void *);
  void *context;
};

static int compare_by(void *sorting, const void *a, const void *b)
{
  const struct sorting *s = sorting;
  return s->compare(a, b, s->context);
}

void platform_sort(void *first, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
                   void *context)
{
  struct sorting s = {compare, context};
  qsort_r(first, count, size, &s, compare_by);
}

int platform_random(void *bytes, size_t size) { return getentropy(bytes, size); }

int platform_memory_file(void)
{
  char name[] = "/tmp/maxlogit.XXXXXX";
  int fd = mkstemp(name);
  if (fd >= 0) unlink(name), fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

int platform_pipe(int ends[2])
{
  if (pipe(ends)) return -1;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  return 0;
}

void platform_close_from(int first) { close_each(first); }

void platform_read_link(int fd, char *target, size_t room)
{
  char path[1024]; /* F_GETPATH asks for MAXPATHLEN */
  ssize_t length = fcntl(fd, F_GETPATH, path) ? -1 : readlink(path, target, room - 1);
  target[length > 0 ? length : 0] = 0;
}

void platform_copy_attributes(int from, int to, char buffer[PLATFORM_ATTRIBUTES])
{
  (void)from, (void)to, (void)buffer;
}

int platform_has_access_list(const char *path) { return (void)path, 0; }

clockid_t platform_condition(void *condition)
{
  pthread_cond_init(condition, NULL);
  return CLOCK_REALTIME;
}

void platform_end_with_parent(void) {}

void platform_program(char *path, size_t room)
{
  char found[4096], whole[4096];
  uint32_t size = sizeof found;
  int is_found = !_NSGetExecutablePath(found, &size) && realpath(found, whole);
  snprintf(path, room, "%s", is_found ? whole : "");
}

unsigned char *platform_affinity(size_t *bytes, int *cores)
{
  *cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  *bytes = 1;
  return calloc(1, 1);
}

double memory_free_now(void)
{
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &count)) return 0;
  return (double)sysconf(_SC_PAGESIZE) * ((double)pages.free_count + (double)pages.inactive_count);
}

void platform_c_library(char *out, size_t room) { snprintf(out, room, "libSystem"); }

void platform_processor(char *out, size_t room)
{
  if (sysctlbyname("machdep.cpu.brand_string", out, &room, NULL, 0)) snprintf(out, room, "unknown");
}

#else /* Linux */

void platform_sort(void *first, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
                   void *context)
{
  qsort_r(first, count, size, compare, context);
}

int platform_random(void *bytes, size_t size) { return getrandom(bytes, size, 0) == (ssize_t)size ? 0 : -1; }

int platform_memory_file(void) { return memfd_create("maxlogit", MFD_CLOEXEC); }

int platform_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

void platform_close_from(int first)
{
#ifdef SYS_close_range
  if (!syscall(SYS_close_range, first, ~0U, 0)) return;
#endif
  close_each(first);
}

void platform_read_link(int fd, char *target, size_t room)
{
  ssize_t length = readlinkat(fd, "", target, room - 1);
  target[length > 0 ? length : 0] = 0;
}

void platform_copy_attributes(int from, int to, char buffer[PLATFORM_ATTRIBUTES])
{
  enum { LONGEST = PLATFORM_ATTRIBUTES / 2 };
  char *names = buffer, *value = names + LONGEST;
  ssize_t length = flistxattr(from, names, LONGEST);
  for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
    ssize_t size = fgetxattr(from, names + at, value, LONGEST);
    if (size >= 0 && fsetxattr(to, names + at, value, (size_t)size, 0)) continue; /* it cannot be set here */
  }
}

int platform_has_access_list(const char *path)
{
  return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

clockid_t platform_condition(void *condition)
{
  pthread_condattr_t steady;
  pthread_condattr_init(&steady);
  pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &steady);
  pthread_condattr_destroy(&steady);
  return CLOCK_MONOTONIC;
}

void platform_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGTERM); }

void platform_program(char *path, size_t room)
{
  ssize_t length = readlink("/proc/self/exe", path, room - 1);
  path[length > 0 ? length : 0] = 0;
}

unsigned char *platform_affinity(size_t *bytes, int *cores)
{
  for (size_t cpus = 1024; cpus <= 1 << 20;
       cpus *= 2) { /* a set that is too small for this machine gives an error */
    cpu_set_t *set = CPU_ALLOC(cpus);
    *bytes = CPU_ALLOC_SIZE(cpus);
    if (set && sched_getaffinity(0, *bytes, set) == 0) {
      *cores = CPU_COUNT_S(*bytes, set);
      return (unsigned char *)set; /* of malloc in every C library */
    }
    CPU_FREE(set);
  }
  return NULL;
}

double memory_free_now(void) { return (double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_AVPHYS_PAGES); }

void platform_c_library(char *out, size_t room)
{
#ifdef __GLIBC__
  snprintf(out, room, "glibc %s", gnu_get_libc_version());
#else
  snprintf(out, room, "musl");
#endif
}

/* "model name : Xeon ..." of the first processor */
void platform_processor(char *out, size_t room)
{
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "re");
  snprintf(out, room, "unknown");
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, room, "%s", colon + 2);
    break;
  }
  if (f) fclose(f);
}

#endif
