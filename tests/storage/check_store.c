/* check_store.c - run file and checkpoint: what is written comes back, and what is damaged is reported */
#include <check.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "numerics/real.h"
#include "../configuration.h"
#include "../same_run.h"
#include "base/number.h"
#include "storage/blow_up.h"
#include "storage/checkpoint.h"
#include "storage/h5.h"
#include "storage/layout.h"
#include "storage/live_rows.h"
#include "storage/notes.h"
#include "storage/recorder.h"
#include "storage/run_file.h"
#include "storage/seal.h"
#include "storage/tables.h"
#include "facts.h"
#include "../long.h"

/* --- a made-up run whose every number follows from its step -------------------------------------------- */

enum { LAYERS = 2, HEADS = 3, TENSORS = 5, BATCH = 2, CONTEXT = 4 };

static const char *const tensor_names[TENSORS] = {"embed", "blocks.0.attn.w_q", "blocks.1.attn.w_q", "norm",
                                                  "head"};
static const struct series series[] = {
  {"loss", PER_STEP, AXIS_STEP, "nat", "training loss", "mean cross-entropy", EVENT_NONE},
  {"attn/max_logit", PER_HEAD, AXIS_STEP, "1", "max logit", "signed maximum before any cap", EVENT_NONE},
  {"thing/of_layer", PER_LAYER, AXIS_STEP, "1", "a thing", "made up", EVENT_NONE},
  {"weight/norm", PER_TENSOR, AXIS_SPECTRA, "1", "norm", "Frobenius norm", EVENT_NONE},
  {"thing/of_head", PER_HEAD, AXIS_SPECTRA, "1", "norm of a head", "Frobenius norm", EVENT_NONE},
  {"val_loss", PER_STEP, AXIS_VAL, "nat", "validation loss", "mean cross-entropy", EVENT_NONE},
  {"probe/loss", PER_STEP, AXIS_PROBE, "nat", "probe loss", "mean cross-entropy", EVENT_NONE},
};
enum { SERIES = sizeof series / sizeof *series };
static const struct run_facts facts = {"0123456789ab", "cpu", "bytes", "a text, 12 bytes",
                                       LAYERS,         HEADS, 0,       TENSORS,
                                       tensor_names,   1.25,  7,       UINT64_MAX};

static char folder[] = "check_store.XXXXXX";
static struct config *config;
static int id[SERIES];

static void setup(void)
{
  struct error e = {0};
  config = config_new();
  ck_assert_msg(!config_finish(config, &e), "%s", e.text);
}

static void teardown(void) { config_free(config); }

static const char *at(const char *name)
{
  static char path[8][256];
  static int turn;
  turn = (turn + 1) % 8;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

/* Random bits, so NaN with payloads, infinities and denormal numbers too. */
static uint32_t bits(int which, long step, long i)
{
  return draw_u32((struct draw){7, STREAM_TEST, (uint64_t)(step * 16 + which)}, (uint64_t)i);
}

static void put_row(struct recorder *r, enum series_axis axis, long step)
{
  for (int s = 0; s < SERIES; s++) {
    uint32_t word[16];
    double number;
    for (int i = 0; i < 16; i++) word[i] = bits(s, step, i);
    memcpy(&number, word, sizeof number);
    if (series[s].axis != axis || (s == 2 && step % 3 == 0)) /* now and then one is not put */
      continue;
    if (series[s].shape == PER_STEP)
      recorder_put_number(r, id[s], number);
    else
      recorder_put(r, id[s], (const float *)(const void *)word);
  }
  recorder_row(r, axis, step);
}

static void play(struct recorder *r, long from, long to)
{
  struct error e = {0};
  for (long step = from; step < to; step++) {
    int tokens[BATCH * (CONTEXT + 1)], document[BATCH * CONTEXT];
    float mask[BATCH * CONTEXT];
    for (int i = 0; i < BATCH * (CONTEXT + 1); i++) tokens[i] = (int)(bits(14, step, i) >> 1);
    for (int i = 0; i < BATCH * CONTEXT; i++) {
      document[i] = i;
      mask[i] = (float)(i % 2);
    }
    recorder_batch(r, step, tokens, mask, document, BATCH, CONTEXT);
    put_row(r, AXIS_STEP, step);
    if (step % 5 == 0) put_row(r, AXIS_SPECTRA, step);
    if (step % 7 == 6) put_row(r, AXIS_VAL, step);
    if (step % 4 == 1)
      recorder_event(r, step, step % 8 == 1 ? "clip" : "nonfinite", (int)step % LAYERS, -1,
                     step % 8 == 1 ? 0.5 : NAN);
    recorder_timing(r, step, 0.001);
    ck_assert_msg(!recorder_append(r, step % 3 == 0, &e), "%s", e.text);
  }
}

static void declare(struct recorder *r)
{
  for (int s = 0; s < SERIES; s++) id[s] = recorder_series(r, &series[s]);
}

static struct recorder *create(const char *path)
{
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, config, &facts, &e), "%s", e.text);
  declare(r);
  return r;
}

static void snapshot(struct recorder *r, const char *state, long step, int final)
{
  struct error e = {0};
  ck_assert_msg(!recorder_snapshot(r, state, step, 1.5, final, &e), "%s", e.text);
}

static const char *whole_run(const char *name, long steps)
{
  const char *path = at(name);
  struct recorder *r = create(path);
  play(r, 0, steps);
  snapshot(r, "finished", steps, 1);
  recorder_free(r);
  return path;
}

/* --- what is written comes back ------------------------------------------------------------------------ */

static double as_double(float x) { return (double)x; }

/* The same bits, or both NaN (reading widens to double). */
static int same_number(double a, double b) { return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a); }

static void check_series(struct run_file *f, int s, long steps)
{
  struct run_series got;
  struct error e = {0};
  ck_assert_msg(!run_read_all(f, series[s].name, &got, &e), "%s", e.text);
  ck_assert_str_eq(got.unit, series[s].unit);
  ck_assert_str_eq(got.long_name, series[s].long_name);
  ck_assert_int_eq(got.shape, series[s].shape);
  long row = 0;
  for (long step = 0; step < steps; step++) {
    if ((series[s].axis == AXIS_SPECTRA && step % 5) || (series[s].axis == AXIS_VAL && step % 7 != 6) ||
        series[s].axis == AXIS_PROBE)
      continue;
    ck_assert(row < got.rows);
    ck_assert_double_eq(got.step[row], (double)step);
    for (long i = 0; i < got.width; i++) {
      uint32_t word[2] = {bits(s, step, i), bits(s, step, i + 1)};
      double want;
      float narrow;
      memcpy(&want, word, sizeof want);
      memcpy(&narrow, word, sizeof narrow);
      if (series[s].shape != PER_STEP) want = s == 2 && step % 3 == 0 ? NAN : as_double(narrow);
      ck_assert_msg(same_number(want, got.value[row * got.width + i]), "%s step %ld [%ld]", series[s].name,
                    step, i);
    }
    row++;
  }
  ck_assert_int_eq(row, got.rows);
  if (series[s].shape == PER_TENSOR)
    for (int i = 0; i < TENSORS; i++) ck_assert_str_eq(got.labels[i], tensor_names[i]);
  run_series_free(&got);
}

static int count_name(void *context, const char *name)
{
  (void)name;
  ++*(int *)context;
  return 0;
}

static void write_text(const char *path, const char *text, size_t length)
{
  FILE *f = fopen(path, "wb");
  ck_assert(f && fwrite(text, 1, length, f) == length && !fclose(f));
}

/* The file at `path` as it was before files had heads. */
static const char *without_head(const char *path)
{
  struct error e = {0};
  char *bytes = NULL, seal[SEAL_BYTES + 1];
  size_t size, length, behind;
  ck_assert(!file_read(path, &bytes, &size, &e));
  ck_assert_ptr_nonnull(head_find(bytes, size, &length, &behind));
  size -= behind;
  seal_make(bytes, size, seal);
  memcpy(bytes + size, seal, SEAL_BYTES);
  write_text(at("headless.h5"), bytes, size + SEAL_BYTES);
  memory_free(bytes);
  return at("headless.h5");
}

