/* check_pieces.c - what a run is made of, piece by piece, each against its definition: which head is the largest,
   spikes, what is not finite, dense stretches, the order of joining, signals and limits of time, what progress says,
   checkpoints, how a sweep shares a machine, what it plans and what it waits for */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "../configuration.h"
#include "../folder.h"
#include "run/claim.h"
#include "run/drive.h"
#include "run/farm.h"
#include "run/grad_reduce.h"
#include "run/rerun.h"
#include "run/state.h"
#include "run/sweep_parts.h"
#include "storage/run_file.h"

static char folder[FOLDER_PATH];
static void enter_folder(void) { folder_enter(folder); }
static void leave_folder(void) { folder_leave(folder); }

/* --- the largest --------------------------------------------------------------------------------------------- */

/* Of numbers, infinities and NaN, many of them equal: the first NaN, else the first of the largest. */
START_TEST(the_largest)
{
  static const real values[] = {0, -1, 2, 3, 3, -INFINITY, INFINITY, NAN};
  for (uint64_t round = 0; round < 3000; round++) {
    const struct draw d = {11, STREAM_TEST, round};
    const long n = 1 + (long)draw_below(d, 0, 9);
    const uint64_t kinds = 4 + draw_below(d, 1, 5);
    real x[9];
    long want = -1;
    for (long i = 0; i < n; i++) x[i] = values[draw_below(d, 2 + (uint64_t)i, kinds)];
    for (long i = 0; i < n && want < 0; i++)
      if (isnan(x[i])) want = i;
    for (long i = 0; i < n && want < 0; i++) {
      int beaten = 0;
      for (long k = 0; k < n; k++) beaten |= x[k] > x[i];
      if (!beaten) want = i;
    }
    ck_assert_int_eq(outcome_largest(x, n), want);
  }
}
END_TEST

/* --- events -------------------------------------------------------------------------------------------------- */

enum { LAYERS = 3, HEADS = 2, PLACES = LAYERS * HEADS };

static struct recorder *recorder_of(const char *path)
{
  static const struct run_facts facts = {.id = "0123456789ab",
                                         .device = "cpu",
                                         .data = "markov",
                                         .data_text = "made up",
                                         .layers = LAYERS,
                                         .heads = HEADS,
                                         .loss_floor = NAN};
  struct recorder *r;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, NULL, &facts, &e), "%s", e.text);
  return r;
}

/* A line for each event: step, kind, layer, head, value. */
static void events_of(const char *path, struct buffer *text)
{
  struct run_file *r;
  struct run_event *x = NULL;
  struct error e = {0};
  long count = 0;
  ck_assert_msg(!run_open(&r, path, &e) && !run_events(r, &x, &count, &e), "%s", e.text);
  *text = (struct buffer){0};
  buffer_add(text, "%s", "");
  for (long i = 0; i < count; i++)
    buffer_add(text, "%ld %s %d %d %g\n", x[i].step, x[i].kind, x[i].layer, x[i].head,
               without_nan_sign(x[i].value));
  memory_free(x);
  run_close(r);
}

static void written(struct recorder *r, const char *path, const char *wanted)
{
  struct buffer found;
  struct error e = {0};
  ck_assert_msg(!recorder_snapshot(r, "finished", 1, 1, 1, &e), "%s", e.text);
  recorder_free(r);
  events_of(path, &found);
  ck_assert_str_eq(found.text, wanted);
  memory_free(found.text);
}

static struct health health_of(struct recorder *r, const long *step)
{
  struct health h = {
    .recorder = r, .step = step, .peak = {-INFINITY, -1, -1}, .layers = LAYERS, .heads = HEADS};
  for (int i = 0; i < SPIKE_WINDOW; i++) h.spike_window[i] = (real)NAN;
  h.told_at = memory_new((LAYERS + 1) * (HEADS + 1), sizeof *h.told_at);
  return h;
}

