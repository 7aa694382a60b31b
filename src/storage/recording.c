/* recording.c - maxlogit/record.h: run files of other programs, written by the same recorder */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/error_export.h"
#include "base/memory.h"
#include "base/text.h"
#include "maxlogit/record.h"
#include "storage/recorder_state.h"

/* Minimal seconds between snapshots, and their maximal share of the time. */
static const double seconds_between = 10, share_of_time = 0.01;
#define MADE_BY "another program"
#define STEP_MOST (1L << 53) /* readers take steps as doubles */

struct maxlogit_recorder {
  struct recorder *r;
  int whole;   /* nothing is written before the end */
  int resumed; /* resumed, and no row or event has followed yet */
  int stale;   /* only a snapshot can bring the file up to date: names of an axis, rows that were dropped */
  double wall, opened, row_at, snapshot_at, snapshot_cost;
};

/* --- checks of arguments ----------------------------------------------------------------------------------- */

static const struct maxlogit_record_options nothing;

/* HDF5 takes a part "." for the group itself. */
static int is_dots(void *context, const char *part)
{
  (void)context;
  return !strcmp(part, ".") || !strcmp(part, "..");
}

/* A name consists of letters, digits and some other characters, and has no empty part. */
static int check_name(const char *what, const char *name, struct error *e)
{
  const char *wrong = NULL;
  if (!name || !*name) return error_set(e, STATUS_USAGE, "a %s without a name", what);
  size_t length = strlen(name);
  if (length >= SERIES_NAME) wrong = "is longer than 95 bytes";
  if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") != length)
    wrong = "may have letters, digits and _ - . / alone";
  if (*name == '/' || name[length - 1] == '/' || strstr(name, "//")) wrong = "has an empty part";
  if (text_split(name, '/', is_dots, NULL)) wrong = "has a part '.' or '..'";
  return wrong ? error_set(e, STATUS_USAGE, "%s '%.100s' %s", what, name, wrong) : STATUS_OK;
}

static int check_settings(const struct maxlogit_record_options *o, struct error *e)
{
  for (long i = 0; i < o->settings_count; i++) {
    int status = check_name("key", o->settings[i].key, e);
    if (status) return status;
    if (!o->settings[i].value) return error_set(e, STATUS_USAGE, "key '%s' has no value", o->settings[i].key);
    for (long k = 0; k < i; k++)
      if (!strcmp(o->settings[i].key, o->settings[k].key))
        return error_set(e, STATUS_USAGE, "key '%s' is given twice", o->settings[i].key);
  }
  return STATUS_OK;
}

static void put_settings(struct recorder *r, const struct maxlogit_record_options *o)
{
  for (long i = 0; i < o->settings_count; i++)
    recorder_parameter(r, o->settings[i].key, o->settings[i].value, "", MADE_BY);
}

/* --- open ------------------------------------------------------------------------------------------------ */

/* Two recordings of one second, host and process differ in their paths. */
static void make_id(char out[16], const char *path, const struct maxlogit_record_options *o)
{
  struct provenance code;
  char now[32];
  provenance_get(&code);
  clock_iso8601(now);
  XXH64_hash_t hash = XXH3_64bits(path, strlen(path));
  hash = XXH3_64bits_withSeed(now, strlen(now), hash ^ (XXH64_hash_t)getpid());
  hash = XXH3_64bits_withSeed(code.host, strlen(code.host), hash);
  for (long i = 0; i < o->settings_count; i++)
    hash = XXH3_64bits_withSeed(o->settings[i].value, strlen(o->settings[i].value), hash);
  snprintf(out, 16, "%012" PRIx64, (uint64_t)hash & 0xffffffffffff);
}

/* Unless they are to be replaced, files of an earlier run of this name are kept. */
static int refuse_former(const char *path, const struct maxlogit_record_options *o, struct error *e)
{
  if (o->mode == MAXLOGIT_REPLACE) return STATUS_OK;
  if (!access(path, F_OK)) return error_set(e, STATUS_USAGE, "%s exists", path);
  return recorder_refuse_rest(path, "mode \"replace\" does", e);
}

