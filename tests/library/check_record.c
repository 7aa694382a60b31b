/* check_record.c - maxlogit/record.h and read.h: what is recorded is read again, also after kill -9 and full disks */
#include <check.h>
#include <hdf5.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>
#include "base/random.h"
#include "maxlogit/read.h"
#include "maxlogit/record.h"
#include "../folder.h"

static char folder[FOLDER_PATH];
static const char *at(const char *name)
{
  static char path[16][128];
  static int turn;
  turn = (turn + 1) % 16;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static struct maxlogit_error e;
#define OK(call) ck_assert_msg(!(call), "%s", e.text)

static const struct maxlogit_setting settings[] = {
  {"optimizer", "muon"}, {"train.lr", "0.02"}, {"train.seed", "3"}};

static int open_as(struct maxlogit_recorder **r, const char *path, enum maxlogit_mode mode)
{
  struct maxlogit_record_options o = {
    .mode = mode, .settings = settings, .settings_count = 3, .data = "a text"};
  return maxlogit_record_open(r, path, &o, &e);
}

struct numbers {
  int loss, logit, val, spectra;
};

static void declare(struct maxlogit_recorder *r, struct numbers *n)
{
  struct maxlogit_series loss = {.name = "loss", .unit = "nat", .definition = "mean cross-entropy"};
  struct maxlogit_series logit = {
    .name = "attn/max_logit", .axes = 2, .axis_name = {"layer", "head"}, .size = {2, 3}, .unit = "nat"};
  struct maxlogit_series val = {.name = "val_loss", .rows = MAXLOGIT_VALIDATION};
  struct maxlogit_series spectra = {.name = "weight/spectral_norm",
                                    .rows = MAXLOGIT_SPECTRA,
                                    .axes = 1,
                                    .axis_name = {"tensor"},
                                    .size = {4}};
  const char *const layers[] = {"model.layers.0.self_attn", "model.layers.1.self_attn"};
  const char *const tensors[] = {"a", "b", "c", "d"};
  OK(maxlogit_record_series(r, &loss, &n->loss, &e));
  OK(maxlogit_record_series(r, &logit, &n->logit, &e));
  OK(maxlogit_record_series(r, &val, &n->val, &e));
  OK(maxlogit_record_series(r, &spectra, &n->spectra, &e));
  OK(maxlogit_record_axis(r, "layer", 2, layers, &e));
  OK(maxlogit_record_axis(r, "tensor", 4, tensors, &e));
}

/* What step s has, so that any row can be checked by itself. */
static double value_at(long step, int i) { return 1 / (1.0 + (double)step) + i; }

static int record_step(struct maxlogit_recorder *r, const struct numbers *n, long step)
{
  double v[6];
  for (int i = 0; i < 6; i++) v[i] = value_at(step, i);
  if (step % 7 == 0 && maxlogit_record_event(r, step, "clip", 1, 2, value_at(step, 0), &e)) return 1;
  if (maxlogit_record_put(r, n->loss, v, 1, &e) || maxlogit_record_put(r, n->logit, v, 6, &e)) return 1;
  if (step % 5 == 0 && maxlogit_record_put(r, n->val, v, 1, &e)) return 1;
  if (step % 10 == 0 && maxlogit_record_put(r, n->spectra, v, 4, &e)) return 1;
  return maxlogit_record_row(r, step, &e);
}

static void check_values(const struct maxlogit_run *run, const char *series, long every, long steps,
                         int is_float)
{
  struct maxlogit_values v;
  OK(maxlogit_run_read(run, series, &v, &e));
  ck_assert_int_eq(v.rows, (steps + every - 1) / every);
  for (long row = 0; row < v.rows; row++) {
    ck_assert(v.step[row] == (double)(row * every));
    for (long i = 0; i < v.width; i++) {
      double wanted = value_at(row * every, (int)i), got = v.value[row * v.width + i];
      ck_assert_msg(got == (is_float ? (double)(float)wanted : wanted), "%s row %ld: %g", series, row, got);
    }
  }
  maxlogit_values_free(&v);
}

static void check_run(const char *path, long steps, const char *state)
{
  struct maxlogit_run *run;
  struct maxlogit_facts facts;
  struct maxlogit_event *event;
  long events;
  char name[128];
  OK(maxlogit_run_open(&run, path, &e));
  maxlogit_run_facts(run, &facts);
  ck_assert_str_eq(facts.state, state);
  ck_assert_str_eq(facts.data, "a text");
  ck_assert_int_eq(facts.last_step, steps);
  ck_assert_str_eq(maxlogit_run_setting(run, "optimizer"), "muon");
  ck_assert_str_eq(maxlogit_run_setting(run, "train.seed"), "3");
  ck_assert_ptr_null(maxlogit_run_setting(run, "no.key"));
  check_values(run, "loss", 1, steps, 0);
  check_values(run, "attn/max_logit", 1, steps, 1);
  check_values(run, "val_loss", 5, steps, 0);
  check_values(run, "weight/spectral_norm", 10, steps, 1);
  OK(maxlogit_run_events(run, &event, &events, &e));
  ck_assert_int_eq(events, (steps + 6) / 7);
  for (long i = 0; i < events; i++) {
    ck_assert(event[i].step == 7 * i && event[i].layer == 1 && event[i].head == 2);
    ck_assert_str_eq(event[i].kind, "clip");
    ck_assert(event[i].value == value_at(7 * i, 0));
  }
  maxlogit_events_free(event);
  ck_assert(maxlogit_run_place(run, "layer", 1, name, sizeof name));
  ck_assert_str_eq(name, "model.layers.1.self_attn");
  ck_assert(maxlogit_run_place(run, "tensor", 3, name, sizeof name));
  ck_assert_str_eq(name, "d");
  ck_assert(!maxlogit_run_place(run, "head", 0, name, sizeof name));
  maxlogit_run_close(run);
}

START_TEST(what_is_recorded_is_read)
{
  struct maxlogit_recorder *r;
  struct maxlogit_run *run;
  struct maxlogit_values v;
  struct numbers n;
  const char *path = at("read.h5"), *key, *value, *date, *text;
  long rows, names = 0, keys = 0;
  OK(open_as(&r, path, MAXLOGIT_NEW));
  ck_assert_int_eq(maxlogit_record_last_step(r), -1);
  declare(r, &n);
  for (long s = 0; s < 40; s++) OK(record_step(r, &n, s));
  ck_assert_int_eq(maxlogit_record_last_step(r), 39);
  OK(maxlogit_record_snapshot(r, &e));
  check_run(path, 40, "running");
  OK(maxlogit_record_note(r, "the first forty", &e));
  for (long s = 40; s < 50; s++) OK(record_step(r, &n, s));
  OK(maxlogit_record_close(&r, "finished", &e));
  check_run(path, 50, "finished");
  ck_assert_msg(access(at("read.journal"), F_OK), "a journal is left");
  OK(maxlogit_run_open(&run, path, &e));
  while (maxlogit_run_series_at(run, names, &rows)) names++;
  while (maxlogit_run_setting_at(run, keys, &key, &value)) keys++;
  ck_assert_int_eq(names, 4);
  ck_assert_int_eq(keys, 5);
  ck_assert_str_eq(maxlogit_run_setting(run, "model.layers"), "2"); /* the axes tell */
  ck_assert_str_eq(maxlogit_run_setting(run, "model.heads"), "3");
  ck_assert(maxlogit_run_note_at(run, 0, &date, &text) && !maxlogit_run_note_at(run, 1, &date, &text));
  ck_assert_str_eq(text, "the first forty");
  OK(maxlogit_run_read(run, "attn/max_logit", &v, &e));
  ck_assert(v.axes == 2 && v.size[0] == 2 && v.size[1] == 3);
  ck_assert_str_eq(v.axis_name[1], "head");
  ck_assert_str_eq(v.unit, "nat");
  maxlogit_values_free(&v);
  OK(maxlogit_run_read(run, "loss", &v, &e));
  ck_assert_str_eq(v.definition, "mean cross-entropy");
  maxlogit_values_free(&v);
  ck_assert_int_eq(maxlogit_run_read(run, "attn/max_logits", &v, &e), MAXLOGIT_USAGE);
  ck_assert_msg(strstr(e.text, "did you mean attn/max_logit?"), "%s", e.text);
  maxlogit_run_close(run);
}
END_TEST

/* --- killed ---------------------------------------------------------------------------------------------- */

/* A process that records from `from` on, tells each row that it has written, and never ends by itself. */
static pid_t record_for_ever(const char *path, long from, int tell)
{
  pid_t child = fork();
  if (child) return child;
  struct maxlogit_recorder *r;
  struct numbers n;
  if (open_as(&r, path, MAXLOGIT_RESUME)) _exit(3);
  declare(r, &n);
  for (long s = from;; s++) {
    if (record_step(r, &n, s) || write(tell, &s, sizeof s) != sizeof s) _exit(4);
    if (s % 13 == 5 && maxlogit_record_snapshot(r, &e)) _exit(5);
  }
}

START_TEST(killed_recordings_go_on)
{
  const char *path = at("killed.h5");
  struct draw chance = {7, STREAM_TEST, 0};
  long told = -1, step;
  for (uint64_t life = 0; life < 25; life++) {
    int pipes[2];
    ck_assert(!pipe(pipes));
    /* as training does that goes back to its last checkpoint */
    long from =
      told < 0 ? 0 : told + 1 - (long)draw_below(chance, 2 * life, (uint64_t)(told < 6 ? told + 1 : 6));
    pid_t child = record_for_ever(path, from, pipes[1]);
    close(pipes[1]);
    long wanted = from + (long)draw_below(chance, 2 * life + 1, 40);
    while (read(pipes[0], &step, sizeof step) == sizeof step) {
      told = step;
      if (step >= wanted) break;
    }
    kill(child, SIGKILL);
    while (read(pipes[0], &step, sizeof step) == sizeof step) told = step;
    int status;
    waitpid(child, &status, 0);
    ck_assert_msg(WIFSIGNALED(status), "a recording ended by itself: %d", WEXITSTATUS(status));
    close(pipes[0]);
  }
  struct maxlogit_recorder *r;
  struct numbers n;
  OK(open_as(&r, path, MAXLOGIT_RESUME));
  ck_assert_msg(maxlogit_record_last_step(r) >= told, "%ld rows were told, %ld are there", told + 1,
                maxlogit_record_last_step(r) + 1);
  ck_assert_int_le(maxlogit_record_last_step(r), told + 1); /* written, not told */
  declare(r, &n);
  for (long s = told + 1; s < told + 10; s++) OK(record_step(r, &n, s));
  OK(maxlogit_record_close(&r, "stopped", &e));
  check_run(path, told + 10, "stopped");
}
END_TEST

/* Two kills: what the second life has recorded again counts, and nothing that the first one had beyond it. */
START_TEST(a_second_life_counts)
{
  struct maxlogit_recorder *r;
  struct maxlogit_run *run;
  struct maxlogit_values v;
  struct maxlogit_series loss = {.name = "loss"};
  static const long first[] = {0, 5, 8}, last[] = {9, 7, 8};
  const char *path = at("lives.h5");
  int number;
  for (int life = 0; life < 3; life++) {
    double value = life;
    OK(open_as(&r, path, MAXLOGIT_RESUME));
    OK(maxlogit_record_series(r, &loss, &number, &e));
    for (long s = first[life]; s <= last[life]; s++) {
      OK(maxlogit_record_put(r, number, &value, 1, &e));
      OK(maxlogit_record_row(r, s, &e));
    }
    if (life < 2) maxlogit_record_discard(&r); /* as if killed: all since it was opened is in the journal */
  }
  OK(maxlogit_record_close(&r, "finished", &e));
  OK(maxlogit_run_open(&run, path, &e));
  OK(maxlogit_run_read(run, "loss", &v, &e));
  ck_assert_int_eq(v.rows, 9);
  for (long s = 0; s < 9; s++) ck_assert(v.value[s] == (s < 5 ? 0 : s < 8 ? 1 : 2));
  maxlogit_values_free(&v);
  maxlogit_run_close(run);
}
END_TEST

/* A kill between an event and the row of its step: the event is recorded again, and stands in the file once. */
START_TEST(an_event_without_its_row)
{
  struct maxlogit_recorder *r;
  struct numbers n;
  const char *path = at("event.h5");
  for (int life = 0; life < 2; life++) {
    OK(open_as(&r, path, MAXLOGIT_RESUME));
    declare(r, &n);
    for (long s = life ? 7 : 0; s < (life ? 9 : 7); s++) OK(record_step(r, &n, s));
    if (life) break;
    OK(maxlogit_record_event(r, 7, "clip", 1, 2, value_at(7, 0), &e));
    maxlogit_record_discard(&r); /* as if killed */
  }
  OK(maxlogit_record_close(&r, "stopped", &e));
  check_run(path, 9, "stopped");
}
END_TEST

/* What a life took is counted on by the next. */
START_TEST(time_goes_on)
{
  struct maxlogit_recorder *r;
  struct maxlogit_run *run;
  struct maxlogit_facts facts;
  const char *path = at("time.h5");
  double before = 0;
  for (int life = 0; life < 2; life++) {
    OK(open_as(&r, path, life ? MAXLOGIT_RESUME : MAXLOGIT_NEW));
    if (!life) usleep(200000);
    OK(maxlogit_record_close(&r, "stopped", &e));
    OK(maxlogit_run_open(&run, path, &e));
    maxlogit_run_facts(run, &facts);
    ck_assert_double_ge(facts.wall_seconds, life ? before : 0.2);
    before = facts.wall_seconds;
    maxlogit_run_close(run);
  }
}
END_TEST

static size_t take(const char *path, char *out, size_t room)
{
  FILE *f = fopen(path, "rb");
  ck_assert_ptr_nonnull(f);
  size_t length = fread(out, 1, room, f);
  fclose(f);
  ck_assert(length < room);
  return length;
}

static void give(const char *path, const char *bytes, size_t length)
{
  FILE *f = fopen(path, "wb");
  ck_assert(f && fwrite(bytes, 1, length, f) == length && !fclose(f));
}

/* The rows of a recording that goes on from these bytes of a journal; -1: it refuses, and touches nothing. */
static long rows_from(const char *run, size_t run_length, const char *journal, size_t length)
{
  static char now[1 << 16];
  struct maxlogit_recorder *r;
  struct maxlogit_run *written;
  struct maxlogit_values v;
  long rows = 0;
  give(at("flip.h5"), run, run_length);
  give(at("flip.journal"), journal, length);
  if (open_as(&r, at("flip.h5"), MAXLOGIT_RESUME)) {
    ck_assert_ptr_nonnull(strstr(e.text, "flip.journal"));
    ck_assert(take(at("flip.journal"), now, sizeof now) == length && !memcmp(now, journal, length));
    return -1;
  }
  OK(maxlogit_record_close(&r, "stopped", &e));
  OK(maxlogit_run_open(&written, at("flip.h5"), &e));
  if (!maxlogit_run_read(written, "loss", &v, &e)) {
    rows = v.rows;
    for (long s = 0; s < rows; s++) ck_assert(v.value[s] == value_at(s, 0));
    maxlogit_values_free(&v);
  }
  maxlogit_run_close(written);
  return rows;
}

/* Where a journal ends early its last rows are missing, as after a kill. Where a bit of it is another, a row with
   rows behind it is never left out in silence. */
START_TEST(a_damaged_journal_is_told)
{
  enum { ROWS = 4 };
  static char run[1 << 16], journal[1 << 16];
  struct maxlogit_recorder *r;
  struct maxlogit_series loss = {.name = "loss"};
  size_t length[ROWS + 1];
  int number;
  OK(open_as(&r, at("flip.h5"), MAXLOGIT_NEW));
  OK(maxlogit_record_series(r, &loss, &number, &e));
  OK(maxlogit_record_snapshot(r, &e));
  size_t run_length = take(at("flip.h5"), run, sizeof run);
  length[0] = take(at("flip.journal"), journal, sizeof journal);
  for (long s = 0; s < ROWS; s++) {
    double value = value_at(s, 0);
    OK(maxlogit_record_put(r, number, &value, 1, &e));
    OK(maxlogit_record_row(r, s, &e));
    length[s + 1] = take(at("flip.journal"), journal, sizeof journal);
  }
  maxlogit_record_discard(&r);
  ck_assert_int_eq(rows_from(run, run_length, journal, length[ROWS]), ROWS);
  size_t piece = length[ROWS] - length[ROWS - 1];
  for (size_t cut = 0; cut < length[ROWS]; cut += 9) {
    long rows = 0;
    while (rows < ROWS && length[rows + 1] <= cut) rows++;
    ck_assert_int_eq(rows_from(run, run_length, journal, cut), rows);
  }
  for (size_t byte = 0; byte < length[ROWS]; byte += 7) {
    char flip = (char)(1 << byte % 8);
    journal[byte] ^= flip;
    ck_assert_int_eq(rows_from(run, run_length, journal, length[ROWS]),
                     byte < length[ROWS] - piece ? -1 : ROWS - 1);
    journal[byte] ^= flip;
  }
}
END_TEST

/* A journal that a snapshot has overtaken, as after a kill between the two, changes nothing. */
START_TEST(an_overtaken_journal_is_no_harm)
{
  struct maxlogit_recorder *r;
  struct numbers n;
  const char *path = at("overtaken.h5");
  char command[9000];
  OK(open_as(&r, path, MAXLOGIT_NEW));
  declare(r, &n);
  for (long s = 0; s < 20; s++) OK(record_step(r, &n, s));
  OK(maxlogit_record_note(r, "once", &e));
  snprintf(command, sizeof command, "cp %s %s", at("overtaken.journal"), at("kept"));
  ck_assert(!system(command));
  OK(maxlogit_record_close(&r, "finished", &e));
  snprintf(command, sizeof command, "cp %s %s", at("kept"), at("overtaken.journal"));
  ck_assert(!system(command));
  OK(open_as(&r, path, MAXLOGIT_RESUME));
  declare(r, &n);
  for (long s = 20; s < 22; s++) OK(record_step(r, &n, s));
  OK(maxlogit_record_close(&r, "finished", &e));
  check_run(path, 22, "finished");
  struct maxlogit_run *run;
  const char *date, *text;
  OK(maxlogit_run_open(&run, path, &e));
  ck_assert(maxlogit_run_note_at(run, 0, &date, &text) && !maxlogit_run_note_at(run, 1, &date, &text));
  maxlogit_run_close(run);
}
END_TEST

/* A full disk is told, and what came meanwhile is there when there is room again. */
START_TEST(a_full_disk_loses_nothing)
{
  struct maxlogit_recorder *r;
  struct numbers n;
  struct rlimit before, full;
  const char *path = at("full.h5");
  OK(open_as(&r, path, MAXLOGIT_NEW));
  declare(r, &n);
  for (long s = 0; s < 10; s++) OK(record_step(r, &n, s));
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &before);
  full = (struct rlimit){16, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  ck_assert_int_eq(record_step(r, &n, 10), MAXLOGIT_FAIL);
  ck_assert_msg(strstr(e.text, "full."), "%s", e.text);
  ck_assert_int_eq(record_step(r, &n, 11), MAXLOGIT_FAIL);
  setrlimit(RLIMIT_FSIZE, &before);
  for (long s = 12; s < 17; s++) OK(record_step(r, &n, s));
  maxlogit_record_discard(&r); /* as if killed */
  OK(open_as(&r, path, MAXLOGIT_RESUME));
  ck_assert_int_eq(maxlogit_record_last_step(r), 16);
  OK(maxlogit_record_close(&r, "stopped", &e));
  check_run(path, 17, "stopped");
}
END_TEST

/* --- what cannot be ---------------------------------------------------------------------------------------- */

#define REFUSED(call, said) \
  do { \
    ck_assert_int_eq(call, MAXLOGIT_USAGE); \
    ck_assert_msg(strstr(e.text, said), "'%s' has no '%s'", e.text, said); \
  } while (0)

static int declare_one(struct maxlogit_recorder *r, const char *name, const char *axis, long size)
{
  int number;
  struct maxlogit_series s = {.name = name, .axes = axis != NULL, .axis_name = {axis}, .size = {size}};
  return maxlogit_record_series(r, &s, &number, &e);
}

START_TEST(what_cannot_be_is_said)
{
  struct maxlogit_recorder *r, *other;
  struct numbers n;
  double v[6] = {0};
  const char *path = at("wrong.h5");
  struct maxlogit_setting twice[] = {{"a", "1"}, {"a", "2"}}, blank = {"a key", "1"};
  struct maxlogit_record_options o = {.settings = twice, .settings_count = 2};
  REFUSED(maxlogit_record_open(&r, path, &o, &e), "given twice");
  o = (struct maxlogit_record_options){.settings = &blank, .settings_count = 1};
  REFUSED(maxlogit_record_open(&r, path, &o, &e), "'a key'");
  ck_assert_ptr_null(r);
  OK(open_as(&r, path, MAXLOGIT_NEW));
  REFUSED(open_as(&other, path, MAXLOGIT_NEW), "exists");
  ck_assert_int_eq(open_as(&other, path, MAXLOGIT_RESUME), MAXLOGIT_FAIL); /* it is being written */
  declare(r, &n);
  REFUSED(declare_one(r, "", NULL, 0), "without a name");
  REFUSED(declare_one(r, "a b", NULL, 0), "letters");
  REFUSED(declare_one(r, "a//b", NULL, 0), "empty part");
  REFUSED(declare_one(r, "attn", NULL, 0), "below another");
  REFUSED(declare_one(r, "loss/train", NULL, 0), "below another");
  REFUSED(declare_one(r, "head", NULL, 0), "is an axis");
  REFUSED(declare_one(r, "step", NULL, 0), "is an axis");
  REFUSED(declare_one(r, "x", "loss", 3), "is a series");
  REFUSED(declare_one(r, "x", "layer", 3), "has size 2 in this file");
  REFUSED(declare_one(r, "x", "place", 0), "size 0");
  REFUSED(declare_one(r, "loss", "layer", 2), "other axes");
  REFUSED(declare_one(r, "val_step", NULL, 0), "is an axis");
  REFUSED(declare_one(r, "val_loss", NULL, 0), "other rows");
  REFUSED(declare_one(r, "x", "x", 2), "two things are called 'x'");
  static const char *const of_rows[] = {"step", "spectra_step", "val_step", "probe_step"};
  for (int i = 0; i < 4; i++) REFUSED(declare_one(r, "x", of_rows[i], 2), "that is an axis of rows");
  static const char *const dots[] = {".", "..", "a/./b", "./a", "a/..", "a/."};
  for (int i = 0; i < 6; i++) REFUSED(declare_one(r, dots[i], "layer", 2), "has a part '.' or '..'");
  REFUSED(declare_one(r, "x", ".", 2), "has a part '.' or '..'");
  OK(declare_one(r, "a.b/...c/.d", "layer", 2));
  REFUSED(declare_one(r, "x", "a/b", 2), "no '/'");
  REFUSED(declare_one(r, "x", "12345678901234567890123456789012", 2), "at most 31 bytes");
  REFUSED(declare_one(r, "x", "place", (1 << 24) + 1), "1 to 2^24");
  struct maxlogit_series odd = {.name = "x", .axes = 2, .axis_name = {"a", "a"}, .size = {2, 2}};
  int number;
  REFUSED(maxlogit_record_series(r, &odd, &number, &e), "two things are called 'a'");
  odd = (struct maxlogit_series){
    .name = "x", .axes = 2, .axis_name = {"one", "two"}, .size = {1 << 12, (1 << 12) + 1}};
  REFUSED(maxlogit_record_series(r, &odd, &number, &e), "has 4096 x 4097 values a row; at most 2^24");
  odd.axes = MAXLOGIT_AXES + 1;
  REFUSED(maxlogit_record_series(r, &odd, &number, &e), "more than 2 axes");
  odd.axes = -1;
  REFUSED(maxlogit_record_series(r, &odd, &number, &e), "no such rows");
  odd.axes = 0, odd.rows = (enum maxlogit_rows)99;
  REFUSED(maxlogit_record_series(r, &odd, &number, &e), "no such rows");
  OK(declare_one(r, "loss2", "1234567890123456789012345678901", 1)); /* beside loss, not below it */
  for (int i = 0; i < 3; i++)
    REFUSED(maxlogit_record_put(r, (const int[]){-1, 0, 1 << 20}[i], v, 1, &e), "no series");
  REFUSED(maxlogit_record_put(r, n.logit, v, 5, &e), "has 6 values a row, not 5");
  REFUSED(maxlogit_record_put(r, 77, v, 1, &e), "no series");
  OK(record_step(r, &n, 3));
  OK(maxlogit_record_put(r, n.loss, v, 1, &e));
  REFUSED(maxlogit_record_row(r, 3, &e), "steps grow");
  REFUSED(maxlogit_record_row(r, -1, &e), "from 0");
  REFUSED(maxlogit_record_row(r, 1L << 53, &e), "below 2^53");
  REFUSED(maxlogit_record_event(r, 4, "a kind of far too many bytes", -1, -1, 0, &e), "kind");
  REFUSED(maxlogit_record_event(r, 4, "of 24 bytes, one too many", -1, -1, 0, &e), "kind");
  REFUSED(maxlogit_record_note(r, "", &e), "note");
  static char note[16384 + 2];
  memset(note, 'x', sizeof note - 1);
  REFUSED(maxlogit_record_note(r, note, &e), "a note of 16385 bytes; 1 to 16384");
  note[16384] = 0;
  OK(maxlogit_record_note(r, note, &e));
  REFUSED(maxlogit_record_close(&r, "done", &e), "finished, stopped, diverged");
  maxlogit_record_discard(&r);
  OK(open_as(&r, path, MAXLOGIT_RESUME));
  ck_assert_int_eq(maxlogit_record_last_step(r), 3);
  OK(maxlogit_record_close(&r, "diverged", NULL));
  REFUSED(maxlogit_record_close(&r, "diverged", &e), "the recording is closed");
}
END_TEST

/* For programs that know HDF5 alone: each axis has a scale that counts from 0, as long as the axis is. */
START_TEST(own_axes_have_scales)
{
  struct maxlogit_recorder *r;
  const char *path = at("axes.h5");
  struct maxlogit_series x = {.name = "x", .axes = 2, .axis_name = {"layer", "part"}, .size = {2, 3}};
  double v[6] = {0};
  int number, scale[3] = {-1, -1, -1};
  OK(open_as(&r, path, MAXLOGIT_NEW));
  OK(maxlogit_record_series(r, &x, &number, &e));
  OK(maxlogit_record_put(r, number, v, 6, &e));
  OK(maxlogit_record_row(r, 0, &e));
  OK(maxlogit_record_close(&r, "finished", &e));
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  for (int axis = 0; axis < 2; axis++) {
    const char *place = axis ? "/series/part" : "/series/layer";
    hid_t data = H5Dopen2(file, place, H5P_DEFAULT), space = H5Dget_space(data);
    ck_assert_int_eq(H5Sget_simple_extent_npoints(space), x.size[axis]);
    ck_assert(H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, scale) >= 0);
    for (int i = 0; i < x.size[axis]; i++) ck_assert_int_eq(scale[i], i);
    H5Sclose(space);
    H5Dclose(data);
  }
  H5Fclose(file);
}
END_TEST

