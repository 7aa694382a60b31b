/* The trainer as a whole: micro-batches, starting states, divergence as data, allocation, threads. What
   survives kills and damaged files is tested by the crash tests. */
#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "run/drive.h"
#include "run/health.h"
#include "run/rerun.h"
#include "../folder.h"
#include "../configuration.h"
#include "../same_run.h"
#include "storage/recorder.h"
#include "storage/run_file.h"

#define SMALL \
  "model.width=16 model.heads=2 model.context=12 train.batch=4 train.warmup=2 train.lr=0.02 " \
  "train.steps=12 train.val_batches=1 device.threads=1 record.spectra_every=5 "

/* the processor's kernels, in memory that the host cannot touch where nothing else checks it */
static const char *on_device = MEMORY_MAPS ? "device=isolated" : "device=cpu";
static void expose(void) { on_device = "device=cpu"; }
static void follow(void) { on_device = getenv("MAXLOGIT_TEST_DEVICE"); }

static struct config *configured(const char *settings)
{
  return configuration("%s %s %s", on_device, SMALL, settings);
}

static struct trainer *started(struct config *c, unsigned flags)
{
  struct trainer *t = NULL;
  struct error e = {0};
  ck_assert_msg(!trainer_init(&t, c, flags, &e), "%s", e.text);
  return t;
}

static void step(struct trainer *t)
{
  struct error e = {0};
  ck_assert_msg(!trainer_step(t, &e), "%s", e.text);
  ck_assert_msg(!trainer_settle(t, &e), "%s", e.text);
}

enum { MOST = 64 };
struct trace {
  int steps;
  double loss[MOST], norm[MOST];
  real max[MOST][8];
};

/* Loss, gradient norm and max logits of every step of a run that keeps nothing on disk. */
static struct trace traced(const char *settings)
{
  struct trace x = {0};
  struct config *c = configured(settings);
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  const struct model_options *m = config_section(c, "model");
  while (trainer_more(t) && x.steps < MOST) {
    step(t);
    x.loss[x.steps] = trainer_status(t).loss;
    x.norm[x.steps] = trainer_status(t).grad_norm;
    memcpy(x.max[x.steps++], trainer_status(t).max_logit, (size_t)(m->layers * m->heads) * sizeof(real));
  }
  trainer_abandon(t);
  config_free(c);
  return x;
}

/* A batch in parts is the batch: the same loss, gradient and maxima, but for the order of a few sums. A step
   of them can be compared exactly only before rounding has been through an update, so: the first step. */
START_TEST(micro_batches)
{
  const char *packed[] = {"", "data=copy", "data.packing=documents", "data.packing=documents model.mtp=2"};
  char whole[256], parts[256];
  for (int i = 0; i < 4; i++) {
    snprintf(whole, sizeof whole, "train.steps=1 %s", packed[i]);
    snprintf(parts, sizeof parts, "train.steps=1 train.micro_batches=4 %s", packed[i]);
    struct trace a = traced(whole), b = traced(parts);
    ck_assert(fabs(a.loss[0] - b.loss[0]) <= 64 * REAL_EPS * fabs(a.loss[0]));
    ck_assert(fabs(a.norm[0] - b.norm[0]) <= 1024 * REAL_EPS * a.norm[0]);
    for (int h = 0; h < 4; h++)
      ck_assert(fabs((double)(a.max[0][h] - b.max[0][h])) <= 64 * REAL_EPS * fabs((double)a.max[0][h]));
  }
}
END_TEST

START_TEST(same_bits_on_any_number_of_threads)
{
  const char *kinds[] = {
    "preset=muonclip qk_clip.tau=0.8",
    "preset=adam model.attention=gqa model.kv_heads=1",
    "preset=muon stabilizers=qk_norm data.packing=documents train.micro_batches=2",
    ("preset=muon stabilizers=qk_clip+max_output_clip qk_clip.tau=0.8 qk_clip.when=before "
     "qk_clip.momentum=scale qk_clip.statistic=probe max_output_clip.tau=0.5"),
    "preset=muon model.ffn=moe moe.balance=both moe.bias_rate=0.05 train.micro_batches=2",
    "preset=muonclip qk_clip.tau=0.8 model.mtp=2"};
  for (int k = 0; k < 6; k++) {
    struct trace one = traced(kinds[k]);
    for (int threads = 2; threads <= 4; threads++) {
      char settings[512];
      snprintf(settings, sizeof settings, "%s device.threads=%d", kinds[k], threads);
      struct trace many = traced(settings);
      ck_assert_msg(!memcmp(&one, &many, sizeof one), "%s differs on %d threads", kinds[k], threads);
    }
  }
}
END_TEST

START_TEST(no_allocation_after_the_first_step)
{
  const char *kinds[] = {"preset=muonclip qk_clip.tau=0.8",
                         "preset=adam",
                         "preset=muon stabilizers=qk_norm+soft_cap",
                         "preset=muon record.level=1 precision.scores=bf16 precision.qk=fp8_e4m3",
                         "preset=muon model.ffn=moe moe.balance=both",
                         "preset=adam model.mtp=1"};
  for (int k = 0; k < 6; k++) {
    struct config *c = configured(kinds[k]);
    struct trainer *t = started(c, TRAINER_NO_RECORD);
    step(t);
    size_t calls = memory_calls();
    for (int s = 0; s < 5; s++) step(t);
    ck_assert_uint_eq(memory_calls(), calls);
    trainer_abandon(t);
    config_free(c);
  }
}
END_TEST

START_TEST(seeds_differ_and_repeat)
{
  struct trace a = traced("train.seed=1"), b = traced("train.seed=1"), c = traced("train.seed=2");
  ck_assert(!memcmp(&a, &b, sizeof a));
  ck_assert(memcmp(&a, &c, sizeof a));
}
END_TEST

/* A head planted with factor f has its logits f^2 times as large in the first forward pass; others keep theirs. */
START_TEST(planted_head)
{
  struct trace plain = traced("train.steps=1"), planted = traced("train.steps=1 train.plant=0:1:3");
  ck_assert(planted.max[0][0] == plain.max[0][0]);
  ck_assert(fabs((double)(planted.max[0][1] / plain.max[0][1]) - 9) <= 1e-4);
}
END_TEST

/* The same to the bit by powers of two, whoever shares a key, and for all heads together. In one layer, as the
   logits of later ones follow what earlier ones put out. */
static const char *const keys[] = {"",
                                   "model.bias=1",
                                   "model.attention=gqa model.kv_heads=1",
                                   "model.attention=gqa model.kv_heads=2 model.bias=1",
                                   "model.attention=mla",
                                   "model.attention=mla model.q_rank=6"};

START_TEST(planted_heads_that_share_keys)
{
  char settings[3][256];
  const char *plants[] = {"", "train.plant=0:1:-2", "train.plant=*:*:2+0:2:2"};
  const real factor[3][4] = {{1, 1, 1, 1}, {1, 4, 1, 1}, {4, 4, 16, 4}};
  struct trace x[3];
  for (int k = 0; k < 3; k++) {
    snprintf(settings[k], sizeof *settings, "train.steps=1 model.layers=1 model.heads=4 %s %s", keys[_i],
             plants[k]);
    x[k] = traced(settings[k]);
    for (int h = 0; h < 4; h++)
      ck_assert_msg(x[k].max[0][h] == factor[k][h] * x[0].max[0][h], "%s: head %d: %g, not %g times %g",
                    settings[k], h, (double)x[k].max[0][h], (double)factor[k][h], (double)x[0].max[0][h]);
  }
}
END_TEST

/* A list that does not fit is refused. */
START_TEST(wrong_plants)
{
  const char *wrong[] = {"0:0", "2:0:3", "0:2:3", "0:0:inf", "0:0:3x"};
  for (int i = 0; i < 5; i++) {
    char settings[128];
    struct trainer *t;
    struct error e = {0};
    snprintf(settings, sizeof settings, "train.plant=%s", wrong[i]);
    struct config *c = configured(settings);
    ck_assert_int_eq(trainer_init(&t, c, TRAINER_NO_RECORD, &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, "layers 0 to 1, heads 0 to 1") != NULL, "%s", e.text);
    config_free(c);
  }
}
END_TEST

static int is_ns_steps(void *value, const struct config_entry *x)
{
  if (strcmp(x->key, "muon.ns_steps")) return 0;
  snprintf(value, 32, "%s", x->value);
  return 1;
}

/* What follows from other options is recorded as what it is. */
START_TEST(resolved_options)
{
  char value[32] = "";
  struct config *c = configured("preset=muon muon.coefficients=taylor");
  trainer_abandon(started(c, TRAINER_NO_RECORD));
  ck_assert_int_eq(config_each(c, is_ns_steps, value), 1);
  ck_assert_str_eq(value, "10");
  config_free(c);
}
END_TEST

