/* main.c - the program: finds the command and hands over */
#include <argp.h>
#include <config.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "app/command.h"
#include "base/error.h"
#include "base/text.h"
#include "storage/provenance.h"

#define COMMAND(name) extern const struct command command_##name;
#include "plugins.def"

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "plugins.def"
  NULL};

const struct command *command_find(const char *name)
{
  for (const struct command *const *c = commands; *c; c++)
    if (!strcmp((*c)->name, name)) return *c;
  return NULL;
}

void command_overview(void)
{
  printf("maxlogit trains small attention stacks, records what every head does, and compares the ways of\n"
         "keeping attention logits bounded.\n\n");
  for (const struct command *const *c = commands; *c; c++) {
    char usage[128];
    snprintf(usage, sizeof usage, "%s %s", (*c)->name, (*c)->arguments);
    printf("  maxlogit %-45s  %s\n", usage, (*c)->help);
  }
  printf("\nStart with `maxlogit run`: it trains the default toy stack in a few seconds.\n"
         "`maxlogit help TOPIC` explains a command, a key (train.lr), a section (train), a plug-in (muon),\n"
         "a claim of the literature (C-17), or every key there is (config).\n");
}

static int unknown(const char *word)
{
  const char *names[64];
  size_t count = 0;
  for (const struct command *const *c = commands; *c && count < 64; c++) names[count++] = (*c)->name;
  const char *near = text_nearest(word, names, count);
  size_t length = strlen(word);
  if (near)
    message("'%.200s' is not a command; did you mean '%s'? (all: maxlogit help)", word, near);
  else if (strchr(word, '=') || (length > 5 && !strcmp(word + length - 5, ".conf")))
    message("'%.200s' is not a command; did you mean 'maxlogit run %.200s'?", word, word);
  else
    message("'%.200s' is not a command (all: maxlogit help)", word);
  return STATUS_USAGE;
}

/* What was printed must have arrived: a full disk behind a redirection is a failure. */
static void close_output(void)
{
  if (fflush(stdout) || ferror(stdout)) {
    message("cannot write to standard output");
    _exit(STATUS_FAIL);
  }
}

/* A standard stream that is closed stays useless: a file of a run, opened in its place, would get what is printed. Past
   a limit of size writing fails, and that is told, instead of the signal's silent end. */
static void guard_files(void)
{
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(STATUS_FAIL);
  signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
  static char stamp[256];
  guard_files();
  argp_err_exit_status = STATUS_USAGE;
  argp_program_version = provenance_stamp(stamp, sizeof stamp);
  atexit(close_output);
  const char *word = argc > 1 ? argv[1] : "help";
  if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
    puts(argp_program_version);
    return STATUS_OK;
  }
  if (!strcmp(word, "--help") || !strcmp(word, "-?") || !strcmp(word, "-h")) word = "help";
  const struct command *command = command_find(word);
  if (!command) return unknown(word);
  char name[64];
  snprintf(name, sizeof name, "maxlogit %s", command->name);
  argv += argc > 1;
  argv[0] = name;
  return command->run(argc > 1 ? argc - 1 : 1, argv);
}