/* By all of it or by its head, and where it has none. */
enum { WAYS = 4 };
static struct run_file *open_in_way(int way, const char *path)
{
  struct run_file *f = NULL;
  struct error e = {0};
  if (way > 1) path = without_head(path);
  int status = way % 2 ? run_peek(&f, path, &e) : run_open(&f, path, &e);
  ck_assert_msg(!status, "%s", e.text);
  return f;
}

START_TEST(everything_comes_back)
{
  static const long lengths[] = {0, 1, 30, 1024, 2500}; /* over the edge of a block */
  long steps = lengths[_i / WAYS];
  struct run_file *f = open_in_way(_i % WAYS, whole_run("back.h5", steps));
  struct run_event *event;
  struct error e = {0};
  long count;
  int names = 0;
  ck_assert_str_eq(run_state(f), "finished");
  ck_assert_int_eq(strlen(run_date(f)), strlen("2026-01-01T00:00:00Z"));
  ck_assert_int_eq(run_last_step(f), steps);
  ck_assert_double_eq(run_wall_seconds(f), 1.5);
  ck_assert_double_eq(run_loss_floor(f), 1.25);
  uint64_t data, start;
  run_contents(f, &data, &start);
  ck_assert(data == 7 && start == UINT64_MAX);
  ck_assert_str_eq(run_id(f), facts.id);
  ck_assert_str_eq(run_data_text(f), facts.data_text);
  run_series_names(f, count_name, &names);
  ck_assert_int_eq(names, SERIES);
  for (int s = 0; s < SERIES; s++) check_series(f, s, steps);
  ck_assert_int_eq(run_rows(f, "loss"), steps);
  ck_assert_int_eq(run_rows(f, "los"), 0);
  run_rest(f);
  ck_assert_msg(!run_events(f, &event, &count, &e), "%s", e.text);
  ck_assert_int_eq(count, (steps + 2) / 4);
  for (long i = 0; i < count; i++) {
    ck_assert_int_eq(event[i].step, 4 * i + 1);
    ck_assert_str_eq(event[i].kind, i % 2 ? "nonfinite" : "clip");
    ck_assert_int_eq(event[i].head, -1);
    ck_assert(i % 2 ? isnan(event[i].value) : event[i].value == 0.5);
  }
  memory_free(event);
  run_close(f);
}
END_TEST

static int compare_parameter(void *context, const struct config_entry *entry)
{
  struct run_file *f = context;
  const char *found = run_parameter(f, entry->key);
  if (entry->used)
    ck_assert_msg(found && !strcmp(found, entry->value), "%s: %s, want %s", entry->key,
                  found ? found : "none", entry->value);
  else
    ck_assert_msg(!found, "%s is not of this run", entry->key);
  return 0;
}

/* Whatever way a number is written in, 1e+05 too. */
START_TEST(the_last_step_comes_back)
{
  static const long steps[] = {99999, 100000, 1200000, 1000000000000};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const char *path = at("long.h5");
    struct recorder *r = create(path);
    snapshot(r, "stopped", steps[i], 1);
    recorder_free(r);
    struct run_file *f = open_in_way(_i, path);
    ck_assert_int_eq(run_last_step(f), steps[i]);
    run_close(f);
  }
}
END_TEST

/* An attribute of /parameters, as other programs read it. */
static void read_parameter(h5_id group, const char *name, hid_t type, void *out)
{
  hid_t a = H5Aopen(group, name, H5P_DEFAULT);
  ck_assert(a >= 0 && H5Aread(a, type, out) >= 0);
  H5Aclose(a);
}

START_TEST(parameters_come_back)
{
  struct error e = {0};
  const char *path = whole_run("parameters.h5", 1);
  struct run_file *f = open_in_way(_i, path);
  struct h5 *h = NULL;
  double lr;
  int64_t steps;
  config_each(config, compare_parameter, f);
  ck_assert_ptr_null(run_parameter(f, "train.lrr"));
  run_close(f);
  const struct train_options *train = config_section(config, "train");
  ck_assert(!h5_load(&h, path, &e));
  h5_id group = h5_find(h, "/parameters");
  read_parameter(group, "train.lr", H5T_NATIVE_DOUBLE, &lr);
  read_parameter(group, "train.steps", H5T_NATIVE_INT64, &steps);
  ck_assert_double_eq(lr, train->lr);
  ck_assert_int_eq(steps, train->steps);
  h5_done(h, group);
  h5_free(h);
}
END_TEST

/* A setting that is a whole number beyond 64 bits is stored as a real number, not cut to the largest integer. */
START_TEST(settings_beyond_integers)
{
  struct error e = {0};
  struct recorder *r = create(at("settings.h5"));
  struct h5 *h = NULL;
  double large = 0;
  int64_t whole = 0;
  recorder_parameter(r, "large", "100000000000000000000", "", "a test");
  recorder_parameter(r, "whole", "9223372036854775807", "", "a test");
  snapshot(r, "finished", 0, 1);
  recorder_free(r);
  ck_assert(!h5_load(&h, at("settings.h5"), &e));
  h5_id group = h5_find(h, "/parameters");
  read_parameter(group, "large", H5T_NATIVE_DOUBLE, &large);
  read_parameter(group, "whole", H5T_NATIVE_INT64, &whole);
  ck_assert_double_eq(large, 1e20);
  ck_assert(whole == INT64_MAX);
  h5_done(h, group);
  h5_free(h);
}
END_TEST

/* What programs that know HDF5 alone rely on: every dataset carries checksums, numbers are little-endian, and
   every dimension of a series names a scale that is attached. */
START_TEST(other_readers_find_their_way)
{
  static const struct {
    const char *path;
    int scales; /* dimensions that have one */
  } known[] = {{"/series/step", 0},
               {"/series/loss", 1},
               {"/series/val_loss", 1},
               {"/series/attn/max_logit", 3},
               {"/series/weight/norm", 2},
               {"/series/thing/of_layer", 2},
               {"/batches/tokens", 3},
               {"/batches/mask", 3},
               {"/timing/seconds", 1},
               {"/series/layer", 0},
               {"/events", 0},
               {"/parameters/table", 0}};
  struct facts f = {0};
  char dimension[256], use[256];
  const char *run = whole_run("readers.h5", 30);
  ck_assert(facts_read(&f, run, NULL));
  facts_sort(&f);
  hid_t file = H5Fopen(run, H5F_ACC_RDONLY, H5P_DEFAULT);
  ck_assert(file >= 0);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *path = known[i].path;
    hid_t data = H5Dopen2(file, path, H5P_DEFAULT), type = H5Dget_type(data),
          made = H5Dget_create_plist(data);
    ck_assert_msg(data >= 0, "%s", path);
    int filters = H5Pget_nfilters(made);
    ck_assert_msg(filters > 0, "%s", path);
    H5Z_filter_t last = H5Pget_filter2(made, (unsigned)filters - 1, NULL, NULL, NULL, 0, NULL, NULL);
    ck_assert_msg(last == H5Z_FILTER_FLETCHER32, "%s", path);
    if (H5Tget_class(type) != H5T_COMPOUND) ck_assert_msg(H5Tget_order(type) == H5T_ORDER_LE, "%s", path);
    for (int dim = 0; dim < known[i].scales; dim++) {
      snprintf(dimension, sizeof dimension, "%s dimension %d", path, dim);
      const struct fact *x = facts_find(&f, dimension);
      const char *scale = x ? strstr((const char *)x->bytes, ": /") : NULL;
      ck_assert_msg(scale && scale > (const char *)x->bytes && !strchr(scale + 2, ' '), "%s", dimension);
      snprintf(use, sizeof use, "%s is a scale of %s, %d", scale + 2, path, dim);
      ck_assert_msg(facts_find(&f, use) != NULL, "%s", use);
      snprintf(use, sizeof use, "%s @CLASS", scale + 2);
      x = facts_find(&f, use);
      ck_assert_msg(x && !strcmp((const char *)x->bytes, "DIMENSION_SCALE"), "%s", use);
    }
    H5Pclose(made);
    H5Tclose(type);
    H5Dclose(data);
  }
  H5Fclose(file);
  facts_free(&f);
}
END_TEST

