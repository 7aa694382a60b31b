#include "storage/recorder.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/checkpoint.h"
#include "storage/layout.h"
#include "storage/provenance.h"
#include "storage/rows.h"

/* Below this a snapshot at every checkpoint costs less than the checkpoint's own sync. */
enum { ALWAYS_BYTES = 1 << 20 };

struct parameter {
  const char *name, *value, *unit, *help, *origin;
  enum option_type type;
  int64_t integer;
  double number;
  int is_default;
};

/* Where a live column comes from. */
struct live {
  const char *name;
  enum series_axis axis;
};
static const struct live live_columns[] = {
  {"loss", AXIS_STEP},
  {"val_loss", AXIS_VAL},
  {"lr", AXIS_STEP},
  {"grad_norm", AXIS_STEP},
};
static const char live_header[] = "step\tloss\tval_loss\tlr\tgrad_norm\tmax_logit\tlayer\thead\n";

struct recorder {
  int is_null;
  char path[4096], lock_path[4096], live_path[4096];
  struct lock *lock;
  struct append *live;
  struct arena *arena; /* every text below */
  struct run_facts facts;
  struct provenance code;
  struct parameter *parameter;
  int parameters;
  const char *config_text;
  char started[32];
  struct rows rows;
  void *packed;
  size_t carried; /* bytes that checkpoints have carried since the last snapshot */
  int snapshots;
  struct error problem; /* found where none could be reported; given by the next call that can */
};

static const struct {
  const char *folder, *step;
} place[] = {
  [AXIS_STEP] = {"/series", "step"},    [AXIS_SPECTRA] = {"/series", "spectra_step"},
  [AXIS_VAL] = {"/series", "val_step"}, [AXIS_PROBE] = {"/series", "probe_step"},
  [TABLE_TIMING] = {"/timing", "step"}, [TABLE_BATCHES] = {"/batches", "step"},
  [TABLE_EVENTS] = {"", "events"},
};
static const struct h5_shape step_shape = {.kind = KIND_I64, .rank = 1};
static const struct h5_shape event_shape = {
  .kind = KIND_RECORD, .size = sizeof(struct event_record), .fields = event_fields, .rank = 1};

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

static const char *own(struct recorder *r, const char *text)
{
  return arena_text(r->arena, text ? text : "");
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
                                .tensors = f->tensors,
                                .tensor_names = names,
                                .loss_floor = f->loss_floor,
                                .data_content = f->data_content,
                                .start_content = f->start_content};
}

static void start_tables(struct rows *rows)
{
  for (int t = 0; t < TABLE_COUNT; t++) {
    struct table *table = &rows->table[t];
    if (t != TABLE_BATCHES && !table->columns) /* batches: when the first one shows its shape */
      table_add(table, place[t].step, t == TABLE_EVENTS ? &event_shape : &step_shape);
  }
  for (int t = 0; t < AXIS_COUNT; t++) {
    rows->table[t].column[0].unit = "1";
    rows->table[t].column[0].long_name = "training step";
  }
  struct h5_shape seconds = {.kind = KIND_F64, .rank = 1};
  struct table *timing = &rows->table[TABLE_TIMING];
  if (!table_find(timing, "seconds")) table_add(timing, "seconds", &seconds);
  struct column *c = table_find(timing, "seconds");
  c->unit = "s";
  c->long_name = "time of the step";
  c->definition = "wall-clock time from the start of the step to its end, recording included";
}

/* --- life ---------------------------------------------------------------------------------------------- */

static int begin(struct recorder **out, const char *path, const struct config *config,
                 const struct run_facts *facts, struct error *e)
{
  if (strlen(path) > 4000) return error_set(e, STATUS_USAGE, "%.60s...: path too long", path);
  if (file_make_folders(path, e)) return e->status;
  struct recorder *r = memory_new(1, sizeof *r);
  snprintf(r->path, sizeof r->path, "%s", path);
  run_sibling(r->lock_path, path, ".lock");
  run_sibling(r->live_path, path, ".live.tsv");
  r->arena = arena_new();
  r->lock = lock_take(r->lock_path, e);
  if (!r->lock) {
    recorder_free(r);
    return e->status;
  }
  copy_facts(r, facts);
  config_each(config, copy_parameter, r);
  char *text = config_text(config);
  r->config_text = own(r, text);
  memory_free(text);
  provenance_get(&r->code);
  clock_iso8601(r->started);
  *out = r;
  return STATUS_OK;
}