/* A trainer without a record takes every call and leaves nothing behind. */
START_TEST(nothing_is_kept)
{
  struct error e = {0};
  ck_assert_int_eq(system("rm -rf .ckpt"), 0); /* of a program that did keep something */
  struct config *c = configured("preset=muonclip qk_clip.tau=0.8 checkpoint.every=2 checkpoint.keep=all "
                                "record.batches=1 record.probe_every=1 record.spectra_every=1");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  ck_assert_int_eq(trainer_checkpoint(t, &e), STATUS_OK);
  while (trainer_more(t)) step(t);
  ck_assert_int_eq(trainer_checkpoint(t, &e), STATUS_OK);
  ck_assert_str_eq(trainer_path(t), "");
  ck_assert_int_eq(trainer_done(t, &e), STATUS_OK);
  ck_assert_int_eq(access(".ckpt", F_OK), -1);
  config_free(c);
}
END_TEST

/* --- divergence is data ---------------------------------------------------------------------------------- */

static char folder[FOLDER_PATH];
static void make_folder(void) { folder_make(folder); }
static void remove_folder(void) { folder_remove(folder); }

static const char *path(const char *name)
{
  static char out[256];
  snprintf(out, sizeof out, "%s/%s.h5", folder, name);
  return out;
}

static int driven(const char *name, const char *settings)
{
  char all[1024];
  struct error e = {0};
  snprintf(all, sizeof all, "record.path=%s %s", path(name), settings);
  struct config *c = configured(all);
  int status = drive(started(c, 0), 0, NULL, NULL, &e);
  ck_assert_msg(status != STATUS_FAIL, "%s", e.text);
  config_free(c);
  return status;
}

static long count_events(struct run_file *r, const char *kind, struct run_event *first)
{
  struct run_event *events;
  struct error e = {0};
  long count, found = 0;
  ck_assert(!run_events(r, &events, &count, &e));
  for (long i = 0; i < count; i++)
    if (!strcmp(events[i].kind, kind) && !found++ && first) *first = events[i];
  memory_free(events);
  return found;
}

/* Configurations that overflow, by different ways. Each is a finished piece of data: exit 0, state diverged, an
   event that tells step and place, and the row of that step in the record. */
static const char *const overflows[] = {
  "optimizer=sgd train.lr=1e5 train.warmup=0 sgd.momentum=0",
  "optimizer=sgd train.lr=1e30 train.warmup=0",
  "preset=adam train.lr=1e25 train.warmup=0",
  "preset=muon train.lr=1e25 train.warmup=0",
  "preset=muon train.plant=*:*:1e20",
  "preset=adam train.plant=1:0:1e25 stabilizers=soft_cap",
  "preset=muon train.plant=*:*:1e3 precision.scores=fp16",
  "preset=muon train.plant=*:*:1e5 precision.qk=fp8_e4m3",
};

START_TEST(divergence)
{
  struct run_file *r;
  struct error e = {0};
  struct run_event first = {0};
  struct run_series loss;
  char settings[256];
  snprintf(settings, sizeof settings, "%s record.every=3", overflows[_i]);
  ck_assert_int_eq(driven("diverged", settings), STATUS_OK);
  ck_assert_msg(!run_open(&r, path("diverged"), &e), "%s", e.text);
  ck_assert_str_eq(run_state(r), "diverged");
  ck_assert_int_ge(count_events(r, "nonfinite", &first), 1);
  ck_assert(!isfinite(first.value));
  ck_assert_int_eq(first.step, run_last_step(r));
  ck_assert(!run_read(r, "loss", &loss, &e));
  ck_assert_int_eq(loss.rows, (first.step + 2) / 3 + 1);
  ck_assert(loss.step[loss.rows - 1] == (double)first.step);
  run_series_free(&loss);
  run_close(r);
}
END_TEST

/* No step names a place twice as not finite. */
static void check_told_once(const char *name)
{
  struct run_file *r;
  struct run_event *x;
  struct error e = {0};
  long count;
  ck_assert(!run_open(&r, path(name), &e) && !run_events(r, &x, &count, &e));
  for (long i = 0; i < count; i++)
    for (long j = 0; j < i; j++)
      ck_assert(strcmp(x[i].kind, "nonfinite") || strcmp(x[j].kind, "nonfinite") || x[i].step != x[j].step ||
                x[i].layer != x[j].layer || x[i].head != x[j].head);
  memory_free(x);
  run_close(r);
}

START_TEST(a_run_that_is_not_the_same_again_is_told)
{
  struct error e = {0};
  char one[256], two[256];
  int series;
  driven("one", "train.steps=6 preset=muonclip qk_clip.tau=1");
  driven("two", "train.steps=6 preset=muonclip qk_clip.tau=1 record.probe_every=2");
  driven("three", "train.steps=6 preset=muonclip qk_clip.tau=1 train.seed=2");
  driven("four", "train.steps=6 preset=muonclip qk_clip.tau=1 qk_clip.alpha=0.25");
  snprintf(one, sizeof one, "%s", path("one"));
  ck_assert_msg(!rerun_compare(one, path("two"), &series, &e), "%s", e.text);
  ck_assert_int_ge(series, 8);
  static const struct {
    const char *again, *what;
  } others[] = {{"three", "differs at step 0"}, {"four", "differs at step "}};
  for (int i = 0; i < 2; i++) {
    e = (struct error){0};
    ck_assert_int_eq(rerun_compare(one, path(others[i].again), &series, &e), STATUS_FAIL);
    ck_assert_msg(strstr(e.text, others[i].what) && strstr(e.text, "one"), "%s", e.text);
  }
  e = (struct error){0};
  snprintf(two, sizeof two, "%s", path("two"));
  ck_assert_int_eq(rerun_compare(two, one, &series, &e), STATUS_FAIL); /* no probe */
  e = (struct error){0};
  driven("shorter", "train.steps=6 preset=muonclip qk_clip.tau=0.1 train.val_every=6 record.spectra_every=0");
  driven(
    "longer",
    "train.steps=9 preset=muonclip qk_clip.tau=0.1 train.val_every=6 record.spectra_every=0"); /* clips in every step */
  snprintf(one, sizeof one, "%s", path("shorter"));
  ck_assert_msg(!rerun_compare(one, path("longer"), &series, &e), "%s", e.text);
  /* the row of the end, behind that of the last step, counts */
  driven("end", "train.steps=6 train.val_every=0 train.val_batches=1 record.spectra_every=0");
  driven("again", "train.steps=6 train.val_every=0 train.val_batches=2 record.spectra_every=0");
  snprintf(one, sizeof one, "%s", path("end"));
  ck_assert_int_eq(rerun_compare(one, path("again"), &series, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "val_loss differs at step 6"), "%s", e.text);
}
END_TEST

START_TEST(divergence_can_fail_or_go_on)
{
  char settings[512];
  struct run_file *r;
  struct error e = {0};
  snprintf(settings, sizeof settings, "%s train.on_nonfinite=fail", overflows[1]);
  ck_assert_int_eq(driven("fails", settings), STATUS_DIVERGED);
  snprintf(settings, sizeof settings, "%s train.on_nonfinite=continue stabilizers=qk_clip", overflows[1]);
  ck_assert_int_eq(driven("goes_on", settings), STATUS_OK);
  ck_assert(!run_open(&r, path("goes_on"), &e));
  ck_assert_str_eq(run_state(r), "finished");
  ck_assert_int_eq(run_last_step(r), 12);
  ck_assert_int_ge(count_events(r, "nonfinite", NULL), 2);
  ck_assert_int_eq(count_events(r, "clip", NULL), 0);
  run_close(r);
  check_told_once("goes_on");
}
END_TEST

/* --- starting from another run, and running on -------------------------------------------------------------- */

START_TEST(start_from_a_run)
{
  char settings[512];
  driven("first", "preset=adam");
  snprintf(settings, sizeof settings, "preset=muon train.steps=1 train.init_from=%s", path("first"));
  struct run_file *r;
  struct run_series val;
  struct error e = {0};
  ck_assert(!run_open(&r, path("first"), &e));
  ck_assert(!run_read(r, "val_loss", &val, &e));
  double last = val.value[val.rows - 1];
  run_series_free(&val);
  run_close(r);
  ck_assert_int_eq(driven("second", settings), STATUS_OK);
  ck_assert(!run_open(&r, path("second"), &e));
  ck_assert(!run_read(r, "val_loss", &val, &e));
  ck_assert(val.value[0] == last); /* the weights, to the bit */
  run_series_free(&val);
  run_close(r);
}
END_TEST

/* A finished run has a row of its end, whatever record.every is. If the run goes on, that row stays where it was due,
   before or after. */
