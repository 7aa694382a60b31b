/* check_batched_run.c - runs computed together have the bits, files and ends that they have alone: on the CPU,
   where threads take whole runs, and on a GPU, which computes a step of all at once (or with the CPU in its place, see
   cuda_runtime_on_host.h) */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/thread.h"
#include "../folder.h"
#include "../gpu_here.h"
#include "numerics/run_arena.h"
#include "run/drive.h"
#include "run/batched_run.h"
#include "../same_run.h"
#include "training/optimizer.h"
#include "training/schedule.h"

enum { POINTS = 11 };

static char dir[FOLDER_PATH];

/* Devices, each with a stack and lengths that it computes soon. */
struct place {
  const char *device;
  int stop_at, end; /* of the first run: a signal; of point 4 */
  const char *settings[20];
};
static const struct place places[] = {
  {"cpu",
   25,
   17,
   {"model.layers=2", "model.width=16", "model.context=16", "train.batch=4", "train.micro_batches=2",
    "train.steps=60", "train.val_every=20", "record.spectra_every=20", "record.probe_every=15",
    "checkpoint.every=10"}},
  {"cuda",
   5,
   4,
   {"model.layers=1", "model.width=8", "model.context=4", "train.batch=2", "train.micro_batches=2",
    "train.steps=8", "train.val_every=4", "train.val_batches=1", "record.spectra_every=3",
    "record.probe_every=3", "checkpoint.every=4", "markov.symbols=8"}},
};
enum { CPU, CUDA, PLACES };
static const struct place *place;

/* Mere numbers differ: rates, decay, betas, caps of the clip, seeds, schedules, ends; points 6, 8 and 10 have
   structures of their own. Point 3 diverges, point 4 ends early. */
static const char *const points[POINTS][8] = {
  {"train.lr=0.02", NULL},
  {"train.seed=7", "train.weight_decay=0", "adam.beta2=0.99", NULL},
  {"qk_clip.tau=0.5", "muon.momentum=0.8", "train.warmup=3", NULL},
  {"train.lr=1e30", "train.warmup=20", "train.weight_decay=1e6", NULL},
  {"train.seed=3", NULL},
  {"train.schedule=cosine", "train.lr=0.05", NULL},
  {"model.ffn_width=24", "train.lr=0.03", NULL},
  {"train.grad_clip=0.1", "qk_clip.alpha=0.2", "train.spike=2", NULL},
  {"model.ffn=moe", "moe.experts=4", "moe.balance=both", "moe.bias_rate=0.05", NULL},
  {"train.seed=11", "muon.rms=0.4", "train.schedule=linear", "qk_clip.tau=4.4", NULL},
  {"model.mtp=1", "model.mtp_weight=0.5", NULL},
};

static void assign(struct config *c, const char *const *settings)
{
  struct error e = {0};
  for (; *settings; settings++) ck_assert_msg(!config_assign(c, *settings, &e), "%s", e.text);
}

static struct config *config_of(const char *device, int point, const char *folder)
{
  static const char *const common[] = {"preset=muonclip",
                                       "model.heads=2",
                                       "record.batches=1",
                                       "record.bound=1",
                                       "checkpoint.seconds=0",
                                       "device.threads=1",
                                       NULL};
  struct config *c = config_new();
  struct error e = {0};
  char path[256], end[32];
  const char *const ends[] = {end, NULL};
  assign(c, common);
  assign(c, place->settings);
  assign(c, points[point]);
  snprintf(end, sizeof end, "train.steps=%d", place->end);
  if (point == 4) assign(c, ends);
  snprintf(path, sizeof path, "%s/%s/%d.h5", dir, folder, point);
  ck_assert(!config_set(c, "device", device, "test", &e));
  ck_assert(!config_set(c, "record.path", path, "test", &e));
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  return c;
}

static void path_of(char path[256], const char *folder, int point)
{
  snprintf(path, 256, "%s/%s/%d.h5", dir, folder, point);
}