/* Nothing is on disk before the end, nor ever of what is given up. */
START_TEST(a_whole_recording_is_there_at_once)
{
  struct maxlogit_record_options o = {.whole = 1};
  struct maxlogit_recorder *r;
  for (int given_up = 0; given_up < 2; given_up++) {
    struct maxlogit_series loss = {.name = "loss"};
    int number;
    double v = 1;
    const char *path = at(given_up ? "given_up.h5" : "whole.h5");
    OK(maxlogit_record_open(&r, path, &o, &e));
    OK(maxlogit_record_series(r, &loss, &number, &e));
    OK(maxlogit_record_put(r, number, &v, 1, &e));
    OK(maxlogit_record_row(r, 0, &e));
    OK(maxlogit_record_snapshot(r, &e));
    ck_assert(access(path, F_OK));
    if (given_up)
      maxlogit_record_discard(&r);
    else
      OK(maxlogit_record_close(&r, "finished", &e));
    ck_assert_int_eq(access(path, F_OK) != 0, given_up);
  }
  ck_assert(access(at("whole.journal"), F_OK));
}
END_TEST

/* A new recording keeps checkpoints and journal of a run that was renamed, and the file of another program. */
START_TEST(files_of_others_stay)
{
  static const char *const names[] = {"kept.journal", "kept.ckpt/step-00000001.h5", "kept.lock"};
  struct maxlogit_recorder *r;
  for (int i = 0; i < 3; i++) {
    if (i == 1) ck_assert(!mkdir(at("kept.ckpt"), 0700));
    FILE *file = fopen(at(names[i]), "w");
    ck_assert(file && fputs("mine", file) >= 0 && !fclose(file));
    ck_assert_int_eq(maxlogit_record_open(&r, at("kept.h5"), NULL, &e), MAXLOGIT_USAGE);
    ck_assert_msg(strstr(e.text, "kept.") != NULL, "%s", e.text);
    ck_assert(!access(at(names[i]), F_OK));
    ck_assert(!unlink(at(names[i])));
    if (i == 1) ck_assert(!rmdir(at("kept.ckpt")));
  }
  OK(maxlogit_record_open(&r, at("kept.h5"), NULL, &e));
  maxlogit_record_discard(&r);
}
END_TEST