static const struct {
  const char *every, *then; /* record.every of ten steps, and of three more; NULL: none follow */
  int step[13];
} ends[] = {
  {"4", NULL, {0, 4, 8, 9}},
  {"4", "4", {0, 4, 8, 12}},
  {"4", "3", {0, 4, 8, 9, 12}},
  {"4", "1", {0, 4, 8, 9, 10, 11, 12}},
  {"1", "5", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12}},
};

START_TEST(the_last_step_has_a_row)
{
  struct run_file *r;
  struct run_series loss;
  struct error e = {0};
  char settings[2][64];
  snprintf(settings[0], 64, "preset=adam train.steps=10 record.every=%s", ends[_i].every);
  driven("rows", settings[0]);
  if (ends[_i].then) {
    struct trainer *t;
    snprintf(settings[1], 64, "record.every=%s", ends[_i].then);
    ck_assert_msg(!trainer_resume(&t, path("rows"), (const char *[]){"train.steps=13", settings[1]}, 2, &e),
                  "%s", e.text);
    ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  }
  ck_assert(!run_open(&r, path("rows"), &e));
  ck_assert(!run_read(r, "loss", &loss, &e));
  for (long i = 0; i < loss.rows; i++) ck_assert(loss.step[i] == ends[_i].step[i]);
  ck_assert_int_eq(loss.step[loss.rows - 1], ends[_i].then ? 12 : 9);
  run_series_free(&loss);
  run_close(r);
}
END_TEST

static double first_val(const char *name)
{
  struct run_file *r;
  struct run_series val;
  struct error e = {0};
  ck_assert(!run_open(&r, path(name), &e));
  ck_assert(!run_read(r, "val_loss", &val, &e));
  double first = val.value[0];
  run_series_free(&val);
  run_close(r);
  return first;
}

/* A run that starts from other weights under the same path is another run. */
START_TEST(weights_at_the_start_are_part_of_the_id)
{
  char settings[512], id[3][16];
  const char *source[] = {"preset=adam train.steps=2", "preset=adam train.steps=2 record.overwrite=1",
                          "preset=adam train.steps=2 record.overwrite=1 train.seed=2"};
  for (int i = 0; i < 3; i++) {
    driven("source", source[i]);
    snprintf(settings, sizeof settings, "preset=muon train.init_from=%s", path("source"));
    struct config *c = configured(settings);
    struct trainer *t = started(c, TRAINER_NO_RECORD);
    snprintf(id[i], sizeof *id, "%s", trainer_id(t));
    trainer_abandon(t);
    config_free(c);
  }
  ck_assert_str_eq(id[0], id[1]);
  ck_assert_str_ne(id[0], id[2]);
}
END_TEST

/* The states of a stabilizer begin afresh where the source has none of them, and quack's always: sizes are
   relative to this run's start, so that the first factors are tau. Weights that train are wanted. */
START_TEST(start_with_another_stabilizer)
{
  char settings[512];
  struct run_file *r;
  struct run_series factor;
  struct error e = {0};
  const char *source[] = {"preset=muon", "preset=muon stabilizers=quack"};
  for (int i = 0; i < 2; i++) {
    char from[32], to[32], decayed[32];
    snprintf(from, sizeof from, "from%d", i), snprintf(to, sizeof to, "to%d", i);
    snprintf(decayed, sizeof decayed, "decayed%d", i);
    driven(from, source[i]);
    snprintf(settings, sizeof settings, "preset=muon stabilizers=quack quack.tau=0.75 train.init_from=%s",
             path(from));
    driven(to, settings);
    ck_assert(!run_open(&r, path(to), &e));
    ck_assert(!run_read(r, "quack/q_factor", &factor, &e));
    for (int h = 0; h < 4; h++) ck_assert_double_eq_tol(factor.value[h], 0.75, 1e-6);
    run_series_free(&factor);
    run_close(r);
    snprintf(settings, sizeof settings, "preset=muon stabilizers=spectral_decay train.init_from=%s",
             path(from));
    driven(decayed, settings);
    ck_assert(first_val(decayed) == first_val(to));
  }
  snprintf(settings, sizeof settings, "preset=muon stabilizers=qk_norm train.init_from=%s", path("from0"));
  struct config *c = configured(settings);
  struct trainer *t;
  ck_assert_int_eq(trainer_init(&t, c, TRAINER_NO_RECORD, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "q_gain is missing") != NULL, "%s", e.text);
  config_free(c);
}
END_TEST

/* A run extended on resume is the run that had the larger number of steps from the start. */
START_TEST(extended_run)
{
  struct trainer *t;
  struct error e = {0};
  struct run_file *a, *b;
  struct run_series x, y;
  const char *more[] = {"train.steps=20"};
  driven("long", "train.steps=20 checkpoint.keep=all checkpoint.every=4");
  driven("short", "train.steps=12 checkpoint.every=4");
  const char *same[] = {"train.steps=12"}, *fewer[] = {"train.steps=11"};
  ck_assert_int_eq(trainer_resume(&t, path("short"), fewer, 1, &e), STATUS_USAGE);
  e = (struct error){0};
  ck_assert_msg(!trainer_resume(&t, path("short"), same, 1, &e), "%s", e.text);
  trainer_abandon(t);
  ck_assert_msg(!trainer_resume(&t, path("short"), more, 1, &e), "%s", e.text);
  ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  ck_assert(!run_open(&a, path("long"), &e));
  ck_assert(!run_open(&b, path("short"), &e));
  const char *names[] = {"loss", "attn/max_logit", "grad_norm", "weight/svd_entropy", "val_loss"};
  for (int i = 0; i < 5; i++) {
    ck_assert(!run_read(a, names[i], &x, &e) && !run_read(b, names[i], &y, &e));
    ck_assert_int_eq(x.rows, y.rows);
    ck_assert(!memcmp(x.value, y.value, (size_t)(x.rows * x.width) * sizeof *x.value));
    run_series_free(&x);
    run_series_free(&y);
  }
  run_close(a);
  run_close(b);
}
END_TEST

/* The steps of the rows of `loss`, as text. */
static const char *steps_of(const char *name, char text[128])
{
  struct run_file *r;
  struct run_series x;
  struct error e = {0};
  int n = 0;
  ck_assert(!run_open(&r, path(name), &e) && !run_read(r, "loss", &x, &e));
  for (long i = 0; i < x.rows; i++) n += snprintf(text + n, (size_t)(128 - n), " %.0f", x.step[i]);
  run_series_free(&x);
  run_close(r);
  return text;
}

/* A run that is extended with another interval keeps every row, but the one that it had for its end alone. */
START_TEST(extended_at_another_interval)
{
  static const struct {
    const char *before, *after, *rows;
  } of[] = {{"record.every=1", "record.every=4", " 0 1 2 3 4 5 6 7 8 9 12 13"},
            {"record.every=3", "record.every=4", " 0 3 6 9 12 13"},
            {"record.every=4", "record.every=4", " 0 4 8 12 13"},
            {"record.every=4", "record.every=5", " 0 4 8 10 13"},
            {"record.every=4", "record.every=9", " 0 4 8 9 13"}};
  const char *more[] = {of[_i].after, "train.steps=14"};
  struct trainer *t;
  struct error e = {0};
  char settings[512], text[128];
  snprintf(settings, sizeof settings, "train.steps=10 %s", of[_i].before);
  driven("another", settings);
  for (int twice = 0; twice < 2; twice++) { /* the first is killed before its first step */
    ck_assert_msg(!trainer_resume(&t, path("another"), more, 2, &e), "%s", e.text);
    if (!twice) trainer_abandon(t);
  }
  ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  ck_assert_str_eq(steps_of("another", text), of[_i].rows);
  snprintf(settings, sizeof settings, "record.path=%s train.steps=10 %s", path("in_memory"), of[_i].before);
  struct config *c = configured(settings);
  t = started(c, 0);
  for (int i = 0; i < 10; i++) step(t);
  for (int i = 0; i < 2; i++) ck_assert_msg(!trainer_change(t, more[i], &e), "%s", e.text);
  ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  ck_assert_str_eq(steps_of("in_memory", text), of[_i].rows);
  config_free(c);
}
END_TEST

/* The loss by position counts the targets that count, whatever part of a batch they are in, and whether or not rows are
   longer for a module that looks ahead: those of documents end elsewhere in every row. */
START_TEST(positions_of_micro_batches)
{
  const char *data = _i ? "data.packing=documents markov.document=4" : "data=recall";
  const char *ways[] = {"", "train.micro_batches=2", "model.mtp=1"};
  double by[3][12];
  for (int k = 0; k < 3; k++) {
    char settings[128];
    snprintf(settings, sizeof settings, "%s train.lr=0 %s", data, ways[k]);
    struct config *c = configured(settings);
    struct trainer *t = started(c, TRAINER_NO_RECORD);
    step(t);
    trainer_evaluate(t, by[k], NULL);
    trainer_abandon(t);
    config_free(c);
  }
  int counted = 0;
  for (int i = 0; i < 12; i++) {
    for (int k = 1; k < 3; k++) {
      ck_assert_int_eq(isnan(by[0][i]), isnan(by[k][i]));
      if (!isnan(by[0][i])) ck_assert_double_eq_tol(by[0][i], by[k][i], 1e-4);
    }
    if (isnan(by[0][i])) continue;
    counted++;
  }
  ck_assert_int_gt(counted, 2);
}
END_TEST

