#include "base/apart.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"

enum { CHANNEL = STDERR_FILENO + 1, IDLE_MS = 250 };

/* --- the child ------------------------------------------------------------------------------------------ */

static void limit(int resource, rlim_t value)
{
  struct rlimit now;
  if (getrlimit(resource, &now)) return;
  now.rlim_cur = now.rlim_max != RLIM_INFINITY && value > now.rlim_max ? now.rlim_max : value;
  setrlimit(resource, &now);
}

/* Bytes of address space of this process; 0: unknown. */
static size_t address_space(void)
{
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f && fscanf(f, "%lu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The wall clock is limited, too, because the child may wait forever for a lock that another thread of the parent
   held. */
static void set_limits(unsigned seconds, size_t bytes)
{
  struct rusage used = {0};
  size_t space = address_space(), most;
  memory_remember();
  getrusage(RUSAGE_SELF, &used);
  limit(RLIMIT_CPU, (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 + seconds);
  alarm(10 * seconds);
  if (MEMORY_MAPS && bytes && space && !__builtin_add_overflow(space, bytes, &most)) limit(RLIMIT_AS, most);
}

/* A crash ends the child, whatever handlers the parent has; the parent handles interrupts. */
static void become_child(int channel)
{
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGXCPU};
  int null = open("/dev/null", O_WRONLY);
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  if (null >= 0) dup2(null, STDERR_FILENO);
  if (channel != CHANNEL) dup2(channel, CHANNEL);
  platform_close_from(CHANNEL + 1);
  lock_is_parents();
  limit(RLIMIT_CORE, 0);
}

/* Returns 1 if all of it was read. */
static int read_all(int in, void *data, size_t size)
{
  size_t got = 0;
  for (ssize_t n; got < size; got += (size_t)n) {
    do n = read(in, (char *)data + got, size - got);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return 0;
  }
  return 1;
}

/* --- other programs ----------------------------------------------------------------------------------------- */

/* The absolute entries of a list such as PATH; an empty entry is the current folder. */
static void keep_absolute(const char *name)
{
  const char *list = getenv(name);
  struct buffer kept = {0};
  for (size_t length; list; list = list[length] ? list + length + 1 : NULL) {
    length = strcspn(list, ":");
    if (*list == '/') buffer_add(&kept, "%s%.*s", kept.length ? ":" : "", (int)length, list);
  }
  if (kept.text)
    setenv(name, kept.text, 1);
  else
    unsetenv(name);
}

/* Environment variables, by prefix, that change the behavior or output of gnuplot, Python or a shell. */
static int is_personal(const char *setting)
{
  static const char *const beginnings[] = {
    "GNUTERM=",    "GNUPLOT",  "GNUHELP=", "GDFONTPATH=",     "FIT_", "LC_",
    "LANG",        "COLUMNS=", "LINES=",   "PAGER=",          "LESS", "PYTHONSTARTUP",
    "PYTHONHOME=", "ENV=",     "BASH_ENV", "XDG_CONFIG_HOME="};
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
    if (strncmp(setting, beginnings[i], strlen(beginnings[i])) == 0) return 1;
  return 0;
}

static void clean_environment(void)
{
  for (char **at = environ; at && *at;) {
    char *name = memory_text(*at);
    name[strcspn(name, "=")] = '\0';
    if (!strchr(*at, '=') || !is_personal(*at) || unsetenv(name)) at++; /* cannot unset one without = */
    memory_free(name);
  }
  keep_absolute("PATH");
  keep_absolute("PYTHONPATH");
  setenv("PYTHONSAFEPATH", "1", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
}

void program_become(const char *const *argv)
{
  fflush(NULL);
  clean_environment();
  for (; strchr(*argv, '='); argv++) putenv((char *)(uintptr_t)*argv);
  execvp(argv[0], (char *const *)(uintptr_t)argv);
}

pid_t program_start(const char *const *argv, int in, int out, int err)
{
  fflush(NULL);
  pid_t child = fork();
  if (child) return child;
  int stream[] = {in, out, err}, null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) stream[i] = fcntl(stream[i] < 0 ? null : stream[i], F_DUPFD_CLOEXEC, CHANNEL);
  for (int i = 0; i < 3; i++) dup2(stream[i], i);
  platform_close_from(CHANNEL);
  program_become(argv);
  _exit(127);
}

int program_wait(pid_t child)
{
  int state = 0;
  while (child > 0 && waitpid(child, &state, 0) != child)
    if (errno != EINTR) return -1;
  return child <= 0 ? -1 : WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* --- once ----------------------------------------------------------------------------------------------- */

static int report_end(int state, const char *subject, struct error *e)
{
  int number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  return error_set(e, STATUS_FAIL, "%s: %s", subject,
                   number == SIGXCPU || number == SIGALRM ? "the HDF5 library does not end on it"
                   : number == SIGKILL                    ? "its process was ended from outside"
                                                          : "the HDF5 library crashes on it");
}

int run_apart(int (*work)(void *context, struct error *), void *context, const char *subject,
              unsigned seconds, size_t bytes, struct error *e)
{
  int ends[2], state = 0;
  struct error found = {0};
  if (platform_pipe(ends)) return error_set(e, STATUS_FAIL, "%s: no pipe: %s", subject, strerror(errno));
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    become_child(ends[1]);
    set_limits(seconds, bytes);
    found.status = work(context, &found);
    _exit(write(CHANNEL, &found, sizeof found) != (ssize_t)sizeof found);
  }
  close(ends[1]);
  int whole = child > 0 && read_all(ends[0], &found, sizeof found);
  close(ends[0]);
  if (child < 0) return error_set(e, STATUS_FAIL, "%s: no process: %s", subject, strerror(errno));
  while (waitpid(child, &state, 0) != child && errno == EINTR) {}
  if (!whole) return report_end(state, subject, e);
  found.text[sizeof found.text - 1] = 0;
  return found.status ? error_set(e, found.status, "%s", found.text) : STATUS_OK;
}

/* --- a worker ------------------------------------------------------------------------------------------- */

struct apart_request {
  size_t bytes, reply;
  unsigned seconds;
};

/* A message with an open file. */
union attachment {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_file(int to, const struct apart_request *r, int fd)
{
  union attachment a = {{0}};
  struct iovec part = {(void *)(uintptr_t)r, sizeof *r};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &a, .msg_controllen = sizeof a};
  a.head =
    (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&a.head), &fd, sizeof fd);
  ssize_t n;
  do n = sendmsg(to, &m, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof *r;
}

static int receive_file(int from, struct apart_request *r)
{
  union attachment a = {{0}};
  struct iovec part = {r, sizeof *r};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &a, .msg_controllen = sizeof a};
  int fd = -1;
  if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) == (ssize_t)sizeof *r && m.msg_controllen >= CMSG_LEN(sizeof fd))
    memcpy(&fd, CMSG_DATA(&a.head), sizeof fd);
  return fd;
}