/* Checkpoints and journal of an earlier run stay until its file is replaced. */
START_TEST(a_whole_recording_replaces_at_its_end)
{
  struct maxlogit_record_options o = {.whole = 1, .mode = MAXLOGIT_REPLACE};
  struct maxlogit_recorder *r;
  for (int end = 0; end < 3; end++) {
    FILE *journal = fopen(at("old.journal"), "w");
    ck_assert(journal && !fclose(journal));
    OK(maxlogit_record_open(&r, at("old.h5"), &o, &e));
    ck_assert(!access(at("old.journal"), F_OK));
    if (end == 1) OK(maxlogit_record_clear(r, &e));
    if (end == 2)
      OK(maxlogit_record_close(&r, "finished", &e));
    else
      maxlogit_record_discard(&r);
    ck_assert_int_eq(access(at("old.journal"), F_OK) != 0, end > 0);
  }
}
END_TEST

/* Another user replaces a private recording by a file of more rights: the next writing is private, too. */
START_TEST(a_private_recording_stays_private)
{
  struct maxlogit_recorder *r;
  struct stat info;
  const mode_t mask = umask(077);
  OK(maxlogit_record_open(&r, at("private.h5"), NULL, &e));
  OK(maxlogit_record_snapshot(r, &e));
  FILE *file = fopen(at("planted"), "w");
  ck_assert(file && !fclose(file) && !chmod(at("planted"), 0644));
  char planted[4200];
  snprintf(planted, sizeof planted, "%s", at("planted"));
  ck_assert(!rename(planted, at("private.h5")));
  OK(maxlogit_record_close(&r, "finished", &e));
  ck_assert(!stat(at("private.h5"), &info));
  ck_assert_uint_eq(info.st_mode & 0777, 0600);
  umask(mask);
}
END_TEST