/* The largest logit of a row, and where: a NaN is larger than any number. */
START_TEST(live_rows_have_the_largest)
{
  static const struct {
    float value[LAYERS * HEADS];
    double largest[3];
  } known[] = {{{1, 2, 5, 4, 3, 2}, {5, 0, 2}},
               {{-4, -2, -3, -1.5F, -7, -9}, {-1.5, 1, 0}},
               {{1, 2, 3, NAN, 9, 0}, {NAN, 1, 0}},
               {{NAN, 2, 3, 4, 9, 0}, {NAN, 0, 0}}};
  enum { KNOWN = sizeof known / sizeof *known };
  struct recorder *r = create(at("largest.h5"));
  struct error e = {0};
  snapshot(r, "running", 0, 0);
  for (long step = 0; step < KNOWN; step++) {
    recorder_put(r, id[1], known[step].value);
    recorder_row(r, AXIS_STEP, step);
  }
  for (int snapshots = 0; snapshots < 2; snapshots++) { /* in the journal, then in the run file */
    struct live_rows live;
    long from;
    ck_assert_msg(!recorder_append(r, 1, &e), "%s", e.text);
    live_begin(&live, at("largest.h5"));
    live_news(&live, &from);
    ck_assert(live.rows == KNOWN && from == 0);
    for (int i = 0; i < KNOWN; i++)
      for (int k = 0; k < 3; k++) {
        double x = live.value[LIVE_MAX_LOGIT + k][i], want = known[i].largest[k];
        ck_assert_msg(isnan(want) ? isnan(x) : x == want, "row %d: %g, not %g", i, x, want);
      }
    live_end(&live);
    snapshot(r, "running", KNOWN, 0);
  }
  recorder_free(r);
}
END_TEST

/* A validation loss that is read after the row of its step changes that row and those behind it. */
START_TEST(live_rows_take_a_late_validation)
{
  struct recorder *r = create(at("late.h5"));
  struct error e = {0};
  struct live_rows live;
  long from;
  snapshot(r, "running", 0, 0);
  live_begin(&live, at("late.h5"));
  for (long step = 0; step < 3; step++) put_row(r, AXIS_STEP, step);
  ck_assert_msg(!recorder_append(r, 1, &e), "%s", e.text);
  live_news(&live, &from);
  ck_assert(live.rows == 3 && from == 0);
  recorder_put_number(r, id[5], 4.5);
  recorder_row(r, AXIS_VAL, 1);
  ck_assert_msg(!recorder_append(r, 1, &e), "%s", e.text);
  live_news(&live, &from);
  ck_assert(live.rows == 3 && from == 1 && isnan(live.value[LIVE_VAL_LOSS][0]));
  for (int i = 1; i < 3; i++) ck_assert_double_eq(live.value[LIVE_VAL_LOSS][i], 4.5);
  live_end(&live);
  recorder_free(r);
}
END_TEST

/* By hand: the sign holds, flips, is zero, is none and begins anew; rows that are not equally far apart. */
START_TEST(persistence_of_a_sign)
{
  enum { ROWS = 8, COLUMNS = 4 };
  static const struct series source = {"update/alignment", PER_TENSOR, AXIS_SPECTRA, "1",
                                       "alignment",        "made up",  EVENT_NONE};
  static const long step[ROWS] = {0, 10, 20, 25, 40, 50, 60, 70};
  static const float given[COLUMNS][ROWS] = {
    {1, 2, 3, 0.5F, 1, 2, 1, 9},      /* never another sign: since the first row */
    {1, -1, -2, 1, 2, 3, -4, 1},      /* since the last row with another */
    {-1, -1, 0, 0, 2, -3, -4, 0},     /* 0 is a sign of its own */
    {1, 1, NAN, NAN, -1, -1, NAN, 1}, /* begins anew */
  };
  static const double want[COLUMNS][ROWS] = {
    {0, 10, 20, 25, 40, 50, 60, 70},
    {0, -10, -20, 5, 20, 30, -10, 10},
    {0, -10, 0, 0, 15, -10, -20, 0},
    {0, 10, NAN, NAN, 0, -10, NAN, 0},
  };
  const char *path = at("signs.h5");
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, config, &facts, &e), "%s", e.text);
  int number = recorder_series(r, &source);
  for (int row = 0; row < ROWS; row++) {
    float values[TENSORS] = {0};
    for (int c = 0; c < COLUMNS; c++) values[c] = given[c][row];
    recorder_put(r, number, values);
    recorder_row(r, AXIS_SPECTRA, step[row]);
  }
  snapshot(r, "finished", 70, 1);
  recorder_free(r);
  struct run_file *f = open_in_way(_i, path);
  struct run_series got;
  int recorded = 0, derived = 0;
  ck_assert_int_eq(run_rows(f, "update/alignment_persistence"), ROWS);
  ck_assert_msg(!run_read_all(f, "update/alignment_persistence", &got, &e), "%s", e.text);
  ck_assert_str_eq(got.name, "update/alignment_persistence");
  ck_assert_str_eq(got.unit, "step");
  ck_assert_int_eq(got.shape, PER_TENSOR);
  ck_assert_int_eq(got.rows, ROWS);
  ck_assert_str_eq(got.labels[1], tensor_names[1]);
  for (int c = 0; c < COLUMNS; c++)
    for (int row = 0; row < ROWS; row++)
      ck_assert_msg(same_number(want[c][row], got.value[row * got.width + c]), "%d, row %d: %g", c, row,
                    got.value[row * got.width + c]);
  run_series_free(&got);
  run_series_names(f, count_name, &recorded); /* what a repetition is checked by */
  run_derived_names(f, count_name, &derived);
  ck_assert_int_eq(recorded, 1);
  ck_assert_int_eq(derived, 1);
  run_close(f);
}
END_TEST

/* In a sum the first row stands for its step alone, every other for those since the row before; a NaN for nothing.
   Rows that keep their sign are those that have one, after one that has. */
START_TEST(what_updates_add_is_summed)
{
  enum { ROWS = 7 };
  static const struct series source = {"drive/gain", PER_HEAD,      AXIS_SPECTRA, "1",
                                       "gain",       "of the test", EVENT_NONE};
  static const long step[ROWS] = {0, 10, 15, 16, 18, 19, 20};
  static const float given[ROWS] = {2, 0.5F, NAN, -3, -1, 0, 4};
  static const double want[ROWS] = {2, 7, 7, 4, 2, 2, 6}, kept[ROWS] = {NAN, 1, NAN, NAN, 1, 0, 0};
  const char *path = at("drive.h5");
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, config, &facts, &e), "%s", e.text);
  int number = recorder_series(r, &source);
  for (int row = 0; row < ROWS; row++) {
    float values[64] = {0};
    values[1] = given[row];
    recorder_put(r, number, values);
    recorder_row(r, AXIS_SPECTRA, step[row]);
  }
  snapshot(r, "finished", 20, 1);
  recorder_free(r);
  struct run_file *f = open_in_way(_i, path);
  struct run_series got;
  ck_assert_msg(!run_read_all(f, "drive/sum", &got, &e), "%s", e.text);
  for (int row = 0; row < ROWS; row++)
    ck_assert(got.value[row * got.width + 1] == want[row] && got.value[row * got.width] == 0);
  run_series_free(&got);
  ck_assert_msg(!run_read_all(f, "drive/sign_kept", &got, &e), "%s", e.text);
  for (int row = 0; row < ROWS; row++) {
    ck_assert(same_number(kept[row], got.value[row * got.width + 1]));
    ck_assert_int_eq(is_missing(got.value[row * got.width + 1]), isnan(kept[row]));
    ck_assert(row == 0 || got.value[row * got.width] == 1); /* zeros */
  }
  run_series_free(&got);
  run_close(f);
}
END_TEST

/* From the first row on, whatever its kind. */
START_TEST(what_is_not_put_is_nan)
{
  static const struct series pair[] = {
    {"loss", PER_STEP, AXIS_STEP, "nat", "loss", "of the test", EVENT_NONE},
    {"attn/max_logit", PER_HEAD, AXIS_STEP, "nat", "logit", "of the test", EVENT_NONE}};
  const char *path = at("unput.h5");
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_msg(!recorder_create(&r, path, 1, config, &facts, &e), "%s", e.text);
  int loss = recorder_series(r, &pair[0]);
  recorder_series(r, &pair[1]);
  for (int row = 0; row < 3; row++) {
    if (row == 1) recorder_put_number(r, loss, 7);
    recorder_row(r, AXIS_STEP, row);
  }
  snapshot(r, "finished", 3, 1);
  recorder_free(r);
  struct run_file *f = open_in_way(_i, path);
  for (int s = 0; s < 2; s++) {
    struct run_series got;
    ck_assert_msg(!run_read_all(f, pair[s].name, &got, &e), "%s", e.text);
    ck_assert_int_eq(got.rows, 3);
    for (long k = 0; k < got.rows * got.width; k++)
      ck_assert(s == 0 && k == 1 ? got.value[k] == 7 : isnan(got.value[k]));
    run_series_free(&got);
  }
  run_close(f);
}
END_TEST

