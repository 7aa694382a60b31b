/* letters.h - ranks without MPI: the module is one of ours, whose messages lie in memory that all ranks share, and
   which fails as it is told. Each rank is a process of its own, of the test's own program, with a launcher's
   environment; what each has said, on both outputs, and how it has ended is heard. */
#ifndef MAXLOGIT_TESTS_COMM_LETTERS_H
#define MAXLOGIT_TESTS_COMM_LETTERS_H
#include <check.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "comm/launcher.h"
#include "comm/transfer.h"

/* --- the module ---------------------------------------------------------------------------------------------- */

enum { MOST = 6, LETTERS = 12000, ROOM = 20000 };
enum { ABORTED = 60 };
struct letter {
  atomic_int is_there;
  int from, to, tag, taken;
  size_t bytes;
  char data[ROOM];
};
struct mail {
  atomic_int count;
  struct letter letter[LETTERS];
  atomic_int closed[MOST], aborted[MOST], stopped[MOST]; /* aborted: 1 + status */
  int channel[MOST];
  double seconds[MOST]; /* given to the last await */
};
struct group {
  int rank, ranks, tag, own_call, member[MOST];
};
static struct mail *mail;
static int self, dropped;
static const char *fails = "";
static enum transfer_end ends = TRANSFER_DONE;
static int ends_with;
static struct group last_split;

static void library(char *out, size_t room) { snprintf(out, room, "Letters v1"); }

static void *open_world(int *rank, int *ranks, char *why, size_t room)
{
  struct group *g = calloc(1, sizeof *g);
  if (!strcmp(fails, "begin")) snprintf(why, room, "no friends");
  if (!strcmp(fails, "begin") || !g) return NULL;
  while (!strncmp(fails, "begin late", 10)) pause();
  *rank = self = g->rank = launcher_rank();
  *ranks = g->ranks = launcher_ranks() - !strcmp(fails, "fewer");
  for (int i = 0; i < MOST; i++) g->member[i] = i;
  return g;
}

static void *split(void *handle, const int *member, int members, int number, int own_call)
{
  const struct group *all = handle;
  struct group *g = calloc(1, sizeof *g);
  if (!g) abort();
  *g = (struct group){.ranks = members, .tag = 2000 * number, .own_call = own_call};
  for (int i = 0; i < members; i++) {
    g->member[i] = all->member[member[i]];
    if (g->member[i] == self) g->rank = i;
  }
  last_split = *g;
  return g;
}

static void drop(void *handle)
{
  dropped++;
  free(handle);
}

struct under_way {
  const struct group *g;
  int channel, ins;
  struct parcel in[MOST];
};

static void *begin(void *handle, int channel, const struct parcel *out, int outs, const struct parcel *in,
                   int ins)
{
  const struct group *g = handle;
  struct under_way *t = calloc(1, sizeof *t);
  if (!t) abort();
  *t = (struct under_way){.g = g, .channel = channel, .ins = ins};
  if (ins) memcpy(t->in, in, (size_t)ins * sizeof *in);
  mail->channel[self] = channel;
  for (int i = 0; i < outs; i++) {
    const int number = atomic_fetch_add(&mail->count, 1);
    struct letter *l = &mail->letter[number];
    if (number >= LETTERS || out[i].bytes > ROOM) abort();
    l->from = self, l->to = g->member[out[i].rank], l->tag = g->tag + channel, l->bytes = out[i].bytes;
    memcpy(l->data, out[i].data, out[i].bytes);
    l->is_there = 1;
  }
  return t;
}

static int receive(const struct under_way *t, struct parcel *p)
{
  for (int i = 0; i < LETTERS && i < mail->count; i++) {
    struct letter *l = &mail->letter[i];
    if (!l->is_there || l->taken || l->to != self || l->from != t->g->member[p->rank] ||
        l->tag != t->g->tag + t->channel)
      continue;
    if (l->bytes != p->bytes) abort();
    memcpy(p->data, l->data, p->bytes);
    return l->taken = 1;
  }
  return 0;
}

static int is_done(void *transfer)
{
  struct under_way *t = transfer;
  while (t->ins && receive(t, &t->in[0])) memmove(t->in, t->in + 1, (size_t)--t->ins * sizeof *t->in);
  return !t->ins;
}

static enum transfer_end await(void *transfer, double seconds, int *lost)
{
  mail->seconds[self] = seconds;
  while (ends == TRANSFER_DONE && !is_done(transfer)) usleep(50);
  free(transfer);
  *lost = ends_with;
  return ends;
}

static void stop(void *handle)
{
  const struct group *g = handle;
  for (int i = 0; i < g->ranks; i++) mail->stopped[g->member[i]] |= g->member[i] != self;
}
static int is_stopped(void *handle)
{
  (void)handle;
  return mail->stopped[self];
}
static void close_world(void)
{
  while (!strcmp(fails, "end late")) pause();
  mail->closed[self]++;
}
static void abort_world(int status)
{
  mail->aborted[self] = 1 + status;
  _exit(ABORTED);
}

const struct comm_module *maxlogit_mpi(void);
const struct comm_module *maxlogit_mpi(void)
{
  static struct comm_module own = {
    COMM_MODULE_VERSION, library,     open_world, split, drop, begin, is_done, await, stop,
    is_stopped,          close_world, abort_world};
  own.version = COMM_MODULE_VERSION + !strcmp(fails, "version");
  return &own;
}

/* --- ranks --- */

static struct comm *all;

static void must(int holds, const char *what, long n)
{
  if (holds) return;
  fprintf(stderr, "rank %d: %s (%ld) is wrong\n", self, what, n);
  _exit(9);
}

