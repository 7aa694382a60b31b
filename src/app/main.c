/* main.c - the program: finds the command and hands over */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "comm/comm.h"
#include "storage/provenance.h"

static int unknown(const char *word)
{
  size_t count = 0, length = strlen(word);
  while (command_names[count]) count++;
  const char *near = text_nearest(word, command_names, count);
  if (near)
    message("'%.200s' is not a command; did you mean '%s'? (all: maxlogit help)", word, near);
  else if (strchr(word, '=') || (length > 5 && !strcmp(word + length - 5, ".conf")))
    message("'%.200s' is not a command; did you mean 'maxlogit run %.200s'?", word, word);
  else
    message("'%.200s' is not a command (all: maxlogit help)", word);
  return STATUS_USAGE;
}

/* All output must have been written: a full disk behind a redirection is a failure. */
static void close_output(void)
{
  if (fflush(stdout) || ferror(stdout)) {
    message("cannot write to standard output");
    _exit(STATUS_FAIL);
  }
}

/* A mapped file that another process shortens ends the command with a message. */
static void on_short_file(int number)
{
  static const char text[] = "maxlogit: a file was shortened while it was read\n";
  (void)number;
  ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written;
  _exit(STATUS_FAIL);
}

/* Closed standard streams are opened on /dev/null: otherwise a file of a run would take their descriptor and receive
   the output. SIGXFSZ is ignored, so that a file beyond the size limit is reported as a failed write. */
static void guard_files(void)
{
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(STATUS_FAIL);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGBUS, on_short_file);
}

static int print_version(void)
{
  char stamp[256];
  puts(provenance_stamp(stamp, sizeof stamp));
  return STATUS_OK;
}

/* For ranks that wait for each other before a configuration is read. */
static void set_patience(const struct request *r)
{
  static const char key[] = "comm.timeout=";
  for (int i = 0; i < r->settings; i++) {
    double seconds = strncmp(r->setting[i], key, strlen(key)) ? 0 : strtod(r->setting[i] + strlen(key), NULL);
    if (seconds >= 1 && seconds <= 1e6) comm_patience(seconds); /* others are refused where it is read */
  }
}

static int call(const struct command *c, int argc, char **argv)
{
  struct error e = {0};
  int status = STATUS_OK;
  struct request *r = command_parse(c, argc, argv, &e);
  if (r && r->version)
    print_version();
  else if (r && (r->help || r->usage))
    command_explain(c, !r->help);
  else if (r)
    set_patience(r), status = c->run(r, &e);
  if (r) command_free(c, r);
  return comm_end(status, &e);
}

int main(int argc, char **argv)
{
  guard_files();
  atexit(close_output);
  const char *word = argc > 1 ? argv[1] : "help";
  if (!strcmp(word, "--version") || !strcmp(word, "-V")) return print_version();
  if (!strcmp(word, "--help") || !strcmp(word, "-?") || !strcmp(word, "-h")) word = "help";
  const struct command *command = command_find(word);
  return command ? call(command, argc > 1 ? argc - 1 : 1, argv + (argc > 1)) : unknown(word);
}