static int ascending(const void *a, const void *b)
{
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
static double middle(double *x)
{
  qsort(x, SPIKE_WINDOW, sizeof *x, ascending);
  return (x[SPIKE_WINDOW / 2 - 1] + x[SPIKE_WINDOW / 2]) / 2;
}

/* Spikes: losses above the median of the latest 64 finite ones by more than so many median absolute deviations. Before
   there are so many there is none; what is not finite stays out. */
START_TEST(spikes_of_a_loss)
{
  static const double limits[] = {0, 2, 5};
  for (int k = 0; k < 3; k++) {
    struct recorder *r = recorder_of("spikes.h5");
    long step = 0;
    struct health h = health_of(r, &step);
    struct buffer wanted = {0};
    double window[SPIKE_WINDOW], work[SPIKE_WINDOW];
    int spikes = 0;
    for (int i = 0; i < SPIKE_WINDOW; i++) window[i] = NAN;
    buffer_add(&wanted, "%s", "");
    for (; step < 400; step++) {
      const struct draw d = {3, STREAM_TEST, (uint64_t)step};
      double loss = (double)(real)(4 - 0.004 * (double)step + 0.1 * draw_normal(d, 0));
      if (step % 17 == 3) loss = (double)(real)(loss + 0.4 + 0.4 * (double)(step % 3));
      if (step % 50 == 7) loss = step % 100 == 7 ? NAN : INFINITY;
      health_spike(&h, loss, limits[k]);
      if (!isfinite(loss)) continue; /* its place keeps an older one, or none */
      int had = 0;
      for (int i = 0; i < SPIKE_WINDOW; i++) had += !isnan(window[i]);
      if (had == SPIKE_WINDOW && limits[k] > 0) {
        memcpy(work, window, sizeof work);
        const double median = middle(work);
        for (int i = 0; i < SPIKE_WINDOW; i++) work[i] = fabs(window[i] - median);
        if (loss > median + limits[k] * middle(work)) {
          buffer_add(&wanted, "%ld spike -1 -1 %g\n", step, loss);
          spikes++;
        }
      }
      window[step % SPIKE_WINDOW] = loss;
    }
    ck_assert_msg(k == 0 ? spikes == 0 : spikes > 10, "%d", spikes);
    written(r, "spikes.h5", wanted.text);
    memory_free(wanted.text);
    memory_free(h.told_at);
  }
}
END_TEST

/* A loss is not among those that judge it: the first that can be a spike has 64 before it. */
START_TEST(first_spike_of_a_loss)
{
  for (long before = SPIKE_WINDOW - 1; before <= SPIKE_WINDOW; before++) {
    struct recorder *r = recorder_of("first_spike.h5");
    long step = 0;
    struct health h = health_of(r, &step);
    for (; step < before; step++) health_spike(&h, 4 + 0.01 * (double)(step % 5), 5);
    health_spike(&h, 9, 5);
    written(r, "first_spike.h5", before < SPIKE_WINDOW ? "" : "64 spike -1 -1 9\n");
    memory_free(h.told_at);
  }
}
END_TEST

/* What is not finite is told once a step and place; the loss before the gradient; the peak keeps the first NaN. */
START_TEST(what_is_not_finite)
{
  struct recorder *r = recorder_of("finite.h5");
  long step = 0;
  struct health h = health_of(r, &step);
  real max[PLACES], size[PLACES];
  struct outcome o = {1, max, size};
  struct buffer wanted = {0};
  for (; step < 8; step++) {
    double norm = 1;
    for (int i = 0; i < PLACES; i++) max[i] = size[i] = (real)(i == step % PLACES ? 2 + step : 1);
    o.loss = 1;
    if (step == 1) size[3] = INFINITY, size[5] = (real)NAN;
    if (step == 2) o.loss = NAN, norm = INFINITY;
    if (step == 3) norm = NAN;
    if (step == 4) o.loss = -INFINITY, size[0] = (real)NAN;
    if (step == 5) max[4] = (real)NAN; /* no size: it is told by max_abs_logit */
    health_finite(&h, &o, norm);
    health_finite(&h, &o, norm); /* told once */
    health_event(&h, "nonfinite", 1, 1, 7);
    health_event(&h, "clip", 1, 1, 0.5);
    health_event(&h, "clip", 1, 1, 0.5); /* of other kinds all */
    health_peak(&h, &o);
    const double peaks[] = {2, 3, 4, 5, 6, NAN, NAN, NAN};
    ck_assert(isnan(peaks[step]) ? isnan(h.peak.value) : h.peak.value == peaks[step]);
    ck_assert_int_eq(h.peak.step, step < 5 ? step : 5);
    ck_assert_int_eq(h.peak.at, step < 4 ? step : 4);
    static const char *const told[] = {"", "1 nonfinite 1 1 inf\n1 nonfinite 2 1 nan\n",
                                       "2 nonfinite -1 -1 nan\n", "3 nonfinite -1 -1 nan\n",
                                       "4 nonfinite 0 0 nan\n4 nonfinite -1 -1 -inf\n"};
    if (step < 5) buffer_add(&wanted, "%s", told[step]);
    if (step != 1) buffer_add(&wanted, "%ld nonfinite 1 1 7\n", step);
    buffer_add(&wanted, "%ld clip 1 1 0.5\n%ld clip 1 1 0.5\n", step, step);
  }
  o.max_logit[1] = 2, h.peak = (struct peak){2, 3, 1}, max[0] = max[2] = max[3] = max[4] = max[5] = 1;
  health_peak(&h, &o); /* as large as before is no new one */
  ck_assert(h.peak.step == 3 && h.peak.at == 1);
  written(r, "finite.h5", wanted.text);
  memory_free(wanted.text);
  memory_free(h.told_at);
}
END_TEST

/* --- the order of joining ------------------------------------------------------------------------------------ */

/* What stands in each place, in words: "(0+1)". */
struct words {
  char now[600], kept[REDUCE_LEVELS][600];
  int across;
};

static void replay(void *context, int part)
{
  struct words *w = context;
  char joined[1300];
  if (part == REDUCE_CLEAR) {
    *w->now = 0;
  } else if (part == REDUCE_RANKS) {
    w->across++;
  } else if (part < REDUCE_JOIN) {
    ck_assert(!*w->kept[part - REDUCE_KEEP]); /* nothing that is still wanted is lost */
    memcpy(w->kept[part - REDUCE_KEEP], w->now, sizeof w->now);
  } else {
    char *left = w->kept[part - REDUCE_JOIN];
    ck_assert(*left && *w->now);
    snprintf(joined, sizeof joined, "(%s+%s)", left, w->now);
    ck_assert_uint_lt(strlen(joined), sizeof w->now);
    memcpy(w->now, joined, sizeof w->now);
    *left = 0;
  }
}

/* The tree: halved as long as it can be, an odd number as the largest power of two of it and the rest. */
static void tree_of(struct buffer *b, long from, long count)
{
  long left = count / 2;
  if (count == 1) {
    buffer_add(b, "%ld", from);
    return;
  }
  if (count % 2)
    for (left = 1; 2 * left < count;) left *= 2;
  buffer_add(b, "(");
  tree_of(b, from, left);
  buffer_add(b, "+");
  tree_of(b, from + left, count - left);
  buffer_add(b, ")");
}

START_TEST(one_balanced_tree)
{
  static const enum grad_reduce_ranks ranks[] = {REDUCE_ONE_RANK, REDUCE_RANKS_LAST, REDUCE_RANKS_FIRST};
  for (long micro_batches = 1; micro_batches <= 48; micro_batches++)
    for (int k = 0; k < 3; k++) {
      struct words w = {{0}, {{0}}, 0};
      struct buffer wanted = {0};
      for (long i = 0; i < micro_batches; i++) {
        ck_assert_msg(!*w.now, "leaf %ld of %ld finds '%s'", i, micro_batches,
                      w.now); /* between two leaves all is empty */
        snprintf(w.now, sizeof w.now, "%ld", i);
        grad_reduce_add(micro_batches, ranks[k], i, replay, &w);
        const long met = ranks[k] == REDUCE_ONE_RANK     ? 0
                         : ranks[k] == REDUCE_RANKS_LAST ? i + 1 == micro_batches
                                                         : i + 1;
        ck_assert_int_eq(w.across, met);
      }
      tree_of(&wanted, 0, micro_batches);
      ck_assert_str_eq(w.now, wanted.text);
      for (int level = 0; level < REDUCE_LEVELS; level++) ck_assert(!*w.kept[level]);
      memory_free(wanted.text);
    }
}
END_TEST

/* --- runs ---------------------------------------------------------------------------------------------------- */

#define TINY \
  "device=cpu model.layers=1 model.width=8 model.heads=2 model.context=6 train.batch=2 train.warmup=2 " \
  "train.val_every=3 " \
  "train.val_batches=1 record.spectra_every=0 device.threads=1 checkpoint.seconds=0 "

static struct trainer *started(struct config *c, unsigned flags)
{
  struct trainer *t = NULL;
  struct error e = {0};
  ck_assert_msg(!trainer_init(&t, c, flags, &e), "%s", e.text);
  return t;
}

static void count_ticks(void *context, const struct trainer *t)
{
  long *steps = context;
  ck_assert_int_eq(trainer_status(t).done, ++*steps);
}

static void stop_at_five(void *context, const struct trainer *t)
{
  count_ticks(context, t);
  if (*(long *)context == 5) drive_stop();
}

/* Steps until the end, a limit of time or a word to stop: the status, and a tick after each step. */
START_TEST(driven_to_an_end)
{
  static const struct {
    const char *settings;
    double max_time;
    drive_tick *tick;
    int status;
    long steps;
    const char *state;
  } known[] = {
    {"train.steps=7", 0, count_ticks, STATUS_OK, 7, "finished"},
    {"train.steps=0", 0, count_ticks, STATUS_OK, 0, "finished"},
    {"train.steps=7", 1e-9, count_ticks, STATUS_STOPPED, 0, "stopped"},
    {"train.steps=7", 1e9, count_ticks, STATUS_OK, 7, "finished"},
    {"train.steps=7 optimizer=sgd train.lr=1e30 train.warmup=0", 0, NULL, STATUS_OK, -1, "diverged"},
    {"train.steps=7 optimizer=sgd train.lr=1e30 train.warmup=0 train.on_nonfinite=fail", 0, NULL,
     STATUS_DIVERGED, -1, "diverged"},
    {"train.steps=7", 0, stop_at_five, STATUS_STOPPED, 5, "stopped"},
    {"train.steps=7", 0, count_ticks, STATUS_STOPPED, 0, "stopped"}, /* still told to */
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct error e = {0};
    long steps = 0;
    struct config *c = configuration(TINY "record.path=r%zu.h5 %s", i, known[i].settings);
    ck_assert_int_eq(drive(started(c, 0), known[i].max_time, known[i].tick, &steps, &e), known[i].status);
    if (known[i].steps >= 0) ck_assert_int_eq(steps, known[i].steps);
    char path[32];
    struct run_file *r;
    snprintf(path, sizeof path, "r%zu.h5", i);
    ck_assert(!run_open(&r, path, &e));
    ck_assert_str_eq(run_state(r), known[i].state);
    if (known[i].steps >= 0) ck_assert_int_eq(run_last_step(r), known[i].steps);
    run_close(r);
    config_free(c);
    ck_assert_int_eq(drive_stopping(), i >= 6);
  }
}
END_TEST

static void keep_loss(void *context, const struct trainer *t) { *(double *)context = trainer_status(t).loss; }

/* Where the device is ahead the last tick is of the last step, whose report is then read. */
START_TEST(the_last_tick)
{
  double loss[2];
  for (int ahead = 0; ahead < 2; ahead++) {
    struct error e = {0};
    struct config *c = configuration(TINY "train.steps=7 checkpoint.every=0 record.path=a%d.h5", ahead);
    struct trainer *t = started(c, 0);
    if (ahead) trainer_device(t)->ahead = 3;
    drive_tick *const tick = keep_loss;
    ck_assert(!trainer_step(t, &e) && !trainer_step(t, &e));
    drive_stop();
    ck_assert_int_eq(drive(t, 0, tick, &loss[ahead], &e), STATUS_STOPPED);
    if (!ahead) { /* no step was made, and none is told */
      struct run_file *r;
      struct run_series x;
      ck_assert(!run_open(&r, "a0.h5", &e) && !run_read(r, "loss", &x, &e));
      loss[0] = x.value[1];
      run_series_free(&x);
      run_close(r);
    }
    config_free(c);
  }
  ck_assert_double_eq((double)(float)loss[1], (double)(float)loss[0]);
}
END_TEST

START_TEST(limits_of_time)
{
  struct config *c = configuration(TINY "train.steps=1");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  struct error e = {0};
  const double now = clock_seconds();
  ck_assert(drive_goes_on(t, 0, now - 1e6) && drive_goes_on(t, 60, now) && drive_goes_on(t, 60, now - 50));
  ck_assert(!drive_goes_on(t, 60, now - 60) && !drive_goes_on(t, 60, now - 70));
  ck_assert(!trainer_step(t, &e) && !drive_goes_on(t, 0, now));
  trainer_abandon(t);
  config_free(c);
}
END_TEST

static void signalled(const int *numbers)
{
  drive_catch_signals();
  for (; *numbers; numbers++) raise(*numbers);
  _exit(drive_stopping() ? 75 : 0);
}

/* A first signal is a word to stop, a second Ctrl-C ends at once, whatever came before the first; a pipe that nobody
   reads ends nothing. */
START_TEST(signals)
{
  static const struct {
    int numbers[4], status;
  } known[] = {{{0}, 0},
               {{SIGINT}, 75},
               {{SIGTERM}, 75},
               {{SIGUSR1}, 75},
               {{SIGTERM, SIGTERM, SIGUSR1}, 75},
               {{SIGTERM, SIGINT}, 75},
               {{SIGINT, SIGTERM}, 75},
               {{SIGINT, SIGINT}, 130},
               {{SIGINT, SIGTERM, SIGINT}, 130},
               {{SIGTERM, SIGINT, SIGINT}, 130},
               {{SIGPIPE}, 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) signalled(known[i].numbers);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == known[i].status, "%zu: %x", i,
                  (unsigned)status);
  }
}
END_TEST

/* --- events of a run, from its series --------------------------------------------------------------------------- */