/* Points [from, from+count) fresh, together. */
static void compute(const char *device, const char *folder, int from, int count, int threads,
                    void (*step)(void *, int, const struct trainer *))
{
  struct batched_run run[POINTS] = {{0}};
  for (int i = 0; i < count; i++) run[i].config = config_of(device, from + i, folder);
  batched_run_drive(run, count, threads, &(struct batched_run_hooks){.step = step});
  for (int i = 0; i < count; i++) {
    ck_assert_msg(run[i].status == STATUS_OK || step, "point %d: %s", from + i, run[i].error.text);
    config_free(run[i].config);
  }
}

static void go_on(const char *folder, const int *point, int count, int threads)
{
  struct batched_run run[POINTS] = {{0}};
  char path[POINTS][256];
  for (int i = 0; i < count; i++) {
    path_of(path[i], folder, point[i]);
    if (access(path[i], F_OK))
      run[i].config = config_of(place->device, point[i], folder); /* killed before it was there */
    else
      run[i].path = path[i];
  }
  batched_run_drive(run, count, threads, NULL);
  for (int i = 0; i < count; i++) {
    ck_assert_msg(!run[i].status, "point %d: %s", point[i], run[i].error.text);
    config_free(run[i].config);
  }
}

static void make_folder(void) { folder_make(dir); }
static void remove_folder(void) { folder_remove(dir); }

/* As `maxlogit run` does it: a device of its own, all its memory here and there. */
static void compute_alone(const char *device, const char *folder, int count)
{
  for (int i = 0; i < count; i++) {
    struct config *c = config_of(device, i, folder);
    struct trainer *t;
    struct error e = {0};
    ck_assert_msg(!trainer_init(&t, c, 0, &e), "%s", e.text);
    ck_assert_msg(!drive(t, 0, NULL, NULL, &e), "%s", e.text);
    config_free(c);
  }
}

static void compare_run(const char *folder, int point)
{
  char alone[256], other[256];
  int datasets = 0;
  path_of(alone, "alone", point);
  path_of(other, folder, point);
  ck_assert_msg(!same_run(alone, other, 1, &datasets, stderr), "%s", other);
  ck_assert_int_gt(datasets, 30);
}

static void compare(const char *folder, int count)
{
  for (int i = 0; i < count; i++) compare_run(folder, i);
}

static void check_ends(void)
{
  for (int i = 0; i < POINTS; i++) {
    struct run_file *r;
    struct error e = {0};
    char path[256];
    path_of(path, "alone", i);
    ck_assert(!run_open(&r, path, &e));
    ck_assert_str_eq(run_state(r), i == 3 ? "diverged" : "finished");
    if (i == 4) ck_assert_int_eq(run_last_step(r), place->end);
    if (i == 3) ck_assert_int_lt(run_last_step(r), place->end);
    run_close(r);
  }
}

static int have_gpu(void)
{
  struct gpu gpu = gpu_here();
  if (*gpu.lacks) printf("skipped on device = cuda (make check-cuda): %s\n", gpu.lacks);
  return !*gpu.lacks;
}

static int choose(int index)
{
  place = &places[index];
  return index != CUDA || have_gpu();
}

/* Of a GPU in whose place the CPU stands: how late it is, and in which order blocks come. */
static void play(const char *late, const char *order)
{
  setenv("MAXLOGIT_CUDA_ON_HOST", late, 1);
  setenv("MAXLOGIT_CUDA_ON_HOST_ORDER", order, 1);
}

/* One, three and eight at a time (all that are of one structure), on fewer threads than runs, as many and more. */
START_TEST(batch_changes_nothing)
{
  if (!choose(_i)) return;
  make_folder();
  compute_alone(place->device, "alone", POINTS);
  check_ends();
  for (int i = 0; i < (_i == CPU ? POINTS : 2); i++) compute(place->device, "one", i, 1, 1 + i % 3, NULL);
  play("others", "1");
  for (int i = 0; i < POINTS; i += 3)
    compute(place->device, "three", i, POINTS - i < 3 ? POINTS - i : 3, i == 3 ? 7 : 2, NULL);
  play("lazy", "54321");
  compute(place->device, "all", 0, POINTS, 3, NULL);
  if (_i == CPU) compute("isolated", "isolated", 0, POINTS, 2, NULL);
  compare("one", _i == CPU ? POINTS : 2);
  compare("three", POINTS);
  compare("all", POINTS);
  remove_folder();
}
END_TEST