static int open_live(struct recorder *r, struct error *e)
{
  r->live = append_open(r->live_path, e);
  if (!r->live) return e->status;
  return append_length(r->live) ? STATUS_OK : append_write(r->live, live_header, sizeof live_header - 1, e);
}

int recorder_create(struct recorder **out, const char *path, int overwrite, const struct config *config,
                    const struct run_facts *facts, struct error *e)
{
  struct recorder *r = NULL;
  int status = begin(&r, path, config, facts, e);
  if (status) return status;
  if (!overwrite && !access(path, F_OK))
    status =
      error_set(e, STATUS_USAGE,
                "%s exists: `maxlogit resume %s` continues it, record.overwrite=1 replaces it", path, path);
  if (!status) status = checkpoint_remove_all(path, e);
  if (!status && file_remove(r->live_path))
    status = error_set(e, STATUS_FAIL, "cannot remove %s", r->live_path);
  if (!status) status = open_live(r, e);
  start_tables(&r->rows);
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
  start_tables(&r->rows);
  struct table *events = &r->rows.table[TABLE_EVENTS];
  table_row(events, &events->column[0]); /* its memory now: later nothing is allocated */
  table_cut(events, 0);
  return r;
}

int recorder_keeps(const struct recorder *r) { return !r->is_null; }

void recorder_free(struct recorder *r)
{
  if (!r) return;
  append_close(r->live);
  lock_release(r->lock, r->lock_path);
  rows_free(&r->rows);
  memory_free(r->packed);
  memory_free(r->parameter);
  arena_free(r->arena);
  memory_free(r);
}

/* --- resume -------------------------------------------------------------------------------------------- */

static const char *text_of(struct recorder *r, struct h5 *h, h5_id id, const char *name)
{
  char text[2048];
  return h5_get_text(h, id, name, text, sizeof text) ? own(r, text) : NULL;
}

/* A column of the run file with its rows. The first of a table, its steps, says how many rows there are. */
static void read_column(struct recorder *r, struct table *t, struct h5 *h, h5_id id, const char *name)
{
  struct h5_shape shape;
  if (!h5_get_shape(h, id, &shape) || (t->columns && shape.dims[0] != t->rows)) {
    error_set(&r->problem, STATUS_FAIL, "%s: %s cannot be read", r->path, name);
    return;
  }
  int64_t rows = shape.dims[0];
  if (shape.kind == KIND_RECORD) shape = event_shape;
  struct column *c = table_add(t, name, &shape);
  c->unit = text_of(r, h, id, "units");
  c->long_name = text_of(r, h, id, "long_name");
  c->definition = text_of(r, h, id, "definition");
  for (int dim = 1; dim < shape.rank; dim++) {
    char label[64] = "";
    h5_get_label(h, id, dim, label, sizeof label);
    c->label[dim] = own(r, label);
  }
  for (int64_t row = 0; row < rows; row += c->block_rows) {
    int64_t n = rows - row < c->block_rows ? rows - row : c->block_rows;
    if (!h5_read(h, id, &c->shape, row, n, column_space(c, row)))
      error_set(&r->problem, STATUS_FAIL, "%s: %s cannot be read", r->path, name);
  }
  t->rows = rows;
}

static void read_steps(struct recorder *r, struct h5 *h)
{
  for (int t = 0; t < TABLE_COUNT; t++) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", place[t].folder, place[t].step);
    h5_id id = h5_find(h, path);
    if (id >= 0) read_column(r, &r->rows.table[t], h, id, place[t].step);
    h5_done(h, id);
  }
}

struct walk {
  struct recorder *r;
  struct h5 *h;
  char path[256];
};

/* A dataset belongs to the table whose step axis labels its first dimension; scales have no label. */
static void place_dataset(struct walk *w, h5_id id)
{
  char label[64];
  if (!h5_get_label(w->h, id, 0, label, sizeof label)) return;
  for (int t = 0; t < TABLE_EVENTS; t++) {
    size_t folder = strlen(place[t].folder);
    if (!strncmp(w->path, place[t].folder, folder) && w->path[folder] == '/' && !strcmp(label, place[t].step))
      read_column(w->r, &w->r->rows.table[t], w->h, id, w->path + folder + 1);
  }
}