struct line {
  char text[80];
};
static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* An event for each place of a series whose value is one: [layer, head], or [layer] where it is as wide as that. */
static void expect_events(const struct run_file *r, const char *name, const char *kind, struct line *wanted,
                          long *count)
{
  struct run_series x;
  struct error e = {0};
  const int is_clip = !strcmp(kind, "clip");
  ck_assert_msg(!run_read(r, name, &x, &e), "%s", e.text);
  for (long i = 0; i < x.rows * x.width; i++) {
    const long at = i % x.width, step = (long)x.step[i / x.width];
    const long layer = x.width == PLACES ? at / HEADS : x.width == LAYERS ? at : -1;
    if (is_clip ? !(x.value[i] < 1) : isfinite(x.value[i])) continue;
    struct line line = {{0}};
    snprintf(line.text, sizeof line.text, "%ld %s %ld %ld", step, kind, layer,
             x.width == PLACES ? at % HEADS : -1);
    if (is_clip) snprintf(line.text + strlen(line.text), 30, " %.6g", x.value[i]);
    int is_there = 0; /* what is not finite is told once a step and place */
    for (long k = 0; k < *count; k++) is_there |= !is_clip && !strcmp(wanted[k].text, line.text);
    if (!is_there) wanted[(*count)++] = line;
  }
  run_series_free(&x);
}

START_TEST(events_are_those_of_the_series)
{
  enum { MANY = 3000 };
  static const struct {
    const char *settings;
    int clips, lost; /* at least */
  } known[] = {
    {"preset=muonclip stabilizers=qk_clip+max_output_clip qk_clip.tau=0.5 max_output_clip.tau=0.3 "
     "train.lr=0.05",
     30, 0},
    {"preset=muon stabilizers=max_output_clip+qk_clip max_output_clip.tau=1e9 qk_clip.tau=1e9", 0, 0},
    {"optimizer=sgd train.lr=1e12 stabilizers=qk_clip+max_output_clip train.on_nonfinite=continue", 0, 10},
  };
  struct line *wanted = memory_new(MANY, sizeof *wanted), *found = memory_new(MANY, sizeof *found);
  for (int k = 0; k < 3; k++) {
    struct error e = {0};
    struct config *c = configuration(
      TINY "model.layers=3 train.steps=12 record.path=e.h5 record.overwrite=1 %s", known[k].settings);
    ck_assert_int_eq(drive(started(c, 0), 0, NULL, NULL, &e), STATUS_OK);
    struct run_file *r;
    struct run_event *x = NULL;
    long count = 0, n = 0, m = 0, clips, lost;
    ck_assert(!run_open(&r, "e.h5", &e) && !run_events(r, &x, &count, &e));
    expect_events(r, "qk_clip/gamma", "clip", wanted, &n);
    expect_events(r, "max_output_clip/gamma", "clip", wanted, &n);
    clips = n;
    expect_events(r, "attn/max_abs_logit", "nonfinite", wanted, &n);
    expect_events(r, "loss", "nonfinite", wanted, &n);
    expect_events(r, "grad_norm", "nonfinite", wanted, &n);
    expect_events(r, "max_output", "nonfinite", wanted, &n);
    lost = n - clips;
    for (long i = 0; i < count; i++) {
      const int is_clip = !strcmp(x[i].kind, "clip");
      if (!is_clip && strcmp(x[i].kind, "nonfinite")) continue;
      snprintf(found[m].text, sizeof found->text, "%ld %s %d %d", x[i].step, x[i].kind, x[i].layer,
               x[i].head);
      if (is_clip) snprintf(found[m].text + strlen(found[m].text), 30, " %.6g", x[i].value);
      ck_assert(is_clip || !isfinite(x[i].value));
      m++;
    }
    qsort(wanted, (size_t)n, sizeof *wanted, by_text);
    qsort(found, (size_t)m, sizeof *found, by_text);
    for (long i = 0; i < n && i < m; i++) ck_assert_str_eq(found[i].text, wanted[i].text);
    ck_assert_int_eq(m, n);
    ck_assert_msg(clips >= known[k].clips && lost >= known[k].lost, "%ld clips, %ld lost", clips, lost);
    memory_free(x);
    run_close(r);
    config_free(c);
  }
  memory_free(wanted);
  memory_free(found);
}
END_TEST

/* --- questions ----------------------------------------------------------------------------------------------- */

/* What a trainer answers between steps is what its file tells; an evaluation is the validation of the weights that are
   there, by positions and by modules, and changes nothing. */
START_TEST(questions)
{
  struct error e = {0};
  struct config *c = configuration(TINY "model.mtp=2 train.batch=4 train.micro_batches=2 train.val_every=1 "
                                        "train.val_batches=3 train.steps=4 record.path=v.h5");
  struct trainer *t = started(c, 0);
  double by_position[6], agreement[2], loss, again, ahead[2], mean = 0;
  ck_assert(isnan(trainer_status(t).val_loss) && isnan(trainer_status(t).loss) &&
            isnan(trainer_status(t).grad_norm));
  ck_assert(trainer_status(t).peak.value == -INFINITY && trainer_status(t).peak.step == -1 &&
            trainer_status(t).peak.at == -1);
  ck_assert(!trainer_step(t, &e) && !trainer_step(t, &e));
  ck_assert(access("v.ckpt/step-00000002.h5", F_OK) && !trainer_checkpoint(t, &e));
  ck_assert_int_eq(access("v.ckpt/step-00000002.h5", F_OK), 0); /* when it is asked for */
  loss = trainer_evaluate(t, by_position, agreement);
  for (int k = 0; k < 2; k++) ahead[k] = trainer_ahead_loss(t, k);
  again = trainer_evaluate(t, NULL, NULL);
  ck_assert(loss == again && trainer_ahead_loss(t, 1) == ahead[1]);
  for (int i = 0; i < 6; i++) mean += by_position[i] / 6; /* as many targets at each */
  ck_assert_double_eq_tol(mean, loss, 1e-5);
  for (int k = 0; k < 2; k++) ck_assert(agreement[k] >= 0 && agreement[k] <= 1);
  ck_assert_str_eq(trainer_status(t).state, "stopped");
  ck_assert(trainer_status(t).done == 2 && trainer_status(t).steps == 4 && trainer_more(t) &&
            trainer_config(t) == c);
  ck_assert(!trainer_step(t, &e)); /* whose look is at the same weights */
  ck_assert(trainer_status(t).val_loss == loss);
  ck_assert(!trainer_step(t, &e));
  ck_assert_str_eq(trainer_status(t).state, "finished");
  ck_assert(!trainer_more(t));
  const double last[2] = {trainer_status(t).loss, trainer_status(t).grad_norm},
               floor_of = trainer_loss_floor(t);
  uint64_t data, start, data_of_file, start_of_file;
  char id[16], described[200];
  const struct peak peak = trainer_status(t).peak;
  snprintf(id, sizeof id, "%s", trainer_id(t));
  snprintf(described, sizeof described, "%s", trainer_data(t));
  ck_assert_str_eq(trainer_path(t), "v.h5");
  trainer_contents(t, &data, &start);
  ck_assert(!trainer_done(t, &e));
  struct run_file *r;
  ck_assert(!run_open(&r, "v.h5", &e));
  run_contents(r, &data_of_file, &start_of_file);
  ck_assert(data == data_of_file && start == 0 && start_of_file == 0 && data != 0);
  ck_assert_str_eq(run_id(r), id);
  ck_assert_str_eq(run_data_text(r), described);
  ck_assert(run_loss_floor(r) == floor_of &&
            fabs(floor_of - strtod(strstr(described, "entropy ") + 8, NULL)) < 1e-4);
  static const char *const names[] = {"loss", "grad_norm", "val_loss", "mtp/val_loss", "attn/max_logit"};
  for (int i = 0; i < 5; i++) {
    struct run_series x;
    ck_assert_msg(!run_read(r, names[i], &x, &e), "%s", e.text);
    if (i < 2) ck_assert(x.value[3] == last[i]);
    if (i == 2) ck_assert(x.rows == 5 && x.value[2] == loss);
    for (int k = 0; i == 3 && k < 2; k++) /* behind the layers */
      ck_assert_double_eq_tol(x.value[2 * x.width + x.width - 2 + k], ahead[k], 1e-5);
    if (i == 4) { /* the peak, of all rows */
      long at = 0;
      for (long k = 1; k < x.rows * x.width; k++)
        if (x.value[k] > x.value[at]) at = k;
      ck_assert(peak.value == x.value[at] && peak.step == at / x.width && peak.at == at % x.width);
    }
    run_series_free(&x);
  }
  run_close(r);
  config_free(c);
}
END_TEST

/* --- progress ------------------------------------------------------------------------------------------------ */

static int heard_at, kept_err;
static void listen_to(int fd)
{
  fflush(stderr);
  kept_err = dup(2);
  heard_at = fd;
  ck_assert(kept_err >= 0 && dup2(fd, 2) == 2);
}
static void heard(char *text, size_t room, int from)
{
  fflush(stderr);
  dup2(kept_err, 2);
  close(kept_err);
  const ssize_t n = read(from, text, room - 1);
  text[n > 0 ? n : 0] = 0;
}

/* A line of where a run is: on a terminal one that is written anew ten times a second, and at the end; else one each
   ten seconds, none of a short run. */