static int start_new(struct maxlogit_recorder *m, const char *path, const struct maxlogit_record_options *o,
                     struct error *e)
{
  char id[16];
  make_id(id, path, o);
  struct run_facts facts = {.id = id,
                            .device = MADE_BY,
                            .data = DATA_RECORDED,
                            .data_text = o->data ? o->data : "",
                            .loss_floor = NAN};
  int status = refuse_former(path, o, e);
  if (!status) status = recorder_claim(&m->r, path, 1, NULL, &facts, e);
  if (!status)
    status = refuse_former(path, o, e); /* now locked: another recording of this name may have ended */
  if (status || o->whole) return status;
  status = recorder_clear(m->r, e);
  return status ? status : recorder_open_journal(m->r, e);
}

static int keep_setting(void *recorder, const char *key, const char *value, const char *origin)
{
  recorder_parameter(recorder, key, value, "", origin);
  return 0;
}

static void keep_axis(struct recorder *r, const struct run_file *file, const char *axis)
{
  long count;
  size_t room;
  for (int i = 0; i < r->axes; i++)
    if (!strcmp(r->axis[i].axis, axis)) return;
  char *names = run_axis_names(file, axis, &count, &room);
  if (!names) return;
  const char **name = memory_new((size_t)count + 1, sizeof *name);
  for (long i = 0; i < count; i++) name[i] = names + (size_t)i * room;
  recorder_name_axis(r, axis, count, name);
  memory_free(name);
  memory_free(names);
}

/* Keep the parts of a file that are not in its rows: settings, and names of axes. */
static int keep_rest(struct recorder *r, const struct run_file *file, struct error *e)
{
  if (run_settings(file, keep_setting, r)) return error_set(e, STATUS_FAIL, "the settings cannot be read");
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++)
      for (int dim = 1; dim < r->rows.table[t].column[c].shape.rank; dim++)
        keep_axis(r, file, r->rows.table[t].column[c].label[dim]);
  return STATUS_OK;
}

/* Open a run file that was opened before its lock was taken: its last writer may have changed it in between. The facts
   of the first opening stay valid, because they belong to the run of this id. */
static int open_again(struct run_file **file, const char *path, struct error *e)
{
  struct run_file *now = NULL;
  if (run_open(&now, path, e)) return e->status;
  if (strcmp(run_id(now), run_id(*file)) != 0)
    error_set(e, STATUS_FAIL, "%s was replaced by another process", path);
  struct run_file *before = *file;
  *file = now;
  run_close(before);
  return e->status;
}

static int go_on(struct maxlogit_recorder *m, const char *path, const struct maxlogit_record_options *o,
                 struct error *e)
{
  struct run_file *file = NULL;
  int status = run_open(&file, path, e);
  if (status) return status;
  struct run_facts facts = {.id = run_id(file),
                            .device = MADE_BY,
                            .data = DATA_RECORDED,
                            .data_text = o->data ? o->data : run_data_text(file),
                            .loss_floor = run_loss_floor(file)};
  run_contents(file, &facts.data_content, &facts.start_content);
  if (strcmp(run_data(file), facts.data) != 0)
    status =
      error_set(e, STATUS_USAGE, "%s was written by maxlogit itself: `maxlogit resume` continues it", path);
  /* keep all existing rows: later ones are dropped at the first new row */
  if (!status) status = recorder_resume(&m->r, path, NULL, &facts, LONG_MAX, e);
  if (!status) status = open_again(&file, path, e);
  if (!status) status = run_check_additions(file, e);
  if (!status) status = keep_rest(m->r, file, e);
  if (!status && !o->whole) status = recorder_open_journal(m->r, e);
  m->wall = run_wall_seconds(file);
  if (!status)
    m->wall = fmax(m->wall, recorder_seconds(m->r)); /* of rows that are in the journal alone, too */
  m->resumed = 1;
  run_close(file);
  return status;
}