static void stop_at(void *context, int run, const struct trainer *t)
{
  (void)context;
  if (run == 0 && trainer_status(t).done == place->stop_at) raise(SIGTERM);
}

static void kill_at(void *context, int run, const struct trainer *t)
{
  (void)context;
  if (run == 0 && trainer_status(t).done == place->stop_at) raise(SIGKILL);
}

/* A launch that is stopped, or killed: each run goes on alone, or in other company, to the same bits. */
START_TEST(stopped_in_company)
{
  static const int some[] = {0, 1, 2, 5, 7, 8, 9, 10}, others[] = {4, 6};
  int killed = _i % 2, status;
  if (!choose(_i / 2)) return;
  make_folder();
  pid_t child = fork(); /* before this process looks at a GPU */
  if (child == 0) {
    drive_catch_signals();
    compute(place->device, "part", 0, POINTS, 2, killed ? kill_at : stop_at);
    _exit(0);
  }
  ck_assert(waitpid(child, &status, 0) == child);
  ck_assert(killed ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
  struct run_file *r;
  struct error e = {0};
  char path[256];
  path_of(path, "part", 0);
  ck_assert_msg(!run_open(&r, path, &e), "%s", e.text);
  ck_assert_str_eq(run_state(r), killed ? "running" : "stopped");
  run_close(r);
  play("lazy", "1"); /* what is resumed is uploaded over what is drawn */
  go_on("part", some, 8, 2);
  play("lazy", "0");
  for (int i = 0; i < 2; i++) go_on("part", &others[i], 1, 2);
  compute_alone(place->device, "alone", POINTS);
  for (int i = 0; i < POINTS; i++)
    if (i != 3) compare_run("part", i);
  remove_folder();
}
END_TEST

/* Decompositions are steps of the host inside of the program: each run's own. */
START_TEST(host_steps_in_company)
{
  static const char *const settings[] = {"preset=muon", "muon.coefficients=svd", "stabilizers=spectral_clip",
                                         "spectral_clip.method=svd", NULL};
  static const char *const folder[] = {"alone", "together"};
  struct batched_run run[3] = {{0}};
  if (!choose(CUDA)) return;
  make_folder();
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) {
      run[i] = (struct batched_run){.config = config_of("cuda", i, folder[k])};
      assign(run[i].config, settings);
      struct error e = {0};
      ck_assert_msg(!config_set(run[i].config, "train.steps", "3", "test", &e) &&
                      !config_finish(run[i].config, &e),
                    "%s", e.text);
      if (!k) batched_run_drive(&run[i], 1, 1, NULL);
    }
    if (k) batched_run_drive(run, 3, 2, NULL);
    for (int i = 0; i < 3; i++) {
      ck_assert_msg(!run[i].status, "%s", run[i].error.text);
      config_free(run[i].config);
    }
  }
  compare("together", 3);
  remove_folder();
}
END_TEST