START_TEST(progress)
{
  struct error e = {0};
  char text[512], wanted[512], name[64];
  struct config *c = configuration(TINY "train.steps=300 model.layers=2 train.plant=1:1:4");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  ck_assert(!trainer_step(t, &e) && !trainer_step(t, &e));
  struct progress p;
  int pipes[2], terminal = -1, pty = posix_openpt(O_RDWR | O_NOCTTY);
  if (pty >= 0 && !grantpt(pty) && !unlockpt(pty) && !ptsname_r(pty, name, sizeof name))
    terminal = open(name, O_RDWR | O_NOCTTY);
  if (terminal < 0) printf("no /dev/pts: no line on a terminal was tried\n");
  ck_assert(!pipe2(pipes, O_NONBLOCK) && (terminal < 0 || !fcntl(pty, F_SETFL, O_NONBLOCK)));
  for (int is_terminal = 0; is_terminal < (terminal < 0 ? 1 : 2); is_terminal++) {
    listen_to(is_terminal ? terminal : pipes[1]);
    progress_init(&p, t);
    heard(text, sizeof text, is_terminal ? pty : pipes[0]);
    ck_assert(p.terminal == is_terminal && p.first_step == 2 && p.shown == 0 && !*text);
    ck_assert(fabs(p.started - clock_seconds()) < 5);
  }
  ck_assert(!trainer_step(t, &e));
  static const struct {
    int terminal, says;
    double since_start, since_shown; /* negative: never */
  } known[] = {{0, 0, 9, -1},   {0, 1, 10.1, -1}, {0, 0, 50, 9},  {0, 1, 50, 10.1},
               {1, 1, 0.2, -1}, {1, 0, 50, 0.01}, {1, 1, 50, 0.2}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const double now = clock_seconds();
    p = (struct progress){
      .started = now - known[i].since_start, .first_step = 2, .terminal = known[i].terminal};
    p.shown = known[i].since_shown < 0 ? 0 : now - known[i].since_shown;
    const double shown = p.shown;
    listen_to(pipes[1]);
    progress_tick(&p, t);
    heard(text, sizeof text, pipes[0]);
    ck_assert_msg((*text != 0) == known[i].says, "%zu: %s", i, text);
    ck_assert(known[i].says ? p.shown >= now : p.shown == shown);
    if (!known[i].says) continue;
    const real *max = trainer_status(t).max_logit;
    int at = 0;
    for (int k = 1; k < 4; k++)
      if (max[k] > max[at]) at = k;
    /* one step since, and 297 to go */
    const char *time_left = text + (known[i].terminal ? strlen("\r\033[K") : 0);
    ck_assert_msg(!known[i].terminal || !strncmp(text, "\r\033[K", 4), "%s", text);
    long part[3] = {0}; /* hours, minutes, seconds */
    int end = 0, units = sscanf(time_left, "%ld:%ld:%ld", &part[0], &part[1], &part[2]);
    if (units == 2) part[2] = part[1], part[1] = part[0], part[0] = 0;
    ck_assert_msg(units >= 2 && part[1] < 60 && part[2] < 60, "%s", text);
    ck_assert(sscanf(time_left, "%*[0-9:] left%n", &end) == 0 && end > 0);
    snprintf(wanted, sizeof wanted, "  step 3/300  loss %.3f  max logit %.4g L%dH%d  ",
             trainer_status(t).loss, (double)max[at], at / 2, at % 2);
    ck_assert_msg(!strncmp(time_left + end, wanted, strlen(wanted)), "%s, not %s", text, wanted);
    char *rest;
    const double rate = strtod(time_left + end + strlen(wanted), &rest);
    const long left = (long)(297 / rate + 1e-6 * 297 / rate);
    ck_assert_double_eq_tol(rate * known[i].since_start, 1, 0.05);
    ck_assert(labs(3600 * part[0] + 60 * part[1] + part[2] - left) <= 1 + left / 500);
    ck_assert_str_eq(rest, known[i].terminal ? " steps/s" : " steps/s\n");
  }
  for (int i = 0; i < 4; i++) { /* the line goes, where there is one */
    p = (struct progress){.terminal = i / 2, .shown = i % 2};
    listen_to(pipes[1]);
    progress_end(&p);
    heard(text, sizeof text, pipes[0]);
    ck_assert_str_eq(text, i == 3 ? "\r\033[K" : "");
  }
  while (trainer_more(t)) ck_assert(!trainer_step(t, &e));
  for (int is_terminal = 0; is_terminal < 2;
       is_terminal++) { /* the last step is told on a terminal, whenever it comes */
    p = (struct progress){.started = clock_seconds() - 5, .shown = clock_seconds(), .terminal = is_terminal};
    listen_to(pipes[1]);
    progress_tick(&p, t);
    heard(text, sizeof text, pipes[0]);
    ck_assert((strstr(text, "step 300/300  ") && strstr(text, "0:00 left")) == is_terminal &&
              (is_terminal || !*text));
  }
  close(pipes[0]), close(pipes[1]), close(pty), close(terminal);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

/* --- checkpoints --------------------------------------------------------------------------------------------- */

/* By number of steps, by the clock, at the end, and at the begin where all are kept: the events tell of each, and the
   files of those that are kept. */
START_TEST(checkpoints_and_their_events)
{
  static const struct {
    const char *settings, *events, *files;
  } known[] = {
    {"train.steps=7 checkpoint.every=0", "7 ", "7 "},
    {"train.steps=7 checkpoint.every=3", "3 6 7 ", "6 7 "},
    {"train.steps=6 checkpoint.every=3", "3 6 ", "3 6 "},
    {"train.steps=7 checkpoint.every=3 checkpoint.keep=all", "0 3 6 7 ", "0 3 6 7 "},
    {"train.steps=7 checkpoint.every=2 checkpoint.keep=1", "2 4 6 7 ", "7 "},
    {"train.steps=7 checkpoint.every=2 checkpoint.keep=3", "2 4 6 7 ", "4 6 7 "},
    {"train.steps=0 checkpoint.every=3", "0 ", "0 "},
    {"train.steps=3 checkpoint.seconds=1e-9 checkpoint.every=0", "1 2 3 ", "2 3 "},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct error e = {0};
    char events[200] = "", files[200] = "";
    struct config *c = configuration(TINY "record.path=c.h5 record.overwrite=1 %s", known[i].settings);
    ck_assert_int_eq(drive(started(c, 0), 0, NULL, NULL, &e), STATUS_OK);
    struct run_file *r;
    struct run_event *x = NULL;
    long count = 0;
    ck_assert(!run_open(&r, "c.h5", &e) && !run_events(r, &x, &count, &e));
    for (long k = 0; k < count; k++) {
      ck_assert(!strcmp(x[k].kind, "checkpoint") && x[k].layer == -1 && x[k].head == -1 && isnan(x[k].value));
      snprintf(events + strlen(events), sizeof events - strlen(events), "%ld ", x[k].step);
    }
    memory_free(x);
    run_close(r);
    for (long step = 0; step < 10; step++) {
      char path[64];
      snprintf(path, sizeof path, "c.ckpt/step-%08ld.h5", step);
      if (!access(path, F_OK)) snprintf(files + strlen(files), sizeof files - strlen(files), "%ld ", step);
    }
    ck_assert_msg(!strcmp(events, known[i].events) && !strcmp(files, known[i].files),
                  "%s: events %s, files %s", known[i].settings, events, files);
    config_free(c);
  }
}
END_TEST

/* By the clock: so many seconds after the last one, not after the first. */
START_TEST(checkpoints_by_the_clock)
{
  enum { STEPS = 25 };
  struct error e = {0};
  struct config *c =
    configuration(TINY "train.steps=%d checkpoint.every=0 checkpoint.seconds=0.1 record.path=c.h5", STEPS);
  struct trainer *t = started(c, 0);
  double before[STEPS + 1], after[STEPS + 1], last_before = clock_seconds() - 1, last_after = clock_seconds();
  for (int i = 1; i <= STEPS; i++) {
    before[i] = clock_seconds();
    ck_assert(!trainer_step(t, &e));
    after[i] = clock_seconds();
    usleep(25000);
  }
  ck_assert(!trainer_done(t, &e));
  struct run_file *r;
  struct run_event *x = NULL;
  long count = 0, at = 0;
  ck_assert(!run_open(&r, "c.h5", &e) && !run_events(r, &x, &count, &e));
  ck_assert(count >= 3 && x[count - 1].step == STEPS);
  for (int i = 1; i < STEPS; i++) {
    if (x[at].step == i) {
      ck_assert_double_gt(after[i] - last_before, 0.1);
      last_before = before[i], last_after = after[i];
      at++;
    } else
      ck_assert_double_le(before[i] - last_after, 0.1);
  }
  memory_free(x);
  run_close(r);
  config_free(c);
}
END_TEST

/* --- sweeps -------------------------------------------------------------------------------------------------- */

START_TEST(names_of_fates)
{
  static const char *const names[] = {"waiting", "running",   "finished", "diverged",
                                      "stopped", "elsewhere", "failed"};
  static const enum sweep_fate fates[] = {SWEEP_WAITING, SWEEP_RUNNING,   SWEEP_FINISHED, SWEEP_DIVERGED,
                                          SWEEP_STOPPED, SWEEP_ELSEWHERE, SWEEP_FAILED};
  for (int i = 0; i < 7; i++) ck_assert_str_eq(sweep_fate_name(fates[i]), names[i]);
}
END_TEST

/* What the machine does: where nobody says, one run a launch and as many launches as cores; of larger launches as many
   threads as they can use, as far as the cores go; a device that computes runs itself has one launch at a time. */
START_TEST(how_a_machine_is_shared)
{
  const long cores = thread_cores();
  for (long jobs = 0; jobs < 4; jobs++)
    for (long threads = 0; threads < 4; threads++)
      for (long together = 1; together < 6; together += 2)
        for (long count = 1; count < 5; count++)
          for (int one_launch = 0; one_launch < 2; one_launch++) {
            struct sweep s = {.count = count,
                              .jobs = jobs,
                              .together = together,
                              .threads = threads,
                              .one_launch = one_launch};
            struct sweep_point points[5] = {0};
            s.points = points;
            const long runs = together < count ? together : count;
            long want_jobs = jobs ? jobs : one_launch ? 1 : 0, want_threads = threads;
            if (!threads) {
              want_threads = want_jobs ? cores / want_jobs : cores;
              if (want_threads > runs) want_threads = runs;
              if (want_threads < 1) want_threads = 1;
            }
            if (!want_jobs) want_jobs = cores / want_threads < 1 ? 1 : cores / want_threads;
            sweep_share(&s);
            ck_assert_msg(s.jobs == want_jobs && s.threads == want_threads && s.together == together,
                          "jobs %ld, threads %ld, together %ld, %ld points: %ld launches of %ld threads",
                          jobs, threads, together, count, s.jobs, s.threads);
          }
}
END_TEST

/* Launches: points of one structure that wait, in their order, as many as go together; each point in one. */
START_TEST(launches_of_points)
{
  for (uint64_t round = 0; round < 500; round++) {
    const struct draw d = {7, STREAM_TEST, round};
    struct sweep_point points[9] = {0};
    struct sweep s = {
      .points = points, .count = (long)draw_below(d, 0, 10), .together = 1 + (long)draw_below(d, 1, 4)};
    long launch[9], want[9] = {0}, number = 0;
    for (long i = 0; i < s.count; i++) {
      points[i].structure = draw_below(d, 2 + 2 * (uint64_t)i, 3);
      points[i].fate = draw_below(d, 3 + 2 * (uint64_t)i, 4) ? SWEEP_WAITING : SWEEP_FINISHED;
    }
    for (long i = 0; i < s.count; i++) {
      if (points[i].fate != SWEEP_WAITING || want[i]) continue;
      number++;
      long room = s.together;
      for (long k = i; k < s.count; k++)
        if (room && points[k].fate == SWEEP_WAITING && !want[k] && points[k].structure == points[i].structure)
          want[k] = number, room--;
    }
    sweep_launches(&s, launch);
    for (long i = 0; i < s.count; i++) ck_assert_int_eq(launch[i], want[i]);
  }
}
END_TEST

/* What a worker tells changes its point, and what is the end of it is told on, once. */
static long looks, looked_at;
static void look(void *context, const struct sweep *s, long point)
{
  (void)s, (void)context;
  looks++, looked_at = point;
}

START_TEST(notes_of_workers)
{
  struct sweep_point points[3] = {0};
  struct sweep s = {.points = points, .count = 3, .look = look};
  static const struct {
    struct sweep_note note;
    long looks;
  } known[] = {{{1, SWEEP_RUNNING, 5, ""}, 0},   {{1, SWEEP_RUNNING, 9, ""}, 0},
               {{1, SWEEP_FINISHED, 12, ""}, 1}, {{1, SWEEP_FINISHED, 12, ""}, 1},
               {{2, SWEEP_FAILED, 3, "why"}, 2}, {{0, SWEEP_ELSEWHERE, 0, ""}, 3},
               {{2, SWEEP_FAILED, 3, ""}, 3}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    sweep_hear(&s, &known[i].note);
    const struct sweep_point *p = &points[known[i].note.point];
    ck_assert(p->fate == known[i].note.fate && p->step == known[i].note.step && !p->elsewhere);
    ck_assert_int_eq(looks, known[i].looks);
    if (looks) ck_assert_int_eq(looked_at, looks == 1 ? 1 : looks == 2 ? 2 : 0);
  }
  ck_assert_str_eq(points[2].reason, "why");
  s.look = NULL;
  sweep_hear(&s, &(struct sweep_note){1, SWEEP_STOPPED, 1, ""});
}
END_TEST

/* The longest of those that wait; a launch of it and of those that may go with it, the longest first. Without a farm no
   marks are made, and none is read. */
START_TEST(the_longest_first)
{
  for (uint64_t round = 0; round < 300; round++) {
    const struct draw d = {9, STREAM_TEST, round};
    struct sweep_point points[8] = {0};
    char path[] = "none/at/all.h5";
    struct sweep s = {.points = points, .count = 8, .together = 1 + (long)draw_below(d, 0, 5)};
    long point[8], want[8], n = 0, first = 8;
    for (long i = 0; i < 8; i++) {
      points[i] =
        (struct sweep_point){.path = path,
                             .structure = draw_below(d, 1 + (uint64_t)i, 2),
                             .work = (double)draw_below(d, 20 + (uint64_t)i, 4),
                             .fate = draw_below(d, 40 + (uint64_t)i, 4) ? SWEEP_WAITING : SWEEP_FAILED};
      if (points[i].fate == SWEEP_WAITING && (first == 8 || points[i].work > points[first].work)) first = i;
    }
    ck_assert_int_eq(claim_longest(&s), first);
    for (double work = 9; work >= 0 && first < 8; work--) /* by work, then by place, from the first on */
      for (long i = 0; i < 8 && n < s.together; i++)
        if (points[i].fate == SWEEP_WAITING && points[i].work == work &&
            points[i].structure == points[first].structure)
          want[n++] = i;
    ck_assert_int_eq(claim_launch(&s, first, point), n);
    for (long i = 0; i < n; i++) ck_assert_int_eq(point[i], want[i]);
  }
  enum sweep_fate fate = SWEEP_WAITING;
  char reason[512] = "";
  struct sweep_point p = {.path = (char[]){"p.h5"}};
  struct lock *lock = lock_take("p.point", NULL);
  claim_mark(lock, &p, SWEEP_FAILED, 3, "why");
  struct stat info;
  ck_assert(!stat("p.point", &info) && info.st_size == 0 && !claim_ended(&p, &fate, reason));
  struct sweep s = {.points = &p, .count = 1};
  ck_assert(!claim_look_around(&s) && farm_tells() && !farm_is_open());
  claim_release(lock, &p);
  ck_assert_int_eq(access("p.point", F_OK), -1);
}
END_TEST

struct sweep_case {
  const char *words[8];
};

static struct config *unfinished(const char *const *words)
{
  struct config *c = config_new();
  struct error e = {0};
  for (; *words; words++) ck_assert_msg(!config_assign(c, *words, &e), "%s", e.text);
  return c;
}

/* What a plan says of each point: where its file will be, how long it is, what it costs, whether it was done; doubles
   are left out and counted; of three parts each has every third. */
START_TEST(what_is_planned)
{
  static const char *const settings[] = {"model.layers=1",
                                         "model.width=8",
                                         "model.heads=2",
                                         "model.context=6",
                                         "train.batch=1,2",
                                         "train.steps=2,3",
                                         "device.threads=2",
                                         "record.spectra_every=0",
                                         "sweep.dir=d",
                                         "sweep.together=3",
                                         "sweep.jobs=5",
                                         "train.val_every=0",
                                         "sweep.drop_checkpoints=1",
                                         NULL};
  struct config *c = unfinished(settings), *again = unfinished(settings);
  struct sweep s, more, part;
  struct error e = {0};
  ck_assert_msg(!sweep_plan(&s, c, "name", 1, 1, &e), "%s", e.text);
  ck_assert(s.count == 4 && s.doubles == 0 && s.jobs == 5 && s.together == 3 && s.threads == 2 &&
            !s.one_launch);
  ck_assert_int_eq(s.trainers, 4);
  for (long i = 0; i < 4; i++) {
    const struct sweep_point *p = &s.points[i];
    char path[64], label[64];
    snprintf(path, sizeof path, "d/%s.h5", p->id);
    snprintf(label, sizeof label, "train.batch=%ld train.steps=%ld", 1 + i / 2, 2 + i % 2);
    ck_assert_str_eq(p->path, path);
    ck_assert_str_eq(p->label, label);
    ck_assert(p->index == i && p->steps == 2 + i % 2 && p->fate == SWEEP_WAITING && !p->was_done &&
              p->drops == 1);
    ck_assert(!*p->lacks && !*p->from && !*p->anew && !*p->reason && !p->elsewhere && p->step == 0);
    ck_assert_double_eq_tol(p->work / s.points[0].work, (double)((1 + i / 2) * (2 + i % 2)) / 2, 1e-12);
    ck_assert_int_eq(sweep_is_begun(p), 0);
  }
  ck_assert(s.points[0].structure != s.points[2].structure); /* a batch is shape */
  for (long shard = 1; shard <= 3; shard++) {
    ck_assert(!sweep_plan(&part, c, "name", shard, 3, &e));
    ck_assert_int_eq(part.count, shard == 1 ? 2 : 1);
    for (long i = 0; i < part.count; i++) ck_assert_str_eq(part.points[i].id, s.points[shard - 1 + 3 * i].id);
    sweep_free(&part);
  }
  ck_assert(!sweep_plan(&more, again, "name", 2, 2, &e));
  sweep_join(
    &more, &(struct sweep){.points = memory_new(1, sizeof(struct sweep_point)), .trainers = 2, .doubles = 5});
  ck_assert(more.count == 2 && more.trainers == 4 && more.doubles == 5);
  sweep_join(&more, &s); /* two of the four are there */
  ck_assert(more.count == 4 && more.doubles == 7 && more.trainers == 8 && s.count == 0 && !s.points);
  ck_assert(more.points[2].index == 0 && more.points[3].index == 2 && more.jobs == 5 && more.together == 3);
  struct sweep none = {0};
  sweep_join(&none, &more);
  ck_assert(none.count == 4 && none.jobs == 5 && none.together == 3 && none.threads == 2);
  none.jobs = 1;
  ck_assert_int_eq(sweep_run(&none, &e), STATUS_OK);
  for (long i = 0; i < 4; i++) {
    char path[64];
    const struct sweep_point *p = &none.points[i];
    ck_assert(p->fate == SWEEP_FINISHED && p->step == p->steps && !p->was_done && sweep_is_begun(p));
    snprintf(path, sizeof path, "d/%s.ckpt", p->id);
    ck_assert_int_eq(access(path, F_OK), -1); /* dropped */
  }
  ck_assert(!sweep_plan(&s, c, "name", 1, 1, &e));
  for (long i = 0; i < 4; i++)
    ck_assert(s.points[i].fate == SWEEP_FINISHED && s.points[i].was_done && !*s.points[i].lacks);
  sweep_free(&s);
  sweep_free(&none);
  config_free(c), config_free(again);
  /* under a name, with doubles, with more than there may be */
  static const char *const doubles[] = {"model.layers=1",       "model.width=8",  "model.heads=2",
                                        "device.threads=1,2,3", "train.seed=1,2", NULL};
  c = unfinished(doubles);
  ck_assert(!sweep_plan(&s, c, "name", 1, 1, &e));
  ck_assert(s.count == 2 && s.doubles == 4 && !strncmp(s.points[0].path, "runs/name/", 10) &&
            s.together == 1 && s.jobs == 0);
  sweep_free(&s);
  config_free(c);
  c = unfinished((const char *const[]){"train.seed=1:400:lin:400", "train.lr=1:2:lin:251", NULL});
  ck_assert_int_eq(sweep_plan(&s, c, "name", 1, 1, &e), STATUS_USAGE);
  ck_assert_str_eq(e.text, "the product of the lists has more than 100000 points");
  config_free(c);
}
END_TEST

#define SMALLEST \
  "model.layers=1", "model.width=8", "model.heads=2", "model.context=6", "train.batch=1", \
    "train.val_every=0", "device.threads=1", "sweep.dir=d", "sweep.jobs=1"

static void planned(struct sweep *s, struct config **c, const char *const *words)
{
  struct error e = {0};
  *c = unfinished(words);
  ck_assert_msg(!sweep_plan(s, *c, "name", 1, 1, &e), "%s", e.text);
}

static void done_with(struct sweep *s, struct config *c)
{
  sweep_free(s);
  config_free(c);
}

static void swept(const char *const *words)
{
  struct sweep s;
  struct config *c;
  struct error e = {0};
  planned(&s, &c, words);
  ck_assert_msg(!sweep_run(&s, &e), "%s", e.text);
  done_with(&s, c);
}

/* A run that is begun, and stops before its first step. */
static void stopped_at_once(const struct sweep_point *p)
{
  struct trainer *t;
  struct error e = {0};
  struct config *c = sweep_config_of(p, p->path, &e);
  ck_assert_msg(c && !trainer_init(&t, c, 0, &e) && !trainer_done(t, &e), "%s", e.text);
  config_free(c);
}

/* A longer run goes on from the longest finished one that is the same but for its length; where it cannot, it is said
   why. */
START_TEST(longer_runs)
{
  struct sweep s, known;
  struct config *c, *of_known;
  char wanted[128], words[64];
  swept((const char *const[]){SMALLEST, "train.steps=4,6,9", NULL});
  swept((const char *const[]){SMALLEST, "train.steps=10", "train.seed=2", NULL});
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=11", NULL}); /* longer, but not finished */
  stopped_at_once(&s.points[0]);
  done_with(&s, c);
  planned(&known, &of_known, (const char *const[]){SMALLEST, "train.steps=4,6,9", NULL});
  for (int i = 0; i < 3; i++) ck_assert(known.points[i].was_done && !*known.points[i].from);
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=3,5,8,12,6", NULL});
  static const int from[5] = {-1, 0, 1, 2, -1}; /* of the known */
  for (int i = 0; i < 5; i++) {
    ck_assert_str_eq(s.points[i].from, from[i] < 0 ? "" : known.points[from[i]].path);
    ck_assert(!*s.points[i].anew && s.points[i].was_done == (i == 4));
  }
  done_with(&s, c);
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=12", "train.lr=0.5", NULL}); /* another rate */
  ck_assert(!*s.points[0].from && !*s.points[0].anew);
  done_with(&s, c);
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=12", "record.overwrite=1", NULL});
  ck_assert(!*s.points[0].from && !*s.points[0].anew);
  done_with(&s, c);
  snprintf(words, sizeof words, "rm -r d/%s.ckpt", known.points[2].id);
  ck_assert_int_eq(system(words), 0);
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=12", NULL});
  snprintf(wanted, sizeof wanted, "%s has lost its last checkpoint", known.points[2].id);
  ck_assert_str_eq(s.points[0].anew, wanted);
  ck_assert_str_eq(s.points[0].from, "");
  done_with(&s, c);
  swept((const char *const[]){SMALLEST, "train.steps=4", "train.schedule=cosine", NULL});
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=8", "train.schedule=cosine", NULL});
  ck_assert_str_eq(s.points[0].anew, "the cosine schedule depends on train.steps from the start");
  ck_assert_str_eq(s.points[0].from, "");
  done_with(&s, c);
  done_with(&known, of_known);
}
END_TEST

/* What a finished run was recorded without, of what is asked for now: rows of an interval are there under each that
   divides it; what is standard is not asked for. */
START_TEST(what_a_record_lacks)
{
  static const struct {
    const char *asked[3], *lacks;
  } known[] = {
    {{"record.probe_every=4"}, ""},
    {{"record.probe_every=8"}, ""},
    {{"record.probe_every=12"}, ""},
    {{"record.probe_every=0"}, ""},
    {{"record.probe_every=2"}, "record.probe_every=2 (has 4)"},
    {{"record.probe_every=6"}, "record.probe_every=6 (has 4)"},
    {{"record.probe_every=4", "record.spectra_every=10"}, "record.spectra_every=10 (has 0)"},
    {{"record.probe_every=4", "record.batches=1"}, "record.batches=1 (has 0)"},
    {{"record.probe_every=4", "record.every=3"}, "record.every=3 (has 2)"},
    {{"record.probe_every=4", "record.every=4"}, ""},
    {{"record.probe_every=4", "record.pairs=0"}, ""}, /* the standard: it has more */
    {{"record.probe_every=1", "record.batches=1"}, "record.probe_every=1 (has 4) record.batches=1 (has 0)"},
    {{"record.probe_every=4", "arm=other"}, "arm=other (has mine)"},
    {{"record.probe_every=4", "arm=mine"}, ""},
  };
  swept((const char *const[]){SMALLEST, "train.steps=4", "record.probe_every=4", "record.every=2",
                              "record.pairs=1", "record.spectra_every=0", "arm=mine", NULL});
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *words[32] = {SMALLEST, "train.steps=4"};
    struct sweep s;
    struct config *c;
    int n = 10, says_every = 0, says_spectra = 0, says_arm = 0;
    for (int k = 0; k < 3 && known[i].asked[k]; k++) {
      words[n++] = known[i].asked[k];
      says_every |= !strncmp(known[i].asked[k], "record.every", 12);
      says_spectra |= !strncmp(known[i].asked[k], "record.spectra", 14);
      says_arm |= !strncmp(known[i].asked[k], "arm", 3);
    }
    if (!says_every) words[n++] = "record.every=2";
    if (!says_spectra) words[n++] = "record.spectra_every=0";
    if (!says_arm) words[n++] = "arm=mine";
    planned(&s, &c, words);
    ck_assert_int_eq(s.points[0].was_done, 1);
    ck_assert_msg(!strcmp(s.points[0].lacks, known[i].lacks), "%s: lacks '%s', not '%s'", known[i].asked[0],
                  s.points[0].lacks, known[i].lacks);
    done_with(&s, c);
  }
}
END_TEST