/* --- a run that blew up --------------------------------------------------------------------------------- */

/* `rows` losses: `first` at step 0, then `middle`, and `end` from step `from` on. */
static int blew(double first, double middle, double end, long from, long rows, double vocab)
{
  double step[1000], loss[1000];
  ck_assert(rows <= 1000);
  for (long i = 0; i < rows; i++) step[i] = (double)i, loss[i] = !i ? first : i < from ? middle : end;
  return losses_blew_up(step, loss, rows, vocab);
}

START_TEST(what_blew_up)
{
  /* Muon at a rate of 3, and of 1000, on a text of 83 symbols: a uniform guess costs 4.42 */
  ck_assert_double_eq_tol(log(83), 4.42, 0.002);
  ck_assert(blew(4.9, 6, 257, 540, 600, 83) && blew(4.9, 6, 18e6, 540, 600, 83) &&
            blew(4.9, 6, 257, 540, 600, NAN));
  /* healthy runs, one that does not learn, and one that has not yet: above ln 64 = 4.16 all the time */
  ck_assert(!blew(4.66, 2, 1.66, 540, 600, 64) && !blew(4.656, 4.695, 4.7077, 90, 100, 64) &&
            !blew(4.66, 4.4, 4.19, 6, 12, 64) && !blew(9, 7, 5, 90, 100, 64));
  /* a tenth above the first loss; the same below ln V, of a run that started from another one */
  ck_assert(blew(4, 3, 4.41, 90, 100, NAN) && !blew(4, 3, 4.39, 90, 100, NAN) &&
            blew(1.7, 1.6, 1.9, 90, 100, 64));
  ck_assert(!blew(-4, -5, -3.59, 90, 100, NAN) &&
            !blew(0, 0.01, 0.04, 90, 100, NAN)); /* no cross entropies */
  /* a tenth above ln V = 4 once it was below it */
  const double vocab = exp(4);
  ck_assert(blew(6, 3.9, 4.41, 90, 100, vocab) && !blew(6, 3.9, 4.39, 90, 100, vocab) &&
            !blew(6, 4.1, 4.41, 90, 100, vocab) && !blew(6, 3.9, 4.41, 90, 100, NAN));
  /* the last tenth alone counts, all of it; of a short run the last row */
  ck_assert(!blew(4, 300, 2, 90, 100, 64) && blew(4, 2, 40, 95, 100, 64) && !blew(4, 2, 20, 99, 100, 64));
  ck_assert(blew(4, 2, 40, 3, 4, 64) && !blew(4, 40, 2, 3, 4, 64) && !blew(4, 0, 0, 1, 1, 64));
  ck_assert(blew(4, 3, 5, 10, 11, NAN)); /* a tenth of 11 steps is the last one alone */
  /* a run with a value that is not finite diverged; a missing value does not count */
  ck_assert(!blew(4, 3, NAN, 90, 100, 64) && !blew(4, 3, INFINITY, 99, 100, 64) &&
            !blew(NAN, 3, 40, 90, 100, 64));
  ck_assert(blew(4, NAN, 40, 90, 100, 64) && !blew(4, 3, missing_value(), 90, 100, 64));
  const double step[] = {0, 50, 95, 99}, thin[] = {4, 3, 3, 40}, more[] = {4, 3, 3, 4.6};
  ck_assert(losses_blew_up(step, thin, 4, NAN) && !losses_blew_up(step, more, 4, NAN));
  const double lacking[] = {4, 3, 40, missing_value()}; /* a row of the last tenth without a loss */
  ck_assert(losses_blew_up(step, lacking, 4, NAN));
}
END_TEST

/* Only of a run that is at its end. */
START_TEST(which_runs_blew_up)
{
  static const struct {
    const char *state;
    long steps;
    double end;
    int blew_up;
  } known[] = {{"finished", 10, 257, 1}, {"finished", 10, 3, 0},  {"stopped", 10, 257, 1},
               {"stopped", 11, 257, 0},  {"running", 10, 257, 0}, {"diverged", 10, 257, 0},
               {"finished", 10, NAN, 0}};
  const char *path = at("blown.h5");
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct config *c = configuration("train.steps=%ld", known[k].steps);
    struct recorder *r;
    struct run_file *file;
    struct error e = {0};
    static const struct series loss = {"loss",          PER_STEP,  AXIS_STEP, "nat",
                                       "training loss", "made up", EVENT_NONE};
    ck_assert_msg(!recorder_create(&r, path, 1, c, &facts, &e), "%s", e.text);
    int of_loss = recorder_series(r, &loss);
    for (long i = 0; i < 10; i++) {
      recorder_put_number(r, of_loss, i < 9 ? 4.66 : known[k].end);
      recorder_row(r, AXIS_STEP, i);
    }
    ck_assert_msg(!recorder_snapshot(r, known[k].state, 10, 1, 1, &e), "%s", e.text);
    ck_assert_msg(!run_peek(&file, path, &e), "%s", e.text);
    const int goes_on = !strcmp(known[k].state, "running");
    const char *state = known[k].blew_up ? "blown-up" : known[k].state;
    ck_assert_str_eq(run_shown_state(file), state);
    recorder_free(r);
    config_free(c);
    ck_assert_int_eq(run_blew_up(file), known[k].blew_up);
    ck_assert_int_eq(run_blew_up(file), known[k].blew_up);
    ck_assert_str_eq(run_shown_state(file), goes_on ? "killed" : state);
    run_close(file);
  }
}
END_TEST

START_TEST(unknown_series_is_named)
{
  struct run_file *f = NULL;
  struct run_series s;
  struct error e = {0};
  ck_assert(!run_open(&f, whole_run("unknown.h5", 3), &e));
  ck_assert_int_eq(run_read_all(f, "attn/max_logits", &s, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "did you mean attn/max_logit?") != NULL, "%s", e.text);
  ck_assert_int_eq(run_rows(f, "update/alignment_persistence"), 0); /* its source is not there */
  ck_assert_int_eq(run_read_all(f, "update/alignment_persistence", &s, &e), STATUS_USAGE);
  run_close(f);
}
END_TEST

/* --- interruptions ------------------------------------------------------------------------------------- */

/* Of the last checkpoint, and of the one before it: their steps. */
struct saved {
  long step[2];
};

/* What is done before a checkpoint is written, or what does for rows that outlive the process. */
static void save(struct saved *s, struct recorder *r, long step)
{
  struct error e = {0};
  ck_assert_msg(!(step % 2 ? recorder_append(r, 1, &e) : recorder_keep(r, step, 1.5, 0, &e)), "%s", e.text);
  *s = (struct saved){{step, s->step[0]}};
}

static struct recorder *resume(const char *path, const struct saved *s)
{
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_msg(!recorder_resume(&r, path, config, &facts, s->step[0], &e), "%s", e.text);
  declare(r);
  return r;
}

/* A reader of a run that is written: its rows are those of one that begins now, and those before the first new one
   have stayed. */
struct tap {
  struct live_rows live;
  double *seen[LIVE_FIELDS];
  long rows;
};

static void watch(struct tap *w)
{
  struct live_rows now;
  long from;
  live_news(&w->live, &from);
  live_begin(&now, w->live.path);
  ck_assert(from <= w->rows && from <= w->live.rows);
  live_news(&now, &(long){0});
  ck_assert_int_eq(now.rows, w->live.rows);
  for (int f = 0; f < LIVE_FIELDS; f++) {
    if (now.rows) ck_assert_mem_eq(now.value[f], w->live.value[f], (size_t)now.rows * sizeof(double));
    if (from) ck_assert_mem_eq(w->seen[f], w->live.value[f], (size_t)from * sizeof(double));
    w->seen[f] = memory_grow(w->seen[f], 0, (size_t)now.rows + 1, sizeof(double));
    if (now.rows) memcpy(w->seen[f], now.value[f], (size_t)now.rows * sizeof(double));
  }
  w->rows = now.rows;
  live_end(&now);
}

