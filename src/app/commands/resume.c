/* maxlogit resume: continue a run from its last checkpoint */
#include <argp.h>
#include <string.h>

#include "app/command.h"
#include "app/report.h"
#include "storage/recorder.h"

enum { MAX_CHANGES = 64 };

struct arguments {
  const char *file, *change[MAX_CHANGES];
  int count, quiet;
};

static const struct argp_option options[] = {{"quiet", 'q', NULL, 0, "no progress, no summary", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case 'q': a->quiet = 1; return 0;
  case ARGP_KEY_ARG:
    if (strchr(arg, '=')) {
      if (a->count == MAX_CHANGES) argp_error(state, "more than %d key=value arguments", MAX_CHANGES);
      a->change[a->count++] = arg;
    } else if (!a->file)
      a->file = arg;
    else
      argp_error(state, "'%s': one run at a time", arg);
    return 0;
  case ARGP_KEY_END:
    if (!a->file) argp_error(state, "which run? maxlogit resume RUN.h5");
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* A run that is over needs no resume: say so without touching it. */
static int is_over(const char *path, int *over, struct error *e)
{
  struct run_file *r = NULL;
  int status = run_open(&r, path, e);
  if (status) return status;
  const char *state = run_state(r);
  *over = !strcmp(state, "finished") || !strcmp(state, "diverged");
  if (*over) message("%s: nothing to do, this run is %s after %ld steps", path, state, run_last_step(r));
  run_close(r);
  return STATUS_OK;
}

static int resume(int argc, char **argv)
{
  static const struct argp argp = {
    options,
    parse,
    "RUN.h5 [key=value ...]",
    "Continue a run from its last checkpoint, bit for bit.\vOnly keys that cannot change the past may be "
    "given: "
    "train.steps upwards under a constant schedule, paths, threads, recording intervals.",
    NULL,
    NULL,
    NULL};
  struct arguments a = {0};
  struct error e = {0};
  struct trainer *t = NULL;
  int over = 0;
  drive_catch_signals();
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int status = a.count ? STATUS_OK : is_over(a.file, &over, &e);
  if (!status && !over) status = trainer_resume(&t, a.file, a.change, a.count, &e);
  if (t) status = report_drive(t, a.quiet, &e);
  return *e.text ? report_error(&e) : status;
}

const struct command command_resume = {.name = "resume",
                                       .arguments = "RUN.h5 [key=value ...]",
                                       .help = "continue a run, bit for bit",
                                       .run = resume};