/* --- the file -------------------------------------------------------------------------------------------- */

/* The step of a table's last row; -1: it has none. */
static int64_t last_of(const struct row_table *t)
{
  int64_t step = -1;
  if (t->rows) memcpy(&step, column_row(&t->column[0], t->rows - 1), sizeof step);
  return step;
}

static long last_step(const struct recorder *r)
{
  int64_t last = -1;
  for (int t = 0; t < AXIS_COUNT; t++)
    if (last_of(&r->rows.table[t]) > last) last = last_of(&r->rows.table[t]);
  return (long)last;
}

static int is_below(const char *name, const char *above)
{
  size_t length = strlen(above);
  return !strncmp(name, above, length) && name[length] == '/';
}

/* Does an axis occupy this place in the file, by itself, by the names of its places, or by a place above? */
static int is_of_axis(const char *name, const char *axis)
{
  char names[64];
  snprintf(names, sizeof names, "%s_name", axis);
  return !strcmp(name, axis) || is_below(name, axis) || !strcmp(name, names) || is_below(name, names);
}

/* The size of an axis; 0: there is no axis of this name. */
static long size_of_axis(const struct recorder *r, const char *axis)
{
  for (int i = 0; i < r->axes; i++)
    if (!strcmp(r->axis[i].axis, axis)) return r->axis[i].size;
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      const struct row_column *column = &r->rows.table[t].column[c];
      for (int dim = 1; dim < column->shape.rank; dim++)
        if (column->label[dim] && !strcmp(column->label[dim], axis)) return (long)column->shape.dims[dim];
    }
  return 0;
}

/* The axis that occupies the place of a series' name; NULL: there is none. */
static const char *axis_in_place(const struct recorder *r, const char *name)
{
  for (int i = 0; i < r->axes; i++)
    if (is_of_axis(name, r->axis[i].axis)) return r->axis[i].axis;
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      const struct row_column *column = &r->rows.table[t].column[c];
      for (int dim = 1; dim < column->shape.rank; dim++)
        if (column->label[dim] && is_of_axis(name, column->label[dim])) return column->label[dim];
    }
  return NULL;
}

/* Figures of heads need these keys; if they were not set, derive them from the axes. */
static void put_shape(struct recorder *r)
{
  static const struct {
    const char *axis, *key;
  } parts[] = {{"layer", "model.layers"}, {"head", "model.heads"}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    long size = size_of_axis(r, parts[i].axis);
    char text[32];
    int given = !size;
    for (int k = 0; k < r->parameters; k++) given |= !strcmp(r->parameter[k].name, parts[i].key);
    snprintf(text, sizeof text, "%ld", size);
    if (!given) recorder_parameter(r, parts[i].key, text, "", "axis");
  }
}

/* `last_step` of a run is the number of its updates: steps count from 0. The wall time of a recording that is written
   as a whole is not the time of its run, so it is 0. */
static int write_file(struct maxlogit_recorder *m, const char *state, int final, struct error *e)
{
  double begin = clock_seconds();
  put_shape(m->r);
  double wall = m->whole ? 0 : m->wall + begin - m->opened;
  int status = recorder_snapshot(m->r, state, last_step(m->r) + 1, wall, final, e);
  if (!status) m->stale = 0;
  m->snapshot_at = clock_seconds();
  m->snapshot_cost = m->snapshot_at - begin;
  return status;
}

/* Make all rows durable before the call returns. */
static int keep(struct maxlogit_recorder *m, struct error *e)
{
  if (m->whole) return STATUS_OK;
  double since = clock_seconds() - m->snapshot_at;
  int due = m->stale || journal_is_behind(m->r->journal, &m->r->rows) ||
            (since > seconds_between && m->snapshot_cost < share_of_time * since);
  return due ? write_file(m, "running", 0, e) : recorder_append(m->r, 1, e);
}