/* Snapshots and checkpoints at any steps, death at any later one, resume from either of the last two checkpoints: the
   record is that of the run in one go, and who reads it meanwhile has its rows. */
START_TEST(any_interruption_gives_the_same_record)
{
  enum { STEPS = 40 };
  long trials = amount(40, 2000);
  char want[256];
  snprintf(want, sizeof want, "%s", whole_run("want.h5", STEPS));
  char path[256], journal[256];
  snprintf(path, sizeof path, "%s/cut.h5", folder);
  snprintf(journal, sizeof journal, "%s/cut.journal", folder);
  for (long trial = 0; trial < trials; trial++) {
    struct draw d = {(uint64_t)trial, STREAM_TEST, 0};
    uint64_t n = 0;
    struct saved saved = {0};
    struct recorder *r = create(path);
    struct tap w = {.rows = 0};
    snapshot(r, "running", 0, 0);
    live_begin(&w.live, path);
    for (long step = 0; step < STEPS;) {
      long to = step + 1 + (long)draw_below(d, n++, 6);
      play(r, step, to < STEPS ? to : STEPS);
      step = to < STEPS ? to : STEPS;
      if (draw_below(d, n++, 3) == 0) snapshot(r, "running", step, (int)draw_below(d, n++, 2));
      if (draw_below(d, n++, 2) == 0) save(&saved, r, step);
      if (draw_below(d, n++, 2) == 0) watch(&w);
      if (draw_below(d, n++, 3) == 0 && step < STEPS) {
        recorder_event(r, step, "lost", -1, -1, 0);
        recorder_free(r); /* death: whatever was in memory is gone */
        if (draw_below(d, n++, 3) == 0) saved.step[0] = saved.step[1]; /* the newest checkpoint was damaged */
        r = resume(path, &saved);
        step = saved.step[0];
        recorder_event(r, step, "resume", -1, -1, NAN);
        snapshot(r, "running", step, 0);
      }
    }
    ck_assert(access(journal, F_OK) == 0);
    snapshot(r, "finished", STEPS, 1);
    ck_assert(access(journal, F_OK) != 0);
    watch(&w);
    ck_assert_int_eq(w.rows, STEPS);
    live_end(&w.live);
    for (int f = 0; f < LIVE_FIELDS; f++) memory_free(w.seen[f]);
    recorder_free(r);
    int datasets;
    ck_assert_msg(!same_run(want, path, 0, &datasets, stderr), "trial %ld", trial);
    ck_assert_int_ge(datasets, SERIES + 7);
  }
}
END_TEST

/* A comparison that finds nothing proves nothing unless it can find something. */
START_TEST(same_run_sees_a_difference)
{
  const char *a = whole_run("a.h5", 20), *b = whole_run("b.h5", 21), *c = at("c.h5");
  struct recorder *r = create(c);
  play(r, 0, 19);
  recorder_put_number(r, id[0], 1.0);
  recorder_row(r, AXIS_STEP, 19);
  snapshot(r, "finished", 20, 1);
  recorder_free(r);
  ck_assert_int_eq(same_run(a, a, 0, NULL, NULL), 0);
  ck_assert_int_gt(same_run(a, b, 0, NULL, NULL), 0);
  ck_assert_int_gt(same_run(a, c, 0, NULL, NULL), 0);
}
END_TEST

/* An older copy of the run file, or of the journal: rows 5 to 9 are nowhere. A journal that is damaged behind the rows
   of the checkpoint is no harm. */
START_TEST(missing_rows_are_refused)
{
  char path[256];
  struct error e = {0};
  char *journal = NULL;
  size_t length;
  snprintf(path, sizeof path, "%s/other.h5", folder);
  struct recorder *r = create(path);
  play(r, 0, 5);
  snapshot(r, "running", 5, 0);
  recorder_free(r);
  ck_assert_int_eq(recorder_resume(&r, path, config, &facts, 10, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "other.h5: rows of 5 of the 10 steps") && strstr(e.text, "other.journal"),
                "%s", e.text);
  r = create(path);
  play(r, 0, 5);
  snapshot(r, "running", 5, 0);
  for (long step = 5; step < 8; step++) {
    play(r, step, step + 1);
    ck_assert(!recorder_append(r, 1, &e));
  }
  recorder_free(r);
  ck_assert(!file_read(at("other.journal"), &journal, &length, &e));
  for (size_t back = 0; back < 2; back++) { /* in the last piece; in the one before it */
    journal[length - (back ? length / 6 : 1)] ^= 1;
    write_text(at("other.journal"), journal, length);
    e = (struct error){0};
    ck_assert_msg(!recorder_resume(&r, path, config, &facts, 6, &e), "%s", e.text);
    recorder_free(r);
    ck_assert_int_eq(recorder_resume(&r, path, config, &facts, 8, &e), STATUS_FAIL);
  }
  memory_free(journal);
}
END_TEST

/* An accepted edit adds no event to a run that has a journal, whose rows of events have their numbers. */
START_TEST(accepted_edit_keeps_the_journal)
{
  static const long want[] = {1, 5, 9};
  char path[256], *bytes = NULL;
  size_t size;
  struct error e = {0};
  struct run_file *f = NULL;
  struct run_event *event = NULL;
  long count;
  snprintf(path, sizeof path, "%s/edit.h5", folder);
  struct recorder *r = create(path);
  play(r, 0, 4);
  snapshot(r, "running", 4, 0);
  play(r, 4, 10);
  ck_assert_msg(!recorder_append(r, 1, &e), "%s", e.text);
  recorder_free(r);
  ck_assert(!file_read(path, &bytes, &size, &e));
  write_text(path, bytes, size - SEAL_BYTES);
  memory_free(bytes);
  ck_assert_msg(!note_accept(path, "a test", &e), "%s", e.text);
  ck_assert_msg(!recorder_resume(&r, path, config, &facts, 10, &e), "%s", e.text);
  declare(r);
  snapshot(r, "finished", 10, 1);
  recorder_free(r);
  ck_assert_msg(!run_open(&f, path, &e) && !run_events(f, &event, &count, &e), "%s", e.text);
  ck_assert_int_eq(count, 3);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(event[i].step, want[i]);
  memory_free(event);
  run_close(f);
}
END_TEST

/* While it is read, a journal becomes another one, which is shorter, as long, or longer; or the same first line has
   fewer rows behind it. */
START_TEST(another_journal_is_noticed)
{
  static const long steps[] = {12, 20, 28};
  char path[256];
  static const char *const names[] = {"swap-0.journal", "swap-1.journal", "swap-2.journal"};
  struct error e = {0};
  struct live_rows live;
  char *text[4];
  size_t length[4];
  long from;
  snprintf(path, sizeof path, "%s/swap.h5", folder);
  struct recorder *r = create(path);
  snapshot(r, "running", 0, 0);
  ck_assert(!file_copy(path, at("swap-run"), &e));
  for (int i = 0; i < 3; i++) { /* of the same run file: other losses */
    snapshot(r, "running", 0, 0);
    for (long step = 0; step < steps[i]; step++) {
      recorder_put_number(r, id[0], (double)(100 * i + step));
      recorder_row(r, AXIS_STEP, step);
      ck_assert(!recorder_append(r, 1, &e));
    }
    ck_assert(!file_copy(at("swap.journal"), at(names[i]), &e));
    ck_assert(!file_read(at(names[i]), &text[i], &length[i], &e));
    recorder_free(r);
    r = NULL;
    ck_assert(!file_copy(at("swap-run"), path, &e) && !recorder_resume(&r, path, config, &facts, 0, &e));
    declare(r);
  }
  text[3] = memory_new(length[2],
                       1); /* the first line of the one that is read, and the pieces of another run of it */
  memcpy(text[3], text[2], length[3] = length[1]);
  for (int i = 0; i < 4; i++) {
    ck_assert(!file_copy(at("swap-run"), path, &e));
    write_text(at("swap.journal"), text[i == 3 ? 2 : 1], i == 3 ? length[2] : length[1]);
    live_begin(&live, path);
    live_news(&live, &from);
    ck_assert(from == 0 && live.rows == (i == 3 ? 28 : 20));
    live_news(&live, &from);
    ck_assert(from == live.rows);
    write_text(at("swap.journal"), text[i], length[i]);
    live_news(&live, &from);
    if (i == 1 || i == 3) { /* the same; a part of it */
      ck_assert(from == live.rows && live.rows == 20);
    } else {
      ck_assert(from == 0 && live.rows == steps[i] && live.value[LIVE_LOSS][3] == 100 * i + 3);
    }
    live_end(&live);
  }
  for (int i = 0; i < 4; i++) memory_free(text[i]);
  recorder_free(r);
}
END_TEST

