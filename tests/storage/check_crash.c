/* check_crash.c - the whole program killed, starved and interrupted: afterwards the record is that of a run in one go
   A line per promise with its counts. MAXLOGIT_TEST_LONG=1 asks for thousands of trials, MAXLOGIT_TEST_SEED for other
   random ones. */
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/random.h"
#include "child.h"
#include "../long.h"
#include "../same_run.h"

/* Clips, spectra, validation, probes and stored batches, in a few milliseconds a step. */
#define STEPS "30"
static const char *const settings[] = {
  "preset=muonclip",        "qk_clip.tau=0.6",      "model.layers=2",     "model.width=16",
  "model.heads=2",          "model.context=16",     "model.ffn_width=32", "train.batch=2",
  ("train.steps=" STEPS),   "train.lr=0.02",        "train.val_every=10", "train.val_batches=1",
  "record.spectra_every=5", "record.probe_every=6", "record.batches=1",   "record.level=0.3",
  "record.pairs=1",         "record.bound=1",       "checkpoint.every=7", "checkpoint.seconds=0",
  "device.threads=1",
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static char folder[] = "check_crash.XXXXXX";
static struct draw chance;
static uint64_t drawn;

static uint64_t below(uint64_t n) { return draw_below(chance, drawn++, n); }

struct how {
  const char *fault;
  long file_limit;
  const char *const *extra;
};

static pid_t start(const char *command, const char *run, struct how how)
{
  const char *words[CHILD_WORDS] = {command};
  char record[256];
  int n = 1;
  snprintf(record, sizeof record, "record.path=%s", run);
  if (!strcmp(command, "run")) {
    for (int i = 0; i < SETTINGS; i++) words[n++] = settings[i];
    words[n++] = record;
  } else
    words[n++] = run;
  for (int i = 0; how.extra && how.extra[i]; i++) words[n++] = how.extra[i];
  return child_start(".", how.fault, how.file_limit, words);
}

static int run(const char *command, const char *path, struct how how)
{
  return child_end(start(command, path, how));
}

/* No checkpoint file may be anything but whole. */
static void check_checkpoints(const char *path, const char *what)
{
  struct checkpoint c;
  struct error e = {0};
  int status = checkpoint_latest(path, &c, &e);
  if (status == STATUS_FAIL) wrong("%s: %s", what, e.text);
  if (!status) checkpoint_free(&c);
}

/* Go on after whatever happened, as a user would; then the run must be that of the reference. */
static void recover(const char *path, const char *what)
{
  int there = !access(path, F_OK);
  check_checkpoints(path, what);
  int status = run(there ? "resume" : "run", path, (struct how){0});
  if (status)
    wrong("%s: %s gives %d: %s", what, there ? "resume" : "run", status, last_log());
  else if (same_run("ref.h5", path, 1, NULL, stderr))
    wrong("%s: not the same run", what);
}

static void clear(void) { shell("rm -rf x.*"); }

/* --- the promises -------------------------------------------------------------------------------------- */

static double run_seconds;

static void make_reference(void)
{
  struct run_file *f = NULL;
  struct run_event *event = NULL;
  struct error e = {0};
  long count = 0, clips = 0;
  double began = clock_seconds();
  int status = run("run", "ref.h5", (struct how){0});
  run_seconds = clock_seconds() - began;
  if (status) wrong("reference: %d: %s", status, last_log());
  if (run_open(&f, "ref.h5", &e) || run_events(f, &event, &count, &e)) wrong("reference: %s", e.text);
  for (long i = 0; i < count; i++) clips += !strcmp(event[i].kind, "clip");
  if (!clips) wrong("the reference has no clip: it would not show that one is lost");
  memory_free(event);
  run_close(f);
}

/* P1: kill -9 at any instant, also of the resume. */
static void random_kills(void)
{
  long trials = amount(3, 2000), kills = 0;
  for (long t = 0; t < trials; t++) {
    char what[64];
    snprintf(what, sizeof what, "random kill, trial %ld", t);
    clear();
    do {
      pid_t child = start(access("x.h5", F_OK) ? "run" : "resume", "x.h5", (struct how){0});
      usleep((useconds_t)(run_seconds * 1e6 * (double)below(1000) / 1000));
      kill(child, SIGKILL);
      kills += child_end(child) == 128 + SIGKILL;
    } while (below(3));
    recover("x.h5", what);
  }
  printf("P1 %ld runs, %ld kills at random times\n", trials, kills);
}

/* P1, P2: a fault at the k-th call that reaches the disk, for every k until one run goes through. */
static void every_fault(const char *kind, int wanted)
{
  long step = amount(strcmp(kind, "kill") ? 67 : 3, 1), hits = 0, k = 1;
  for (;; k += step) {
    char fault[64];
    snprintf(fault, sizeof fault, "io:%ld:%s", k, kind);
    clear();
    int status = run("run", "x.h5", (struct how){.fault = fault});
    if (!status && strcmp(kind, "short")) /* a short write is carried on with: every k succeeds */
      break;
    if (status != wanted) wrong("%s: exit %d, not %d: %s", fault, status, wanted, last_log());
    hits++;
    if (!strcmp(kind, "kill") && !access("x.h5", F_OK)) { /* and the resume */
      status = run("resume", "x.h5", (struct how){.fault = fault});
      if (status && status != wanted)
        wrong("resume, %s: exit %d, not %d: %s", fault, status, wanted, last_log());
      status = wanted;
    }
    if (status)
      recover("x.h5", fault);
    else if (same_run("ref.h5", "x.h5", 1, NULL, stderr))
      wrong("%s: not the same run", fault);
    if (!strcmp(kind, "short") && k > 150) break;
  }
  printf("%s %s at call 1, %ld, ... that reaches the disk: %ld times\n", !strcmp(kind, "kill") ? "P1" : "P2",
         kind, 1 + step, hits);
}

/* P3: a damaged checkpoint is not believed: the one before serves, or none and it is said. */
static void damage(void)
{
  long trials = amount(3, 500);
  for (long t = 0; t < trials; t++) {
    char path[4096], what[64];
    struct stat now;
    clear();
    char fault[64];
    snprintf(fault, sizeof fault, "io:%d:kill", 35 + (int)below(30));
    run("run", "x.h5", (struct how){.fault = fault});
    struct checkpoint c;
    struct error e = {0};
    if (checkpoint_latest("x.h5", &c, &e)) {
      wrong("damage: %s", e.text);
      return;
    }
    checkpoint_path(path, "x.h5", c.step);
    checkpoint_free(&c);
    if (stat(path, &now)) wrong("%s is missing", path);
    FILE *f = fopen(path, "r+b");
    long at = (long)below((uint64_t)now.st_size);
    fseek(f, at, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 1 << below(8), f);
    fclose(f);
    snprintf(what, sizeof what, "bit flip at byte %ld", at);
    int status = run("resume", "x.h5", (struct how){0});
    const char *log = last_log();
    if (status || !strstr(log, "step-000000")) wrong("%s: exit %d: %s", what, status, log);
    if (same_run("ref.h5", "x.h5", 1, NULL, stderr)) wrong("%s: not the same run", what);
  }
  printf("P3 %ld checkpoints damaged: named, and the one before used\n", trials);
}

/* P4: the disk is full at some size of file; with room again the run goes on. */
static void full_disk(void)
{
  static const double shares[] = {0.01, 0.3, 0.6, 0.8, 0.95}; /* of the whole run file */
  int n = 0;
  struct stat whole;
  if (stat("ref.h5", &whole)) wrong("ref.h5 is missing");
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    char what[64];
    long limit = (long)(shares[i] * (double)whole.st_size);
    snprintf(what, sizeof what, "files of at most %ld bytes", limit);
    clear();
    int status = run("run", "x.h5", (struct how){.file_limit = limit});
    const char *log = last_log();
    if (!status) continue;
    n++;
    if (status != STATUS_FAIL || !strstr(log, "x.")) wrong("%s: exit %d: %s", what, status, log);
    recover("x.h5", what);
  }
  if (n < 3) wrong("full disk: only %d of the sizes were too small", n);
  printf("P4 full disk at %d sizes\n", n);
}