int maxlogit_record_open(struct maxlogit_recorder **out, const char *path,
                         const struct maxlogit_record_options *options, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  const struct maxlogit_record_options *o = options ? options : &nothing;
  struct error e = {0};
  *out = NULL;
  int status = check_settings(o, &e);
  if (!status && !*path) status = error_set(&e, STATUS_USAGE, "the path of the run file is empty");
  if (!status && strlen(path) > 4000) status = error_set(&e, STATUS_USAGE, "%.60s...: path too long", path);
  if (status) return error_export(error, status, &e);
  char resolved[4096];
  path = file_resolve(path, resolved); /* a link stays, and its target's journal and lock are the run's */
  struct maxlogit_recorder *m = memory_new(1, sizeof *m);
  m->whole = o->whole;
  m->opened = m->row_at = clock_seconds();
  int there = o->mode == MAXLOGIT_RESUME && !access(path, F_OK);
  status = there ? go_on(m, path, o, &e) : start_new(m, path, o, &e);
  if (!status) put_settings(m->r, o);
  if (!status && !o->whole) status = write_file(m, "running", 0, &e);
  *out = m;
  if (status) maxlogit_record_discard(out);
  return error_export(error, status, &e);
}

long maxlogit_record_last_step(const struct maxlogit_recorder *m)
{
  return (long)last_of(&m->r->rows.table[AXIS_STEP]);
}

int maxlogit_record_snapshot(struct maxlogit_recorder *m, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  return error_export(error, m->whole ? STATUS_OK : write_file(m, "running", 0, &e), &e);
}

int maxlogit_record_clear(struct maxlogit_recorder *m, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  return error_export(error, m->whole ? recorder_clear(m->r, &e) : STATUS_OK, &e);
}

void maxlogit_record_discard(struct maxlogit_recorder **recorder)
{
  struct maxlogit_recorder *m = *recorder;
  *recorder = NULL;
  if (!m) return;
  recorder_free(m->r);
  memory_free(m);
}

int maxlogit_record_close(struct maxlogit_recorder **recorder, const char *state,
                          struct maxlogit_error *error)
{
  struct maxlogit_recorder *m = *recorder;
  IN_C_LOCALE;
  static const char *const states[] = {"finished", "stopped", "diverged"};
  struct error e = {0};
  int known = 0, status;
  if (!m) return error_export(error, error_set(&e, STATUS_USAGE, "the recording is closed"), &e);
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) known |= !strcmp(state, states[i]);
  status = known ? write_file(m, state, 1, &e)
                 : error_set(&e, STATUS_USAGE, "'%.40s' is not a state: finished, stopped, diverged", state);
  if (!status && m->whole) status = recorder_clear(m->r, &e);
  if (!status) maxlogit_record_discard(recorder);
  return error_export(error, status, &e);
}

/* --- series ---------------------------------------------------------------------------------------------- */

/* A name has one place in the file: no other series is there, below it or above it, and no axis. */
static int check_place(const struct recorder *r, const struct maxlogit_series *s, struct error *e)
{
  for (int t = 0; t < AXIS_COUNT; t++)
    if (!strcmp(s->name, table_steps[t]) || is_below(s->name, table_steps[t]))
      return error_set(e, STATUS_USAGE, "series '%s': %s is an axis", s->name, table_steps[t]);
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      const struct row_column *other = &r->rows.table[t].column[c];
      if (!strcmp(other->name, s->name) && t != (int)s->rows)
        return error_set(e, STATUS_USAGE, "series '%s' is there with other rows", s->name);
      if (is_below(s->name, other->name) || is_below(other->name, s->name))
        return error_set(e, STATUS_USAGE, "series '%s': '%s' is a series, and none can lie below another",
                         s->name, other->name);
    }
  return STATUS_OK;
}