/* --- one writer, no surprises -------------------------------------------------------------------------- */

START_TEST(second_writer_is_refused)
{
  const char *path = at("lock.h5");
  struct recorder *r = create(path), *other = NULL;
  struct error e = {0};
  snapshot(r, "running", 0, 0);
  ck_assert_int_eq(recorder_create(&other, path, 1, config, &facts, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "lock") != NULL, "%s", e.text);
  ck_assert_int_eq(recorder_resume(&other, path, config, &facts, 0, &e), STATUS_FAIL);
  recorder_free(r);
  r = create(path);
  recorder_free(r);
  ck_assert_int_ne(access(at("lock.lock"), F_OK), 0);
}
END_TEST

START_TEST(existing_run_is_kept)
{
  const char *path = whole_run("kept.h5", 5);
  char copy[256];
  struct recorder *r = NULL;
  struct error e = {0};
  ck_assert_int_eq(recorder_create(&r, path, 0, config, &facts, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "maxlogit resume") && strstr(e.text, "record.overwrite=1"), "%s", e.text);
  snprintf(copy, sizeof copy, "%s", whole_run("kept2.h5", 5));
  ck_assert_int_eq(same_run(path, copy, 0, NULL, stderr), 0);
  r = create(path); /* overwriting keeps the old file until the first snapshot */
  ck_assert_int_eq(same_run(path, copy, 0, NULL, stderr), 0);
  recorder_free(r);
}
END_TEST

START_TEST(folder_that_cannot_be_written)
{
  struct recorder *r = NULL;
  struct error e = {0};
  whole_run("file.h5", 1);
  ck_assert_int_eq(recorder_create(&r, at("file.h5/x.h5"), 0, config, &facts, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "file.h5") != NULL, "%s", e.text);
  e.status = 0;
  ck_assert_int_eq(recorder_create(&r, "/proc/maxlogit/x.h5", 0, config, &facts, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "/proc/maxlogit") != NULL, "%s", e.text);
}
END_TEST

static struct checkpoint make_checkpoint(long step)
{
  enum { ROWS = 37, COLS = 11 };
  struct checkpoint c = {.step = step, .id = "0123456789ab", .count = 3, .wall = 2.5, .core = "Haswell"};
  static const char *const names[] = {"params/blocks.0.attn.w_q", "params/norm",
                                      "state/muon.m/blocks.0.attn.w_q"};
  c.config_text = memory_text("[train]\nsteps = 3\n");
  c.tensors = memory_new(3, sizeof *c.tensors);
  for (int i = 0; i < 3; i++) {
    struct checkpoint_tensor *t = &c.tensors[i];
    snprintf(t->name, sizeof t->name, "%s", names[i]);
    t->rows = i == 1 ? 1 : ROWS;
    t->cols = COLS;
    uint32_t *word = memory_new((size_t)(t->rows * t->cols), sizeof(real));
    for (size_t k = 0; k < (size_t)(t->rows * t->cols) * sizeof(real) / 4; k++)
      word[k] = bits(i, step, (long)k);
    t->data = word;
  }
  return c;
}

/* A private file is changed; while that lasts, a file that everybody may read is put in its place. */
START_TEST(a_changed_file_has_the_rights_of_the_file_that_was_read)
{
  struct error e = {0};
  struct stat now;
  char path[4096];
  snprintf(path, sizeof path, "%s", at("private.h5"));
  struct h5 *h = h5_new();
  ck_assert(!h5_save(h, path, NULL, &e) && !chmod(path, 0600));
  struct lock *lock = lock_take(at("private.lock"), &e);
  ck_assert(lock && !h5_change(&h, path, 0, lock, &e));
  write_text(at("open.h5"), "open", 4);
  ck_assert(!chmod(at("open.h5"), 0666) && !rename(at("open.h5"), path));
  ck_assert_msg(!h5_save(h, path, lock, &e), "%s", e.text);
  lock_release(lock, at("private.lock"));
  ck_assert(!stat(path, &now));
  ck_assert_int_eq(now.st_mode & 0777, 0600);
}
END_TEST

/* Steps of a checkpoint that cannot be: another than its name says, and a peak that is still to come. */
START_TEST(checkpoint_of_another_step)
{
  struct error e = {0};
  struct checkpoint c = make_checkpoint(3), got;
  char path[4096], other[4096];
  checkpoint_path(path, at("steps.h5"), 3);
  checkpoint_path(other, at("steps.h5"), 9);
  ck_assert(!checkpoint_write(at("steps.h5"), &c, 2, &e) && !rename(path, other));
  ck_assert_int_eq(checkpoint_latest(at("steps.h5"), &got, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "step-00000009.h5 is the checkpoint of step 3") != NULL, "%s", e.text);
  e = (struct error){0};
  c.peak_step = 4;
  ck_assert(!checkpoint_write(at("steps.h5"), &c, 2, &e));
  ck_assert_int_eq(checkpoint_read(path, &got, &e), STATUS_FAIL);
  ck_assert_msg(strstr(e.text, "lacks a part") != NULL, "%s", e.text);
  checkpoint_free(&c);
}
END_TEST

