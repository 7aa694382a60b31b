/* maxlogit rerun: the same run again, bit for bit, with more recorded */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/report.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/comm.h"
#include "run/rerun.h"
#include "storage/checkpoint.h"
#include "storage/journal.h"
#include "storage/layout.h"
#include "storage/notes.h"
#include "storage/run_file.h"

struct options {
  struct request request;
  const char *output;
  long quiet, from; /* from -1: the start */
};

static const struct command_option options[] = {
  TEXT(output, 'o', "OUT.h5", NULL,
       "write here, and leave RUN.h5 as it is (default: RUN.h5 is replaced once it is the same)"),
  WHOLE(
    from, 0, "STEP", "-1", 0, NO_LIMIT,
    "Begin with the newest checkpoint of at most so many steps (checkpoint.keep=all keeps them); what was "
    "recorded before stays as it is"),
  FLAG(quiet, 'q', "print nothing"),
  NO_OPTION,
};

/* Write the new file over the first one, and remove the files of the rerun. */
static int take_place(const char *again, const char *path, struct lock *lock, struct error *e)
{
  char journal[4096];
  struct error ignored = {0};
  run_sibling(journal, path, ".journal");
  if (notes_carry(path, again, path, lock, e)) return e->status;
  checkpoint_remove_folder(again, &ignored);
  file_remove(again);
  journal_remove(journal, &ignored); /* of the first, which was not over; it does not count any more */
  return STATUS_OK;
}

static int compare(const char *first, const char *again, int *series, long *resumed, struct error *e)
{
  struct run_file *r = NULL;
  if (run_open(&r, first, e)) return e->status;
  *resumed = rerun_resumed(r);
  run_close(r);
  return rerun_compare(first, again, series, e);
}

static int rerun(void *request, struct error *e)
{
  const struct options *a = request;
  char again[4096], lock_path[4096], resolved[4096];
  const char *path = file_resolve(a->request.words.word[0], resolved);
  struct trainer *t = NULL;
  struct config *c = NULL;
  int series = 0;
  file_keep_private(path);
  drive_catch_signals();
  if (use_ranks(e)) return e->status;
  const int has_files = comm_world(e)->rank == 0;
  if (has_files && a->output && !access(a->output, F_OK))
    return error_set(e, STATUS_USAGE, "%s exists", a->output);
  rerun_path(again, path, a->output);
  if (a->output && text_ends_with(a->output, ".rerun.h5"))
    return error_set(
      e, STATUS_USAGE,
      "--output: a rerun may replace %s, as it does what a stopped one left: give another name", a->output);
  run_sibling(lock_path, path, ".lock");
  int status = trainer_config_of(path, &c, NULL, e); /* no run file: said before anything is made beside it */
  if (status) return status;
  config_free(c);
  struct lock *lock = has_files ? lock_take(lock_path, e) : NULL;
  if (has_files && !lock && !(a->output && (errno == EACCES || errno == EROFS))) return e->status;
  *e = (struct error){0}; /* a folder without write permission needs no lock: no run is written there */
  char *text = NULL;
  if (lock && file_read_held(path, &text, NULL, lock, e)) status = e->status; /* for its rights */
  if (lock) lock_keep_private(lock);
  memory_free(text);
  if (!status)
    status = rerun_init(&t, &c, path, a->output, a->request.setting, a->request.settings, a->from, e);
  long resumed = 0, begins = t ? trainer_status(t).done : 0;
  if (!status) status = report_drive(t, 1, e);
  if (status == STATUS_DIVERGED)
    status = STATUS_OK; /* as in the first run; otherwise the comparison reports it */
  if (status == STATUS_STOPPED) {
    char *word = shell_word(path);
    error_set(e, status, "stopped; `maxlogit rerun %s` begins again", word);
    memory_free(word);
  } else if (!status && has_files)
    status = compare(path, again, &series, &resumed, e);
  if (!status && has_files)
    status = a->output ? notes_carry(path, again, again, NULL, e) : take_place(again, path, lock, e);
  char since[128] = "";
  if (a->from >= 0) snprintf(since, sizeof since, ", from step %ld on", begins);
  if (resumed > begins)
    snprintf(since + strlen(since), sizeof since - strlen(since),
             "; before step %ld, where it was resumed, in rows that it has", resumed);
  if (!status && !a->quiet) {
    printf("the same to the bit in %d series and all events%s\n  record     ", series, since);
    text_print_line(a->output ? a->output : path);
  }
  if (status == STATUS_FAIL && t) error_prefix(e, "%s is kept as it was, what came now is %s", path, again);
  if (c) config_free(c);
  lock_release(lock, lock_path);
  return status;
}

const struct command command_rerun = {
  .name = "rerun",
  .arguments = "RUN.h5 [key=value ...]",
  .help = "repeat a run and record more",
  .about =
    "Repeat a run from its start (or --from a checkpoint), bit for bit, with more recorded; afterwards every "
    "series that it had is compared.",
  .more = "Keys: what is recorded (record.probe_every=1, record.spectra_every=10, record.batches=1), "
          "checkpoints, paths "
          "and threads; one that would change the numbers is refused. A difference, which another machine or "
          "another "
          "build may make, is told with series and step, exit status 1, and RUN.h5 stays what it was.\n\n"
          "maxlogit rerun a.h5 record.spectra_every=1\nmaxlogit rerun a.h5 -o b.h5 record.probe_every=1",
  OPTIONS,
  ONE_RUN,
  .settings = 1,
  .run = rerun,
};
