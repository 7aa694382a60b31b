/* snapshot.c - writes the whole run file, atomically */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "storage/head.h"
#include "storage/recorder_state.h"
#include "storage/texts.h"

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
  h5_put_text(h, root, "NX_class", "NXroot"); /* viewers that support NeXus open the curves automatically */
  h5_put_text(h, root, "default", "series");
  struct put put = {h, code};
  provenance_each(&r->code, put_code, &put);
  h5_put_int(h, code, "dirty", r->code.dirty);
  h5_put_text(h, code, "device", r->facts.device);
  h5_done(h, root);
  h5_done(h, code);
}

static void write_parameter_table(const struct recorder *r, struct h5 *h)
{
  static const char *const fields[] = {"name", "value", "unit", "help", "origin", NULL};
  enum { FIELDS = sizeof fields / sizeof *fields - 1 };
  size_t n = (size_t)r->parameters;
  const char **text = memory_new(n * FIELDS + 1, sizeof *text);
  char *is_default = memory_new(n + 1, 1);
  for (size_t i = 0; i < n; i++) {
    const struct parameter *p = &r->parameter[i];
    const char *const texts[FIELDS] = {p->name, p->value, p->unit, p->help, p->origin};
    memcpy(text + i * FIELDS, texts, sizeof texts);
    is_default[i] = (char)p->is_default;
  }
  texts_put(h, "/parameters/table", fields, r->parameters, text, "is_default", is_default);
  memory_free(text);
  memory_free(is_default);
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
  text_put(h, "/parameters/config", r->config_text);
}

/* --- tables */

/* A dimension scale 0, 1, ..., n-1. */
static void write_range(struct h5 *h, const char *path, const char *name, const char *long_name, long n)
{
  struct h5_shape shape = {.kind = KIND_I32, .rank = 1, .dims = {n}};
  int32_t *value = memory_new((size_t)n + 1, sizeof *value);
  for (long i = 0; i < n; i++) value[i] = (int32_t)i;
  h5_id id = h5_put(h, path, &shape, value);
  h5_put_text(h, id, "units", "1");
  h5_put_text(h, id, "long_name", long_name);
  h5_make_scale(h, id, name);
  h5_done(h, id);
  memory_free(value);
}

static void write_names(struct h5 *h, const char *path, size_t width, long n, const char *const *name,
                        const char *long_name, const char *scale)
{
  struct h5_shape shape = {.kind = KIND_TEXT, .size = width, .rank = 1, .dims = {n}};
  char *names = memory_new((size_t)n + 1, width);
  for (long i = 0; i < n; i++) snprintf(names + (size_t)i * width, width, "%s", name[i]);
  h5_id id = h5_put(h, path, &shape, names);
  h5_put_text(h, id, "long_name", long_name);
  if (scale) h5_make_scale(h, id, scale);
  h5_done(h, id);
  memory_free(names);
}

enum { TENSOR_NAME = 64, PLACE_NAME = 128 }; /* bytes, with the NUL */

static void write_axis_names(const struct recorder *r, struct h5 *h)
{
  char path[256];
  for (int i = 0; i < r->axes; i++) {
    const struct axis_names *a = &r->axis[i];
    snprintf(path, sizeof path, "/series/%.64s_name", a->axis);
    if (!strcmp(a->axis, "tensor"))
      write_names(h, "/series/tensor", TENSOR_NAME, a->size, a->name, "parameter", "tensor");
    else
      write_names(h, path, PLACE_NAME, a->size, a->name, "name", NULL);
  }
}

/* Write scales of the axes of free series, for which no fact exists. */
static void write_free_scales(const struct recorder *r, struct h5 *h)
{
  char path[256];
  for (int t = 0; t < AXIS_COUNT; t++)
    for (int c = 1; c < r->rows.table[t].columns; c++) {
      const struct row_column *column = &r->rows.table[t].column[c];
      for (int dim = 1; dim < column->shape.rank && column->label[dim]; dim++) {
        snprintf(path, sizeof path, "/series/%.64s", column->label[dim]);
        h5_id id = h5_find(h, path);
        h5_done(h, id);
        if (id < 0)
          write_range(h, path, column->label[dim], column->label[dim], (long)column->shape.dims[dim]);
      }
    }
}

static void write_scales(const struct recorder *r, struct h5 *h)
{
  if (r->facts.layers) write_range(h, "/series/layer", "layer", "layer", r->facts.layers);
  if (r->facts.heads) write_range(h, "/series/head", "head", "head", r->facts.heads);
  if (r->facts.experts) write_range(h, "/series/expert", "expert", "expert", r->facts.experts);
  if (r->facts.tensors)
    write_names(h, "/series/tensor", TENSOR_NAME, r->facts.tensors, r->facts.tensor_names, "parameter",
                "tensor");
  write_axis_names(r, h);
  write_free_scales(r, h);
  const struct row_column *tokens = table_find(&r->rows.table[TABLE_BATCHES], "tokens");
  if (!tokens) return;
  write_range(h, "/batches/sequence", "sequence", "row of the batch", tokens->shape.dims[1]);
  write_range(h, "/batches/token", "token", "position of a token", tokens->shape.dims[2]);
  write_range(h, "/batches/target", "target", "position of a target", tokens->shape.dims[2] - 1);
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
  if (!recorder_keeps(r)) return STATUS_OK;
  if (r->problem.status) return error_set(e, r->problem.status, "%s", r->problem.text);
  struct h5 *h = h5_new();
  write_root(r, h);
  write_parameters(r, h);
  write_scales(r, h);
  tables_write(h, &r->rows, final);
  write_plot_hints(r, h);
  notes_write(h, &r->notes);
  write_status(h, state, last_step, wall);
  size_t size;
  char *head = run_head_of(h, &size);
  h5_put_head(h, head, size);
  memory_free(head);
  int status = h5_save(h, r->path, r->lock, e);
  if (status) return status;
  rows_saved(&r->rows);
  if (!strcmp(state, "running"))
    return r->journal ? journal_start(r->journal, r->started, &r->rows, &r->notes, e) : STATUS_OK;
  journal_close(r->journal);
  r->journal = NULL;
  return file_remove(r->journal_path) ? error_set(e, STATUS_FAIL, "cannot remove %s", r->journal_path)
                                      : STATUS_OK;
}
