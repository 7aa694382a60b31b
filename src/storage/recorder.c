#include "storage/recorder.h"
#include "storage/run_file.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "storage/recorder_state.h"

const char *recorder_own(struct recorder *r, const char *text)
{
  return arena_text(r->arena, text ? text : "");
}

void recorder_facts(struct recorder *r, const struct run_facts *f)
{
  const char **names = arena_get(r->arena, (size_t)f->tensors + 1, sizeof *names);
  for (int i = 0; i < f->tensors; i++) names[i] = recorder_own(r, f->tensor_names[i]);
  r->facts = (struct run_facts){.id = recorder_own(r, f->id),
                                .device = recorder_own(r, f->device),
                                .data = recorder_own(r, f->data),
                                .data_text = recorder_own(r, f->data_text),
                                .layers = f->layers,
                                .heads = f->heads,
                                .experts = f->experts,
                                .tensors = f->tensors,
                                .tensor_names = names,
                                .loss_floor = f->loss_floor,
                                .data_content = f->data_content,
                                .start_content = f->start_content};
}

struct recorder *recorder_memory(const struct run_facts *facts)
{
  struct recorder *r = memory_new(1, sizeof *r);
  r->arena = arena_new();
  recorder_facts(r, facts);
  rows_start(&r->rows);
  return r;
}

struct recorder *recorder_null(const struct run_facts *facts)
{
  struct recorder *r = recorder_memory(facts);
  r->is_null = 1;
  struct row_table *events = &r->rows.table[TABLE_EVENTS];
  table_row(events, &events->column[0]); /* allocate now, because later nothing may be allocated */
  table_cut(events, 0);
  return r;
}

int recorder_keeps(const struct recorder *r) { return *r->path != 0; }

void recorder_free(struct recorder *r)
{
  if (!r) return;
  if (r->close) r->close(r);
  rows_free(&r->rows);
  memory_free(r->parameter);
  memory_free(r->axis);
  arena_free(r->arena);
  memory_free(r);
}

/* --- rows ---------------------------------------------------------------------------------------------- */

/* A series' number: its axis, then its column in COLUMN_BITS bits. They hold more than TABLE_COLUMNS, so that a run
   that continues a file with so many series can add its own. */
enum { COLUMN_BITS = 24 };
static int column_index(int series) { return series & ((1 << COLUMN_BITS) - 1); }

static int handle(enum series_axis axis, const struct row_table *t, const struct row_column *c)
{
  return (int)axis << COLUMN_BITS | (int)(c - t->column);
}

int recorder_has(const struct recorder *r, int series)
{
  return series >= 0 && series >> COLUMN_BITS < AXIS_COUNT && column_index(series) > 0 &&
         column_index(series) < r->rows.table[series >> COLUMN_BITS].columns;
}

struct row_table *recorder_table(struct recorder *r, int series)
{
  REQUIRE(recorder_has(r, series));
  return &r->rows.table[series >> COLUMN_BITS];
}