static int visit(void *context, const char *name)
{
  struct walk *w = context;
  size_t length = strlen(w->path);
  snprintf(w->path + length, sizeof w->path - length, "/%s", name);
  h5_id id = h5_find(w->h, w->path);
  if (h5_is_group(w->h, id))
    h5_children(w->h, id, visit, w);
  else
    place_dataset(w, id);
  h5_done(w->h, id);
  w->path[length] = 0;
  return 0;
}

/* The live rows up to the last step that is kept; half a line at the end goes too. */
static int cut_live(struct recorder *r, struct error *e)
{
  const struct table *t = &r->rows.table[AXIS_STEP];
  int64_t last = -1;
  char *text = NULL;
  size_t length = 0, keep = 0;
  struct error ignored = {0};
  if (t->rows) memcpy(&last, column_row(&t->column[0], t->rows - 1), sizeof last);
  if (!file_read(r->live_path, &text, &length, &ignored) &&
      !strncmp(text, live_header, sizeof live_header - 1)) {
    keep = sizeof live_header - 1;
    for (char *end; (end = strchr(text + keep, '\n')) && strtoll(text + keep, NULL, 10) <= last;)
      keep = (size_t)(end + 1 - text);
  }
  memory_free(text);
  r->live = append_open(r->live_path, e);
  if (!r->live) return e->status;
  if (append_length(r->live) > keep && append_cut(r->live, keep, e)) return e->status;
  return keep ? STATUS_OK : append_write(r->live, live_header, sizeof live_header - 1, e);
}

int recorder_resume(struct recorder **out, const char *path, const struct config *config,
                    const struct run_facts *facts, long step, const void *rows, size_t rows_size,
                    struct error *e)
{
  struct recorder *r = NULL;
  int status = begin(&r, path, config, facts, e);
  if (status) return status;
  struct walk walk = {.r = r};
  status = h5_load(&walk.h, path, e);
  if (!status) {
    read_steps(r, walk.h);
    h5_id root = h5_find(walk.h, "/");
    h5_children(walk.h, root, visit, &walk);
    h5_done(walk.h, root);
    h5_free(walk.h);
    start_tables(&r->rows);
    if (r->problem.status)
      status = error_set(e, r->problem.status, "%s", r->problem.text);
    else if (rows_unpack(&r->rows, rows, rows_size, e))
      status = error_prefix(e, "%s at step %ld", path, step);
  }
  if (!status) status = cut_live(r, e);
  if (status)
    recorder_free(r);
  else
    *out = r;
  return status;
}

/* --- rows ---------------------------------------------------------------------------------------------- */

static int handle(enum series_axis axis, const struct table *t, const struct column *c)
{
  return (int)axis << 16 | (int)(c - t->column);
}

static struct table *table_of(struct recorder *r, int series)
{
  REQUIRE(series >= 0 && series >> 16 < AXIS_COUNT &&
          (series & 0xffff) < r->rows.table[series >> 16].columns);
  return &r->rows.table[series >> 16];
}

static struct column *column_of(struct recorder *r, int series)
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
  default: return (struct h5_shape){.kind = KIND_F32, .rank = 2, .dims = {0, f->tensors}};
  }
}

int recorder_series(struct recorder *r, const struct series *s)
{
  struct table *t = &r->rows.table[s->axis];
  struct h5_shape shape = shape_of(r, s->shape);
  struct column *c = table_find(t, s->name);
  if (c && (c->shape.kind != shape.kind || c->row_bytes != h5_row_bytes(&shape))) {
    error_set(&r->problem, STATUS_FAIL, "%s: the series %s has another shape in the file", r->path, s->name);
    shape = c->shape;
  }
  if (!c) c = table_add(t, s->name, &shape);
  c->unit = own(r, s->unit);
  c->long_name = own(r, s->long_name);
  c->definition = own(r, s->definition);
  c->label[1] = s->shape == PER_TENSOR ? "tensor" : "layer";
  c->label[2] = "head";
  return handle(s->axis, t, c);
}

