/* maxlogit run: train, show progress, write one run file */
#include <stdio.h>
#include <sys/resource.h>

#include "app/command.h"
#include "app/report.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/status_line.h"
#include "storage/recorder.h"

struct options {
  struct request request;
  long dry_run, quiet;
};

static const struct command_option options[] = {
  FLAG(dry_run, 'n',
       "print the resolved configuration, where every value came from, and the memory, disk and time wanted; "
       "a few "
       "steps are timed, and nothing is written"),
  FLAG(quiet, 'q', "no progress, no summary"),
  NO_OPTION,
};

static int configure(struct config *c, const struct request *r, struct error *e)
{
  if (r->words.count && config_file(c, r->words.word[0], e)) return e->status;
  for (int i = 0; i < r->settings; i++)
    if (config_assign(c, r->setting[i], e)) return e->status;
  if (config_finish(c, e)) return e->status;
  config_warn_unused(c);
  return STATUS_OK;
}

static int print_entry(void *context, const struct config_entry *x)
{
  (void)context;
  char *value = text_cleaned(x->value, ""), *origin = text_cleaned(x->origin, "");
  if (x->used) printf("%-28s = %-24s # %s\n", x->key, value, origin);
  memory_free(value);
  memory_free(origin);
  return 0;
}

static void print_memory(const struct trainer *t)
{
  size_t bytes[MEMORY_PARTS];
  const struct memory_limit limit = memory_limit("");
  double all = 0;
  trainer_memory(t, bytes);
  for (int i = 0; i < MEMORY_PARTS; i++) all += (double)bytes[i];
  printf("# memory: %.1f MiB", all / 0x1p20);
  for (int i = 0; i < MEMORY_PARTS; i++)
    printf("%s%.1f for %s", i ? ", " : ": ", (double)bytes[i] / 0x1p20, memory_part_names[i]);
  printf("; %s %.1f GiB. Rows of the "
         "record come to it, and a checkpoint while it is written\n",
         limit.by, limit.bytes / 0x1p30);
}

static void print_sizes(struct trainer *t)
{
  double parameters, checkpoint;
  trainer_sizes(t, &parameters, &checkpoint);
  printf(
    "# parameters: %.0f; a checkpoint takes %.1f MiB of disk, and checkpoint.keep sets how many are kept\n",
    parameters, checkpoint / 0x1p20);
}

/* Steps are timed behind the first one, which validates and has spectra. */
static int print_time(struct trainer *t, struct error *e)
{
  enum { MOST = 5 };
  double begin = 0, seconds = 0;
  int timed = -1;
  char all[32];
  fflush(stdout); /* print the known facts before this takes its time */
  while (timed < MOST && seconds < 1 && trainer_more(t) && trainer_ranks(t, NULL) == 1) {
    if (trainer_step(t, e) || trainer_settle(t, e)) return e->status;
    if (!++timed) begin = clock_seconds();
    seconds = clock_seconds() - begin;
  }
  const struct trainer_status now = trainer_status(t);
  if (timed < 1) {
    printf("# time: not known, because %s\n",
           trainer_ranks(t, NULL) > 1 ? "there are several ranks" : "the run has fewer than two steps");
    return STATUS_OK;
  }
  duration_text(all, seconds / timed * (double)now.steps);
  printf("# time: %.3g s per step (mean of %d), so about %s for %ld steps, plus validation and "
         "spectra\n",
         seconds / timed, timed, all, now.steps);
  if (!trainer_more(t) && now.done < now.steps)
    printf("# but the run ended after %ld steps: %s\n", now.done, now.state);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("# memory of the whole process in these steps: %.1f MiB\n", (double)usage.ru_maxrss / 1024);
  return STATUS_OK;
}

static void print_ranks(const struct trainer *t)
{
  enum { MOST = 16 };
  const int ranks = trainer_ranks(t, NULL);
  for (int i = 0; ranks > 1 && i < ranks && i < MOST; i++) {
    const struct rank_part p = trainer_part(t, i);
    printf("# rank %d: micro-batches %ld to %ld", i, p.first_micro,
           p.first_micro + (p.micro_batches - 1) * p.micro_stride);
    if (p.micro_stride > 1) printf(", each %ld-th", p.micro_stride);
    printf("; positions %ld to ", p.from[0]);
    if (p.to[0] != p.from[1]) printf("%ld and %ld to ", p.to[0] - 1, p.from[1]);
    printf("%ld of each sequence\n", p.to[1] - 1);
  }
  if (ranks > MOST) printf("# and so on, to rank %d\n", ranks - 1);
}

static int run(void *request, struct error *e)
{
  const struct options *r = request;
  struct trainer *t = NULL;
  if (!r->dry_run) drive_catch_signals(); /* there is nothing to save */
  if (use_ranks(e)) return e->status;
  struct config *c = config_new();
  int status = configure(c, &r->request, e);
  const struct record_options *record = config_section(c, "record");
  if (!status && !r->dry_run && *record->path && !record->overwrite)
    status = recorder_refuse_rest(record->path, "record.overwrite=1 does", e);
  if (!status) status = trainer_init(&t, c, r->dry_run ? TRAINER_IN_MEMORY : 0, e);
  if (!status && r->dry_run) {
    printf("# run %s\n", trainer_id(t));
    print_memory(t);
    print_sizes(t);
    print_ranks(t);
    config_each(c, print_entry, NULL);
    status = print_time(t, e);
    trainer_abandon(t);
  } else if (!status) {
    status = report_drive(t, r->quiet, e);
  }
  config_free(c);
  return status;
}

const struct command command_run = {
  .name = "run",
  .arguments = "[FILE.conf] [key=value ...]",
  .help = "train; prints progress; writes one run file",
  .about =
    "Train one run and write its record. Without arguments: the default toy stack on a built-in source.",
  .more = "Keys: maxlogit help config. Presets and plug-ins: maxlogit list.\n"
          "Ctrl-C, SIGTERM or SIGUSR1: the step in hand is finished, the state saved, exit status 75; "
          "maxlogit resume "
          "goes on. Before the first step too; only while the program is still being loaded does a signal "
          "end it as it "
          "ends any, with nothing written. A second Ctrl-C ends it at once.\n\n"
          "maxlogit run preset=muon train.steps=40 record.path=a.h5\nmaxlogit run --dry-run preset=muonclip "
          "qk_clip.tau=30",
  OPTIONS,
  .most = 1,
  .once = "one configuration file at most",
  .settings = 1,
  .run = run,
};