/* The peak of a run in two parts is that of the whole, wherever it lies. */
START_TEST(peak_of_a_resumed_run)
{
  struct trainer *t;
  struct error e = {0};
  const char *kinds[] = {"preset=muon train.plant=0:1:9 train.lr=0.3 train.warmup=0 train.weight_decay=2",
                         "preset=muon", "preset=muon train.plant=1:0:1e30 train.on_nonfinite=continue"};
  const char *more[] = {"train.steps=12"};
  for (int i = 0; i < 3; i++) {
    char settings[512];
    struct config *c = configured(kinds[i]);
    struct trainer *whole = started(c, TRAINER_NO_RECORD);
    while (trainer_more(whole)) step(whole);
    struct peak a = trainer_status(whole).peak;
    snprintf(settings, sizeof settings, "%s train.steps=5 record.overwrite=1", kinds[i]);
    driven("part", settings);
    ck_assert_msg(!trainer_resume(&t, path("part"), more, 1, &e), "%s", e.text);
    ck_assert_int_eq(isnan(trainer_status(t).val_loss), i == 2); /* the last validation is the part's */
    struct run_file *part;
    struct run_series val;
    ck_assert(!run_open(&part, path("part"), &e) && !run_read(part, "val_loss", &val, &e));
    ck_assert(i == 2 || trainer_status(t).val_loss == val.value[val.rows - 1]); /* the end's row is gone */
    run_series_free(&val);
    run_close(part);
    while (trainer_more(t)) step(t);
    struct peak b = trainer_status(t).peak;
    ck_assert_int_eq(a.step, b.step);
    ck_assert_int_eq(a.at, b.at);
    ck_assert(!memcmp(&a.value, &b.value, sizeof a.value));
    ck_assert(i == 1 ? a.step > 5 : a.step < 5); /* once it must come from before the resume */
    ck_assert_int_eq(isnan(a.value), i == 2);
    trainer_abandon(t);
    trainer_abandon(whole);
    config_free(c);
  }
}
END_TEST

/* Steps per second are of the steps that were made since the resume: here in a hundred seconds, and as long again for
   each that is left. */
START_TEST(speed_of_a_resumed_run)
{
  struct trainer *t;
  struct progress p;
  struct error e = {0};
  const char *more[] = {"train.steps=20"};
  char told[512] = "";
  driven("part", "train.steps=8");
  ck_assert_msg(!trainer_resume(&t, path("part"), more, 1, &e), "%s", e.text);
  progress_init(&p, t);
  ck_assert_int_eq(p.first_step, 8);
  for (int i = 0; i < 2; i++) step(t);
  p.started -= 100, p.terminal = 0;
  FILE *file = tmpfile();
  int err = dup(STDERR_FILENO);
  ck_assert(file && err >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  progress_tick(&p, t);
  dup2(err, STDERR_FILENO);
  close(err);
  rewind(file);
  ck_assert(fgets(told, sizeof told, file) != NULL);
  fclose(file);
  const char *speed = strstr(told, "max logit "), *step = strstr(told, " left  step 10/20 ");
  speed = speed ? strstr(speed, "  ") : NULL;
  ck_assert_msg(speed && step, "%s", told);
  double rate = strtod(speed, NULL);
  ck_assert_msg(rate <= 0.02 && rate > 0.01, "%s", told);
  ck_assert_msg(strtol(told, NULL, 10) >= 8, "%s", told);
  trainer_abandon(t);
}
END_TEST

/* What decoding has found of one token that is not finite stays, whatever the tokens behind it are: one symbol after
   another has an embedding of NaN. */
START_TEST(decoding_of_what_is_not_finite)
{
  struct config *c = configured("markov.symbols=24 train.val_batches=2 train.micro_batches=2");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  struct params *all = &trainer_model(t)->params;
  struct param *embedding = params_find(all, "embed");
  struct error e = {0};
  ck_assert(embedding && embedding->value.rows == 24);
  const long width = embedding->value.cols;
  real *kept = memory_new(24 * (size_t)width, sizeof *kept),
       *now = memory_new(24 * (size_t)width, sizeof *now);
  params_read(all, embedding, kept);
  for (int symbol = 0; symbol < 24; symbol++) {
    struct decode_result r;
    memcpy(now, kept, 24 * (size_t)width * sizeof *now);
    now[symbol * width] = (real)NAN;
    params_write(all, embedding, now);
    ck_assert_msg(!trainer_decode(t, DECODE_MATERIALISED, 1, &r, &e), "%s", e.text);
    ck_assert_msg(isnan(r.decoded_loss) == isnan(r.difference), "symbol %d: %g", symbol, r.difference);
    ck_assert_msg(isnan(r.training_loss) == isnan(r.rounding), "symbol %d: %g", symbol, r.rounding);
  }
  memory_free(kept);
  memory_free(now);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

/* --- what a run is made of ---------------------------------------------------------------------------------- */

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
  char command[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  ck_assert_int_eq(system(command), 0);
}

/* Resume to 12 steps, with one more change or NULL. */
static int resumed(const char *name, const char *change, struct error *e)
{
  const char *changes[] = {"train.steps=12", change};
  struct trainer *t = NULL;
  *e = (struct error){0};
  int status = trainer_resume(&t, path(name), changes, change ? 2 : 1, e);
  return status ? status : drive(t, 0, NULL, NULL, e);
}

static void check_same(const char *a, const char *b)
{
  char first[256];
  snprintf(first, sizeof first, "%s", path(a));
  ck_assert_int_eq(same_run(first, path(b), 1, NULL, stderr), 0);
}

static const char *id_of(const char *name)
{
  static char id[16];
  struct run_file *r;
  struct error e = {0};
  ck_assert_msg(!run_open(&r, path(name), &e), "%s", e.text);
  snprintf(id, sizeof id, "%s", run_id(r));
  run_close(r);
  return id;
}

/* The text may lie elsewhere on resume; it may not be another one, whatever else is given. */
START_TEST(resume_wants_the_same_text)
{
  char settings[512], change[256];
  struct error e = {0};
  shell("yes 'a first text of some letters, again and again.' | head -c 4000 > %s/text", folder);
  shell("cp %s/text %s/moved; tr f g < %s/text > %s/other", folder, folder, folder, folder);
  for (int steps = 5; steps <= 12; steps += 7) {
    snprintf(settings, sizeof settings, "data=bytes data.path=%s/text train.steps=%d", folder, steps);
    driven(steps == 5 ? "part" : "whole", settings);
  }
  snprintf(change, sizeof change, "data.path=%s/other", folder);
  ck_assert_int_eq(resumed("part", change, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "data.path: not the data of this run"), "%s", e.text);
  snprintf(change, sizeof change, "data.path=%s/moved", folder);
  ck_assert_msg(!resumed("part", change, &e), "%s", e.text);
  check_same("whole", "part");
  shell("cp %s/other %s/text", folder, folder);
  driven("third", settings);
  shell("cp %s/moved %s/text", folder, folder);
  ck_assert_int_eq(resumed("third", NULL, &e), STATUS_USAGE);
}
END_TEST

/* Blanks around a key change nothing about which it is; what could change the past is refused. */
START_TEST(resume_reads_keys_as_run_does)
{
  struct error e;
  driven("part", "train.steps=5");
  static const char *const changes[] = {"train.lr=1", " train.lr=1", "train.lr\t=1", "\ttrain.lr =1"};
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(resumed("part", changes[i], &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, "train.lr would change the past"), "%s", e.text);
  }
  ck_assert_msg(!resumed("part", " checkpoint.every\t= 3", &e), "%s", e.text);
}
END_TEST

START_TEST(no_step_after_a_divergence)
{
  struct error e;
  driven("lost", "train.lr=1e30 train.steps=5");
  ck_assert_int_eq(resumed("lost", NULL, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "diverged at step"), "%s", e.text);
}
END_TEST

/* Each layer may be of two optimizers in turn. */
START_TEST(many_layers_of_mixed_optimizers)
{
  struct config *c = configured("preset=muon_qk_adam model.layers=100 train.steps=1");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  step(t);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

/* Of a folder the run that has the seed and is over: to the bits of one that names it. */
START_TEST(start_from_a_folder)
{
  char settings[512], pre[300], id[2][16];
  struct error e = {0};
  snprintf(pre, sizeof pre, "%s/pre", folder);
  for (int seed = 1; seed <= 3; seed++) {
    char name[16];
    snprintf(settings, sizeof settings, "preset=adam train.steps=%d train.seed=%d", 2 + seed, seed);
    snprintf(name, sizeof name, "p%d", seed);
    driven(name, settings);
  }
  snprintf(settings, sizeof settings, "preset=muon train.seed=2 train.init_from=%s", path("p2"));
  driven("named", settings);
  shell("mkdir %s; cp -r %s/p1.* %s/p2.* %s", pre, folder, folder, pre);
  snprintf(settings, sizeof settings, "preset=adam train.steps=9 train.seed=3 record.path=%s/part.h5", pre);
  struct config *c = configured(settings);
  struct trainer *t = started(c, 0);
  trainer_abandon(t); /* its file is there, and not finished */
  config_free(c);
  snprintf(settings, sizeof settings, "preset=muon train.seed=2 train.init_from=%s", pre);
  driven("found", settings);
  snprintf(id[0], sizeof *id, "%s", id_of("named"));
  snprintf(id[1], sizeof *id, "%s", id_of("found"));
  ck_assert_str_eq(id[0], id[1]);
  check_same("named", "found");
  ck_assert(first_val("found") == first_val("named"));
  static const char *const said[] = {"has no run with train.seed = 3 that is over",
                                     "both have train.seed = 2"};
  for (int i = 0; i < 2; i++) {
    snprintf(settings, sizeof settings, "preset=muon train.seed=%d train.init_from=%s", 3 - i, pre);
    c = configured(settings);
    e = (struct error){0};
    ck_assert_int_eq(trainer_init(&t, c, TRAINER_NO_RECORD, &e), STATUS_USAGE);
    ck_assert_msg(!strncmp(e.text, "train.init_from: ", 17) && strstr(e.text, said[i]), "%s", e.text);
    config_free(c);
    shell("cp %s/p2.h5 %s/twin.h5", folder, pre);
  }
}
END_TEST

/* The weights that a run starts from count by their content; once it has a checkpoint they are not needed. */
START_TEST(resume_and_the_first_weights)
{
  char settings[512], change[512], id[16];
  struct error e = {0};
  driven("from", "preset=adam train.steps=3");
  shell("cp -r %s/from.h5 %s/copy.h5; cp -r %s/from.ckpt %s/copy.ckpt", folder, folder, folder, folder);
  snprintf(settings, sizeof settings, "train.init_from=%s", path("from"));
  driven("whole", settings);
  strcpy(id, id_of("whole"));
  snprintf(settings, sizeof settings, "train.init_from=%s", path("copy"));
  driven("again", settings);
  ck_assert_str_eq(id_of("again"), id);
  snprintf(settings, sizeof settings, "train.steps=5 train.init_from=%s", path("from"));
  driven("part", settings);
  char begun[1024];
  snprintf(begun, sizeof begun, "%s record.path=%s", settings, path("begun"));
  struct config *killed = configured(begun);
  trainer_abandon(started(killed, 0)); /* as if killed before its first checkpoint */
  config_free(killed);
  ck_assert_int_eq(resumed("from", NULL, &e), STATUS_OK); /* extended */
  driven("other", settings);
  strcpy(id, id_of("other"));
  ck_assert_str_ne(id, id_of("part"));
  ck_assert_msg(!resumed("part", NULL, &e), "%s", e.text);
  check_same("whole", "part");
  ck_assert_int_eq(resumed("begun", NULL, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "not the weights that this run started from"), "%s", e.text);
  snprintf(change, sizeof change, "train.init_from=%s", path("copy"));
  ck_assert_msg(!resumed("begun", change, &e), "%s", e.text);
  check_same("whole", "begun");
}
END_TEST

/* The time of a run is that of all its sessions. */
START_TEST(wall_time_goes_on)
{
  char settings[512];
  struct error e = {0};
  struct run_file *f = NULL;
  struct trainer *t = NULL;
  snprintf(settings, sizeof settings, "record.path=%s train.steps=2 checkpoint.every=1", path("slow"));
  struct config *c = configured(settings);
  t = started(c, 0);
  step(t);
  usleep(400000);
  ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  config_free(c);
  ck_assert_int_eq(resumed("slow", NULL, &e), STATUS_OK);
  ck_assert_msg(!run_open(&f, path("slow"), &e), "%s", e.text);
  ck_assert_double_ge(run_wall_seconds(f), 0.4);
  run_close(f);
}
END_TEST

/* The steps of centered biases have no sum (Moonlight, arXiv 2502.16982). */
START_TEST(centered_biases_have_no_sum)
{
  struct error e = {0};
  struct run_file *f = NULL;
  struct run_series s;
  double size = 0;
  driven("centered", "model.ffn=moe moe.experts=4 moe.bias_rule=centred moe.bias_rate=0.05 train.steps=4");
  ck_assert_msg(!run_open(&f, path("centered"), &e) && !run_read(f, "moe/bias", &s, &e), "%s", e.text);
  for (long i = 0; i < s.rows * s.width; i += 4) {
    double sum = 0;
    for (long k = i; k < i + 4; k++) sum += s.value[k], size += fabs(s.value[k]);
    ck_assert_double_le(fabs(sum), 1e-6);
  }
  ck_assert_double_gt(size, 0.1);
  run_series_free(&s);
  run_close(f);
}
END_TEST

/* A file whose id is not that of its own configuration was computed by other numerics, whatever key is given. */
START_TEST(resume_wants_the_same_numerics)
{
  struct config *c = configured("");
  struct run_facts facts = {"0123456789ab", "cpu", "markov", "a chain", 2, 2, 0, 0, NULL, NAN, 1, 0};
  struct recorder *r;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path("strange"), 0, c, &facts, &e), "%s", e.text);
  ck_assert_msg(!recorder_snapshot(r, "running", 0, 0, 0, &e), "%s", e.text);
  recorder_free(r);
  ck_assert_int_eq(resumed("strange", NULL, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "computes other numbers"), "%s", e.text);
  config_free(c);
}
END_TEST