/* Drives them and returns what was said: one line. */
static void said_of_launch(struct batched_run *run, int runs, char said[1024])
{
  char path[256];
  snprintf(path, sizeof path, "%s/said", dir);
  FILE *file = fopen(path, "w+");
  const int err = dup(STDERR_FILENO);
  ck_assert(file && err >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  batched_run_drive(run, runs, 1, NULL);
  dup2(err, STDERR_FILENO);
  close(err);
  rewind(file);
  said[fread(said, 1, 1023, file)] = 0;
  fclose(file);
  ck_assert_msg(strchr(said, '\n') == said + strlen(said) - 1, "%s", said);
}

/* More runs than the memory of the device holds go one launch after another, which is said: those that the free bytes
   would hold, or fewer where no piece of that size is free. */
START_TEST(as_many_as_fit)
{
  enum { RUNS = 4, FIT = 2, HELD = 8 << 20, OWN = 100 << 20 }; /* by other programs; by the device */
  static const char *const settings[] = {"model.vocab=8192",      "train.steps=1",
                                         "train.micro_batches=1", "record.spectra_every=0",
                                         "record.probe_every=0",  "checkpoint.every=0",
                                         "train.val_every=0",     NULL}; /* large for the time it takes */
  static const int points_that_fit[RUNS] = {0, 1, 2, 4};
  char text[32], said[1024];
  size_t bytes;
  struct error e = {0}, needs = {0};
  if (!choose(CUDA) || !gpu_is_twin()) return;
  make_folder();
  for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
    struct batched_run run[RUNS] = {{0}};
    for (int i = 0; i < RUNS; i++) {
      run[i].config = config_of("cuda", points_that_fit[i], in_pieces ? "pieces" : "fit");
      assign(run[i].config, settings);
      ck_assert_msg(!config_finish(run[i].config, &e), "%s", e.text);
    }
    if (!in_pieces) {
      ck_assert(!trainer_bytes(run[0].config, 1, &bytes, &e));
      snprintf(text, sizeof text, "%zu", HELD + OWN + (size_t)((FIT + 0.5) / 0.9 * (double)bytes));
      setenv("MAXLOGIT_CUDA_ON_HOST_MEMORY", text, 1);
      snprintf(text, sizeof text, "%d", HELD);
      setenv("MAXLOGIT_CUDA_ON_HOST_OTHERS", text, 1);
      ck_assert_int_eq(run_arenas_limit("cuda", bytes, &needs), FIT);
      ck_assert_int_eq(run_arenas_limit("cuda", 10 * bytes, &needs), 0);
      ck_assert_int_gt(run_arenas_limit("cpu", bytes, &needs), 1000000);
    } else {
      setenv("MAXLOGIT_CUDA_ON_HOST", "no-blas", 1);
      snprintf(text, sizeof text, "%zu", bytes + bytes / 2);
      setenv("MAXLOGIT_CUDA_ON_HOST_LARGEST", text, 1);
    }
    said_of_launch(run, RUNS, said);
    const char *wanted = in_pieces ? "4 runs at once" : "sweep.together = 2 would",
               *at_once = in_pieces ? "= 1 would" : "";
    ck_assert_msg(strstr(said, wanted) && strstr(said, at_once), "%s", said);
    for (int i = 0; i < RUNS; i++) {
      ck_assert_msg(!run[i].status, "%s", run[i].error.text);
      config_free(run[i].config);
    }
  }
  remove_folder();
}
END_TEST

/* One replay for runs that have not recorded the same would be wrong: whose program differs is refused. */
START_TEST(another_program_is_refused)
{
  static const char *const settings[] = {"record.pairs=1", "train.steps=1", NULL};
  struct batched_run run[2] = {{.flags = TRAINER_NO_RECORD}, {.flags = 0}}; /* the first looks at no pairs */
  if (!choose(CUDA)) return;
  make_folder();
  for (int i = 0; i < 2; i++) {
    struct error e = {0};
    run[i].config = config_of("cuda", i, "refused");
    assign(run[i].config, settings);
    ck_assert(!config_finish(run[i].config, &e));
  }
  batched_run_drive(run, 2, 1, NULL);
  ck_assert_int_eq(run[0].status, STATUS_OK);
  ck_assert_int_eq(run[1].status, STATUS_FAIL);
  ck_assert_msg(strstr(run[1].error.text, "1.h5: not the program"), "%s", run[1].error.text);
  for (int i = 0; i < 2; i++) config_free(run[i].config);
  remove_folder();
}
END_TEST

/* What fails stops no other: a file that exists, a file that is none. Nor does a run whose time is up, which goes on
   alone. Between runs that are computed lie seats of others. */
START_TEST(an_end_is_its_own)
{
  static const int short_one = 0;
  if (!choose(_i)) return;
  make_folder();
  compute_alone(place->device, "alone", 3);
  struct batched_run run[6] = {{0}};
  char path[256], none[256];
  path_of(path, "alone", 2);
  path_of(none, "none", 0);
  run[0].config = config_of(place->device, 0, "alone"); /* is there */
  run[1].config = config_of(place->device, 1, "new");
  run[2].path = path; /* is finished */
  run[3].path = none;
  run[4].config = config_of(place->device, short_one, "short");
  run[4].max_time = 1e-9;
  run[5].config = config_of(place->device, 2, "new");
  batched_run_drive(run, 6, 2, NULL);
  ck_assert_int_eq(run[0].status, STATUS_USAGE);
  ck_assert_msg(strstr(run[0].error.text, "exists"), "%s", run[0].error.text);
  for (int i = 1; i < 6; i += i == 2 ? 3 : 1) ck_assert_msg(!run[i].status, "%s", run[i].error.text);
  ck_assert_int_ne(run[3].status, STATUS_OK);
  ck_assert_int_eq(run[4].status, STATUS_STOPPED);
  for (int i = 0; i < 6; i++) config_free(run[i].config);
  go_on("short", &short_one, 1, 1);
  compare_run("short", short_one);
  compare_run("new", 1);
  compare_run("new", 2);
  remove_folder();
}
END_TEST

