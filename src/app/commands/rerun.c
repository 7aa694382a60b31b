/* maxlogit rerun: the same run again, bit for bit, with more recorded */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/report.h"
#include "app/words.h"
#include "base/file.h"
#include "run/rerun.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/change.h"

struct arguments {
  struct words words;
  const char *output;
  int quiet;
  long from; /* -1: the start */
};
enum { KEY_FROM = 256 };

static const struct argp_option options[] = {
  {"output", 'o', "OUT.h5", 0,
   "write here, and leave RUN.h5 as it is (default: RUN.h5 is replaced once it is the same)", 0},
  {"from", KEY_FROM, "STEP", 0,
   "Begin with the newest checkpoint of at most so many steps (checkpoint.keep=all keeps them); what was "
   "recorded "
   "before stays as it is",
   0},
  {"quiet", 'q', NULL, 0, "print nothing", 0},
  {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case 'o': a->output = arg; return 0;
  case 'q': a->quiet = 1; return 0;
  case KEY_FROM: {
    char *end;
    a->from = strtol(arg, &end, 10);
    if (end == arg || *end || a->from < 0) argp_error(state, "--from=%s: a step is wanted", arg);
    return 0;
  }
  case ARGP_KEY_INIT: state->child_inputs[0] = &a->words; return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* What the run left beside the file that takes the place of the first. */
static int take_place(const char *again, const char *path, struct error *e)
{
  char live[4096], old_live[4096], folder[4096];
  run_sibling(live, again, ".live.tsv");
  run_sibling(old_live, path, ".live.tsv");
  run_sibling(folder, again, ".ckpt");
  int status = checkpoint_remove_all(again, e);
  rmdir(folder); /* empty now */
  if (!status) status = file_publish(again, path, e);
  if (!status && !access(live, F_OK)) status = file_publish(live, old_live, e);
  return status;
}

static int repeat(const struct arguments *a, struct error *e)
{
  const char *path = a->words.file;
  char again[4096], lock_path[4096];
  struct trainer *t = NULL;
  struct config *c = NULL;
  int series = 0;
  if (a->output && !access(a->output, F_OK)) return error_set(e, STATUS_USAGE, "%s exists", a->output);
  rerun_path(again, path, a->output);
  run_sibling(lock_path, path, ".lock");
  int status = trainer_config_of(path, &c, NULL, e); /* no run file: said before anything is made beside it */
  if (status) return status;
  config_free(c);
  struct lock *lock = lock_take(lock_path, e);
  if (!lock && !(a->output && (errno == EACCES || errno == EROFS))) return e->status;
  *e = (struct error){0}; /* no run is written where nobody may write */
  status = rerun_init(&t, &c, path, a->output, a->words.assignment, a->words.count, a->from, e);
  long begins = t ? trainer_step_count(t) : 0;
  if (!status) status = report_drive(t, 1, e);
  if (status == STATUS_DIVERGED) status = STATUS_OK; /* as the first time, or the comparison says so */
  if (status == STATUS_STOPPED)
    error_set(e, status, "stopped; `maxlogit rerun %s` begins again", path);
  else if (!status)
    status = rerun_compare(path, again, &series, e);
  if (!status) status = notes_carry(path, again, e);
  if (!status && !a->output) status = take_place(again, path, e);
  char since[64] = "";
  if (a->from >= 0) snprintf(since, sizeof since, ", from step %ld on", begins);
  if (!status && !a->quiet)
    printf("the same to the bit in %d series and all events%s\n  record     %s\n", series, since,
           a->output ? a->output : path);
  if (status == STATUS_FAIL && t) error_prefix(e, "%s is kept as it was, what came now is %s", path, again);
  if (c) config_free(c);
  lock_release(lock, lock_path);
  return status;
}

static int rerun(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "RUN.h5 [key=value ...]",
    "Repeat a run from its start (or --from a checkpoint), bit for bit, with more recorded; afterwards every "
    "series that it had is "
    "compared.\v"
    "Keys: what is recorded (record.probe_every=1, record.spectra_every=10, record.batches=1), checkpoints, "
    "paths and "
    "threads; one that would change the numbers is refused. A difference, which another machine or another "
    "build may make, "
    "is told with series and step, exit status 1, and RUN.h5 stays what it was.",
    words_child,
    NULL,
    NULL};
  struct arguments a = {.from = -1,
                        .words = {.wanted = "which run? maxlogit rerun RUN.h5", .once = "one run at a time"}};
  struct error e = {0};
  drive_catch_signals();
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int status = repeat(&a, &e);
  words_free(&a.words);
  return *e.text ? report_error(&e) : status;
}

const struct command command_rerun = {.name = "rerun",
                                      .arguments = "RUN.h5 [key=value ...]",
                                      .help = "the same run again, with more recorded",
                                      .run = rerun};