START_TEST(kept_checkpoints)
{
  char file[4096], settings[128];
  for (long keep = 1; keep <= 5; keep += 2) {
    snprintf(settings, sizeof settings, "checkpoint.every=1 record.overwrite=1 checkpoint.keep=%ld", keep);
    driven("kept", settings);
    for (long step = 1; step <= 12; step++) {
      checkpoint_path(file, path("kept"), step);
      ck_assert_int_eq(!access(file, F_OK), step > 12 - keep);
    }
  }
}
END_TEST

/* --- what stabilizers see ----------------------------------------------------------------------------------- */

static struct run_series series_of(const char *run, const char *name)
{
  struct run_file *r;
  struct run_series s;
  struct error e = {0};
  ck_assert_msg(!run_open(&r, path(run), &e), "%s", e.text);
  ck_assert_msg(!run_read(r, name, &s, &e), "%s", e.text);
  run_close(r);
  return s;
}

/* With statistic = probe every step's factor is tau over the maximum on the probe batch, though val and train
   batches pass between, and though the record has the probe in some steps only. */
START_TEST(clip_by_the_probe)
{
  const char *settings = "preset=muonclip qk_clip.tau=0.8 qk_clip.statistic=probe train.val_every=1";
  char every[256];
  int clipped = 0;
  snprintf(every, sizeof every, "%s record.probe_every=1", settings);
  driven("every", every);
  snprintf(every, sizeof every, "%s record.probe_every=5", settings);
  driven("some", every);
  struct run_series top = series_of("every", "probe/max_logit"), gamma = series_of("every", "qk_clip/gamma"),
                    batch = series_of("every", "attn/max_logit"), other = series_of("some", "qk_clip/gamma");
  ck_assert_int_eq(gamma.rows, 12);
  for (long i = 0; i < gamma.rows * gamma.width; i++) {
    double s = top.value[i], expected = s > 0.8 ? 0.8 / s : 1;
    ck_assert_double_eq_tol(gamma.value[i], expected, 4 * (double)1.2e-7f);
    ck_assert_double_eq(gamma.value[i], other.value[i]);
    clipped += expected < 1 && top.value[i] != batch.value[i];
  }
  ck_assert_int_gt(clipped, 0);
  run_series_free(&top);
  run_series_free(&gamma);
  run_series_free(&batch);
  run_series_free(&other);
}
END_TEST