enum { ENDS = 8 };

struct seen_ends {
  const struct batched_run *run;
  int status[ENDS], times[ENDS];
  char text[ENDS][400];
};

static void see_end(void *context, int number)
{
  struct seen_ends *s = context;
  s->times[number]++;
  s->status[number] = s->run[number].status;
  snprintf(s->text[number], sizeof *s->text, "%.399s", s->run[number].error.text);
}

/* No room for a checkpoint any more: what lies there is no folder. */
static void block(void *context, int number, const struct trainer *t)
{
  char path[256];
  (void)context;
  if ((number != 2 && number != 4 && number != 6) || trainer_status(t).done != 2) return;
  snprintf(path, sizeof path, "%s/new/%d.ckpt", dir, number);
  FILE *f = fopen(path, "w");
  if (f) fclose(f);
}

/* Why a run has failed stands when its end is told, whenever that is: before the launch, as it sits down, in a step, at
   its end; the others go on. */
START_TEST(why_each_has_failed)
{
  static const int point[ENDS] = {0, 1, 2, -1, 4, 5, 6, 7};
  static const char *const late[] = {"checkpoint.every=0", NULL};
  struct batched_run run[ENDS] = {{0}};
  struct seen_ends ends = {.run = run};
  char path[ENDS][256], command[2000];
  if (!choose(_i)) return;
  make_folder();
  compute_alone(place->device, "alone", 2);
  for (int i = 0; i < ENDS; i++) {
    path_of(path[i], "new", i);
    if (point[i] >= 0) run[i].config = config_of(place->device, i, "new");
    if (point[i] < 0) run[i].path = path[i];
  }
  assign(run[4].config, late);
  ck_assert(!config_finish(run[4].config, &(struct error){0}));
  /* 2, and 6 alone in its structure: no room for a checkpoint; 4: for the last one; 3 is not a run; 5 is there; 7 is a
     folder */
  snprintf(command, sizeof command,
           "cd %s && mkdir -p new && cd new && echo x | tee 3.h5 >5.h5 && mkdir 7.h5", dir);
  ck_assert_int_eq(system(command), 0);
  batched_run_drive(run, ENDS, 2,
                    &(struct batched_run_hooks){.step = block, .end = see_end, .context = &ends});
  static const struct {
    int status;
    const char *says;
  } known[ENDS] = {{0, ""},
                   {0, ""},
                   {STATUS_FAIL, "cannot make the folder %s/new/2.ckpt: Not a directory"},
                   {STATUS_USAGE, "%s/new/3.h5 is not an HDF5 file"},
                   {STATUS_FAIL, "cannot make the folder %s/new/4.ckpt: Not a directory"},
                   {STATUS_USAGE, "record.path: %s/new/5.h5 exists, and is not a run file"},
                   {STATUS_FAIL, "cannot make the folder %s/new/6.ckpt: Not a directory"},
                   {STATUS_USAGE, "record.path: %s/new/7.h5 exists, and is not a run file"}};
  for (int i = 0; i < ENDS; i++) {
    const char *at = strstr(known[i].says, "%s");
    char wanted[400] = "";
    if (at)
      snprintf(wanted, sizeof wanted, "%.*s%s%s", (int)(at - known[i].says), known[i].says, dir, at + 2);
    ck_assert_int_eq(ends.times[i], 1);
    ck_assert_int_eq(run[i].status, known[i].status);
    ck_assert_int_eq(ends.status[i], known[i].status);
    ck_assert_str_eq(run[i].error.text, wanted);
    ck_assert_str_eq(ends.text[i], run[i].error.text);
    config_free(run[i].config);
  }
  compare("new", 2);
  remove_folder();
}
END_TEST