void recorder_put(struct recorder *r, int series, const float *values)
{
  struct column *c = column_of(r, series);
  if (c->shape.kind == KIND_F64)
    recorder_put_number(r, series, (double)values[0]);
  else
    memcpy(table_row(table_of(r, series), c), values, c->row_bytes);
}

void recorder_put_number(struct recorder *r, int series, double value)
{
  struct column *c = column_of(r, series);
  REQUIRE(c->row_bytes == sizeof value);
  memcpy(table_row(table_of(r, series), c), &value, sizeof value);
}

static void end(const struct recorder *r, struct table *t)
{
  if (r->is_null)
    table_cut(t, t->rows);
  else
    table_end(t);
}

static void end_row(struct recorder *r, int table, int64_t step)
{
  struct table *t = &r->rows.table[table];
  memcpy(table_row(t, &t->column[0]), &step, sizeof step);
  end(r, t);
}

void recorder_row(struct recorder *r, enum series_axis axis, long step) { end_row(r, (int)axis, step); }

void recorder_event(struct recorder *r, long step, const char *kind, int layer, int head, double value)
{
  struct table *t = &r->rows.table[TABLE_EVENTS];
  struct event_record event = {.step = step, .layer = layer, .head = head, .value = value};
  snprintf(event.kind, sizeof event.kind, "%s", kind);
  memcpy(table_row(t, &t->column[0]), &event, sizeof event);
  end(r, t);
}

static void start_batches(struct table *t, int has_mask, int has_document, long batch, long context)
{
  struct h5_shape tokens = {.kind = KIND_I32, .rank = 3, .dims = {0, batch, context + 1}};
  struct h5_shape mask = {.kind = KIND_F32, .rank = 3, .dims = {0, batch, context}};
  struct h5_shape document = {.kind = KIND_I32, .rank = 3, .dims = {0, batch, context}};
  table_add(t, "step", &step_shape);
  table_add(t, "tokens", &tokens);
  if (has_mask) table_add(t, "mask", &mask);
  if (has_document) table_add(t, "document", &document);
}