static void serve(void (*work)(int, void *))
{
  static char reply[WORKER_REPLY];
  struct pollfd channel = {.fd = CHANNEL, .events = POLLIN};
  for (int wait = -1; poll(&channel, 1, wait) > 0; wait = IDLE_MS) { /* the first request always comes */
    struct apart_request r;
    int fd = receive_file(CHANNEL, &r);
    if (fd < 0) break;
    memset(reply, 0, r.reply);
    set_limits(r.seconds, r.bytes);
    work(fd, reply);
    alarm(0);
    close(fd);
    if (write(CHANNEL, reply, r.reply) != (ssize_t)r.reply) break;
  }
  _exit(0);
}

/* Start a grandchild, so that the program gets neither its signals nor its status. Returns 0, or the value of errno. */
static int start(struct worker *w)
{
  int ends[2], state = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return errno;
  fflush(NULL);
  pid_t child = fork();
  int reason = child < 0 ? errno : 0;
  if (!child) {
    pid_t grandchild = fork();
    if (grandchild) _exit(grandchild < 0 ? errno : 0);
    become_child(ends[1]);
    serve(w->work);
  }
  close(ends[1]);
  if (child > 0)
    while (waitpid(child, &state, 0) != child && errno == EINTR) {}
  if (WIFEXITED(state) && WEXITSTATUS(state)) reason = WEXITSTATUS(state);
  w->socket = ends[0];
  w->owner = getpid();
  return reason;
}

/* In a forked process the number of the socket may belong to another file: become_child closes all. */
static void stop(struct worker *w)
{
  if (w->owner == getpid()) close(w->socket);
  w->owner = 0;
}

/* An idle worker may have ended, which shows only when a request fails. A new worker gets a second chance: the system
   may have ended the first one for want of memory. A worker that did not end gets none. */
int worker_ask(struct worker *w, int fd, unsigned seconds, size_t bytes, void *reply, size_t size)
{
  struct apart_request r = {bytes, size, seconds};
  REQUIRE(size <= WORKER_REPLY);
  for (int new_workers = 0; new_workers < 2;) {
    if (w->owner != getpid()) stop(w); /* after a fork the worker belongs to the parent */
    int is_new = !w->owner;
    new_workers += is_new;
    int reason = is_new ? start(w) : 0;
    if (reason) {
      stop(w);
      errno = reason;
      return -1;
    }
    const double begin = clock_seconds();
    if (send_file(w->socket, &r, fd) && read_all(w->socket, reply, size)) return 1;
    stop(w);
    if (is_new && clock_seconds() - begin > seconds) break;
  }
  return 0;
}
