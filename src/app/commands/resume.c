/* maxlogit resume: continue a run from its last checkpoint */
#include <string.h>

#include "app/command.h"
#include "app/report.h"
#include "maxlogit/record.h"
#include "storage/layout.h"
#include "base/file.h"
#include "storage/run_file.h"
#include "base/text.h"

struct options {
  struct request request;
  long quiet;
};

static const struct command_option options[] = {
  FLAG(quiet, 'q', "no progress, no summary"),
  NO_OPTION,
};

/* Write the rows of a killed recording's journal into its file. */
static int take_journal(const char *path, struct error *e)
{
  struct maxlogit_record_options go_on = {.mode = MAXLOGIT_RESUME};
  struct maxlogit_recorder *m;
  struct maxlogit_error failed;
  int status = maxlogit_record_open(&m, path, &go_on, &failed);
  if (status) return error_set(e, status, "%s", failed.text);
  const long steps = maxlogit_record_last_step(m) + 1;
  if (maxlogit_record_close(&m, "stopped", &failed)) {
    status = error_set(e, failed.status, "%s", failed.text);
    maxlogit_record_discard(&m);
    return status;
  }
  message(
    "%s: all %ld steps of its journal are in the file; only the program that recorded it can go on with it",
    path, steps);
  return STATUS_OK;
}

/* A run that is over needs no resume: say so without touching it. */
static int is_over(const char *path, int *over, int *recorded, struct error *e)
{
  struct run_file *r = NULL;
  int status = run_open_trained(&r, path, e);
  if (status) return status;
  const char *state = run_state(r);
  *recorded = run_has_journal_of_recording(r);
  if (!*recorded && !strcmp(run_data(r), DATA_RECORDED)) {
    run_close(r);
    return run_open_own(&r, path, e); /* which refuses it */
  }
  *over = !strcmp(state, "finished") || !strcmp(state, "diverged");
  if (*over)
    message("%s: nothing to do, this run is %s after %ld step%s", path, state, run_last_step(r),
            text_s(run_last_step(r)));
  run_close(r);
  return STATUS_OK;
}

static int resume(void *request, struct error *e)
{
  const struct options *r = request;
  char resolved[4096];
  const char *path = file_resolve(r->request.words.word[0], resolved);
  struct trainer *t = NULL;
  int over = 0, recorded = 0;
  file_keep_private(path);
  drive_catch_signals();
  if (use_ranks(e)) return e->status;
  int status = r->request.settings ? STATUS_OK : is_over(path, &over, &recorded, e);
  if (recorded) return take_journal(path, e);
  if (!status && !over) status = trainer_resume(&t, path, r->request.setting, r->request.settings, e);
  return t ? report_drive(t, r->quiet, e) : status;
}

const struct command command_resume = {
  .name = "resume",
  .arguments = "RUN.h5 [key=value ...]",
  .help = "continue a run, bit for bit",
  .about = "Continue a run from its last checkpoint, bit for bit.",
  .more = "Only keys that cannot change the past may be given: train.steps upwards under a constant "
          "schedule, paths, "
          "threads, recording intervals. Of a recording by another program that was killed, the rows of its "
          "journal are "
          "put into the file.\n\n"
          "maxlogit resume a.h5\nmaxlogit resume a.h5 train.steps=80",
  OPTIONS,
  ONE_RUN,
  .settings = 1,
  .run = resume,
};
