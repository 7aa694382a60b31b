#include "storage/recorder.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/text.h"
#include "storage/checkpoint.h"
#include "storage/h5.h"
#include "storage/recorder_state.h"

static const char *own(struct recorder *r, const char *text)
{
  return arena_text(r->arena, text ? text : "");
}

/* --- facts --------------------------------------------------------------------------------------------- */

static int copy_parameter(void *context, const struct config_entry *entry)
{
  struct recorder *r = context;
  if (!entry->used) return 0;
  r->parameter =
    memory_grow(r->parameter, (size_t)r->parameters, (size_t)r->parameters + 1, sizeof *r->parameter);
  const struct option_row *row = entry->row;
  const char *field = (const char *)entry->base + row->offset;
  struct parameter *p = &r->parameter[r->parameters++];
  *p = (struct parameter){arena_text(r->arena, entry->key),
                          arena_text(r->arena, entry->value),
                          row->unit ? row->unit : "1",
                          row->help ? row->help : "",
                          arena_text(r->arena, entry->origin ? entry->origin : "default"),
                          row->type,
                          0,
                          0,
                          entry->is_default};
  if (row->type == OPTION_REAL) memcpy(&p->number, field, sizeof p->number);
  if (row->type == OPTION_INT || row->type == OPTION_BOOL) p->integer = *(const long *)(const void *)field;
  return 0;
}

static struct parameter *parameter_of(struct recorder *r, const char *name)
{
  for (int i = 0; i < r->parameters; i++)
    if (!strcmp(r->parameter[i].name, name)) return &r->parameter[i];
  r->parameter =
    memory_grow(r->parameter, (size_t)r->parameters, (size_t)r->parameters + 1, sizeof *r->parameter);
  return &r->parameter[r->parameters++];
}

void recorder_parameter(struct recorder *r, const char *name, const char *value, const char *help,
                        const char *origin)
{
  char *end;
  struct parameter *p = parameter_of(r, name);
  *p = (struct parameter){.name = own(r, name),
                          .value = own(r, value),
                          .unit = "1",
                          .help = own(r, help),
                          .origin = own(r, origin),
                          .type = OPTION_TEXT};
  errno = 0;
  p->integer = strtol(value, &end, 10);
  if (end != value && !*end && !errno) {
    p->type = OPTION_INT;
    return;
  }
  p->number = strtod(value, &end);
  if (end != value && !*end && isfinite(p->number)) p->type = OPTION_REAL;
}

static void copy_facts(struct recorder *r, const struct run_facts *f)
{
  const char **names = arena_get(r->arena, (size_t)f->tensors + 1, sizeof *names);
  for (int i = 0; i < f->tensors; i++) names[i] = own(r, f->tensor_names[i]);
  r->facts = (struct run_facts){.id = own(r, f->id),
                                .device = own(r, f->device),
                                .data = own(r, f->data),
                                .data_text = own(r, f->data_text),
                                .layers = f->layers,
                                .heads = f->heads,
                                .experts = f->experts,
                                .tensors = f->tensors,
                                .tensor_names = names,
                                .loss_floor = f->loss_floor,
                                .data_content = f->data_content,
                                .start_content = f->start_content};
}

/* --- life ---------------------------------------------------------------------------------------------- */

int recorder_begin(struct recorder **out, const char *path, const struct config *config,
                   const struct run_facts *facts, struct error *e)
{
  if (strlen(path) > 4000) return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  if (file_make_folders(path, e)) return e->status;
  struct recorder *r = memory_new(1, sizeof *r);
  snprintf(r->path, sizeof r->path, "%s", path);
  run_sibling(r->lock_path, path, ".lock");
  run_sibling(r->journal_path, path, ".journal");
  r->arena = arena_new();
  r->lock = lock_take(r->lock_path, e);
  if (!r->lock) {
    recorder_free(r);
    return e->status;
  }
  copy_facts(r, facts);
  if (config) config_each(config, copy_parameter, r);
  char *text = config ? config_text(config) : NULL;
  r->config_text = own(r, text);
  memory_free(text);
  provenance_get(&r->code);
  clock_iso8601(r->started);
  *out = r;
  return STATUS_OK;
}