/* The maximum of the parts of a batch is the batch's. */
START_TEST(outputs_of_micro_batches)
{
  const char *settings = "preset=muon stabilizers=max_output_clip max_output_clip.tau=0.5";
  char parts[256];
  snprintf(parts, sizeof parts, "%s train.micro_batches=4", settings);
  driven("whole", settings);
  driven("parts", parts);
  struct run_series a = series_of("whole", "max_output"), b = series_of("parts", "max_output"),
                    gamma = series_of("whole", "max_output_clip/gamma");
  ck_assert_int_eq(a.width, 2);
  for (long l = 0; l < a.width; l++) {
    ck_assert_double_gt(a.value[l], 0);
    ck_assert_double_eq_tol(a.value[l], b.value[l], 64 * REAL_EPS * a.value[l]);
  }
  for (long i = 0; i < a.rows * a.width; i++)
    ck_assert_double_eq_tol(gamma.value[i], fmin(1, 0.5 / a.value[i]), 4 * (double)1.2e-7f);
  run_series_free(&a);
  run_series_free(&b);
  run_series_free(&gamma);
}
END_TEST

/* A run in two parts is the run, to the bit, in these series. */
static void in_two_parts(const char *settings, const char *const *names)
{
  char part[512];
  struct trainer *t;
  struct error e = {0};
  const char *more[] = {"train.steps=12"};
  driven("whole", settings);
  snprintf(part, sizeof part, "%s train.steps=5", settings);
  driven("part", part);
  ck_assert_msg(!trainer_resume(&t, path("part"), more, 1, &e), "%s", e.text);
  ck_assert_int_eq(drive(t, 0, NULL, NULL, &e), STATUS_OK);
  for (; *names; names++) {
    struct run_series a = series_of("whole", *names), b = series_of("part", *names);
    ck_assert_int_eq(a.rows, b.rows);
    ck_assert_mem_eq(a.value, b.value, (size_t)(a.rows * a.width) * sizeof *a.value);
    run_series_free(&a);
    run_series_free(&b);
  }
}

/* Neither clip has a memory beside weights and momentum. */
START_TEST(clips_resume)
{
  const char *names[] = {"loss", "qk_clip/gamma", "max_output", "max_output_clip/gamma", NULL};
  in_two_parts("preset=muon stabilizers=qk_clip+max_output_clip qk_clip.tau=0.8 qk_clip.when=before "
               "qk_clip.momentum=scale qk_clip.statistic=probe max_output_clip.tau=0.5",
               names);
}
END_TEST

/* The routers' biases are in the checkpoint. */
START_TEST(experts_resume)
{
  const char *names[] = {"loss", "moe/load", "moe/bias", "moe/balance_loss", NULL};
  in_two_parts(
    "preset=muon model.ffn=moe moe.experts=5 moe.balance=both moe.bias_rate=0.07 moe.bias_rule=rms", names);
  struct run_series bias = series_of("whole", "moe/bias"), load = series_of("whole", "moe/load");
  ck_assert_int_eq(load.shape, PER_EXPERT);
  ck_assert_int_eq(load.heads, 5);
  double moved = 0;
  for (long r = 0; r < load.rows; r++)
    for (long l = 0; l < load.layers; l++) {
      double sum = 0;
      for (long x = 0; x < 5; x++) sum += load.value[(r * load.layers + l) * 5 + x];
      ck_assert_double_eq_tol(sum, 1, 1e-6);
    }
  for (long i = 0; i < bias.width; i++) {
    ck_assert_double_eq(bias.value[i], 0); /* step 0 has none yet */
    moved = fmax(moved, fabs(bias.value[(bias.rows - 1) * bias.width + i]));
  }
  ck_assert_double_gt(moved, 0.05);
  run_series_free(&bias);
  run_series_free(&load);
}
END_TEST

/* Modules that look ahead: the layer axis is as long as all blocks, their losses stand in their own. */
START_TEST(modules_resume)
{
  const char *names[] = {"loss", "mtp/loss", "mtp/val_loss", "attn/max_logit", "qk_clip/gamma", NULL};
  in_two_parts("preset=muonclip qk_clip.tau=0.8 model.mtp=2 train.val_every=5", names);
  struct run_series loss = series_of("whole", "loss"), ahead = series_of("whole", "mtp/loss"),
                    gamma = series_of("whole", "qk_clip/gamma");
  long last = ahead.rows - 1, main = ahead.layers - 2, heads = gamma.heads;
  int clipped = 0;
  ck_assert_int_eq(gamma.layers, ahead.layers);
  for (long l = 0; l < main; l++) ck_assert(isnan(ahead.value[last * ahead.layers + l]));
  for (long l = main; l < ahead.layers; l++) {
    ck_assert_double_lt(ahead.value[last * ahead.layers + l], ahead.value[l]); /* they learn */
    ck_assert_double_ne(ahead.value[last * ahead.layers + l], loss.value[last]);
  }
  for (long r = 0; r < gamma.rows; r++)
    for (long h = main * heads; h < ahead.layers * heads; h++)
      clipped += gamma.value[r * ahead.layers * heads + h] < 1;
  ck_assert_int_gt(clipped, 0);
  run_series_free(&loss);
  run_series_free(&ahead);
  run_series_free(&gamma);
}
END_TEST

/* --- series on demand --------------------------------------------------------------------------------------- */

#define ON_DEMAND "record.level=0.5 record.pairs=1 record.bound=1 record.probe_every=3 train.micro_batches=2 "

static const struct {
  const char *settings;
  double dim;
} looked_at[] = {
  {"preset=muon", 8},
  {"preset=adam model.attention=gqa model.kv_heads=1 model.bias=1 data.packing=documents", 8},
  {"preset=muon model.attention=mla model.q_rank=6 train.plant=0:*:2", 12},
  {"preset=muon model.attention=mla precision.qk=fp8_e4m3", 12},
  {"preset=muonclip qk_clip.when=before qk_clip.tau=0.02 model.bias=1",
   8}, /* the bound is not that of what is clipped */
};

/* What is recorded on demand fits what is recorded always. */
START_TEST(series_on_demand)
{
  char settings[512];
  snprintf(settings, sizeof settings, ON_DEMAND "%s", looked_at[_i].settings);
  driven("looks", settings);
  struct run_series max = series_of("looks", "attn/max_logit"),
                    share = series_of("looks", "attn/share_above");
  ck_assert_int_eq(max.rows, share.rows);
  for (long i = 0; i < max.rows * max.width; i++) {
    ck_assert(share.value[i] >= 0 && share.value[i] <= 1);
    ck_assert_int_eq(share.value[i] > 0, max.value[i] > 0.5);
  }
  run_series_free(&share);
  struct run_series top = series_of("looks", "probe/max_logit"), cosine = series_of("looks", "probe/cosine");
  struct run_series q = series_of("looks", "probe/q_norm"), k = series_of("looks", "probe/k_norm");
  ck_assert_int_eq(q.rows, 4);
  for (long i = 0; i < q.rows * q.width; i++) {
    double size = q.value[i] * k.value[i] / sqrt(looked_at[_i].dim);
    ck_assert_double_eq_tol(size * cosine.value[i], top.value[i], 64 * REAL_EPS * size);
  }
  run_series_free(&top);
  run_series_free(&cosine);
  run_series_free(&q);
  run_series_free(&k);
  struct run_series tight = series_of("looks", "attn/bound_tightness");
  ck_assert_int_eq(tight.rows, 4);
  for (long r = 0; r < tight.rows; r++)
    for (long h = 0; h < tight.width; h++) {
      double x = tight.value[r * tight.width + h];
      if (r == 3)
        ck_assert(isnan(x)); /* after the last update no batch was seen */
      else
        ck_assert(fabs(x) <= 1 && (x > 0) == (max.value[5 * r * max.width + h] > 0));
    }
  run_series_free(&tight);
  run_series_free(&max);
}
END_TEST

/* Looking changes nothing, and is not part of a run's identity. */
START_TEST(looking_changes_nothing)
{
  struct run_file *a, *b;
  struct error e = {0};
  driven("plain", "preset=muonclip qk_clip.tau=0.8 train.micro_batches=2");
  driven("looks", "preset=muonclip qk_clip.tau=0.8 " ON_DEMAND);
  ck_assert(!run_open(&a, path("plain"), &e));
  ck_assert(!run_open(&b, path("looks"), &e));
  ck_assert_str_eq(run_id(a), run_id(b));
  run_close(a);
  run_close(b);
  const char *names[] = {"loss", "attn/max_logit", "grad_norm", "weight/svd_entropy", "val_loss"};
  for (int i = 0; i < 5; i++) {
    struct run_series x = series_of("plain", names[i]), y = series_of("looks", names[i]);
    ck_assert_int_eq(x.rows, y.rows);
    ck_assert(!memcmp(x.value, y.value, (size_t)(x.rows * x.width) * sizeof *x.value));
    run_series_free(&x);
    run_series_free(&y);
  }
}
END_TEST

/* Under normed queries the bound by weights says nothing. */
START_TEST(no_bound_under_qk_norm)
{
  driven("normed", "preset=muon stabilizers=qk_norm " ON_DEMAND);
  struct run_series tight = series_of("normed", "attn/bound_tightness");
  ck_assert_int_eq(tight.rows, 4);
  for (long i = 0; i < tight.rows * tight.width; i++) ck_assert(isnan(tight.value[i]));
  run_series_free(&tight);
}
END_TEST