/* --- repetitions -------------------------------------------------------------------------------------------- */

enum { STEP_ROWS = 4, VAL_ROWS = 3, EVENTS = 6 };
/* A run of eight steps, a row each other step; what is changed of it. */
struct repeated {
  int lacks_row, lacks_val, lacks_series, has_more, without_events;
  const char *state;
  long last_step;
  struct {
    int row, place; /* place -1: of the loss; else of a head */
    double value;
  } put;
  struct run_event event[EVENTS]; /* in place of the usual ones, by their number; step -1: left out */
};

static void write_repeated(const char *path, const struct repeated *x)
{
  static const struct series kinds[] = {
    {"loss", PER_STEP, AXIS_STEP, "nat", "loss", "made up", EVENT_NONE},
    {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "max logit", "made up", EVENT_NONE},
    {"val_loss", PER_STEP, AXIS_VAL, "nat", "loss", "made up", EVENT_NONE},
    {"lr", PER_STEP, AXIS_STEP, "1", "rate", "made up", EVENT_NONE}};
  static const struct run_event usual[EVENTS] = {{1, "clip", 0, 1, 0.5},       {2, "resume", -1, -1, 0},
                                                 {3, "spike", -1, -1, 4},      {5, "nonfinite", 1, 0, NAN},
                                                 {6, "checkpoint", -1, -1, 0}, {7, "clip", 2, 1, 0.25}};
  struct recorder *r = recorder_of(path);
  struct error e = {0};
  const long end = x->last_step ? x->last_step : 8;
  recorder_parameter(r, "record.every", x->has_more ? "1" : "2", "", "test");
  int id[4];
  for (int s = 0; s < (x->has_more ? 4 : 3); s++)
    id[s] = s == 2 && x->lacks_series ? -1 : recorder_series(r, &kinds[s]);
  for (int row = 0; row < STEP_ROWS && 2 * row <= end; row++) {
    float heads[PLACES];
    for (int i = 0; i < PLACES; i++) heads[i] = (float)(row + i);
    heads[2] = row == 1 ? NAN : 0;
    if (x->put.value != 0 && x->put.row == row && x->put.place >= 0)
      heads[x->put.place] = (float)x->put.value;
    if (x->lacks_row == row + 1) continue;
    recorder_put_number(r, id[0],
                        x->put.value != 0 && x->put.row == row && x->put.place < 0 ? x->put.value : 4 - row);
    recorder_put(r, id[1], heads);
    if (x->has_more) recorder_put_number(r, id[3], 1);
    recorder_row(r, AXIS_STEP, 2 * row);
    if (x->has_more) {
      recorder_put_number(r, id[0], 77);
      recorder_row(r, AXIS_STEP, 2 * row + 1);
    }
  }
  for (int row = 0; row < VAL_ROWS && 4 * row <= end && !x->lacks_series; row++) {
    if (x->lacks_val == row + 1) continue;
    recorder_put_number(r, id[2], 3 - row);
    recorder_row(r, AXIS_VAL, 4 * row);
  }
  for (int i = 0; i < EVENTS && !x->without_events; i++) {
    const struct run_event *event = *x->event[i].kind ? &x->event[i] : &usual[i];
    if (event->step >= 0 && event->step <= end)
      recorder_event(r, event->step, event->kind, event->layer, event->head, event->value);
  }
  ck_assert(!recorder_snapshot(r, x->state ? x->state : "finished", end, 1, 1, &e));
  recorder_free(r);
}

