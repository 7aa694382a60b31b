/* child.h - the program as a child, in a folder of the test's own, with faults and limits; failures are counted
   For check_crash.c and check_history.c, which kill it at every kind of moment. Run where ./maxlogit is. */
#ifndef MAXLOGIT_TESTS_STORAGE_CHILD_H
#define MAXLOGIT_TESTS_STORAGE_CHILD_H
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"

enum { CHILD_WORDS = 64 };
static char child_program[4096];
static int failures;

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  failures++;
  fprintf(stderr, "FAILED: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
}

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
  char command[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  if (system(command)) wrong("%s", command);
}

/* Into a new folder, whose name's end is X's; 0, or 1 and a message. */
static int child_folder(char *folder)
{
  if (realpath("maxlogit", child_program) && mkdtemp(folder) && !chdir(folder)) return 0;
  perror(folder);
  return 1;
}

/* Start the program in a folder with these words (NULL-terminated). fault: MAXLOGIT_FAULT or NULL; file_limit: bytes of
   a file, 0: any. What it prints is in the file "log". */
static pid_t child_start(const char *in, const char *fault, long file_limit, const char *const *words)
{
  const char *argv[CHILD_WORDS] = {child_program};
  for (int n = 1; *words; n++) argv[n] = *words++;
  fflush(NULL);
  pid_t child = fork();
  if (child) return child;
  int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (fault) setenv("MAXLOGIT_FAULT", fault, 1);
  if (file_limit) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)file_limit, (rlim_t)file_limit});
  }
  if (!chdir(in)) execv(child_program, (char *const *)(uintptr_t)argv);
  _exit(127);
}

/* Exit status, or 128 and the signal. */
static int child_end(pid_t child)
{
  int status;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *last_log(void)
{
  static char *text;
  struct error e = {0};
  memory_free(text);
  text = NULL;
  return file_read("log", &text, NULL, &e) ? "no log" : text;
}
#endif