/* The recorded maximum is that before rounding: it tells by how much fp16 was too narrow. */
START_TEST(overflow_shows_its_size)
{
  driven("narrow", "preset=muon train.plant=*:*:1e3 precision.scores=fp16");
  struct run_series max = series_of("narrow", "attn/max_logit"), loss = series_of("narrow", "loss");
  double largest = 0;
  for (long i = 0; i < max.width; i++) largest = fmax(largest, max.value[i]);
  ck_assert(isfinite(largest) && largest > 65504 && !isfinite(loss.value[0]));
  run_series_free(&max);
  run_series_free(&loss);
}
END_TEST

/* --- a host ahead of its device ------------------------------------------------------------------------------ */

static const char *const ahead_of[] = {
  "preset=muonclip qk_clip.tau=3 record.batches=1 record.probe_every=3 train.val_every=4 checkpoint.every=5",
  "preset=adam data=copy data.packing=documents record.batches=1 record.every=5 record.level=1",
  "preset=muon train.plant=1:0:1e30 train.on_nonfinite=continue record.spectra_every=0",
  /* diverged after some steps, without a look at the weights in between */
  "optimizer=sgd train.lr=1e5 train.warmup=0 sgd.momentum=0 record.spectra_every=0 record.batches=1",
  "preset=muonclip train.lr=1e25 train.warmup=8 record.spectra_every=0 train.val_every=2",
  "preset=adam train.lr=1e25 train.warmup=6 record.spectra_every=0 stabilizers=sigma_reparam",
  "preset=muon train.lr=1e25 train.warmup=6 record.spectra_every=4 stabilizers=quack",
};

/* Reports read some steps late are the same reports, and a divergence noticed late leaves the same weights: the
   steps that were under way have changed nothing. */
START_TEST(late_reports)
{
  driven("at-once", ahead_of[_i]);
  for (int ahead = 1; ahead <= AHEAD_MOST; ahead += ahead == 1 ? 2 : 5) {
    char settings[1024];
    struct error e = {0};
    snprintf(settings, sizeof settings, "record.path=%s record.overwrite=1 %s", path("late"), ahead_of[_i]);
    struct config *c = configured(settings);
    struct trainer *t = started(c, 0);
    trainer_device(t)->ahead = ahead;
    ck_assert_msg(drive(t, 0, NULL, NULL, &e) != STATUS_FAIL, "%s", e.text);
    config_free(c);
    char want[256];
    int datasets;
    snprintf(want, sizeof want, "%s", path("at-once"));
    ck_assert_int_eq(same_run(want, path("late"), 1, &datasets, stderr), 0);
    ck_assert_int_ge(datasets, 8);
  }
  struct run_file *r;
  struct error e = {0};
  ck_assert(!run_open(&r, path("late"), &e));
  ck_assert_str_eq(run_state(r), _i < 3 ? "finished" : "diverged");
  if (_i >= 3) ck_assert_int_lt(run_last_step(r), 10); /* there were steps under way */
  run_close(r);
}
END_TEST

/* What the trainer tells after a step is of the last report that was read; settled, of the last step. */
START_TEST(settled)
{
  struct error e = {0};
  struct trace x = traced("");
  struct config *c = configured("record.spectra_every=0");
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  trainer_device(t)->ahead = 2;
  for (int i = 0; i < 6; i++) {
    ck_assert(!trainer_step(t, &e));
    ck_assert_int_eq(trainer_status(t).done, i + 1);
    if (i >= 2) ck_assert(trainer_status(t).loss == x.loss[i - 2]);
  }
  ck_assert(!trainer_settle(t, &e));
  ck_assert(trainer_status(t).loss == x.loss[5] && trainer_status(t).max_logit[3] == x.max[5][3]);
  trainer_abandon(t);
  config_free(c);
}
END_TEST

static void add_in_memory(TCase *k)
{
  tcase_add_test(k, micro_batches);
  tcase_add_test(k, same_bits_on_any_number_of_threads);
  tcase_add_test(k, no_allocation_after_the_first_step);
  tcase_add_test(k, seeds_differ_and_repeat);
  tcase_add_test(k, planted_head);
  tcase_add_test(k, nothing_is_kept);
  tcase_add_test(k, many_layers_of_mixed_optimizers);
  tcase_add_loop_test(k, planted_heads_that_share_keys, 0, (int)(sizeof keys / sizeof *keys));
  tcase_add_test(k, wrong_plants);
  tcase_add_test(k, resolved_options);
  tcase_add_test(k, settled);
}

/* A loss that is not finite is told as such alone, and what comes later is not measured by it. */
START_TEST(no_spike_of_what_is_not_finite)
{
  static const double bad[] = {INFINITY, -INFINITY, NAN};
  long step = 0;
  struct health h = {.step = &step}; /* an event would find no recorder */
  for (int i = 0; i < SPIKE_WINDOW; i++) h.spike_window[i] = (real)(1 + 0.01 * (i % 5));
  for (int i = 0; i < 3; i++, step++) health_spike(&h, bad[i], 3);
  for (int i = 0; i < SPIKE_WINDOW; i++)
    ck_assert((double)h.spike_window[i] >= 1 && (double)h.spike_window[i] < 2);
}
END_TEST

/* A made-up run of two heads: `steps` rows, one value and one event, at `at`, other than the rest; a run that
   diverged has a row and events of the step that it has not done. */
static void made_up(const char *name, const char *state, long steps, float second, const char *kind, long at)
{
  static const char *const tensors[] = {"w"};
  static const struct series series = {"attn/max_logit", PER_HEAD,  AXIS_STEP, "nat",
                                       "logit",          "made up", EVENT_NONE};
  struct run_facts facts = {.id = "0123456789ab",
                            .device = "cpu",
                            .data = "markov",
                            .data_text = "made up",
                            .layers = 1,
                            .heads = 2,
                            .tensors = 1,
                            .tensor_names = tensors,
                            .loss_floor = NAN};
  struct config *c = configured("");
  struct recorder *r;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path(name), 1, c, &facts, &e), "%s", e.text);
  int id = recorder_series(r, &series);
  for (long i = 0; i < steps + !strcmp(state, "diverged"); i++) {
    recorder_put(r, id, (float[]){1, i == 1 ? second : 2});
    recorder_row(r, AXIS_STEP, i);
  }
  if (kind) recorder_event(r, at, kind, -1, -1, 3);
  ck_assert_msg(!recorder_snapshot(r, state, steps, 1, 1, &e), "%s", e.text);
  recorder_free(r);
  config_free(c);
}

START_TEST(what_is_not_the_same_again)
{
  static const struct {
    const char *state;
    long steps;
    float second;
    const char *kind;
    long at;
    const char *says;
  } cases[] = {{"finished", 3, 2, NULL, 0, NULL},
               {"finished", 3, 2, "resume", 1, NULL}, /* of the clock */
               {"finished", 5, 2, NULL, 0, NULL},     /* it goes on where the first ended */
               {"finished", 5, 2, "clip", 3, NULL},   /* in the first step that the first has not done */
               {"finished", 3, 2.5F, NULL, 0, "attn/max_logit differs at step 1"},
               {"finished", 3, 2, "spike", 1, "the events differ from step 1 on"},
               {"finished", 3, 2, "clip", 1, "the events differ from step 1 on"},
               {"finished", 3, 2, "clip", 2, "the events differ from step 2 on"}, /* the last */
               {"finished", 3, 2, "nonfinite", 0, "the events differ from step 0 on"},
               {"finished", 2, 2, NULL, 0, "the first time 3 steps were done, now 2"},
               {"diverged", 3, 2, NULL, 0, NULL},
               {"diverged", 3, 2, "nonfinite", 2, "the events differ from step 2 on"},
               {"diverged", 3, 2, "nonfinite", 3, "the events differ from step 3 on"}}; /* where it ended */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct error e = {0};
    int count = 0;
    char first[256];
    made_up("first", cases[i].state, 3, 2, NULL, 0);
    made_up("again", cases[i].state, cases[i].steps, cases[i].second, cases[i].kind, cases[i].at);
    snprintf(first, sizeof first, "%s", path("first"));
    int status = rerun_compare(first, path("again"), &count, &e);
    ck_assert_msg(status == (cases[i].says ? STATUS_FAIL : STATUS_OK), "case %zu: %s", i, e.text);
    if (cases[i].says) ck_assert_msg(strstr(e.text, cases[i].says) != NULL, "case %zu: %s", i, e.text);
    ck_assert_int_eq(count, cases[i].steps < 3 ? 0 : 1);
  }
}
END_TEST