static void *record_and_read(void *number)
{
  struct maxlogit_error mine = {0};
  struct maxlogit_recorder *r;
  struct maxlogit_run *run;
  struct maxlogit_values v;
  struct maxlogit_series loss = {.name = "loss"};
  char path[4200];
  int series;
  snprintf(path, sizeof path, "%s/thread%d.h5", folder, *(int *)number);
  if (maxlogit_record_open(&r, path, NULL, &mine) || maxlogit_record_series(r, &loss, &series, &mine))
    return "open";
  for (long s = 0; s < 30; s++) {
    double value = *(int *)number + (double)s;
    if (maxlogit_record_put(r, series, &value, 1, &mine) || maxlogit_record_row(r, s, &mine)) return "row";
    if (maxlogit_record_snapshot(r, &mine) || maxlogit_run_open(&run, path, &mine)) return "snapshot";
    if (maxlogit_run_read(run, "loss", &v, &mine) || v.rows != s + 1 || v.value[s] != value) return "read";
    maxlogit_values_free(&v);
    maxlogit_run_close(run);
  }
  return maxlogit_record_close(&r, "finished", &mine) ? "close" : NULL;
}

START_TEST(threads_have_their_own)
{
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  int number[THREADS];
  for (int i = 0; i < THREADS; i++) {
    number[i] = 100 * i;
    ck_assert(!pthread_create(&thread[i], NULL, record_and_read, &number[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    void *said;
    pthread_join(thread[i], &said);
    ck_assert_msg(!said, "%s", (const char *)said);
  }
}
END_TEST

START_TEST(blocks_are_rows)
{
  struct maxlogit_recorder *r;
  struct numbers n;
  struct maxlogit_run *run;
  struct maxlogit_values v;
  const long steps[] = {0, 2, 5}, seldom[] = {2};
  const double loss[] = {3, 2, 1}, val[] = {7},
               logit[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  OK(open_as(&r, at("blocks.h5"), MAXLOGIT_NEW));
  declare(r, &n);
  const struct maxlogit_block block[] = {
    {n.loss, 3, steps, loss}, {n.val, 1, seldom, val}, {n.logit, 3, steps, logit}};
  OK(maxlogit_record_blocks(r, block, 3, &e));
  ck_assert_int_eq(maxlogit_record_last_step(r), 5);
  ck_assert_int_eq(maxlogit_record_blocks(r, block, 1, &e), MAXLOGIT_USAGE); /* steps grow */
  ck_assert_int_eq(maxlogit_record_blocks(r, &(struct maxlogit_block){99, 1, steps, loss}, 1, &e),
                   MAXLOGIT_USAGE);
  OK(maxlogit_record_close(&r, "finished", &e));
  OK(maxlogit_run_open(&run, at("blocks.h5"), &e));
  OK(maxlogit_run_read(run, "attn/max_logit", &v, &e));
  ck_assert(v.rows == 3 && v.step[1] == 2 && v.value[6] == 6 && v.value[17] == 17);
  maxlogit_values_free(&v);
  OK(maxlogit_run_read(run, "val_loss", &v, &e));
  ck_assert(v.rows == 1 && v.step[0] == 2 && v.value[0] == 7);
  maxlogit_values_free(&v);
  maxlogit_run_close(run);
}
END_TEST

/* --- a host program in another locale ------------------------------------------------------------------ */

static char locales[FOLDER_PATH];

/* A decimal comma, where localedef can make it. */
static void enter_german(void)
{
  char command[128], half[8];
  folder_make(locales);
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 > %s/log 2>&1", locales,
           locales);
  int failed = system(command);
  setenv("LOCPATH", locales, 1);
  if (failed || !setlocale(LC_ALL, "de_DE.UTF-8"))
    puts("no localedef with de_DE here: the German locale was not tried");
  else {
    snprintf(half, sizeof half, "%.1f", .5);
    ck_assert_str_eq(half, "0,5");
  }
}

static void leave_german(void)
{
  setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  folder_remove(locales);
}

static void *record_real(void *unused)
{
  struct maxlogit_recorder *r;
  const char *path = at("real.h5");
  double lr = 0;
  OK(open_as(&r, path, MAXLOGIT_NEW));
  OK(maxlogit_record_close(&r, "finished", &e));
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t a = H5Aopen_by_name(file, "parameters", "train.lr", H5P_DEFAULT, H5P_DEFAULT), type = H5Aget_type(a);
  ck_assert_int_eq(H5Tget_class(type), H5T_FLOAT); /* not a text */
  ck_assert(H5Aread(a, H5T_NATIVE_DOUBLE, &lr) >= 0 && lr == .02);
  H5Tclose(type);
  H5Aclose(a);
  H5Fclose(file);
  return unused;
}

/* Of a thread, too; and the host keeps its locale. */
START_TEST(reals_are_reals)
{
  pthread_t thread;
  char before[8], after[8];
  snprintf(before, sizeof before, "%.1f", .5);
  ck_assert_int_eq(pthread_create(&thread, NULL, record_real, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  ck_assert_int_eq(remove(at("real.h5")), 0);
  record_real(NULL);
  snprintf(after, sizeof after, "%.1f", .5);
  ck_assert_str_eq(before, after);
}
END_TEST

static void enter_folder(void) { folder_make(folder); }
static void leave_folder(void) { folder_remove(folder); }

int main(void)
{
  Suite *suite = suite_create("record");
  TCase *t = tcase_create("record");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, enter_folder, leave_folder);
  tcase_add_test(t, what_is_recorded_is_read);
  tcase_add_test(t, killed_recordings_go_on);
  tcase_add_test(t, a_second_life_counts);
  tcase_add_test(t, an_event_without_its_row);
  tcase_add_test(t, time_goes_on);
  tcase_add_test(t, an_overtaken_journal_is_no_harm);
  tcase_add_test(t, a_damaged_journal_is_told);
  tcase_add_test(t, a_full_disk_loses_nothing);
  tcase_add_test(t, what_cannot_be_is_said);
  tcase_add_test(t, own_axes_have_scales);
  tcase_add_test(t, a_whole_recording_is_there_at_once);
  tcase_add_test(t, a_whole_recording_replaces_at_its_end);
  tcase_add_test(t, a_private_recording_stays_private);
  tcase_add_test(t, files_of_others_stay);
  tcase_add_test(t, threads_have_their_own);
  tcase_add_test(t, blocks_are_rows);
  tcase_add_test(t, reals_are_reals);
  suite_add_tcase(suite, t);
  TCase *german = tcase_create("german");
  tcase_set_timeout(german, 60);
  tcase_add_unchecked_fixture(german, enter_german, leave_german);
  tcase_add_checked_fixture(german, enter_folder, leave_folder);
  tcase_add_test(german, what_is_recorded_is_read);
  tcase_add_test(german, killed_recordings_go_on);
  tcase_add_test(german, time_goes_on);
  tcase_add_test(german, threads_have_their_own);
  tcase_add_test(german, reals_are_reals);
  suite_add_tcase(suite, german);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