/* Nor is a reason lost that is that of all: a device that is not there, for one run and for several. */
START_TEST(no_device_for_any)
{
  make_folder();
  choose(CPU);
  setenv("MAXLOGIT_CUDA", "/none/maxlogit_cuda.so", 1);
  for (int count = 1; count <= 3; count += 2) {
    struct batched_run run[3] = {{0}};
    struct seen_ends ends = {.run = run};
    for (int i = 0; i < count; i++) run[i].config = config_of("cuda", i, "none");
    batched_run_drive(run, count, 2, &(struct batched_run_hooks){.end = see_end, .context = &ends});
    for (int i = 0; i < count; i++) {
      ck_assert(ends.times[i] == 1 && ends.status[i] == STATUS_USAGE && run[i].status == STATUS_USAGE);
      ck_assert_msg(strstr(run[i].error.text, "/none/maxlogit_cuda.so"), "%s", run[i].error.text);
      ck_assert_str_eq(ends.text[i], run[i].error.text);
      config_free(run[i].config);
    }
  }
  remove_folder();
}
END_TEST

/* --- nobody waits ---------------------------------------------------------------------------------------------- */

enum { STEADY_RUNS = 3, STEADY_FROM = 2, STEADY_TO = 6 };

struct steady {
  long waits[STEADY_RUNS][2];
  double loss[STEADY_RUNS][2];
};

static void look_at_waits(void *context, int run, const struct trainer *t)
{
  struct steady *s = context;
  long step = trainer_status(t).done;
  if (step != STEADY_FROM && step != STEADY_TO) return;
  s->waits[run][step == STEADY_TO] = trainer_device((struct trainer *)t)->waits;
  s->loss[run][step == STEADY_TO] = trainer_status(t).loss;
}

/* The host draws and tells steps ahead of the device: none of them waits, and reports are read some steps late. */
START_TEST(steps_in_company_do_not_wait)
{
  static const char *const settings[] = {"train.val_every=0", "record.spectra_every=0",
                                         "record.probe_every=0", "checkpoint.every=0", NULL};
  struct batched_run run[STEADY_RUNS] = {{0}};
  struct steady s;
  if (!choose(CUDA)) return;
  make_folder();
  for (int i = 0; i < STEADY_RUNS; i++) {
    struct error e = {0};
    run[i].config = config_of("cuda", i, "steady");
    assign(run[i].config, settings);
    ck_assert(!config_finish(run[i].config, &e));
  }
  batched_run_drive(run, STEADY_RUNS, 2, &(struct batched_run_hooks){.step = look_at_waits, .context = &s});
  for (int i = 0; i < STEADY_RUNS; i++) {
    ck_assert_msg(!run[i].status, "%s", run[i].error.text);
    ck_assert_int_eq(s.waits[i][0], s.waits[i][1]);
    ck_assert(isnan(s.loss[i][0]) && s.loss[i][1] > 0);
    config_free(run[i].config);
  }
  remove_folder();
}
END_TEST

/* --- files ----------------------------------------------------------------------------------------------------- */

enum { FILE_THREADS = 4, FILE_ROUNDS = 40, FILE_ROWS = 64 };

/* Each thread its own files, over and over. */
static void write_and_read(void *context, int thread)
{
  int *wrong = context, rows[FILE_ROWS], back[FILE_ROWS];
  struct h5_shape shape = {.kind = KIND_I32, .rank = 1, .dims = {FILE_ROWS}, .compress = 1};
  char path[128], name[32];
  snprintf(path, sizeof path, "%s/%d.h5", dir, thread);
  for (int round = 0; round < FILE_ROUNDS; round++) {
    struct error e = {0};
    struct h5 *h = h5_new();
    for (int i = 0; i < 8; i++) {
      snprintf(name, sizeof name, "/group%d/rows", i);
      for (int k = 0; k < FILE_ROWS; k++) rows[k] = thread * 1000 + round * 10 + i + k;
      h5_id id = h5_dataset(h, name, &shape);
      h5_write(h, id, &shape, 0, FILE_ROWS, rows);
      h5_put_text(h, id, "units", "1");
      h5_done(h, id);
    }
    if (h5_save(h, path, NULL, &e) || h5_load(&h, path, &e)) {
      wrong[thread]++;
      continue;
    }
    h5_id id = h5_find(h, name);
    wrong[thread] += !h5_read(h, id, &shape, 0, FILE_ROWS, back) || memcmp(rows, back, sizeof rows);
    h5_done(h, id);
    h5_free(h);
  }
}