/* Of what is looked at on fixed batches, or is of the weights alone, all rows are the first. */
static int ck_rows_alike(void *file, const char *name)
{
  static const char *const looks[] = {"val_loss", "mtp/val_loss", "probe/", "weight/", "head_", "expert_"};
  struct run_series s;
  struct error e = {0};
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
    if (strncmp(name, looks[i], strlen(looks[i]))) continue;
    ck_assert_msg(!run_read(file, name, &s, &e) && s.rows > 3, "%s: %s", name, e.text);
    for (long row = 1; row < s.rows; row++)
      ck_assert_msg(!memcmp(s.value, s.value + row * s.width, (size_t)s.width * sizeof *s.value),
                    "%s: row %ld is another one, %g after %g", name, row, s.value[(row + 1) * s.width - 1],
                    s.value[s.width - 1]);
    run_series_free(&s);
  }
  return 0;
}

START_TEST(looks_at_weights_that_stay)
{
  struct run_file *r;
  struct error e = {0};
  ck_assert_int_eq(driven("still",
                          "preset=muon train.lr=0 train.steps=4 train.val_every=1 train.val_batches=2 "
                          "train.micro_batches=2 record.probe_every=1 record.spectra_every=1 record.pairs=1 "
                          "model.mtp=2 model.ffn=moe moe.experts=4 moe.active=2 moe.bias_rate=0"),
                   STATUS_OK);
  ck_assert(!run_open(&r, path("still"), &e));
  ck_assert_int_eq(run_rows(r, "mtp/val_loss"), 5);
  ck_assert_int_eq(run_rows(r, "probe/cosine"), 4);
  run_series_names(r, ck_rows_alike, r);
  run_close(r);
}
END_TEST

/* Two that do not meet, as one acts on queries and keys and the other on the output: whichever comes first. */
START_TEST(order_of_stabilizers)
{
  static const char settings[] =
    "preset=muon train.steps=6 record.bound=1 record.spectra_every=1 qk_clip.tau=0.5 "
    "qk_clip.when=before max_output_clip.tau=1e6 stabilizers=";
  char text[2][512], one[256];
  struct error e = {0};
  int series;
  snprintf(text[0], sizeof text[0], "%sqk_clip+max_output_clip", settings);
  snprintf(text[1], sizeof text[1], "%smax_output_clip+qk_clip", settings);
  driven("one", text[0]);
  driven("two", text[1]);
  snprintf(one, sizeof one, "%s", path("one"));
  ck_assert_msg(!rerun_compare(one, path("two"), &series, &e), "%s", e.text);
  ck_assert_int_gt(series, 20);
}
END_TEST

static void add_on_disk(TCase *k)
{
  tcase_add_checked_fixture(k, make_folder, remove_folder);
  tcase_add_loop_test(k, divergence, 0, (int)(sizeof overflows / sizeof *overflows));
  tcase_add_test(k, a_run_that_is_not_the_same_again_is_told);
  tcase_add_test(k, divergence_can_fail_or_go_on);
  tcase_add_test(k, looks_at_weights_that_stay);
  tcase_add_test(k, order_of_stabilizers);
  tcase_add_test(k, start_from_a_run);
  tcase_add_test(k, start_from_a_folder);
  tcase_add_loop_test(k, the_last_step_has_a_row, 0, sizeof ends / sizeof *ends);
  tcase_add_test(k, start_with_another_stabilizer);
  tcase_add_test(k, weights_at_the_start_are_part_of_the_id);
  tcase_add_test(k, extended_run);
  tcase_add_loop_test(k, extended_at_another_interval, 0, 5);
  tcase_add_test(k, peak_of_a_resumed_run);
  tcase_add_test(k, speed_of_a_resumed_run);
  tcase_add_test(k, decoding_of_what_is_not_finite);
  tcase_add_loop_test(k, positions_of_micro_batches, 0, 2);
  tcase_add_test(k, what_is_not_the_same_again);
  tcase_add_test(k, resume_wants_the_same_numerics);
  tcase_add_test(k, kept_checkpoints);
  tcase_add_test(k, resume_wants_the_same_text);
  tcase_add_test(k, resume_reads_keys_as_run_does);
  tcase_add_test(k, no_step_after_a_divergence);
  tcase_add_test(k, resume_and_the_first_weights);
  tcase_add_test(k, wall_time_goes_on);
  tcase_add_test(k, centered_biases_have_no_sum);
  tcase_add_loop_test(k, series_on_demand, 0, (int)(sizeof looked_at / sizeof *looked_at));
  tcase_add_test(k, looking_changes_nothing);
  tcase_add_test(k, no_bound_under_qk_norm);
  tcase_add_test(k, overflow_shows_its_size);
  tcase_add_test(k, no_spike_of_what_is_not_finite);
  tcase_add_test(k, clip_by_the_probe);
  tcase_add_test(k, outputs_of_micro_batches);
  tcase_add_test(k, clips_resume);
  tcase_add_test(k, experts_resume);
  tcase_add_test(k, modules_resume);
  tcase_add_loop_test(k, late_reports, 0, (int)(sizeof ahead_of / sizeof *ahead_of));
}

#if MEMORY_MAPS
static double resident(void)
{
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return 1024.0 * (double)use.ru_maxrss;
}

/* What a run says it wants is what it holds, and takes in its first step, not before. */
START_TEST(memory_is_known_before_it_is_taken)
{
  struct config *c = configured("device=cpu model.width=128 model.heads=4 model.context=256 train.batch=48 "
                                "record.spectra_every=0 train.val_every=0");
  size_t held = memory_held(), part[MEMORY_PARTS];
  double before = resident(), all = 0;
  struct trainer *t = started(c, TRAINER_NO_RECORD);
  trainer_memory(t, part);
  for (int i = 0; i < MEMORY_PARTS; i++) all += (double)part[i];
  double share = all / (double)(memory_held() - held);
  ck_assert_msg(share > 0.95 && share < 1.001, "it holds %zu, and says %.0f", memory_held() - held, all);
  size_t weights = 2 * (size_t)trainer_model(t)->params.values.cols * sizeof(real);
  ck_assert(part[MEMORY_MODEL] >= weights && part[MEMORY_MODEL] < weights + (1 << 20));
  ck_assert(part[MEMORY_PASSES] > 100 << 20);
  double built = resident() - before;
  step(t);
  double stepped = resident() - before;
  ck_assert_msg(built < 0.5 * all && stepped > 0.7 * all && stepped < 1.1 * all + (64 << 20),
                "%.0f are wanted: %.0f taken when it was built, %.0f by its first step", all, built, stepped);
  trainer_abandon(t);
  ck_assert_uint_eq(memory_held(), held);
  config_free(c);
}
END_TEST

/* Refused by what is the largest part of it, before anything large is taken. */
START_TEST(what_cannot_fit_is_refused)
{
  static const struct {
    const char *settings, *says;
  } cases[] = {
    {"train.batch=1024 model.context=8192 model.width=4096",
     "for the passes over a micro-batch, and this machine has"},
    {"model.width=16384 model.heads=64 model.layers=200 optimizer=sgd",
     "for weights, gradients and the report"},
  };
  struct config *c = configured(cases[_i].settings);
  struct trainer *t = NULL;
  struct error e = {0};
  ck_assert_int_eq(trainer_init(&t, c, TRAINER_NO_RECORD, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "GiB of memory are wanted") && strstr(e.text, cases[_i].says) &&
                  strstr(e.text, _i ? "model.width" : "train.batch"),
                "%s", e.text);
  ck_assert(resident() < 600e6);
  config_free(c);
}
END_TEST
#endif

int main(void)
{
  static const struct {
    const char *name;
    void (*add)(TCase *), (*setup)(void);
  } cases[] = {{"in memory", add_in_memory, NULL},
               {"on disk", add_on_disk, NULL},
               {"in memory, chosen", add_in_memory, follow},
               {"on disk, chosen", add_on_disk, follow}};
  Suite *s = suite_create("trainer");
  const char *chosen = getenv("MAXLOGIT_TEST_DEVICE"); /* device=...: only there */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (!chosen != (cases[i].setup != follow)) continue;
    TCase *k = tcase_create(cases[i].name);
    tcase_set_timeout(k, chosen ? 300 : 60);
    if (cases[i].setup) tcase_add_checked_fixture(k, cases[i].setup, NULL);
    cases[i].add(k);
    suite_add_tcase(s, k);
  }
#if MEMORY_MAPS
  TCase *memory = tcase_create("memory");
  tcase_set_timeout(memory, 60);
  tcase_add_checked_fixture(memory, expose, NULL);
  tcase_add_test(memory, memory_is_known_before_it_is_taken);
  tcase_add_loop_test(memory, what_cannot_fit_is_refused, 0, 2);
  if (!chosen) suite_add_tcase(s, memory);
#endif
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