/* Every row of the first and every event of its numbers, to the bit, up to where both have come: or it is said what
   differs, and where. */
START_TEST(repetitions)
{
  static const struct {
    struct repeated first, again;
    const char *says;
  } known[] = {
    {{0}, {0}, NULL},
    {{0}, {.has_more = 1}, NULL},
    {{.lacks_row = 1}, {0}, NULL}, /* a resume may have changed the intervals */
    {{.lacks_row = 2}, {0}, "attn/max_logit: the row of step 2 is missing from the first"},
    {{.lacks_series = 1}, {0}, NULL},
    {{0}, {.lacks_series = 1}, "val_loss was recorded the first time, and not now"},
    {{0},
     {.lacks_row = 1},
     "attn/max_logit: the row of step 0 was recorded before the resume at step 2, which recorded less: "
     "with the keys of before (record.every, ...) rerun keeps it"},
    {{0}, {.lacks_row = 4}, "attn/max_logit: the row of step 6 was recorded the first time, and not now"},
    {{0}, {.lacks_val = 3}, "val_loss: the row of step 8 was recorded the first time, and not now"},
    {{0}, {.put = {2, -1, 2.5}}, "loss differs at step 4: 2 the first time, now 2.5"},
    {{.put = {3, -1, 1.125}}, {0}, "loss differs at step 6: 1.125 the first time, now 1"},
    {{0}, {.put = {0, 5, 1}}, "attn/max_logit differs at step 0: 0 the first time, now 0"},
    {{0}, {.put = {3, 0, -9}}, "attn/max_logit differs at step 6: 3 the first time, now -9"},
    {{.put = {1, 2, 1}}, {0}, "attn/max_logit differs at step 2: 1 the first time, now 1"},
    /* as far as both have come */
    {{0}, {.last_step = 6}, "the first time 8 steps were done, now 6"},
    {{.state = "stopped"}, {.last_step = 6}, NULL},
    {{.state = "stopped", .last_step = 5}, {0}, NULL},
    {{.state = "stopped", .last_step = 5}, {.put = {3, -1, 2.5}}, NULL},
    {{.state = "stopped", .last_step = 6},
     {.put = {3, -1, 2.5}},
     "loss differs at step 6: 1 the first time, now 2.5"},
    {{0}, {.last_step = 12}, NULL},
    /* events */
    {{0}, {.event = {{-1, "none"}}}, "the events differ from step 1 on"},
    {{.event = {{-1, "none"}}}, {0}, "the events differ from step 3 on"},
    {{.event = {[5] = {-1, "none"}}}, {0}, "the events differ from step 7 on"},
    {{0}, {.event = {[5] = {-1, "none"}}}, "the events differ from step 7 on"},
    {{0}, {.event = {[1] = {-1, "none"}, [4] = {4, "rerun", -1, -1, 7}}}, NULL},
    {{0}, {.event = {[2] = {3, "spike", -1, -1, 4.5}}}, "the events differ from step 3 on"},
    {{0}, {.event = {[0] = {1, "clip", 0, 0, 0.5}}}, "the events differ from step 1 on"},
    {{0}, {.event = {[3] = {4, "nonfinite", 1, 0, NAN}}}, "the events differ from step 5 on"},
    {{0}, {.without_events = 1}, "the events differ from step 1 on"},
    {{.without_events = 1}, {0}, "the events differ from step 1 on"},
    {{.state = "stopped", .last_step = 7}, {.event = {[5] = {-1, "none"}}}, NULL},
    {{.state = "stopped"}, {.event = {[5] = {-1, "none"}}}, "the events differ from step 7 on"},
    {{.state = "diverged", .last_step = 7},
     {.event = {[5] = {-1, "none"}}},
     "the events differ from step 7 on"},
    {{.state = "diverged", .last_step = 7}, {.state = "diverged", .last_step = 7}, NULL},
    {{.state = "diverged", .last_step = 7}, {.last_step = 7}, "the first time it diverged, now it finished"},
    {{.state = "stopped"},
     {.state = "diverged", .last_step = 7, .event = {[5] = {-1, "none"}}},
     "the events differ from step 7 on"},
    {{.state = "stopped"}, {.state = "stopped", .last_step = 7, .event = {[5] = {-1, "none"}}}, NULL},
  };
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    char wanted[200] = "";
    struct error e = {0};
    int compared;
    write_repeated("first.h5", &known[k].first);
    write_repeated("again.h5", &known[k].again);
    const int status = rerun_compare("first.h5", "again.h5", &compared, &e);
    if (known[k].says) snprintf(wanted, sizeof wanted, "first.h5: not the same again: %s", known[k].says);
    ck_assert_msg(!strcmp(e.text, wanted), "%zu: '%s', not '%s'", k, e.text, wanted);
    ck_assert_int_eq(status, known[k].says ? STATUS_FAIL : STATUS_OK);
    if (!known[k].says) ck_assert_int_eq(compared, known[k].first.lacks_series ? 2 : 3);
  }
  int compared;
  struct error e = {0};
  ck_assert_int_ne(rerun_compare("first.h5", "none.h5", &compared, &e), STATUS_OK);
  ck_assert_str_eq(e.text, "first.h5: not the same again: cannot read none.h5: No such file or directory");
}
END_TEST

