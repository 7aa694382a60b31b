#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/layout.h"
#include "storage/recorder.h"

struct run_file {
  char path[4096];
  struct h5 *h;
  char state[24], id[16], data[64], data_text[256], data_content[24], start_content[24];
  int64_t last_step;
  double wall, loss_floor;
  char *parameter;
  int64_t parameters; /* names and values, each parameter_room bytes */
  size_t parameter_room;
  char (*name)[96];
  int names; /* of the series */
};

/* --- opening ------------------------------------------------------------------------------------------- */

/* Is it a run file of a version that this program reads? */
static int check_format(struct run_file *r, struct error *e)
{
  char format[64] = "";
  int64_t version = 0;
  h5_id root = h5_find(r->h, "/");
  h5_get_text(r->h, root, "format", format, sizeof format);
  h5_get_int(r->h, root, "format_version", &version);
  h5_done(r->h, root);
  if (!strcmp(format, CHECKPOINT_FORMAT))
    return error_set(e, STATUS_USAGE, "%s is a checkpoint, not a run file", r->path);
  if (strcmp(format, RUN_FORMAT))
    return error_set(e, STATUS_USAGE, "%s is not a run file of maxlogit", r->path);
  if (version > RUN_VERSION)
    return error_set(e, STATUS_USAGE, "%s has format version %" PRId64 "; this maxlogit reads up to %d",
                     r->path, version, RUN_VERSION);
  return STATUS_OK;
}

static void read_facts(struct run_file *r)
{
  h5_id root = h5_find(r->h, "/"), status = h5_find(r->h, "/status");
  h5_get_text(r->h, root, "id", r->id, sizeof r->id);
  h5_get_text(r->h, root, "data", r->data, sizeof r->data);
  h5_get_text(r->h, root, "data_text", r->data_text, sizeof r->data_text);
  h5_get_text(r->h, root, "data_content", r->data_content, sizeof r->data_content);
  h5_get_text(r->h, root, "start_content", r->start_content, sizeof r->start_content);
  r->loss_floor = NAN;
  h5_get_real(r->h, root, "loss_floor", &r->loss_floor);
  h5_get_text(r->h, status, "state", r->state, sizeof r->state);
  h5_get_int(r->h, status, "last_step", &r->last_step);
  h5_get_real(r->h, status, "wall_seconds", &r->wall);
  h5_done(r->h, root);
  h5_done(r->h, status);
}

/* All rows of a dataset into new memory; 0 when it is not there or not of this kind. */
static int64_t read_all(struct run_file *r, const char *path, const struct h5_shape *memory, void **out)
{
  struct h5_shape found;
  int64_t rows = 0;
  h5_id id = h5_find(r->h, path);
  if (h5_get_shape(r->h, id, &found) && found.kind == memory->kind && found.rank == 1) {
    rows = found.dims[0];
    *out = memory_new((size_t)rows + 1, memory->size);
    if (!h5_read(r->h, id, memory, 0, rows, *out)) {
      memory_free(*out);
      *out = NULL;
      rows = 0;
    }
  }
  h5_done(r->h, id);
  return rows;
}

/* Two fields of the table; none of its texts is longer than a whole row of it. */
static void read_parameters(struct run_file *r)
{
  struct h5_shape table;
  h5_id id = h5_find(r->h, "/parameters/table");
  if (h5_get_shape(r->h, id, &table) && table.kind == KIND_RECORD) {
    size_t room = table.size + 1;
    struct h5_field fields[] = {
      {"name", KIND_TEXT, 0, room}, {"value", KIND_TEXT, room, room}, {NULL, KIND_U8, 0, 0}};
    struct h5_shape pairs = {.kind = KIND_RECORD, .size = 2 * room, .fields = fields, .rank = 1};
    void *rows = NULL;
    r->parameters = read_all(r, "/parameters/table", &pairs, &rows);
    r->parameter = rows;
    r->parameter_room = room;
  }
  h5_done(r->h, id);
}

struct walk {
  struct run_file *r;
  char path[256];
};