static int check_axis(const struct recorder *r, const char *axis, long size, struct error *e)
{
  int status = check_name("axis", axis, e);
  if (status) return status;
  if (strlen(axis) > 31 || strchr(axis, '/'))
    return error_set(e, STATUS_USAGE, "axis '%s': at most 31 bytes, and no '/'", axis);
  for (int t = 0; t < AXIS_COUNT; t++)
    if (!strcmp(axis, table_steps[t]))
      return error_set(e, STATUS_USAGE, "axis '%s': that is an axis of rows", axis);
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      const char *name = r->rows.table[t].column[c].name;
      if (!strcmp(name, axis)) return error_set(e, STATUS_USAGE, "axis '%s': that is a series", axis);
      if (is_of_axis(name, axis))
        return error_set(e, STATUS_USAGE, "axis '%s': series '%s' has its place", axis, name);
    }
  if (size < 1 || size > 1 << 24)
    return error_set(e, STATUS_USAGE, "axis '%s' has size %ld; 1 to 2^24", axis, size);
  long before = size_of_axis(r, axis);
  if (before && before != size)
    return error_set(e, STATUS_USAGE, "axis '%s' has size %ld in this file, not %ld", axis, before, size);
  return STATUS_OK;
}

static int check_series(const struct recorder *r, const struct maxlogit_series *s, struct error *e)
{
  int status = check_name("series", s->name, e);
  if (status) return status;
  if ((int)s->rows < 0 || (int)s->rows >= AXIS_COUNT || s->axes < 0 || s->axes > MAXLOGIT_AXES)
    return error_set(e, STATUS_USAGE, "series '%s': no such rows, or more than %d axes", s->name,
                     MAXLOGIT_AXES);
  for (int i = 0; i < s->axes && !status; i++) {
    status = check_axis(r, s->axis_name[i], s->size[i], e);
    if (!status && (is_of_axis(s->name, s->axis_name[i]) || (i && !strcmp(s->axis_name[0], s->axis_name[1]))))
      status =
        error_set(e, STATUS_USAGE, "series '%s': two things are called '%s'", s->name, s->axis_name[i]);
  }
  if (!status && s->axes > 1 && s->size[0] > (1 << 24) / s->size[1])
    status = error_set(e, STATUS_USAGE, "series '%s' has %ld x %ld values a row; at most 2^24", s->name,
                       s->size[0], s->size[1]);
  const char *axis = status ? NULL : axis_in_place(r, s->name);
  if (axis) status = error_set(e, STATUS_USAGE, "series '%s': %s is an axis", s->name, axis);
  return status ? status : check_place(r, s, e);
}

/* An existing series cannot change its axes. */
static int check_same(const struct recorder *r, const struct maxlogit_series *s, struct error *e)
{
  const struct row_column *c = table_find(&r->rows.table[s->rows], s->name);
  int same = !c || c->shape.rank == s->axes + 1;
  for (int i = 0; c && same && i < s->axes; i++)
    same = c->label[i + 1] && !strcmp(c->label[i + 1], s->axis_name[i]) && c->shape.dims[i + 1] == s->size[i];
  return same ? STATUS_OK : error_set(e, STATUS_USAGE, "series '%s' is there with other axes", s->name);
}

int maxlogit_record_series(struct maxlogit_recorder *m, const struct maxlogit_series *s, int *number,
                           struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  *number = -1;
  int status = check_series(m->r, s, &e);
  if (!status) status = check_same(m->r, s, &e);
  if (!status && m->r->rows.table[s->rows].columns > TABLE_COLUMNS)
    status =
      error_set(&e, STATUS_USAGE, "series '%s': there are %d of these rows already", s->name, TABLE_COLUMNS);
  if (status) return error_export(error, status, &e);
  struct free_series series = {.name = s->name,
                               .axis = (enum series_axis)s->rows,
                               .axes = s->axes,
                               .unit = s->unit ? s->unit : "1",
                               .long_name = s->long_name ? s->long_name : s->name,
                               .definition = s->definition ? s->definition : ""};
  for (int i = 0; i < s->axes; i++) series.axis_name[i] = s->axis_name[i], series.size[i] = s->size[i];
  *number = recorder_free_series(m->r, &series);
  return error_export(error, STATUS_OK, &e);
}