START_TEST(files_of_many_threads)
{
  int wrong[FILE_THREADS] = {0};
  make_folder();
  threads_run(FILE_THREADS, write_and_read, wrong);
  for (int i = 0; i < FILE_THREADS; i++) ck_assert_int_eq(wrong[i], 0);
  remove_folder();
}
END_TEST

/* --- what an option row says --------------------------------------------------------------------------------- */

static const char *const stacks[][6] = {
  {"optimizer=adam", "model.bias=1", NULL},
  {"model.attention=gqa", "model.kv_heads=1", NULL},
  {"model.attention=mla", NULL},
  {"model.ffn=moe", "moe.balance=both", NULL},
  {"model.mtp=2", NULL},
  {"train.decay=independent", "override.match=update_rms", NULL},
};
enum { STACKS = sizeof stacks / sizeof *stacks };

static struct config *small(const char *const *settings)
{
  static const char *const common[] = {"model.layers=1",       "model.width=16", "model.heads=2",
                                       "model.context=8",      "train.batch=2",  "device.threads=1",
                                       "record.probe_every=2", "record.level=1", "train.grad_clip=1"};
  struct config *c = config_new();
  struct error e = {0};
  for (size_t i = 0; i < sizeof common / sizeof *common; i++)
    ck_assert_msg(!config_assign(c, common[i], &e), "%s", e.text);
  for (; *settings; settings++) ck_assert_msg(!config_assign(c, *settings, &e), "%s", e.text);
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  return c;
}

struct varying {
  const char *const *settings;
  const char *only; /* a plug-in's section; NULL: all */
  int tried, refused, wrong;
};

/* Two runs that differ in this value: one structure, and one program but for the place. */
static void compare_programs(struct varying *v, const char *key, const char *value)
{
  struct config *c[2] = {small(v->settings), small(v->settings)};
  struct trainer *t[2] = {NULL, NULL};
  struct run_arenas *run_arenas;
  struct error e = {0};
  size_t bytes;
  ck_assert_msg(!config_set(c[1], key, value, "test", &e) && !config_finish(c[1], &e), "%s", e.text);
  ck_assert(!trainer_bytes(c[0], 1, &bytes, &e));
  ck_assert(!run_arenas_open(&run_arenas, "cpu", 2, bytes, 1, &e));
  int failed = 0;
  for (int i = 0; i < 2 && !failed; i++)
    failed = trainer_init_on(&t[i], run_arenas_device(run_arenas, i), c[i], TRAINER_NO_RECORD, &e);
  v->tried++;
  v->refused += failed;
  if (!failed) {
    const char *difference = trainer_difference(t[0], t[1]);
    ck_assert_msg(config_structure(c[0]) == config_structure(c[1]), "%s = %s is structure", key, value);
    if (difference) fprintf(stderr, "%s = %s changes %s: OPTION_STRUCTURE\n", key, value, difference);
    v->wrong += difference != NULL;
  }
  for (int i = 0; i < 2; i++) {
    if (t[i]) trainer_abandon(t[i]);
    config_free(c[i]);
  }
  run_arenas_close(run_arenas);
}

static int vary(void *context, const struct config_entry *x)
{
  struct varying *v = context;
  const struct option_row *row = x->row;
  if (!x->used || !option_is_number(row) || row->type == OPTION_TEXT || !strncmp(x->key, "checkpoint.", 11) ||
      !strncmp(x->key, "sweep.", 6) || !strncmp(x->key, "device.", 7) || !strncmp(x->key, "record.", 7))
    return 0;
  if (v->only && (strncmp(x->key, v->only, strlen(v->only)) || x->key[strlen(v->only)] != '.')) return 0;
  double now = strtod(x->value, NULL);
  const double values[] = {row->flags & OPTION_OFF ? 3 : row->min, row->max < 7 ? row->max : 7, 0.75 * now,
                           now + 1};
  char key[96];
  snprintf(key, sizeof key, "%s", x->key);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char text[32];
    double value = values[i] < row->min ? row->min : values[i] > row->max ? row->max : values[i];
    if (row->type != OPTION_REAL) value = floor(value);
    if ((row->flags & OPTION_OFF && value == 0) || value == now) continue;
    snprintf(text, sizeof text, "%.9g", value);
    compare_programs(v, key, text);
  }
  return 0;
}