/* What may be said anew when a run goes on, and when it is repeated; the others are refused with what may. */
START_TEST(what_may_be_changed)
{
  static const struct {
    const char *change, *resume, *rerun; /* NULL: taken */
  } known[] = {
    {"train.steps=5", NULL, "train.steps would make another run of it; rerun takes"},
    {"train.steps=3", NULL, "train.steps would make another run of it; rerun takes"},
    {"train.steps=2", "train.steps = 2 is less than the run's 3", "train.steps would make another run of it"},
    {"train.lr=0.5", "train.lr would change the past of this run; resume takes",
     "train.lr would make another run of it"},
    {"train.seed=5", "train.seed would change the past of this run",
     "train.seed would make another run of it"},
    {"model.width=16", "model.width would change the past of this run",
     "model.width would make another run of it"},
    {"preset=muon", "preset would change the past of this run", "preset would make another run of it"},
    {"comm.context=1", NULL, "comm.context would make another run of it"},
    {"record.probe_every=2", NULL, NULL},
    {"record.every=2", NULL, NULL},
    {"checkpoint.every=1", NULL, NULL},
    {"checkpoint.keep=all", NULL, NULL},
    {"device.threads=2", NULL, NULL},
    {"train.init_from=", NULL, NULL},
    {"record.path=other.h5", NULL, "record.path: the run keeps its file; --output writes another"},
    {"record.overwrite=1", NULL, "record.overwrite: the run keeps its file; --output writes another"},
    {"record.prob_every=2",
     "command line: record.prob_every: unknown key; did you mean 'record.probe_every'?",
     "command line: record.prob_every: unknown key; did you mean 'record.probe_every'?"},
    {"train.max_time=5", NULL, NULL},
  };
  struct error e = {0};
  struct config *c = configuration(TINY "train.steps=3 train.max_time=1000 record.path=r.h5");
  ck_assert(!drive(started(c, 0), 0, NULL, NULL, &e));
  config_free(c);
  ck_assert_int_eq(system("cp -r r.ckpt kept.ckpt && cp r.h5 kept.h5"), 0);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct trainer *t = NULL;
    e = (struct error){0};
    ck_assert_int_eq(system("rm -rf r.ckpt && cp -r kept.ckpt r.ckpt && cp kept.h5 r.h5"), 0);
    const char *wanted = known[k].resume;
    int status = trainer_resume(&t, "r.h5", &known[k].change, 1, &e);
    ck_assert_msg(status == (wanted ? STATUS_USAGE : STATUS_OK) && (!t) == (wanted != NULL), "%s: %s",
                  known[k].change, e.text);
    if (wanted) ck_assert_msg(!strncmp(e.text, wanted, strlen(wanted)), "%s", e.text);
    if (t) {
      const struct config *now = trainer_config(t);
      ck_assert_str_eq(trainer_path(t), "r.h5");
      ck_assert_int_eq(trainer_status(t).done, 3);
      ck_assert_int_eq(trainer_status(t).steps, !strcmp(known[k].change, "train.steps=5") ? 5 : 3);
      ck_assert_double_eq(number_in(now, "record.every"), strcmp(known[k].change, "record.every=2") ? 1 : 2);
      trainer_abandon(t);
    }
    wanted = known[k].rerun;
    c = NULL, t = NULL, e = (struct error){0};
    status = rerun_init(&t, &c, "r.h5", NULL, &known[k].change, 1, -1, &e);
    ck_assert_msg(status == (wanted ? STATUS_USAGE : STATUS_OK) && (!t) == (wanted != NULL), "rerun %s: %s",
                  known[k].change, e.text);
    if (wanted) ck_assert_msg(!strncmp(e.text, wanted, strlen(wanted)), "%s", e.text);
    if (t) {
      ck_assert_str_eq(trainer_path(t), "r.rerun.h5");
      ck_assert_double_eq(number_in(c, "train.max_time"),
                          strcmp(known[k].change, "train.max_time=5") ? 0 : 5);
      ck_assert_int_eq(trainer_status(t).done, 0);
      trainer_abandon(t);
    }
    ck_assert(!c == (wanted != NULL));
    config_free(c);
  }
}
END_TEST