struct row_column *recorder_column(struct recorder *r, int series)
{
  return &recorder_table(r, series)->column[column_index(series)];
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

/* The column of a series, created if missing; the caller sets its labels. */
static struct row_column *declare(struct recorder *r, struct row_table *t, struct h5_shape shape,
                                  const char *name, const char *unit, const char *long_name,
                                  const char *definition)
{
  struct row_column *c = table_find(t, name);
  if (c && (c->shape.kind != shape.kind || c->row_bytes != h5_row_bytes(&shape))) {
    error_set(&r->problem, STATUS_FAIL, "%s: the series %s has another shape in the file", r->path, name);
    c = NULL; /* a column for the values of this run, which is not written */
  }
  if (!c) c = table_add(t, name, &shape);
  c->unit = recorder_own(r, unit);
  c->long_name = recorder_own(r, long_name);
  c->definition = recorder_own(r, definition);
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
  for (int i = 0; i < s->axes; i++) c->label[i + 1] = recorder_own(r, s->axis_name[i]);
  return handle(s->axis, t, c);
}

void recorder_name_axis(struct recorder *r, const char *axis, long size, const char *const *names)
{
  struct axis_names *a = NULL;
  const char **copy = arena_get(r->arena, (size_t)size + 1, sizeof *copy);
  for (long i = 0; i < size; i++) copy[i] = recorder_own(r, names[i]);
  for (int i = 0; i < r->axes && !a; i++)
    if (!strcmp(r->axis[i].axis, axis)) a = &r->axis[i];
  if (!a) {
    r->axis = memory_grow(r->axis, (size_t)r->axes, (size_t)r->axes + 1, sizeof *r->axis);
    a = &r->axis[r->axes++];
  }
  *a = (struct axis_names){recorder_own(r, axis), copy, size};
}

void recorder_put(struct recorder *r, int series, const float *values)
{
  struct row_column *c = recorder_column(r, series);
  if (c->shape.kind == KIND_F64)
    recorder_put_number(r, series, (double)values[0]);
  else
    memcpy(table_row(recorder_table(r, series), c), values, c->row_bytes);
}

void recorder_put_number(struct recorder *r, int series, double value)
{
  struct row_column *c = recorder_column(r, series);
  REQUIRE(c->row_bytes == sizeof value);
  memcpy(table_row(recorder_table(r, series), c), &value, sizeof value);
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
    const size_t bytes = (size_t)batch * (size_t)(context + !i) * sizeof(int); /* tokens: one more column */
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

void recorder_forget(struct recorder *r, long step)
{
  struct row_table *t = &r->rows.table[AXIS_STEP];
  int64_t last = -1;
  if (t->rows) memcpy(&last, column_row(&t->column[0], t->rows - 1), sizeof last);
  if (t->rows && last == step) table_cut(t, t->rows - 1);
}

void recorder_go_back(struct recorder *r, long step) { rows_go_back(&r->rows, step); }

/* --- rows in memory ------------------------------------------------------------------------------------- */

/* The i-th series column, over all axes. */
static const struct row_column *series_at(const struct recorder *r, int i, enum series_axis *axis)
{
  for (int t = 0; t < AXIS_COUNT; t++) {
    const int here = r->rows.table[t].columns - 1;
    *axis = (enum series_axis)t;
    if (i < here) return &r->rows.table[t].column[i + 1];
    i -= here;
  }
  return NULL;
}

int recorder_holding(const struct recorder *r, int i, struct held_series *out)
{
  enum series_axis axis;
  const struct row_column *c = series_at(r, i, &axis);
  if (!c) return 0;
  *out = (struct held_series){.name = c->name,
                              .unit = c->unit,
                              .long_name = c->long_name,
                              .definition = c->definition,
                              .axis = axis,
                              .axes = c->shape.rank - 1,
                              .width = (long)(c->row_bytes / h5_kind_size(c->shape.kind)),
                              .rows = (long)r->rows.table[axis].rows};
  for (int k = 0; k < out->axes && k < FREE_AXES; k++) out->axis_name[k] = c->label[k + 1];
  return 1;
}

void recorder_held(const struct recorder *r, int i, long row, double *step, double *value)
{
  enum series_axis axis;
  const struct row_column *c = series_at(r, i, &axis);
  int64_t at;
  memcpy(&at, column_row(&r->rows.table[axis].column[0], row), sizeof at);
  *step = (double)at;
  const void *from = column_row(c, row);
  if (c->shape.kind == KIND_F64)
    memcpy(value, from, c->row_bytes);
  else
    for (size_t k = 0; k < c->row_bytes / sizeof(float); k++) value[k] = (double)((const float *)from)[k];
}

int recorder_held_event(const struct recorder *r, long i, struct run_event *out)
{
  const struct row_table *t = &r->rows.table[TABLE_EVENTS];
  if (i >= t->rows) return 0;
  const struct event_record *x = column_row(&t->column[0], i);
  *out = (struct run_event){.step = (long)x->step, .layer = x->layer, .head = x->head, .value = x->value};
  memcpy(out->kind, x->kind, sizeof out->kind);
  return 1;
}

const struct run_facts *recorder_facts_of(const struct recorder *r) { return &r->facts; }