static void describe_batches(struct table *t)
{
  static const struct {
    const char *name, *long_name, *definition, *last_dimension;
  } text[] = {
    {"step", "training step", "steps count from 0", NULL},
    {"tokens", "token ids", "inputs are [..., :-1], targets [..., 1:]", "token"},
    {"mask", "weight of the target in the loss", "1: it counts, 0: it does not", "target"},
    {"document", "document", "number of the document within the row: attention does not cross its boundaries",
     "target"},
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    struct column *c = table_find(t, text[i].name);
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
  struct table *t = &r->rows.table[TABLE_BATCHES];
  if (!t->columns) start_batches(t, mask != NULL, document != NULL, batch, context);
  if (!t->column[0].unit) describe_batches(t);
  const struct {
    const char *name;
    const void *data;
  } parts[] = {{"tokens", tokens}, {"mask", mask}, {"document", document}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    struct column *c = parts[i].data ? table_find(t, parts[i].name) : NULL;
    REQUIRE(c || !parts[i].data);
    if (c) memcpy(table_row(t, c), parts[i].data, c->row_bytes);
  }
  end_row(r, TABLE_BATCHES, step);
}

void recorder_timing(struct recorder *r, long step, double seconds)
{
  struct table *t = &r->rows.table[TABLE_TIMING];
  memcpy(table_row(t, table_find(t, "seconds")), &seconds, sizeof seconds);
  end_row(r, TABLE_TIMING, step);
}

/* --- live rows ----------------------------------------------------------------------------------------- */

/* The last value of a series of one number a step, NaN if there is none. */
static double last_number(const struct recorder *r, const struct live *l)
{
  const struct table *t = &r->rows.table[l->axis];
  const struct column *c = t->rows ? table_find(t, l->name) : NULL;
  double value = NAN;
  if (c && c->row_bytes == sizeof value) memcpy(&value, column_row(c, t->rows - 1), sizeof value);
  return value;
}

/* The largest value of the last row and where it is; a NaN is larger than any number. */
static double largest(const struct recorder *r, const char *name, long *place_of_it)
{
  const struct table *t = &r->rows.table[AXIS_STEP];
  const struct column *c = table_find(t, name);
  *place_of_it = -1;
  if (!c || c->shape.kind != KIND_F32) return NAN;
  const float *row = column_row(c, t->rows - 1);
  long n = (long)(c->row_bytes / sizeof *row), best = 0;
  for (long i = 1; i < n && !isnan(row[best]); i++)
    if (!(row[i] <= row[best])) best = i;
  *place_of_it = best;
  return (double)row[best];
}

int recorder_live(struct recorder *r, struct error *e)
{
  const struct table *t = &r->rows.table[AXIS_STEP];
  char line[512];
  int64_t step;
  long where;
  if (r->is_null) return STATUS_OK;
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  if (!t->rows) return STATUS_OK;
  memcpy(&step, column_row(&t->column[0], t->rows - 1), sizeof step);
  int n = snprintf(line, sizeof line, "%" PRId64, step);
  for (size_t i = 0; i < sizeof live_columns / sizeof *live_columns; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g", last_number(r, &live_columns[i]));
  double max = largest(r, "attn/max_logit", &where);
  n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g\t%ld\t%ld\n", max,
                where < 0 ? -1 : where / r->facts.heads, where < 0 ? -1 : where % r->facts.heads);
  return append_write(r->live, line, (size_t)n, e);
}

/* --- snapshots ----------------------------------------------------------------------------------------- */

/* Rent or buy: a checkpoint pays for the unsaved rows that it carries; once those payments since the last
   snapshot would reach the price of one (the whole record), a snapshot is made. At a fixed interval of
   checkpoints, c of them then cause snapshots at growing intervals, about sqrt(2c) checkpoints apart, and all
   writing together is the record times about sqrt(8c) instead of c/2. */
int recorder_due(const struct recorder *r)
{
  size_t unsaved = rows_bytes(&r->rows, 1), all = rows_bytes(&r->rows, 0);
  if (!r->snapshots) return 1;
  return unsaved > 0 && (all < ALWAYS_BYTES || r->carried + unsaved >= all);
}

const void *recorder_pending(struct recorder *r, size_t *size)
{
  memory_free(r->packed);
  r->packed = rows_pack(&r->rows, size);
  r->carried += rows_bytes(&r->rows, 1);
  return r->packed;
}

struct put {
  struct h5 *h;
  h5_id id;
};

static void put_code(void *context, const char *name, const char *value)
{
  struct put *p = context;
  h5_put_text(p->h, p->id, name, value);
}

static void put_hash(struct h5 *h, h5_id id, const char *name, uint64_t hash)
{
  char text[24];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  h5_put_text(h, id, name, text);
}

static void write_root(const struct recorder *r, struct h5 *h)
{
  h5_id root = h5_group(h, "/"), code = h5_group(h, "/code");
  h5_put_text(h, root, "format", RUN_FORMAT);
  h5_put_int(h, root, "format_version", RUN_VERSION);
  h5_put_text(h, root, "id", r->facts.id);
  h5_put_text(h, root, "data", r->facts.data);
  h5_put_text(h, root, "data_text", r->facts.data_text);
  put_hash(h, root, "data_content", r->facts.data_content);
  put_hash(h, root, "start_content", r->facts.start_content);
  h5_put_real(h, root, "loss_floor", r->facts.loss_floor);
  h5_put_text(h, root, "software", "maxlogit");
  h5_put_text(h, root, "softwareVersion", r->code.version);
  h5_put_text(h, root, "date", r->started);
  h5_put_text(h, root, "machine", r->code.host);
  h5_put_text(h, root, "NX_class", "NXroot"); /* viewers that know NeXus open the curves by themselves */
  h5_put_text(h, root, "default", "series");
  struct put put = {h, code};
  provenance_each(&r->code, put_code, &put);
  h5_put_int(h, code, "dirty", r->code.dirty);
  h5_put_text(h, code, "device", r->facts.device);
  h5_done(h, root);
  h5_done(h, code);
}

static size_t longest(const struct recorder *r, size_t offset)
{
  size_t most = 1;
  for (int i = 0; i < r->parameters; i++) {
    size_t length = strlen(*(const char *const *)(const void *)((const char *)&r->parameter[i] + offset));
    most = length > most ? length : most;
  }
  return most;
}

/* A table beside the attributes: fixed texts as wide as the longest, so that they carry checksums. */
static void write_parameter_table(const struct recorder *r, struct h5 *h)
{
  static const struct {
    const char *name;
    size_t offset;
  } texts[] = {{"name", offsetof(struct parameter, name)},
               {"value", offsetof(struct parameter, value)},
               {"unit", offsetof(struct parameter, unit)},
               {"help", offsetof(struct parameter, help)},
               {"origin", offsetof(struct parameter, origin)}};
  enum { TEXTS = sizeof texts / sizeof *texts };
  struct h5_field fields[TEXTS + 2] = {{NULL, KIND_U8, 0, 0}};
  size_t size = 0;
  for (int i = 0; i < TEXTS; i++) {
    fields[i] = (struct h5_field){texts[i].name, KIND_TEXT, size, longest(r, texts[i].offset)};
    size += fields[i].size;
  }
  fields[TEXTS] = (struct h5_field){"is_default", KIND_U8, size, 1};
  size++;
  char *table = memory_new((size_t)r->parameters + 1, size);
  for (int i = 0; i < r->parameters; i++) {
    for (int k = 0; k < TEXTS; k++) {
      const char *text =
        *(const char *const *)(const void *)((const char *)&r->parameter[i] + texts[k].offset);
      memcpy(table + (size_t)i * size + fields[k].offset, text, strlen(text));
    }
    table[(size_t)i * size + fields[TEXTS].offset] = (char)r->parameter[i].is_default;
  }
  struct h5_shape shape = {
    .kind = KIND_RECORD, .size = size, .fields = fields, .rank = 1, .dims = {r->parameters}, .compress = 1};
  h5_id id = h5_dataset(h, "/parameters/table", &shape);
  h5_write(h, id, &shape, 0, r->parameters, table);
  h5_done(h, id);
  memory_free(table);
}

static void write_parameters(const struct recorder *r, struct h5 *h)
{
  h5_id group = h5_group(h, "/parameters");
  for (int i = 0; i < r->parameters; i++) {
    const struct parameter *p = &r->parameter[i];
    if (p->type == OPTION_REAL)
      h5_put_real(h, group, p->name, p->number);
    else if (p->type == OPTION_INT || p->type == OPTION_BOOL)
      h5_put_int(h, group, p->name, p->integer);
    else
      h5_put_text(h, group, p->name, p->value);
  }
  h5_done(h, group);
  write_parameter_table(r, h);
  struct h5_shape text = {.kind = KIND_TEXT, .size = strlen(r->config_text) + 1, .rank = 1, .dims = {1}};
  h5_id id = h5_dataset(h, "/parameters/config", &text);
  h5_write(h, id, &text, 0, 1, r->config_text);
  h5_done(h, id);
}

/* --- the tables of a snapshot */

/* A dimension scale 0, 1, ..., n-1. */
static void write_range(struct h5 *h, const char *path, const char *name, const char *long_name, long n)
{
  struct h5_shape shape = {.kind = KIND_I32, .rank = 1, .dims = {n}};
  int32_t *value = memory_new((size_t)n + 1, sizeof *value);
  for (long i = 0; i < n; i++) value[i] = (int32_t)i;
  h5_id id = h5_dataset(h, path, &shape);
  h5_write(h, id, &shape, 0, n, value);
  h5_put_text(h, id, "units", "1");
  h5_put_text(h, id, "long_name", long_name);
  h5_make_scale(h, id, name);
  h5_done(h, id);
  memory_free(value);
}

static void write_tensor_names(const struct recorder *r, struct h5 *h)
{
  enum { WIDTH = 64 };
  struct h5_shape shape = {.kind = KIND_TEXT, .size = WIDTH, .rank = 1, .dims = {r->facts.tensors}};
  char(*names)[WIDTH] = memory_new((size_t)r->facts.tensors + 1, WIDTH);
  for (int i = 0; i < r->facts.tensors; i++) snprintf(names[i], WIDTH, "%s", r->facts.tensor_names[i]);
  h5_id id = h5_dataset(h, "/series/tensor", &shape);
  h5_write(h, id, &shape, 0, r->facts.tensors, names);
  h5_put_text(h, id, "long_name", "parameter");
  h5_make_scale(h, id, "tensor");
  h5_done(h, id);
  memory_free(names);
}

static void write_scales(const struct recorder *r, struct h5 *h)
{
  write_range(h, "/series/layer", "layer", "layer", r->facts.layers);
  write_range(h, "/series/head", "head", "head", r->facts.heads);
  write_tensor_names(r, h);
  const struct column *tokens = table_find(&r->rows.table[TABLE_BATCHES], "tokens");
  if (!tokens) return;
  write_range(h, "/batches/sequence", "sequence", "row of the batch", tokens->shape.dims[1]);
  write_range(h, "/batches/token", "token", "position of a token", tokens->shape.dims[2]);
  write_range(h, "/batches/target", "target", "position of a target", tokens->shape.dims[2] - 1);
}

/* Its rows, its attributes, its dimensions. The step itself comes first and becomes the scale. */
static void write_column(const struct recorder *r, struct h5 *h, int table, const struct column *c,
                         h5_id *scale, int compress)
{
  char path[256];
  int64_t rows = r->rows.table[table].rows;
  struct h5_shape shape = c->shape;
  shape.dims[0] = rows;
  shape.chunk = c->block_rows;
  shape.growing = 1;
  shape.compress = compress;
  snprintf(path, sizeof path, "%s/%s", place[table].folder, c->name);
  h5_id id = h5_dataset(h, path, &shape);
  for (int64_t row = 0; row < rows; row += c->block_rows)
    h5_write(h, id, &shape, row, rows - row < c->block_rows ? rows - row : c->block_rows, column_row(c, row));
  if (c->unit) h5_put_text(h, id, "units", c->unit);
  if (c->long_name) h5_put_text(h, id, "long_name", c->long_name);
  if (c->definition) h5_put_text(h, id, "definition", c->definition);
  if (table == TABLE_EVENTS) {
    h5_done(h, id);
  } else if (*scale < 0) {
    h5_make_scale(h, id, place[table].step);
    *scale = id;
  } else {
    h5_dimension(h, id, 0, place[table].step, *scale);
    for (int dim = 1; dim < shape.rank && c->label[dim]; dim++) {
      snprintf(path, sizeof path, "%s/%s", place[table].folder, c->label[dim]);
      h5_id other = h5_find(h, path);
      h5_dimension(h, id, dim, c->label[dim], other);
      h5_done(h, other);
    }
    h5_done(h, id);
  }
}

static void write_tables(const struct recorder *r, struct h5 *h, int compress)
{
  for (int t = 0; t < TABLE_COUNT; t++) {
    h5_id scale = -1;
    for (int c = 0; c < r->rows.table[t].columns; c++)
      write_column(r, h, t, &r->rows.table[t].column[c], &scale, compress);
    if (scale >= 0) h5_done(h, scale);
  }
}

static void write_plot_hints(const struct recorder *r, struct h5 *h)
{
  if (!table_find(&r->rows.table[AXIS_STEP], "attn/max_logit")) return;
  h5_id series = h5_group(h, "/series"), attn = h5_group(h, "/series/attn");
  h5_put_text(h, series, "NX_class", "NXentry");
  h5_put_text(h, series, "default", "attn");
  h5_put_text(h, attn, "NX_class", "NXdata");
  h5_put_text(h, attn, "signal", "max_logit");
  h5_done(h, series);
  h5_done(h, attn);
}

static void write_status(struct h5 *h, const char *state, long last_step, double wall)
{
  char now[32];
  clock_iso8601(now);
  h5_id status = h5_group(h, "/status");
  h5_put_text(h, status, "state", state);
  h5_put_int(h, status, "last_step", last_step);
  h5_put_real(h, status, "wall_seconds", wall);
  h5_put_text(h, status, "date", now);
  h5_done(h, status);
}

int recorder_snapshot(struct recorder *r, const char *state, long last_step, double wall, int final,
                      struct error *e)
{
  if (r->is_null) return STATUS_OK;
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  struct h5 *h = h5_new();
  write_root(r, h);
  write_parameters(r, h);
  write_scales(r, h);
  write_tables(r, h, final);
  write_plot_hints(r, h);
  write_status(h, state, last_step, wall);
  int status = h5_save(h, r->path, e);
  if (!status) {
    rows_saved(&r->rows);
    r->carried = 0;
    r->snapshots = 1;
  }
  return status;
}