/* Collect the datasets whose first dimension is a step axis. */
static int visit(void *context, const char *name)
{
  struct walk *w = context;
  struct run_file *r = w->r;
  size_t length = strlen(w->path);
  char label[64];
  snprintf(w->path + length, sizeof w->path - length, "/%s", name);
  h5_id id = h5_find(r->h, w->path);
  if (h5_is_group(r->h, id))
    h5_children(r->h, id, visit, w);
  else if (h5_get_label(r->h, id, 0, label, sizeof label) && strlen(w->path) - 8 < sizeof *r->name) {
    r->name = memory_grow(r->name, (size_t)r->names, (size_t)r->names + 1, sizeof *r->name);
    snprintf(r->name[r->names++], sizeof *r->name, "%s", w->path + strlen("/series/"));
  }
  h5_done(r->h, id);
  w->path[length] = 0;
  return 0;
}

static void read_names(struct run_file *r)
{
  struct walk walk = {r, "/series"};
  h5_id series = h5_find(r->h, "/series");
  h5_children(r->h, series, visit, &walk);
  h5_done(r->h, series);
}

int run_open(struct run_file **out, const char *path, struct error *e)
{
  struct run_file *r = memory_new(1, sizeof *r);
  snprintf(r->path, sizeof r->path, "%s", path);
  int status = h5_load(&r->h, path, e);
  if (!status) status = check_format(r, e);
  if (status) {
    run_close(r);
    return status;
  }
  read_facts(r);
  read_parameters(r);
  read_names(r);
  *out = r;
  return STATUS_OK;
}

void run_close(struct run_file *r)
{
  if (!r) return;
  h5_free(r->h);
  memory_free(r->parameter);
  memory_free(r->name);
  memory_free(r);
}

/* --- facts --------------------------------------------------------------------------------------------- */

const char *run_state(const struct run_file *r) { return r->state; }
long run_last_step(const struct run_file *r) { return (long)r->last_step; }
double run_wall_seconds(const struct run_file *r) { return r->wall; }
const char *run_id(const struct run_file *r) { return r->id; }
const char *run_data_text(const struct run_file *r) { return r->data_text; }
double run_loss_floor(const struct run_file *r) { return r->loss_floor; }

int run_contents(const struct run_file *r, uint64_t *data, uint64_t *start)
{
  *data = strtoull(r->data_content, NULL, 16);
  *start = strtoull(r->start_content, NULL, 16);
  return *r->data_content != 0;
}

static const char *parameter_name(const struct run_file *r, int64_t i)
{
  return r->parameter + (size_t)i * 2 * r->parameter_room;
}

const char *run_parameter(const struct run_file *r, const char *key)
{
  for (int64_t i = 0; i < r->parameters; i++)
    if (!strcmp(parameter_name(r, i), key)) return parameter_name(r, i) + r->parameter_room;
  return NULL;
}

int run_parameters(const struct run_file *r, int (*each)(void *, const char *key, const char *value),
                   void *context)
{
  int stop = 0;
  for (int64_t i = 0; i < r->parameters && !stop; i++)
    stop = each(context, parameter_name(r, i), parameter_name(r, i) + r->parameter_room);
  return stop;
}

/* --- series -------------------------------------------------------------------------------------------- */

int run_series_names(const struct run_file *r, int (*each)(void *, const char *name), void *context)
{
  int stop = 0;
  for (int i = 0; i < r->names && !stop; i++) stop = each(context, r->name[i]);
  return stop;
}