/* P5: the k-th allocation fails. */
static void no_memory(void)
{
  long k = 1, tried = 0, stride = amount(451, 1), status;
  for (;; k += stride) {
    char fault[64];
    snprintf(fault, sizeof fault, "memory:%ld", k);
    clear();
    status = run("run", "x.h5", (struct how){.fault = fault});
    if (!status) break;
    tried++;
    if (status != STATUS_FAIL || !strstr(last_log(), "memory"))
      wrong("%s: exit %ld: %s", fault, status, last_log());
    if ((is_long() ? k % 20 : tried % 5) == 0) recover("x.h5", fault);
  }
  printf("P5 %ld failing allocations of %ld\n", tried, k);
}

/* P8: resumed from every checkpoint of a run that kept them all; and killed and resumed until it is done. */
static void chain(void)
{
  static const char *const keep[] = {"checkpoint.keep=all", NULL};
  int from = 0, links = 0;
  clear();
  run("run", "x.h5", (struct how){.fault = "io:75:kill", .extra = keep});
  shell("rm -rf all; mkdir all; cp -r x.* all");
  for (int step = 28; step >= 0; step -= 7, from++) {
    char what[64];
    snprintf(what, sizeof what, "resume from checkpoint %d", step);
    clear();
    shell("cp -r all/x.* .; for f in x.ckpt/step-*; do test ${f#x.ckpt/step-} '<' %08d.h6 || rm $f; done",
          step);
    recover("x.h5", what);
  }
  clear();
  int status = run("run", "x.h5", (struct how){.fault = "io:20:kill"});
  for (int k = 12; status && links < 100; k += 3, links++) {
    char fault[64];
    snprintf(fault, sizeof fault, "io:%d:kill", k);
    status = run("resume", "x.h5", (struct how){.fault = fault});
  }
  recover("x.h5", "chain of kills and resumes");
  printf("P8 resumed from each of %d checkpoints, and %d times in a chain\n", from, links);
}

