/* snapshot.c - the whole run file, written beside and renamed; and when that is worth it */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "storage/recorder_state.h"

/* Below this a snapshot at every checkpoint costs less than the checkpoint's own sync. */
enum { ALWAYS_BYTES = 1 << 20 };

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

/* --- root, parameters */

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

/* --- tables */

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
  if (r->facts.experts) write_range(h, "/series/expert", "expert", "expert", r->facts.experts);
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
  snprintf(path, sizeof path, "%s/%s", table_places[table].folder, c->name);
  h5_id id = h5_dataset(h, path, &shape);
  for (int64_t row = 0; row < rows; row += c->block_rows)
    h5_write(h, id, &shape, row, rows - row < c->block_rows ? rows - row : c->block_rows, column_row(c, row));
  if (c->unit) h5_put_text(h, id, "units", c->unit);
  if (c->long_name) h5_put_text(h, id, "long_name", c->long_name);
  if (c->definition) h5_put_text(h, id, "definition", c->definition);
  if (table == TABLE_EVENTS) {
    h5_done(h, id);
  } else if (*scale < 0) {
    h5_make_scale(h, id, table_places[table].step);
    *scale = id;
  } else {
    h5_dimension(h, id, 0, table_places[table].step, *scale);
    for (int dim = 1; dim < shape.rank && c->label[dim]; dim++) {
      snprintf(path, sizeof path, "%s/%s", table_places[table].folder, c->label[dim]);
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

/* --- the head (storage/seal.h) */

static void head_text(struct buffer *head, const char *key, const char *value)
{
  buffer_add(head, "%s%c%s%c", key, 0, value, 0);
}

static void head_number(struct buffer *head, const char *key, double value)
{
  char text[32];
  text_number(value, text);
  head_text(head, key, text);
}

static void head_hash(struct buffer *head, const char *key, uint64_t hash)
{
  char text[24];
  snprintf(text, sizeof text, "%016" PRIx64, hash);
  head_text(head, key, text);
}

struct series_rows {
  const char *name;
  int64_t rows;
};

static int compare_names(const void *a, const void *b)
{
  return strcmp(((const struct series_rows *)a)->name, ((const struct series_rows *)b)->name);
}

static void head_series(const struct recorder *r, struct buffer *head)
{
  struct series_rows *all = NULL;
  size_t count = 0;
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      all = memory_grow(all, count, count + 1, sizeof *all);
      all[count++] = (struct series_rows){r->rows.table[t].column[c].name, r->rows.table[t].rows};
    }
  if (count) qsort(all, count, sizeof *all, compare_names);
  for (size_t i = 0; i < count; i++)
    buffer_add(head, HEAD_SERIES "%s%c%" PRId64 "%c", all[i].name, 0, all[i].rows, 0);
  memory_free(all);
}

static void write_head(const struct recorder *r, struct h5 *h, const char *state, long last_step, double wall)
{
  struct buffer head = {0};
  head_number(&head, "format_version", RUN_VERSION);
  head_text(&head, "id", r->facts.id);
  head_text(&head, "state", state);
  head_number(&head, "last_step", (double)last_step);
  head_number(&head, "wall_seconds", wall);
  head_text(&head, "date", r->started);
  head_text(&head, "data", r->facts.data);
  head_text(&head, "data_text", r->facts.data_text);
  head_hash(&head, "data_content", r->facts.data_content);
  head_hash(&head, "start_content", r->facts.start_content);
  head_number(&head, "loss_floor", r->facts.loss_floor);
  for (int i = 0; i < r->parameters; i++)
    buffer_add(&head, HEAD_PARAMETER "%s%c%s%c", r->parameter[i].name, 0, r->parameter[i].value, 0);
  head_series(r, &head);
  h5_put_head(h, head.text, head.length);
  memory_free(head.text);
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
  notes_write(h, &r->notes);
  write_status(h, state, last_step, wall);
  write_head(r, h, state, last_step, wall);
  int status = h5_save(h, r->path, e);
  if (!status) {
    rows_saved(&r->rows);
    r->carried = 0;
    r->snapshots = 1;
  }
  return status;
}
