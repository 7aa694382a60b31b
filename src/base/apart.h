/* apart.h - work that may crash or never end, in a process of its own with limits
   The limit of processor time is `seconds`, by the clock ten times that; the limit of memory is `bytes` beyond those
   held now (0, and under sanitizers: none). The child's messages are dropped, and it holds none of the parent's
   files. */
#ifndef MAXLOGIT_BASE_APART_H
#define MAXLOGIT_BASE_APART_H
#include <stddef.h>
#include <sys/types.h>
#include "base/error.h"

/* Starts another program with these streams (-1: /dev/null) and no other open file. Texts NAME=VALUE before its name
   are set in its environment. It is looked for in the absolute folders of PATH alone, unless it has a slash: nothing in
   the current folder runs by its name. The environment is the user's but for the locale (C.UTF-8) and for variables
   that make gnuplot or Python read other files. Returns the child, which exits with 127 where the program is not found;
   or -1. */
pid_t program_start(const char *const *argv, int in, int out, int err);
/* The same program in the place of this one, with all its open files. Returns where it cannot be started. */
void program_become(const char *const *argv);
/* Its exit status when it has ended; 128 + the signal's number; -1 where it cannot be known. */
int program_wait(pid_t);

/* Runs `work` once. Returns its status with its error; STATUS_FAIL, with "SUBJECT ..." and the reason, where the child
   crashes, exceeds a limit or cannot be started. Nothing that `work` changes in memory reaches the caller. */
int run_apart(int (*work)(void *context, struct error *), void *context, const char *subject,
              unsigned seconds, size_t bytes, struct error *);

/* A child that does the same work for one open file after another, so that many files need one start. After its
   first work it ends by itself when it has had none for a quarter of a second. Zero-initialized but for `work`; from
   one thread at a time. */
struct worker {
  void (*work)(int fd, void *reply);
  int socket;
  pid_t owner; /* 0: not started */
};

/* Fills `reply` (zeroed before, `size` <= WORKER_REPLY). Returns 0 where the child crashed or exceeded a limit on this
   file, or cannot be started. */
enum { WORKER_REPLY = 4096 };
int worker_ask(struct worker *, int fd, unsigned seconds, size_t bytes, void *reply, size_t size);
#endif