/* --- states ------------------------------------------------------------------------------------------------- */

static char heard_line[400];
static int hear(const char *line)
{
  snprintf(heard_line, sizeof heard_line, "%s", line);
  return 0; /* nobody else need */
}

enum spoiled { OTHER_CORE, OTHER_NAME, OTHER_ROWS, OTHER_COLUMNS, NO_WINDOW, OTHER_RUN, SPOILED };

static void spoil(enum spoiled how)
{
  struct checkpoint c;
  struct error e = {0};
  ck_assert_msg(!checkpoint_latest("r.h5", &c, &e), "%s", e.text);
  struct checkpoint_tensor *first = NULL, *last = NULL;
  for (int i = 0; i < c.count; i++) {
    if (!strcmp(c.tensors[i].name, "params/embed")) first = &c.tensors[i];
    if (!strcmp(c.tensors[i].name, "state/trainer.spike_window")) last = &c.tensors[i];
  }
  ck_assert(first && last);
  if (how == OTHER_CORE) snprintf(c.core, sizeof c.core, "Nehalem");
  if (how == OTHER_NAME) snprintf(first->name, sizeof first->name, "params/another");
  if (how == OTHER_ROWS) first->rows /= 2;
  if (how == OTHER_COLUMNS) first->cols /= 2;
  if (how == NO_WINDOW) snprintf(last->name, sizeof last->name, "state/another");
  if (how == OTHER_RUN) snprintf(c.id, sizeof c.id, "0123456789ab");
  ck_assert_msg(!checkpoint_write("r.h5", &c, 0, &e), "%s", e.text);
  checkpoint_free(&c);
}

/* A state that is not this run's, or not whole, is said; one of another processor is taken with a warning. */
START_TEST(states_of_others)
{
  static const struct {
    int status;
    const char *says; /* before its number or name */
  } known[SPOILED] = {
    [OTHER_CORE] = {STATUS_OK, "the checkpoint was computed on OpenBLAS core Nehalem, this is "},
    [OTHER_NAME] = {STATUS_FAIL, "checkpoint of step 3: params/embed is missing or has another shape"},
    [OTHER_ROWS] = {STATUS_FAIL, "checkpoint of step 3: params/embed is missing or has another shape"},
    [OTHER_COLUMNS] = {STATUS_FAIL, "checkpoint of step 3: params/embed is missing or has another shape"},
    [NO_WINDOW] = {STATUS_FAIL,
                   "checkpoint of step 3: state/trainer.spike_window is missing or has another shape"},
    [OTHER_RUN] = {STATUS_USAGE, "r.h5: its checkpoint of step 3 is of another run (id 0123456789ab, not "},
  };
  static const char *const longer = "train.steps=5";
  struct error e = {0};
  struct config *c = configuration(TINY "train.steps=3 record.path=r.h5");
  ck_assert(!drive(started(c, 0), 0, NULL, NULL, &e));
  config_free(c);
  ck_assert_int_eq(system("cp -r r.ckpt kept.ckpt && cp r.h5 kept.h5"), 0);
  messages_to(hear);
  for (int how = -1; how < SPOILED; how++) {
    struct trainer *t = NULL;
    e = (struct error){0};
    *heard_line = 0;
    ck_assert_int_eq(system("rm -rf r.ckpt && cp -r kept.ckpt r.ckpt && cp kept.h5 r.h5"), 0);
    if (how >= 0) spoil((enum spoiled)how);
    const int status = trainer_resume(&t, "r.h5", &longer, 1, &e);
    ck_assert_msg(status == (how < 0 ? STATUS_OK : known[how].status), "%d: %s", how, e.text);
    const char *said = how == OTHER_CORE ? heard_line : e.text;
    if (how >= 0) ck_assert_msg(strstr(said, known[how].says), "%d: '%s'", how, said);
    if (how < 0) ck_assert(!*heard_line && !*e.text);
    ck_assert(!t == (status != STATUS_OK));
    if (t) trainer_abandon(t);
  }
  /* a longer run over a state that cannot be read */
  struct sweep s;
  char path[100];
  swept((const char *const[]){SMALLEST, "train.steps=3", NULL});
  planned(&s, &c, (const char *const[]){SMALLEST, "train.steps=5", NULL});
  ck_assert(*s.points[0].from);
  snprintf(path, sizeof path, "echo words > %.40s.ckpt/step-00000003.h5", s.points[0].from);
  *strstr(path, ".h5.ckpt") = 0;
  snprintf(path + strlen(path), sizeof path - strlen(path), ".ckpt/step-00000003.h5");
  ck_assert_int_eq(system(path), 0);
  e = (struct error){0};
  ck_assert_int_eq(sweep_run(&s, &e), STATUS_FAIL);
  ck_assert(s.points[0].fate == SWEEP_FAILED);
  ck_assert_msg(!strncmp(s.points[0].reason, "cannot go on from d/", 20), "%s", s.points[0].reason);
  done_with(&s, c);
  messages_to(NULL);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("pieces");
  TCase *k = tcase_create("pieces");
  tcase_set_timeout(k, 60);
  tcase_add_checked_fixture(k, enter_folder, leave_folder);
  tcase_add_test(k, the_largest);
  tcase_add_test(k, spikes_of_a_loss);
  tcase_add_test(k, first_spike_of_a_loss);
  tcase_add_test(k, what_is_not_finite);
  tcase_add_test(k, one_balanced_tree);
  tcase_add_test(k, driven_to_an_end);
  tcase_add_test(k, the_last_tick);
  tcase_add_test(k, limits_of_time);
  tcase_add_test(k, signals);
  tcase_add_test(k, events_are_those_of_the_series);
  tcase_add_test(k, questions);
  tcase_add_test(k, progress);
  tcase_add_test(k, checkpoints_and_their_events);
  tcase_add_test(k, checkpoints_by_the_clock);
  tcase_add_test(k, names_of_fates);
  tcase_add_test(k, how_a_machine_is_shared);
  tcase_add_test(k, launches_of_points);
  tcase_add_test(k, notes_of_workers);
  tcase_add_test(k, the_longest_first);
  tcase_add_test(k, what_is_planned);
  tcase_add_test(k, longer_runs);
  tcase_add_test(k, what_a_record_lacks);
  tcase_add_test(k, repetitions);
  tcase_add_test(k, what_may_be_changed);
  tcase_add_test(k, states_of_others);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
