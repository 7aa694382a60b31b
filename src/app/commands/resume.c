/* maxlogit resume: continue a run from its last checkpoint */
#include <argp.h>
#include <string.h>

#include "app/command.h"
#include "app/report.h"
#include "app/words.h"
#include "storage/recorder.h"
#include "base/text.h"

struct arguments {
  struct words words;
  int quiet;
};

static const struct argp_option options[] = {{"quiet", 'q', NULL, 0, "no progress, no summary", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  (void)arg;
  switch (key) {
  case 'q': a->quiet = 1; return 0;
  case ARGP_KEY_INIT: state->child_inputs[0] = &a->words; return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* A run that is over needs no resume: say so without touching it. */
static int is_over(const char *path, int *over, struct error *e)
{
  struct run_file *r = NULL;
  int status = run_open_trained(&r, path, e);
  if (status) return status;
  const char *state = run_state(r);
  *over = !strcmp(state, "finished") || !strcmp(state, "diverged");
  if (*over)
    message("%s: nothing to do, this run is %s after %ld step%s", path, state, run_last_step(r),
            text_s(run_last_step(r)));
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
    words_child,
    NULL,
    NULL};
  struct arguments a = {
    .words = {.wanted = "which run? maxlogit resume RUN.h5", .once = "one run at a time"}};
  struct error e = {0};
  struct trainer *t = NULL;
  int over = 0;
  drive_catch_signals();
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  int status = a.words.count ? STATUS_OK : is_over(a.words.file, &over, &e);
  if (!status && !over) status = trainer_resume(&t, a.words.file, a.words.assignment, a.words.count, &e);
  if (t) status = report_drive(t, a.quiet, &e);
  words_free(&a.words);
  return *e.text ? report_error(&e) : status;
}

const struct command command_resume = {.name = "resume",
                                       .arguments = "RUN.h5 [key=value ...]",
                                       .help = "continue a run, bit for bit",
                                       .run = resume};
