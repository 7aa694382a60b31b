/* apart.h - runs work that may crash or never end in a child process with limits
   The limit of processor time is `seconds`, that of wall time ten times as much. The limit of memory is `bytes` beyond
   the memory held now (0, and under sanitizers: none). The child's messages are dropped, and it has none of the
   parent's files. */
#ifndef MAXLOGIT_BASE_APART_H
#define MAXLOGIT_BASE_APART_H
#include <stddef.h>
#include <sys/types.h>
#include "base/error.h"

/* Start another program with these streams (-1: /dev/null) and no other open file. Texts NAME=VALUE before its name are
   set in its environment. Without a slash in its name, only the absolute folders of PATH are searched: a program in the
   current folder is never started by its name. The environment is the user's, except the locale (C.UTF-8) and variables
   that make gnuplot or Python read other files. Returns the child, which exits with 127 if the program is not found; or
   -1. */
pid_t program_start(const char *const *argv, int in, int out, int err);
/* Replace this process by the program, with all open files. Returns only if the program cannot be started. */
void program_become(const char *const *argv);
/* Wait for the program; returns its exit status, 128 + the signal's number, or -1 if unknown. */
int program_wait(pid_t);

/* Run `work` once. Returns its status with its error. STATUS_FAIL, with "SUBJECT ..." and the reason, if the child
   crashes, exceeds a limit or cannot be started. Changes of memory by `work` do not reach the caller. */
int run_apart(int (*work)(void *context, struct error *), void *context, const char *subject,
              unsigned seconds, size_t bytes, struct error *);

/* A child that does the same work for one open file after another, so that many files need one start. It ends by itself
   after a quarter of a second without work. Initialize all but `work` with zeros; use it from one thread at a time. */
struct worker {
  void (*work)(int fd, void *reply);
  int socket;
  pid_t owner; /* 0: not started */
};

/* Send a file to the worker and fill `reply` (zeroed before, `size` <= WORKER_REPLY). Returns 1, or 0 if the child
   crashed or exceeded a limit on this file, or -1 with errno if it cannot be started. */
enum { WORKER_REPLY = 4096 };
int worker_ask(struct worker *, int fd, unsigned seconds, size_t bytes, void *reply, size_t size);
#endif