START_TEST(what_is_not_a_run_file)
{
  struct run_file *f = NULL;
  struct error e = {0};
  struct checkpoint c = make_checkpoint(3);
  char path[4096];
  write_text(at("text.h5"), "step,loss\n1,2\n", 14);
  write_text(at("empty.h5"), "", 0);
  struct h5 *h = h5_new();
  h5_done(h, h5_group(h, "/something"));
  ck_assert(!h5_save(h, at("foreign.h5"), NULL, &e));
  ck_assert(!checkpoint_write(at("x.h5"), &c, 2, &e));
  checkpoint_path(path, at("x.h5"), 3);
  struct h5 *future = h5_new();
  h5_id root = h5_group(future, "/");
  h5_put_text(future, root, "format", "maxlogit run");
  h5_put_int(future, root, "format_version", 99);
  h5_done(future, root);
  ck_assert(!h5_save(future, at("future.h5"), NULL, &e));
  const struct {
    const char *path, *says;
  } bad[] = {{at("text.h5"), "not an HDF5 file"}, {at("empty.h5"), "not an HDF5 file"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    e.status = 0;
    ck_assert_int_eq(run_open(&f, bad[i].path, &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, bad[i].says) && strstr(e.text, bad[i].path), "%s", e.text);
  }
  const struct {
    const char *path, *says;
  } more[] = {{at("foreign.h5"), "not a run file"},
              {path, "is a checkpoint"},
              {at("future.h5"), "version 99"},
              {folder, folder}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    e.status = 0;
    ck_assert_int_eq(run_open(&f, more[i].path, &e), STATUS_USAGE);
    ck_assert_msg(strstr(e.text, more[i].says) != NULL, "%s", e.text);
  }
  e.status = 0;
  ck_assert_int_eq(run_open(&f, at("nothing.h5"), &e), STATUS_USAGE);
  struct h5 *bare = h5_new(); /* as an older writer might leave it */
  root = h5_group(bare, "/");
  h5_put_text(bare, root, "format", "maxlogit run");
  h5_put_int(bare, root, "format_version", 1);
  h5_done(bare, root);
  e.status = 0;
  ck_assert_msg(!h5_save(bare, at("bare.h5"), NULL, &e) && !run_open(&f, at("bare.h5"), &e), "%s", e.text);
  ck_assert(isnan(run_loss_floor(f)));
  run_close(f);
  checkpoint_free(&c);
}
END_TEST

/* --- checkpoints --------------------------------------------------------------------------------------- */

static void compare_checkpoints(const struct checkpoint *a, const struct checkpoint *b)
{
  ck_assert_int_eq(a->step, b->step);
  ck_assert_str_eq(a->id, b->id);
  ck_assert_str_eq(a->core, b->core);
  ck_assert_double_eq(a->wall, b->wall);
  ck_assert_str_eq(a->config_text, b->config_text);
  ck_assert_int_eq(a->count, b->count);
  for (int i = 0; i < a->count; i++) {
    const struct checkpoint_tensor *x = &a->tensors[i], *y = &b->tensors[i];
    ck_assert_str_eq(x->name, y->name);
    ck_assert(x->rows == y->rows && x->cols == y->cols);
    ck_assert_mem_eq(x->data, y->data, (size_t)(x->rows * x->cols) * sizeof(real));
  }
}

START_TEST(checkpoint_comes_back)
{
  const char *run = at("back-ckpt.h5");
  char path[4096];
  struct error e = {0};
  struct checkpoint c = make_checkpoint(12), got;
  ck_assert_msg(!checkpoint_write(run, &c, 2, &e), "%s", e.text);
  checkpoint_path(path, run, 12);
  ck_assert(strstr(path, "back-ckpt.ckpt/step-00000012.h5"));
  ck_assert_msg(!checkpoint_read(path, &got, &e), "%s", e.text);
  compare_checkpoints(&c, &got);
  checkpoint_free(&got);
  checkpoint_free(&c);
}
END_TEST

static int is_there(const char *run, long step)
{
  char path[4096];
  checkpoint_path(path, run, step);
  return !access(path, F_OK);
}

static int tries;

static int count_tries(const char *line)
{
  tries += strstr(line, "trying the one before") != NULL;
  return 0;
}

START_TEST(two_generations_are_kept)
{
  const char *run = at("two.h5"), *all = at("all.h5");
  struct error e = {0};
  struct checkpoint got;
  ck_assert_int_eq(checkpoint_latest(run, &got, &e), STATUS_USAGE);
  e.status = 0;
  for (long step = 0; step < 5; step++) {
    struct checkpoint c = make_checkpoint(step);
    ck_assert(!checkpoint_write(run, &c, 2, &e) && !checkpoint_write(all, &c, 0, &e));
    checkpoint_free(&c);
    ck_assert(is_there(run, step) && is_there(all, step) && is_there(all, 0));
    ck_assert(step == 0 || is_there(run, step - 1));
    ck_assert(step < 2 || !is_there(run, step - 2));
  }
  char path[4096];
  checkpoint_path(path, run, 4);
  write_text(path, "broken", 6);
  ck_assert(!checkpoint_latest(run, &got, &e));
  ck_assert_int_eq(got.step, 3);
  checkpoint_free(&got);
  checkpoint_path(path, run, 3);
  ck_assert(!truncate(path, 1000));
  messages_to(count_tries);
  ck_assert_int_eq(checkpoint_latest(run, &got, &e), STATUS_FAIL);
  messages_to(NULL);
  ck_assert_int_eq(tries, 1); /* none is before the older of the two */
  ck_assert_msg(strstr(e.text, "step-0000000") && strstr(e.text, "no checkpoint of"), "%s", e.text);
  ck_assert(!checkpoint_remove_all(all, &e) && !is_there(all, 4));
}
END_TEST

/* What only looks like a checkpoint is none; one of a later format, or without a part, is refused. */
START_TEST(odd_checkpoints)
{
  const char *run = at("odd.h5");
  struct error e = {0};
  struct checkpoint c = make_checkpoint(3), got;
  char path[4096], odd[4200];
  ck_assert(!checkpoint_write(run, &c, 0, &e));
  checkpoint_path(path, run, 9);
  static const char *const suffixes[] = {".tmp", "x", ".h5"};
  for (int i = 0; i < 3; i++) {
    snprintf(odd, sizeof odd, "%s%s", path, suffixes[i]);
    write_text(odd, "half", 4);
  }
  ck_assert_msg(!checkpoint_latest(run, &got, &e), "%s", e.text);
  ck_assert_int_eq(got.step, 3);
  checkpoint_free(&got);
  static const struct {
    int version, status;
    const char *says;
  } bad[] = {{CHECKPOINT_VERSION, STATUS_FAIL, "lacks a part"},
             {99, STATUS_USAGE, "version 99"},
             {CHECKPOINT_WITH_ROWS, STATUS_FAIL, "lacks a part"},
             {CHECKPOINT_WITH_ROWS - 1, STATUS_USAGE, "maxlogit reads"}};
  for (int i = 0; i < 4; i++) {
    struct h5 *h = h5_new();
    h5_id root = h5_group(h, "/");
    h5_put_text(h, root, "format", "maxlogit checkpoint");
    h5_put_int(h, root, "format_version", bad[i].version);
    h5_put_int(h, root, "step", 9);
    h5_done(h, root);
    ck_assert(!h5_save(h, path, NULL, &e));
    ck_assert_int_eq(checkpoint_read(path, &got, &e), bad[i].status);
    ck_assert_msg(strstr(e.text, bad[i].says), "%s", e.text);
    e.status = 0;
  }
  checkpoint_free(&c);
}
END_TEST

/* --- damage: reported or harmless, never silently wrong, never a crash --------------------------------- */

struct damage {
  long reported, harmless, wrong;
};

/* Everything the program reads of a run file equals that of the whole one? 1, 0; -1: it reported damage. */
static int run_is_right(const char *path, const char *whole)
{
  struct run_file *f = NULL;
  struct error e = {0};
  if (run_open(&f, path, &e)) {
    ck_assert_msg(e.status == STATUS_FAIL || e.status == STATUS_USAGE, "%s", e.text);
    ck_assert_msg(strstr(e.text, path) != NULL, "%s", e.text);
    return -1;
  }
  int ok = run_last_step(f) == 50 && !strcmp(run_state(f), "finished") && run_parameter(f, "train.lr") &&
           !same_run(path, whole, 0, NULL, NULL);
  run_close(f);
  return ok;
}

static int checkpoint_is_right(const char *path, const char *whole)
{
  struct checkpoint a, b;
  struct error e = {0};
  if (checkpoint_read(path, &a, &e)) {
    ck_assert_msg(strstr(e.text, path) != NULL, "%s", e.text);
    return -1;
  }
  ck_assert(!checkpoint_read(whole, &b, &e));
  compare_checkpoints(&a, &b);
  checkpoint_free(&a);
  checkpoint_free(&b);
  return 1;
}

static void judge(int verdict, struct damage *d)
{
  if (verdict < 0)
    d->reported++;
  else if (verdict)
    d->harmless++;
  else
    d->wrong++;
}

static void damage_all(const char *whole, const char *what, int (*is_right)(const char *, const char *))
{
  struct damage flips = {0}, cuts = {0}, splices = {0};
  struct error e = {0};
  const char *seed = getenv("MAXLOGIT_TEST_SEED");
  struct draw d = {seed ? (uint64_t)atoll(seed) : 1, STREAM_TEST, 0};
  char *bytes = NULL, damaged[256];
  size_t size;
  snprintf(damaged, sizeof damaged, "%s", at("damage.h5"));
  ck_assert(!file_read(whole, &bytes, &size, &e));
  ck_assert_int_eq(is_right(whole, whole), 1);
  long trials = amount(500, 20000);
  for (long i = 0; i < trials; i++) {
    size_t bit = draw_below(d, (uint64_t)i, 8 * size);
    bytes[bit / 8] ^= (char)(1 << bit % 8);
    write_text(damaged, bytes, size);
    judge(is_right(damaged, whole), &flips);
    bytes[bit / 8] ^= (char)(1 << bit % 8);
  }
  for (size_t length = 0; length < size; length += 512) {
    write_text(damaged, bytes, length);
    judge(is_right(damaged, whole), &cuts);
  }
  for (size_t length = size - 70; length < size; length++) { /* around the seal */
    write_text(damaged, bytes, length);
    judge(is_right(damaged, whole), &cuts);
  }
  char *other = memory_new(size, 1); /* the second half is that of an older version of the file */
  for (size_t length = 512; length < size; length += size / 16) {
    memcpy(other, bytes, size);
    memset(other + length, 0, size - length < 4096 ? size - length : 4096);
    if (!memcmp(other, bytes, size)) continue;
    write_text(damaged, other, size);
    judge(is_right(damaged, whole), &splices);
  }
  printf("%s: %ld flips: %ld reported, %ld harmless, %ld silently wrong; %ld cuts: %ld, %ld, %ld; %ld holes: "
         "%ld, %ld, "
         "%ld\n",
         what, trials, flips.reported, flips.harmless, flips.wrong,
         cuts.reported + cuts.harmless + cuts.wrong, cuts.reported, cuts.harmless, cuts.wrong,
         splices.reported + splices.harmless + splices.wrong, splices.reported, splices.harmless,
         splices.wrong);
  ck_assert_int_eq(flips.wrong + cuts.wrong + splices.wrong, 0);
  memory_free(other);
  memory_free(bytes);
}

/* A file that HDF5 would read, but whose bytes nobody vouches for: changed by another program, say. */
START_TEST(unsealed_file_is_refused)
{
  const char *whole = whole_run("sealed.h5", 3), *bare = at("bare.h5");
  struct error e = {0};
  struct run_file *f = NULL;
  char *bytes = NULL, *seal;
  size_t size;
  ck_assert(!file_read(whole, &bytes, &size, &e));
  seal = bytes + size - 100;
  while (seal < bytes + size && strncmp(seal, "maxlogit seal", 13)) seal++;
  ck_assert(seal < bytes + size);
  write_text(bare, bytes, (size_t)(seal - bytes));
  ck_assert_int_eq(run_open(&f, bare, &e), STATUS_USAGE);
  ck_assert_msg(strstr(e.text, "bare.h5") && strstr(e.text, "the checksum at its end is missing"), "%s",
                e.text);
  memory_free(bytes);
}
END_TEST

START_TEST(damaged_run_file_is_reported) { damage_all(whole_run("whole.h5", 50), "run file", run_is_right); }
END_TEST

START_TEST(damaged_checkpoint_is_reported)
{
  char path[4096];
  struct error e = {0};
  struct checkpoint c = make_checkpoint(7);
  ck_assert(!checkpoint_write(at("hurt.h5"), &c, 2, &e));
  checkpoint_path(path, at("hurt.h5"), 7);
  damage_all(path, "checkpoint", checkpoint_is_right);
  checkpoint_free(&c);
}
END_TEST

/* --- a full disk --------------------------------------------------------------------------------------- */

/* In a child: files may not grow beyond a share of the run file's size. Exit 0 when all went as it should. */
static void write_under_limit(const char *path, double share)
{
  rlim_t limit;
  struct recorder *r = NULL;
  struct error e = {0};
  struct checkpoint c = make_checkpoint(1);
  signal(SIGXFSZ, SIG_IGN);
  if (recorder_create(&r, path, 1, config, &facts, &e)) _exit(1);
  declare(r);
  play(r, 0, 200);
  struct stat now;
  if (recorder_snapshot(r, "running", 100, 0, 0, &e) || stat(path, &now)) _exit(2);
  limit = (rlim_t)((double)now.st_size * share);
  if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit})) _exit(2);
  put_row(r, AXIS_STEP, 100);
  if (recorder_snapshot(r, "running", 101, 0, 0, &e) != STATUS_FAIL || !strstr(e.text, "full.h5")) _exit(3);
  e.status = 0;
  if (limit < 4096 &&
      (checkpoint_write(path, &c, 2, &e) != STATUS_FAIL || !strstr(e.text, "step-00000001.h5")))
    _exit(4);
  _exit(0);
}

