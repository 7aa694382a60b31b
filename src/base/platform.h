/* platform.h - functions that differ between Linux, macOS and their C libraries
   For macOS they are only compiled (tests/other_systems.sh) and were not run yet. platform.c also has memory_free_now
   (limits.h). */
#ifndef MAXLOGIT_BASE_PLATFORM_H
#define MAXLOGIT_BASE_PLATFORM_H

#include <fcntl.h>
#include <stddef.h>
#include <time.h>
#ifdef __APPLE__
#include <malloc/malloc.h>
#include <sys/socket.h>
#define malloc_usable_size malloc_size
#define st_mtim st_mtimespec
extern char **environ;
/* a descriptor of a link itself, or of a folder that may not be listed */
#ifndef O_PATH
#define O_PATH O_SYMLINK
#endif
/* a program that another thread starts at this moment inherits such a descriptor */
#ifndef SOCK_CLOEXEC
#define SOCK_CLOEXEC 0
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif
#else
#include <malloc.h>
#endif

/* qsort with a context, the comparison's last argument. */
void platform_sort(void *first, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
                   void *context);
/* Fill with random bytes of the system, at most 256; -1 with errno. */
int platform_random(void *bytes, size_t size);
/* A descriptor of an empty file without a name, closed on exec; -1 with errno. */
int platform_memory_file(void);
/* A pipe, closed on exec; -1 with errno. */
int platform_pipe(int ends[2]);
/* Close this and all higher descriptors. */
void platform_close_from(int first);
/* Text of the link that a descriptor of O_PATH and O_NOFOLLOW means; empty: not a link. */
void platform_read_link(int fd, char *target, size_t room);
/* Copy extended attributes, through a buffer: memory.c calls this file, so it allocates none. Those that cannot be set
   are left out, on macOS all. */
enum { PLATFORM_ATTRIBUTES = 1 << 17 }; /* bytes: twice the limit of Linux for the list and for a value */
void platform_copy_attributes(int from, int to, char buffer[PLATFORM_ATTRIBUTES]);
/* Has a file an access list? Its group rights are then those of the list's mask. Not on macOS. */
int platform_has_access_list(const char *path);
/* A condition that waits until a time of the clock that is returned, a steady one if there is one. */
clockid_t platform_condition(void *condition);
/* This process gets SIGTERM when its parent ends; not on macOS. */
void platform_end_with_parent(void);
/* The path of this program; empty: unknown. */
void platform_program(char *path, size_t room);
/* The cores that the affinity allows: a set of *bytes bytes, for free(), and their number; NULL: unknown. */
unsigned char *platform_affinity(size_t *bytes, int *cores);
/* Name and version of the C library; name of the processor, "unknown" where the kernel does not report it. */
void platform_c_library(char *out, size_t room);
void platform_processor(char *out, size_t room);
#endif