static int no_such_series(const struct run_file *r, const char *name, struct error *e)
{
  const char **all = memory_new((size_t)r->names + 1, sizeof *all);
  for (int i = 0; i < r->names; i++) all[i] = r->name[i];
  const char *near = text_nearest(name, all, (size_t)r->names);
  int status = error_set(e, STATUS_USAGE, "%s has no series %s%s%s%s", r->path, name,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  memory_free(all);
  return status;
}

static int is_series(const struct run_file *r, const char *name)
{
  for (int i = 0; i < r->names; i++)
    if (!strcmp(r->name[i], name)) return 1;
  return 0;
}

static void shape_of(struct run_series *s, const struct h5_shape *found, const char *label)
{
  s->layers = s->heads = 1;
  s->width = (long)(h5_row_bytes(found) / h5_kind_size(found->kind));
  s->shape = found->rank == 1           ? PER_STEP
             : found->rank == 3         ? PER_HEAD
             : !strcmp(label, "tensor") ? PER_TENSOR
                                        : PER_LAYER;
  if (s->shape == PER_LAYER || s->shape == PER_HEAD) s->layers = (long)found->dims[1];
  if (s->shape == PER_HEAD) s->heads = (long)found->dims[2];
}

static void read_labels(struct run_file *r, struct run_series *s)
{
  struct h5_shape shape = {.kind = KIND_TEXT, .size = sizeof *s->labels, .rank = 1};
  void *labels = NULL;
  int64_t n = read_all(r, "/series/tensor", &shape, &labels);
  s->labels = memory_new((size_t)s->width + 1, sizeof *s->labels);
  for (int64_t i = 0; i < n && i < s->width; i++)
    snprintf(s->labels[i], sizeof *s->labels, "%.63s", (const char *)labels + (size_t)i * sizeof *s->labels);
  memory_free(labels);
}

/* Steps and values; the steps lie in the dataset that labels the first dimension. */
static int read_numbers(struct run_file *r, h5_id id, const struct h5_shape *found, struct run_series *s)
{
  char label[64] = "", path[128];
  struct h5_shape value = *found, step = {.kind = KIND_F64, .rank = 1}, steps;
  value.kind = KIND_F64;
  h5_get_label(r->h, id, 0, label, sizeof label);
  snprintf(path, sizeof path, "/series/%s", label);
  h5_id axis = h5_find(r->h, path);
  int ok = h5_get_shape(r->h, axis, &steps) && steps.rank == 1 && steps.dims[0] == s->rows;
  s->step = memory_new((size_t)s->rows + 1, sizeof *s->step);
  s->value = memory_new((size_t)s->rows * (size_t)s->width + 1, sizeof *s->value);
  ok =
    ok && h5_read(r->h, axis, &step, 0, s->rows, s->step) && h5_read(r->h, id, &value, 0, s->rows, s->value);
  h5_done(r->h, axis);
  return ok;
}

int run_read(const struct run_file *file, const char *name, struct run_series *s, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file; /* reading changes nothing that a caller can see */
  struct h5_shape found;
  char path[128], label[64] = "";
  *s = (struct run_series){.rows = 0};
  if (!is_series(r, name)) return no_such_series(r, name, e);
  snprintf(path, sizeof path, "/series/%s", name);
  h5_id id = h5_find(r->h, path);
  int ok = h5_get_shape(r->h, id, &found) && found.kind < KIND_TEXT && found.rank <= 3;
  if (ok) {
    h5_get_label(r->h, id, 1, label, sizeof label);
    shape_of(s, &found, label);
    s->rows = (long)found.dims[0];
    snprintf(s->name, sizeof s->name, "%s", name);
    h5_get_text(r->h, id, "units", s->unit, sizeof s->unit);
    h5_get_text(r->h, id, "long_name", s->long_name, sizeof s->long_name);
    ok = read_numbers(r, id, &found, s);
  }
  h5_done(r->h, id);
  if (ok && s->shape == PER_TENSOR) read_labels(r, s);
  if (!ok) {
    run_series_free(s);
    return error_set(e, STATUS_FAIL, "%s: the series %s cannot be read", r->path, name);
  }
  return STATUS_OK;
}

void run_series_free(struct run_series *s)
{
  memory_free(s->step);
  memory_free(s->value);
  memory_free(s->labels);
  *s = (struct run_series){.rows = 0};
}

int run_events(const struct run_file *file, struct run_event **out, long *count, struct error *e)
{
  struct run_file *r = (struct run_file *)(uintptr_t)file;
  struct h5_shape shape = {
    .kind = KIND_RECORD, .size = sizeof(struct event_record), .fields = event_fields, .rank = 1};
  void *rows = NULL;
  *count = (long)read_all(r, "/events", &shape, &rows);
  const struct event_record *record = rows;
  if (!rows) return error_set(e, STATUS_FAIL, "%s: the events cannot be read", r->path);
  *out = memory_new((size_t)*count + 1, sizeof **out);
  for (long i = 0; i < *count; i++) {
    (*out)[i] = (struct run_event){.step = (long)record[i].step,
                                   .layer = record[i].layer,
                                   .head = record[i].head,
                                   .value = record[i].value};
    snprintf((*out)[i].kind, sizeof(*out)[i].kind, "%.23s", record[i].kind);
  }
  memory_free(rows);
  return STATUS_OK;
}