/* P8: a signal at the k-th call that reaches the disk, the first of all among them, stops cleanly with 75 and says
   how to go on. */
static void stops(void)
{
  long stride = amount(45, 1), stopped = 0;
  for (long k = 1;; k += stride) {
    char fault[64];
    snprintf(fault, sizeof fault, "io:%ld:%s", k, k % 2 ? "int" : "term");
    clear();
    int status = run("run", "x.h5", (struct how){.fault = fault});
    if (!status && same_run("ref.h5", "x.h5", 1, NULL, stderr)) wrong("%s: not the same run", fault);
    if (!status) break; /* all steps were done before */
    if (status != STATUS_STOPPED) wrong("%s: exit %d: %s", fault, status, last_log());
    if (!strstr(last_log(), "resume")) wrong("%s: stopped without a word on resume: %s", fault, last_log());
    stopped++;
    recover("x.h5", fault);
  }
  if (!stopped) wrong("no run was stopped by a signal");
  printf("P8 signal at call 1, %ld, ... that reaches the disk: %ld times\n", 1 + stride, stopped);
}

/* P8: a signal from outside at any instant. Before the program has begun it ends it, and nothing is there; after
   the last step it changes nothing; else it is a stop. How many fall where is the machine's business. */
static void outside_signals(void)
{
  long trials = amount(3, 100), stopped = 0;
  for (long t = 0; t < trials; t++) {
    int sent = t % 2 ? SIGTERM : SIGINT;
    clear();
    pid_t child = start("run", "x.h5", (struct how){0});
    if (t >= 2) usleep((useconds_t)(run_seconds * 1e6 * (double)below(1000) / 1000));
    kill(child, sent);
    int status = child_end(child);
    if (status == 128 + sent) {
      shell("! ls -d x.* 2> /dev/null");
    } else if (status && status != STATUS_STOPPED) {
      wrong("signal from outside: exit %d: %s", status, last_log());
    } else {
      stopped += status == STATUS_STOPPED;
      recover("x.h5", "signal from outside");
    }
  }
  printf("P8 %ld signals from outside, %ld of them in time to stop\n", trials, stopped);
}

/* P17: a second writer exits at once. */
static void second_writer(void)
{
  static const char *const endless[] = {"train.steps=1000000", NULL};
  static const char *const overwrite[] = {"record.overwrite=1", NULL};
  clear();
  pid_t first = start("run", "x.h5", (struct how){.extra = endless});
  while (access("x.h5", F_OK) && !waitpid(first, NULL, WNOHANG)) usleep(2000);
  int resumed = run("resume", "x.h5", (struct how){0});
  if (resumed != STATUS_FAIL || !strstr(last_log(), "lock"))
    wrong("second writer, resume: exit %d: %s", resumed, last_log());
  int again = run("run", "x.h5", (struct how){.extra = overwrite});
  if (again != STATUS_FAIL || !strstr(last_log(), "lock"))
    wrong("second writer, run: exit %d: %s", again, last_log());
  kill(first, SIGKILL);
  child_end(first);
  printf("P17 second writers refused\n");
}

int main(void)
{
  const char *seed = getenv("MAXLOGIT_TEST_SEED"), *wanted = getenv("MAXLOGIT_TEST_ONLY");
  static const struct {
    const char *name;
    void (*test)(void);
  } tests[] = {
    {"kills", random_kills}, {"damage", damage}, {"disk", full_disk},          {"memory", no_memory},
    {"chain", chain},        {"stops", stops},   {"outside", outside_signals}, {"writer", second_writer},
  };
  static const struct {
    const char *kind;
    int exit;
  } faults[] = {
    {"kill", 128 + SIGKILL}, {"eio", STATUS_FAIL}, {"enospc", STATUS_FAIL},
    {"fsync", STATUS_FAIL},  {"short", 0},
  };
  chance = (struct draw){seed ? (uint64_t)atoll(seed) : 1, STREAM_TEST, 0};
  if (child_folder(folder)) return 1;
  make_reference();
  for (size_t i = 0; i < sizeof tests / sizeof *tests && !failures; i++)
    if (!wanted || !strcmp(wanted, tests[i].name)) tests[i].test();
  for (size_t i = 0; i < sizeof faults / sizeof *faults && !failures; i++)
    if (!wanted || !strcmp(wanted, faults[i].kind)) every_fault(faults[i].kind, faults[i].exit);
  if (failures) return 1;
  if (!chdir("..")) shell("rm -rf %s", folder);
  return 0;
}