/* The rows that are there keep the names of their places. */
static int check_same_places(const struct recorder *r, const char *axis, long size, const char *const *names,
                             struct error *e)
{
  const struct axis_names *old = r->axis, *end = old + r->axes;
  while (old < end && strcmp(old->axis, axis) != 0) old++;
  for (long i = 0; old < end && i < size && i < old->size; i++)
    if (strcmp(old->name[i], names[i]) != 0)
      return error_set(
        e, STATUS_USAGE,
        "axis '%s': place %ld is called %.200s in this file, not %.200s; another file may have other names",
        axis, i, old->name[i], names[i]);
  return STATUS_OK;
}

int maxlogit_record_axis(struct maxlogit_recorder *m, const char *axis, long size, const char *const *names,
                         struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check_axis(m->r, axis, size, &e);
  for (long i = 0; i < size && !status; i++)
    if (!names[i]) status = error_set(&e, STATUS_USAGE, "axis '%s': place %ld has no name", axis, i);
  if (!status && m->resumed) status = check_same_places(m->r, axis, size, names, &e);
  if (!status) recorder_name_axis(m->r, axis, size, names), m->stale = 1;
  return error_export(error, status, &e);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

static int check_number(const struct recorder *r, int number, struct error *e)
{
  return recorder_has(r, number) ? STATUS_OK
                                 : error_set(e, STATUS_USAGE, "no series has the number %d", number);
}

static size_t width_of(const struct row_column *c) { return c->row_bytes / h5_kind_size(c->shape.kind); }

static void put_values(struct recorder *r, int number, const double *values)
{
  struct row_column *c = recorder_column(r, number);
  float *f = table_row(recorder_table(r, number), c);
  if (c->shape.kind == KIND_F64)
    memcpy(f, values, sizeof *values);
  else
    for (size_t i = 0; i < width_of(c); i++) f[i] = (float)values[i];
}

int maxlogit_record_put(struct maxlogit_recorder *m, int number, const double *values, size_t count,
                        struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check_number(m->r, number, &e);
  if (status) return error_export(error, status, &e);
  const struct row_column *c = recorder_column(m->r, number);
  if (count != width_of(c))
    status =
      error_set(&e, STATUS_USAGE, "series '%s' has %zu values a row, not %zu", c->name, width_of(c), count);
  else
    put_values(m->r, number, values);
  return error_export(error, status, &e);
}

/* Rows that are being built are kept, after the remaining rows. */
static void go_back(struct rows *rows, int64_t step)
{
  int64_t at[AXIS_COUNT];
  for (int t = 0; t < AXIS_COUNT; t++) at[t] = rows->table[t].building ? rows->table[t].rows : -1;
  rows_go_back(rows, step);
  for (int t = 0; t < AXIS_COUNT; t++) {
    struct row_table *table = &rows->table[t];
    for (int c = 0; at[t] >= 0 && c < table->columns; c++)
      memmove(column_space(&table->column[c], table->rows), column_row(&table->column[c], at[t]),
              table->column[c].row_bytes);
    if (at[t] >= 0) table->building = 1;
  }
}

/* The step of the first call after a resume decides which existing rows are dropped: those from this step on. */
static int settle(struct maxlogit_recorder *m, long step, struct error *e)
{
  struct recorder *r = m->r;
  if (step < 0 || step >= STEP_MOST)
    return error_set(e, STATUS_USAGE, "step %ld: steps count from 0, and are below 2^53", step);
  if (!m->resumed) return STATUS_OK;
  m->resumed = 0;
  /* a kill may come between an event and the row of its step */
  if (last_step(r) < step && last_of(&r->rows.table[TABLE_EVENTS]) < step) return STATUS_OK;
  const int is_same = last_step(r) == step;
  const double seconds = recorder_seconds(r);
  go_back(&r->rows, step);
  if (is_same)
    m->row_at -= seconds - recorder_seconds(r); /* its row takes the time of the one that it replaces */
  m->stale = 1; /* the file keeps its rows until it has the one that replaces them */
  return STATUS_OK;
}

static int check_order(const struct recorder *r, long step, struct error *e)
{
  for (int t = 0; t < AXIS_COUNT; t++) {
    const struct row_table *table = &r->rows.table[t];
    if (table->building && last_of(table) >= step)
      return error_set(e, STATUS_USAGE, "a row of step %ld after one of step %" PRId64 ": steps grow", step,
                       last_of(table));
  }
  return STATUS_OK;
}

static int end_rows(struct maxlogit_recorder *m, long step, struct error *e)
{
  int of_step = m->r->rows.table[AXIS_STEP].building;
  for (int t = 0; t < AXIS_COUNT; t++)
    if (m->r->rows.table[t].building) recorder_row(m->r, (enum series_axis)t, step);
  if (of_step && !m->whole) {
    double now = clock_seconds();
    recorder_timing(m->r, step, now - m->row_at);
    m->row_at = now;
  }
  return keep(m, e);
}

/* The values of a row that is refused are dropped, so that the next row does not get them. */
static int end_row(struct maxlogit_recorder *m, long step, struct error *e)
{
  int status = settle(m, step, e);
  if (!status) status = check_order(m->r, step, e);
  for (int t = 0; t < AXIS_COUNT && status; t++) table_cut(&m->r->rows.table[t], m->r->rows.table[t].rows);
  return status ? status : end_rows(m, step, e);
}

int maxlogit_record_row(struct maxlogit_recorder *m, long step, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  return error_export(error, end_row(m, step, &e), &e);
}

/* The smallest step at which a block has its next row; LONG_MAX: none has one. */
static long next_step(const struct maxlogit_block *block, int blocks, const long *next)
{
  long step = LONG_MAX;
  for (int i = 0; i < blocks; i++)
    if (next[i] < block[i].count && block[i].step[next[i]] < step) step = block[i].step[next[i]];
  return step;
}

int maxlogit_record_blocks(struct maxlogit_recorder *m, const struct maxlogit_block *block, int blocks,
                           struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = STATUS_OK;
  for (int i = 0; i < blocks && !status; i++) status = check_number(m->r, block[i].number, &e);
  long *next = memory_new((size_t)blocks + 1, sizeof *next);
  for (long step; !status && (step = next_step(block, blocks, next)) < LONG_MAX;) {
    for (int i = 0; i < blocks; i++) {
      if (next[i] == block[i].count || block[i].step[next[i]] != step) continue;
      const size_t width = width_of(recorder_column(m->r, block[i].number));
      put_values(m->r, block[i].number, block[i].values + (size_t)next[i]++ * width);
    }
    status = end_row(m, step, &e);
  }
  memory_free(next);
  return error_export(error, status, &e);
}

int maxlogit_record_event(struct maxlogit_recorder *m, long step, const char *kind, int layer, int head,
                          double value, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  int status = check_name("kind of event", kind, &e);
  if (!status && strlen(kind) >= sizeof((struct event_record *)0)->kind)
    status = error_set(&e, STATUS_USAGE, "kind of event '%s' is longer than 23 bytes", kind);
  if (!status) status = settle(m, step, &e);
  if (status) return error_export(error, status, &e);
  recorder_event(m->r, step, kind, layer, head, value);
  return error_export(error, keep(m, &e), &e);
}

int maxlogit_record_note(struct maxlogit_recorder *m, const char *text, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  char now[32];
  if (!*text || strlen(text) > NOTE_BYTES)
    return error_export(
      error, error_set(&e, STATUS_USAGE, "a note of %zu bytes; 1 to %d", strlen(text), NOTE_BYTES), &e);
  clock_iso8601(now);
  notes_add(&m->r->notes, now, text);
  return error_export(error, keep(m, &e), &e);
}