static void vary_all(const char *const *settings, const char *only, struct varying *all)
{
  struct varying v = {.settings = settings, .only = only};
  struct config *c = small(settings);
  config_each(c, vary, &v);
  config_free(c);
  all->tried += v.tried;
  all->refused += v.refused;
  all->wrong += v.wrong;
}

START_TEST(numbers_change_no_program)
{
  struct varying all = {0};
  char setting[96];
  const char *const one[] = {setting, NULL};
  for (const struct optimizer *const *o = optimizers; *o; o++) {
    snprintf(setting, sizeof setting, "optimizer=%s", (*o)->name);
    vary_all(one, (*o)->name, &all);
  }
  for (const struct stabilizer *const *s = stabilizers; *s; s++) {
    snprintf(setting, sizeof setting, "stabilizers=%s", (*s)->name);
    vary_all(one, (*s)->name, &all);
  }
  for (const struct schedule *const *s = schedules; *s; s++) {
    snprintf(setting, sizeof setting, "train.schedule=%s", (*s)->name);
    vary_all(one, (*s)->name, &all);
  }
  for (int i = 0; i < STACKS; i++) vary_all(stacks[i], NULL, &all);
  printf("%d values, %d refused\n", all.tried, all.refused);
  ck_assert_int_eq(all.wrong, 0);
  ck_assert_int_gt(all.tried, 150);
  ck_assert_int_lt(all.refused, all.tried / 10);
}
END_TEST

/* What decides about calls is structure: here the record finds what a row says. */
START_TEST(structure_changes_programs)
{
  static const char *const pairs[][2] = {{"train.grad_clip", "0"},       {"model.bias", "1"},
                                         {"train.micro_batches", "2"},   {"record.level", "0"},
                                         {"train.decay", "independent"}, {"muon.ns_steps", "3"}};
  const char *const none[] = {NULL};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    struct config *a = small(none), *b = small(none);
    struct error e = {0};
    ck_assert(!config_set(b, pairs[i][0], pairs[i][1], "test", &e) && !config_finish(b, &e));
    ck_assert_msg(config_structure(a) != config_structure(b), "%s", pairs[i][0]);
    config_free(a);
    config_free(b);
  }
}
END_TEST

int main(void)
{
  gpu_twin();
  Suite *suite = suite_create("launch");
  static const char *const names[PLACES] = {"on the CPU", "on a GPU"};
  for (int i = 0; i < PLACES; i++) {
    TCase *k = tcase_create(names[i]);
    tcase_set_timeout(k, 300);
    tcase_add_loop_test(k, batch_changes_nothing, i, i + 1);
    tcase_add_loop_test(k, stopped_in_company, 2 * i, 2 * i + 2);
    tcase_add_loop_test(k, an_end_is_its_own, i, i + 1);
    tcase_add_loop_test(k, why_each_has_failed, i, i + 1);
    if (i == CPU) tcase_add_test(k, no_device_for_any);
    if (i == CUDA) {
      tcase_add_test(k, host_steps_in_company);
      tcase_add_test(k, steps_in_company_do_not_wait);
    }
    suite_add_tcase(suite, k);
  }
  TCase *limits = tcase_create("limits of a GPU");
  tcase_set_timeout(limits, 300);
  tcase_add_test(limits, as_many_as_fit);
  tcase_add_test(limits, another_program_is_refused);
  suite_add_tcase(suite, limits);
  TCase *k = tcase_create("programs and files");
  tcase_set_timeout(k, 300);
  tcase_add_test(k, files_of_many_threads);
  tcase_add_test(k, numbers_change_no_program);
  tcase_add_test(k, structure_changes_programs);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