START_TEST(full_disk_keeps_the_old_file)
{
  static const double shares[] = {0.999, 0.5, 0.01};
  const char *path = at("full.h5");
  struct run_file *f = NULL;
  struct error e = {0};
  int status;
  pid_t child = fork();
  if (!child) write_under_limit(path, shares[_i]);
  ck_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  ck_assert_msg(!run_open(&f, path, &e), "%s", e.text);
  ck_assert_int_eq(run_last_step(f), 100);
  run_close(f);
  ck_assert_int_ne(access(at("full.h5.tmp"), F_OK), 0);
}
END_TEST

/* --- long runs ----------------------------------------------------------------------------------------- */

/* All snapshots together write a few times the record, however many checkpoints there are. */
START_TEST(snapshots_come_at_growing_intervals)
{
  const char *path = at("due.h5");
  struct recorder *r = create(path);
  struct error e = {0};
  struct stat before, now;
  double record = 0, cost = 0;
  snapshot(r, "running", 0, 0);
  for (long c = 0; c < 400; c++) {
    static float value[LAYERS * HEADS];
    for (int row = 0; row < 400; row++) {
      recorder_put(r, id[1], value);
      recorder_row(r, AXIS_STEP, c * 400 + row);
    }
    record += 400 * 48.0;
    ck_assert(!stat(path, &before));
    ck_assert_msg(!recorder_keep(r, c, 0, 0, &e), "%s", e.text);
    ck_assert(!stat(path, &now));
    int is_new = now.st_ino != before.st_ino;
    ck_assert(is_new || record > 1 << 20);
    if (record > 1 << 20 && is_new) cost += record;
  }
  recorder_free(r);
  ck_assert_msg(cost < 9 * record && cost > 2 * record, "%g times the record", cost / record);
}
END_TEST

START_TEST(recording_a_step_does_not_allocate)
{
  struct recorder *r = create(at("allocate.h5"));
  play(r, 0, 20);
  size_t before = memory_calls();
  play(r, 20, 500);
  ck_assert_uint_eq(memory_calls(), before);
  recorder_free(r);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("store");
  TCase *store = tcase_create("run file"), *hurt = tcase_create("damage"), *full = tcase_create("disk");
  TCase *ckpt = tcase_create("checkpoint");
  suite_add_tcase(suite, store);
  suite_add_tcase(suite, ckpt);
  suite_add_tcase(suite, hurt);
  suite_add_tcase(suite, full);
  tcase_add_checked_fixture(store, setup, teardown);
  tcase_add_checked_fixture(hurt, setup, teardown);
  tcase_add_checked_fixture(full, setup, teardown);
  tcase_add_loop_test(store, everything_comes_back, 0, 5 * WAYS);
  tcase_add_loop_test(store, the_last_step_comes_back, 0, WAYS);
  tcase_add_loop_test(store, parameters_come_back, 0, WAYS);
  tcase_add_test(store, settings_beyond_integers);
  tcase_add_test(store, other_readers_find_their_way);
  tcase_add_test(store, live_rows_have_the_largest);
  tcase_add_test(store, live_rows_take_a_late_validation);
  tcase_add_loop_test(store, persistence_of_a_sign, 0, WAYS);
  tcase_add_loop_test(store, what_updates_add_is_summed, 0, WAYS);
  tcase_add_loop_test(store, what_is_not_put_is_nan, 0, WAYS);
  tcase_add_test(store, what_blew_up);
  tcase_add_test(store, which_runs_blew_up);
  tcase_add_test(store, unknown_series_is_named);
  tcase_add_test(store, any_interruption_gives_the_same_record);
  tcase_add_test(store, same_run_sees_a_difference);
  tcase_add_test(store, missing_rows_are_refused);
  tcase_add_test(store, accepted_edit_keeps_the_journal);
  tcase_add_test(store, another_journal_is_noticed);
  tcase_add_test(store, second_writer_is_refused);
  tcase_add_test(store, existing_run_is_kept);
  tcase_add_test(store, folder_that_cannot_be_written);
  tcase_add_test(store, what_is_not_a_run_file);
  tcase_add_test(store, checkpoint_of_another_step);
  tcase_add_test(store, a_changed_file_has_the_rights_of_the_file_that_was_read);
  tcase_add_test(store, snapshots_come_at_growing_intervals);
  tcase_add_test(store, recording_a_step_does_not_allocate);
  tcase_add_test(ckpt, checkpoint_comes_back);
  tcase_add_test(ckpt, two_generations_are_kept);
  tcase_add_test(ckpt, odd_checkpoints);
  tcase_add_test(hurt, unsealed_file_is_refused);
  tcase_add_test(hurt, damaged_run_file_is_reported);
  tcase_add_test(hurt, damaged_checkpoint_is_reported);
  tcase_add_loop_test(full, full_disk_keeps_the_old_file, 0, 3);
  tcase_set_timeout(store, 120);
  tcase_set_timeout(hurt, 1800);
  tcase_set_timeout(full, 60);
  if (!mkdtemp(folder)) {
    perror(folder);
    return EXIT_FAILURE;
  }
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command)) failed = 1;
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