/* A rank that hangs ends, and its standard error has the place. */
enum { PATIENCE = 100 }; /* seconds; Check's own limit is 120 */
static void hangs(int number)
{
  void *frame[40];
  backtrace_symbols_fd(frame, backtrace(frame, 40), 2);
  signal(number, SIG_DFL);
  raise(number);
}

/* What a rank does; the last one has no name. */
struct part {
  const char *name;
  int (*play)(struct error *);
};
/* Ours, as a rank: the part, the memory, how the module fails. */
static int as_rank(const struct part *parts, const char *name, int fd, const char *how)
{
  struct error e = {0};
  fails = how;
  signal(SIGALRM, hangs);
  alarm(PATIENCE);
  mail = mmap(NULL, sizeof *mail, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mail == MAP_FAILED) return 99;
  if (!strncmp(how, "begin late", 10) || !strcmp(how, "end late")) comm_patience(0);
  if (!strcmp(how, "begin late, alone") && launcher_rank() == 0) return 0;
  all = comm_world(&e);
  if (!all) return comm_end(e.status, &e);
  for (; parts->name; parts++)
    if (!strcmp(parts->name, name)) {
      const int status = parts->play(&e);
      return comm_end(status, &e);
    }
  return 98;
}

/* The test's own program; 0 where it cannot be started by itself (an emulator's: it does nothing with one word). */
static char own_program[4096];
static int can_start(const char *program)
{
  int status;
  char options[1000]; /* of a sanitizer: what a rank that is given up leaves is not a leak */
  const char *have = getenv("ASAN_OPTIONS");
  snprintf(options, sizeof options, "%s%sdetect_leaks=0", have ? have : "", have ? ":" : "");
  setenv("ASAN_OPTIONS", options, 1);
  if (!realpath(program, own_program)) return 0;
  pid_t pid = fork();
  if (!pid) execl(own_program, own_program, "nothing", NULL);
  if (!pid) _exit(97);
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct heard {
  pid_t pid;
  int status, file[2]; /* exit status, or -signal */
  char out[2000], err[8000];
  double seconds;
};

static int shared_file(void)
{
  int fd = memfd_create("mail", 0);
  ck_assert(fd >= 0 && !ftruncate(fd, sizeof *mail));
  if (mail) munmap(mail, sizeof *mail);
  mail = mmap(NULL, sizeof *mail, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ck_assert(mail != MAP_FAILED);
  return fd;
}

/* Ranks begin; `module`: NULL, or what MAXLOGIT_MPI names. */
static void raise_curtain(struct heard *h, int ranks, const char *name, const char *how, const char *module)
{
  char fd[16], number[16], of[16];
  int memory = shared_file();
  snprintf(fd, sizeof fd, "%d", memory);
  snprintf(of, sizeof of, "%d", ranks);
  fflush(NULL);
  for (int i = 0; i < ranks; i++) {
    for (int k = 0; k < 2; k++) ck_assert_int_ge(h[i].file[k] = memfd_create("heard", MFD_CLOEXEC), 0);
    snprintf(number, sizeof number, "%d", i);
    h[i].seconds = clock_seconds();
    if (!(h[i].pid = fork())) {
      dup2(h[i].file[0], 1), dup2(h[i].file[1], 2);
      setenv("OMPI_COMM_WORLD_SIZE", of, 1);
      setenv("OMPI_COMM_WORLD_RANK", number, 1);
      if (!strcmp(how, "begin late, alone")) setenv("MPI_LOCALNRANKS", of, 1);
      if (module) setenv("MAXLOGIT_MPI", module, 1);
      execl(own_program, own_program, name, fd, how, NULL);
      _exit(97);
    }
  }
  close(memory);
}

static void collect(struct heard *h, int ranks)
{
  for (int i = 0; i < ranks; i++) {
    int status;
    ck_assert_int_eq(waitpid(h[i].pid, &status, 0), h[i].pid);
    h[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    h[i].seconds = clock_seconds() - h[i].seconds;
  }
  for (int i = 0; i < ranks; i++)
    for (int k = 0; k < 2; k++) {
      char *to = k ? h[i].err : h[i].out;
      ssize_t n = pread(h[i].file[k], to, k ? sizeof h->err - 1 : sizeof h->out - 1, 0);
      to[n > 0 ? n : 0] = 0;
      close(h[i].file[k]);
    }
}

static char host[64];
static struct heard heard[MOST];
static void play(int ranks, const char *name, const char *how, const char *module)
{
  raise_curtain(heard, ranks, name, how, module);
  collect(heard, ranks);
  gethostname(host, sizeof host);
}

/* How all have ended, in order; what rank 0 has told, on both outputs; the others say nothing. */
__attribute__((format(printf, 4, 5), unused)) static void told(int ranks, const int *statuses,
                                                               const char *out, const char *format, ...)
{
  char err[8000];
  va_list list;
  va_start(list, format);
  vsnprintf(err, sizeof err, format, list);
  va_end(list);
  for (int i = 0; i < ranks; i++) {
    ck_assert_msg(heard[i].status == statuses[i], "rank %d: %d: %s; rank %d: %d: %s", i, heard[i].status,
                  heard[i].err, (i + 1) % ranks, heard[(i + 1) % ranks].status, heard[(i + 1) % ranks].err);
    ck_assert_str_eq(heard[i].out, i ? "" : out);
    ck_assert_str_eq(heard[i].err, i ? "" : err);
    ck_assert_int_eq(mail->closed[i], 1);
    ck_assert_int_eq(mail->aborted[i], 0);
  }
}

#endif