/* May a run take this name? What is no run file is not replaced, whatever was asked for: a configuration, a device. */
static int check_name(const char *path, int overwrite, struct error *e)
{
  struct stat info;
  if (stat(path, &info)) return STATUS_OK;
  if (!(S_ISREG(info.st_mode) && !info.st_size) && !h5_is_file(path))
    return error_set(e, STATUS_USAGE, "record.path: %s exists, and is no run file", path);
  if (overwrite) return STATUS_OK;
  if (!info.st_size)
    return error_set(e, STATUS_USAGE, "%s exists, and is empty: record.overwrite=1 replaces it", path);
  return error_set(e, STATUS_USAGE,
                   "%s exists: `maxlogit resume %s` continues it, record.overwrite=1 replaces it", path,
                   path);
}

int recorder_create(struct recorder **out, const char *path, int overwrite, const struct config *config,
                    const struct run_facts *facts, struct error *e)
{
  struct recorder *r = NULL;
  int status = recorder_begin(&r, path, config, facts, e);
  if (status) return status;
  status = check_name(path, overwrite, e);
  if (!status) status = checkpoint_remove_all(path, e);
  if (!status && file_remove(r->journal_path))
    status = error_set(e, STATUS_FAIL, "cannot remove %s", r->journal_path);
  if (!status && config) status = recorder_open_journal(r, e);
  tables_start(&r->rows);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

struct recorder *recorder_null(const struct run_facts *facts)
{
  struct recorder *r = memory_new(1, sizeof *r);
  r->is_null = 1;
  r->arena = arena_new();
  copy_facts(r, facts);
  tables_start(&r->rows);
  struct row_table *events = &r->rows.table[TABLE_EVENTS];
  table_row(events, &events->column[0]); /* its memory now: later nothing is allocated */
  table_cut(events, 0);
  return r;
}

int recorder_open_journal(struct recorder *r, struct error *e)
{
  r->journal = journal_open(r->journal_path, e);
  return r->journal ? STATUS_OK : e->status;
}

int recorder_keeps(const struct recorder *r) { return !r->is_null; }

int recorder_holds(const struct recorder *r, struct error *e)
{
  return r->lock ? lock_was_taken(r->lock, e) : STATUS_OK;
}

void recorder_free(struct recorder *r)
{
  if (!r) return;
  journal_close(r->journal);
  lock_release(r->lock, r->lock_path);
  rows_free(&r->rows);
  notes_free(&r->notes);
  memory_free(r->parameter);
  memory_free(r->axis);
  arena_free(r->arena);
  memory_free(r);
}

/* --- rows ---------------------------------------------------------------------------------------------- */

static int handle(enum series_axis axis, const struct row_table *t, const struct row_column *c)
{
  return (int)axis << 16 | (int)(c - t->column);
}

static struct row_table *table_of(struct recorder *r, int series)
{
  REQUIRE(series >= 0 && series >> 16 < AXIS_COUNT &&
          (series & 0xffff) < r->rows.table[series >> 16].columns);
  return &r->rows.table[series >> 16];
}

static struct row_column *column_of(struct recorder *r, int series)
{
  return &table_of(r, series)->column[series & 0xffff];
}

static struct h5_shape shape_of(const struct recorder *r, enum series_shape shape)
{
  const struct run_facts *f = &r->facts;
  switch (shape) {
  case PER_STEP: return (struct h5_shape){.kind = KIND_F64, .rank = 1};
  case PER_LAYER: return (struct h5_shape){.kind = KIND_F32, .rank = 2, .dims = {0, f->layers}};
  case PER_HEAD: return (struct h5_shape){.kind = KIND_F32, .rank = 3, .dims = {0, f->layers, f->heads}};
  case PER_EXPERT: return (struct h5_shape){.kind = KIND_F32, .rank = 3, .dims = {0, f->layers, f->experts}};
  default: return (struct h5_shape){.kind = KIND_F32, .rank = 2, .dims = {0, f->tensors}};
  }
}

/* The column of a series, new where there is none; its labels are the caller's. */
static struct row_column *declare(struct recorder *r, struct row_table *t, struct h5_shape shape,
                                  const char *name, const char *unit, const char *long_name,
                                  const char *definition)
{
  struct row_column *c = table_find(t, name);
  if (c && (c->shape.kind != shape.kind || c->row_bytes != h5_row_bytes(&shape))) {
    error_set(&r->problem, STATUS_FAIL, "%s: the series %s has another shape in the file", r->path, name);
    shape = c->shape;
  }
  if (!c) c = table_add(t, name, &shape);
  c->unit = own(r, unit);
  c->long_name = own(r, long_name);
  c->definition = own(r, definition);
  return c;
}

int recorder_series(struct recorder *r, const struct series *s)
{
  struct row_table *t = &r->rows.table[s->axis];
  struct row_column *c = declare(r, t, shape_of(r, s->shape), s->name, s->unit, s->long_name, s->definition);
  c->label[1] = s->shape == PER_TENSOR ? "tensor" : "layer";
  c->label[2] = s->shape == PER_EXPERT ? "expert" : "head";
  return handle(s->axis, t, c);
}

int recorder_free_series(struct recorder *r, const struct free_series *s)
{
  struct row_table *t = &r->rows.table[s->axis];
  struct h5_shape shape = {.kind = s->axes ? KIND_F32 : KIND_F64, .rank = s->axes + 1};
  for (int i = 0; i < s->axes; i++) shape.dims[i + 1] = s->size[i];
  struct row_column *c = declare(r, t, shape, s->name, s->unit, s->long_name, s->definition);
  for (int i = 0; i < s->axes; i++) c->label[i + 1] = own(r, s->axis_name[i]);
  return handle(s->axis, t, c);
}

void recorder_name_axis(struct recorder *r, const char *axis, long size, const char *const *names)
{
  struct axis_names *a = NULL;
  const char **copy = arena_get(r->arena, (size_t)size + 1, sizeof *copy);
  for (long i = 0; i < size; i++) copy[i] = own(r, names[i]);
  for (int i = 0; i < r->axes && !a; i++)
    if (!strcmp(r->axis[i].axis, axis)) a = &r->axis[i];
  if (!a) {
    r->axis = memory_grow(r->axis, (size_t)r->axes, (size_t)r->axes + 1, sizeof *r->axis);
    a = &r->axis[r->axes++];
  }
  *a = (struct axis_names){own(r, axis), copy, size};
}

void recorder_put(struct recorder *r, int series, const float *values)
{
  struct row_column *c = column_of(r, series);
  if (c->shape.kind == KIND_F64)
    recorder_put_number(r, series, (double)values[0]);
  else
    memcpy(table_row(table_of(r, series), c), values, c->row_bytes);
}

void recorder_put_number(struct recorder *r, int series, double value)
{
  struct row_column *c = column_of(r, series);
  REQUIRE(c->row_bytes == sizeof value);
  memcpy(table_row(table_of(r, series), c), &value, sizeof value);
}

static void end(const struct recorder *r, struct row_table *t)
{
  if (r->is_null)
    table_cut(t, t->rows);
  else
    table_end(t);
}

static void end_row(struct recorder *r, int table, int64_t step)
{
  struct row_table *t = &r->rows.table[table];
  memcpy(table_row(t, &t->column[0]), &step, sizeof step);
  end(r, t);
}

void recorder_row(struct recorder *r, enum series_axis axis, long step) { end_row(r, (int)axis, step); }

void recorder_event(struct recorder *r, long step, const char *kind, int layer, int head, double value)
{
  struct row_table *t = &r->rows.table[TABLE_EVENTS];
  struct event_record event = {.step = step, .layer = layer, .head = head, .value = value};
  snprintf(event.kind, sizeof event.kind, "%s", kind);
  memcpy(table_row(t, &t->column[0]), &event, sizeof event);
  end(r, t);
}

static void start_batches(struct row_table *t, int has_mask, int has_document, long batch, long context)
{
  struct h5_shape tokens = {.kind = KIND_I32, .rank = 3, .dims = {0, batch, context + 1}};
  struct h5_shape mask = {.kind = KIND_F32, .rank = 3, .dims = {0, batch, context}};
  struct h5_shape document = {.kind = KIND_I32, .rank = 3, .dims = {0, batch, context}};
  table_add(t, "step", &(struct h5_shape){.kind = KIND_I64, .rank = 1});
  table_add(t, "tokens", &tokens);
  if (has_mask) table_add(t, "mask", &mask);
  if (has_document) table_add(t, "document", &document);
}

static void describe_batches(struct row_table *t)
{
  static const struct {
    const char *name, *long_name, *definition, *last_dimension;
  } text[] = {
    {"step", "training step", "steps count from 0", NULL},
    {"tokens", "token ids",
     "of a context T inputs are [..., :T], targets [..., 1:T+1]; behind them model.mtp more, which modules "
     "predict",
     "token"},
    {"mask", "weight of the target in the loss", "1: it counts, 0: it does not", "target"},
    {"document", "document", "number of the document within the row: attention does not cross its boundaries",
     "target"},
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    struct row_column *c = table_find(t, text[i].name);
    if (!c) continue;
    c->unit = "1";
    c->long_name = text[i].long_name;
    c->definition = text[i].definition;
    c->label[1] = "sequence";
    c->label[2] = text[i].last_dimension;
  }
}

void recorder_batch(struct recorder *r, long step, const int *tokens, const float *mask, const int *document,
                    long batch, long context)
{
  struct row_table *t = &r->rows.table[TABLE_BATCHES];
  if (!t->columns) start_batches(t, mask != NULL, document != NULL, batch, context);
  if (!t->column[0].unit) describe_batches(t);
  const struct {
    const char *name;
    const void *data;
  } parts[] = {{"tokens", tokens}, {"mask", mask}, {"document", document}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const size_t bytes =
      (size_t)batch * (size_t)(context + !i) * sizeof(int); /* tokens have one more target */
    struct row_column *c = parts[i].data ? table_find(t, parts[i].name) : NULL;
    if (parts[i].data && (!c || c->row_bytes != bytes)) {
      error_set(&r->problem, STATUS_FAIL, "%s: its batches have another shape than those of this run",
                r->path);
      return;
    }
    if (c) memcpy(table_row(t, c), parts[i].data, bytes);
  }
  end_row(r, TABLE_BATCHES, step);
}

void recorder_timing(struct recorder *r, long step, double seconds)
{
  struct row_table *t = &r->rows.table[TABLE_TIMING];
  memcpy(table_row(t, table_find(t, "seconds")), &seconds, sizeof seconds);
  end_row(r, TABLE_TIMING, step);
}

double recorder_seconds(const struct recorder *r)
{
  const struct row_table *t = &r->rows.table[TABLE_TIMING];
  const struct row_column *c = table_find(t, "seconds");
  double sum = 0, seconds;
  for (int64_t row = 0; c && row < t->rows; row++) {
    memcpy(&seconds, column_row(c, row), sizeof seconds);
    sum += seconds;
  }
  return sum;
}

double recorder_last(const struct recorder *r, const char *name, enum series_axis axis)
{
  const struct row_table *t = &r->rows.table[axis];
  const struct row_column *c = t->rows ? table_find(t, name) : NULL;
  double value = NAN;
  if (c && c->row_bytes == sizeof value) memcpy(&value, column_row(c, t->rows - 1), sizeof value);
  return value;
}

/* --- rows on disk -------------------------------------------------------------------------------------- */

/* Seconds between writes: a row costs nothing where a step takes less. */
static const double between_appends = 0.1;

static int append(struct recorder *r, struct error *e)
{
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  if (!r->journal) return STATUS_OK;
  if (recorder_holds(r, e)) return e->status;
  return journal_append(r->journal, &r->rows, &r->notes, e);
}

int recorder_append(struct recorder *r, int now, struct error *e)
{
  if (!r->journal && !r->problem.status) return STATUS_OK;
  double seconds = clock_seconds();
  if (!now && seconds - r->appended_at < between_appends) return STATUS_OK;
  r->appended_at = seconds;
  return append(r, e);
}

/* Below this a snapshot costs less than the checkpoint's own sync. */
enum { ALWAYS_BYTES = 1 << 20 };

/* Where the run file lacks an eighth of the rows: all snapshots together then write about eight times the record, and
   who reads the run file alone is not far behind. */
static int is_snapshot_due(const struct recorder *r)
{
  size_t unsaved = rows_bytes(&r->rows, 1), all = rows_bytes(&r->rows, 0);
  return unsaved > 0 && (all < ALWAYS_BYTES || unsaved >= all / 8);
}

int recorder_keep(struct recorder *r, long last_step, double wall, struct error *e)
{
  if (r->is_null) return STATUS_OK;
  int is_behind = r->journal && journal_is_behind(r->journal, &r->rows);
  if (!is_behind && !rows_bytes(&r->rows, 1)) return STATUS_OK;
  if (!r->journal || is_behind || is_snapshot_due(r))
    return recorder_snapshot(r, "running", last_step, wall, 0, e);
  int status = append(r, e);
  return status ? status : journal_sync(r->journal, e);
}
