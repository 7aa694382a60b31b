/* read.c - maxlogit/read.h, by the reader of run files
   The file is closed after each query, because an open file holds the mutex of the HDF5 library. */
#include "maxlogit/read.h"
#include <stdio.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/memory.h"
#include "base/error_export.h"
#include "storage/notes.h"
#include "storage/run_file.h"

struct series_names {
  const char **key, **value; /* value NULL: for series */
  long count;
};

struct maxlogit_run {
  struct run_file *file;
  struct series_names settings, series;
  struct notes notes;
  struct { /* the last axis queried */
    char axis[64], *names;
    long count;
    size_t room;
  } places;
};

static void add_series_name(struct series_names *n, const char *key, const char *value)
{
  n->key = memory_grow(n->key, (size_t)n->count, (size_t)n->count + 1, sizeof *n->key);
  n->value = memory_grow(n->value, (size_t)n->count, (size_t)n->count + 1, sizeof *n->value);
  n->key[n->count] = key;
  n->value[n->count++] = value;
}

static int add_setting(void *names, const char *key, const char *value)
{
  add_series_name(names, key, value);
  return 0;
}

static int add_series(void *names, const char *name)
{
  add_series_name(names, name, NULL);
  return 0;
}

int maxlogit_run_open(struct maxlogit_run **out, const char *path, struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  struct run_file *file = NULL;
  *out = NULL;
  int status = run_open(&file, path, &e);
  if (status) return error_export(error, status, &e);
  struct maxlogit_run *run = memory_new(1, sizeof *run);
  run->file = file;
  run_parameters(file, add_setting, &run->settings);
  run_series_names(file, add_series, &run->series);
  run_derived_names(file, add_series, &run->series);
  status = run_notes(file, &run->notes, &e);
  run_rest(file);
  *out = run;
  if (status) {
    maxlogit_run_close(run);
    *out = NULL;
  }
  return error_export(error, status, &e);
}

void maxlogit_run_close(struct maxlogit_run *run)
{
  if (!run) return;
  run_close(run->file);
  notes_free(&run->notes);
  memory_free(run->places.names);
  memory_free(run->settings.key);
  memory_free(run->settings.value);
  memory_free(run->series.key);
  memory_free(run->series.value);
  memory_free(run);
}

void maxlogit_run_facts(const struct maxlogit_run *run, struct maxlogit_facts *facts)
{
  IN_C_LOCALE;
  *facts = (struct maxlogit_facts){.id = run_id(run->file),
                                   .date = run_date(run->file),
                                   .state = run_state(run->file),
                                   .data = run_data_text(run->file),
                                   .last_step = run_last_step(run->file),
                                   .wall_seconds = run_wall_seconds(run->file)};
}

const char *maxlogit_run_setting(const struct maxlogit_run *run, const char *key)
{
  return run_parameter(run->file, key);
}

int maxlogit_run_setting_at(const struct maxlogit_run *run, long i, const char **key, const char **value)
{
  if (i < 0 || i >= run->settings.count) return 0;
  *key = run->settings.key[i];
  *value = run->settings.value[i];
  return 1;
}

const char *maxlogit_run_series_at(const struct maxlogit_run *run, long i, long *rows)
{
  if (i < 0 || i >= run->series.count) return NULL;
  if (rows) *rows = run_rows(run->file, run->series.key[i]);
  return run->series.key[i];
}

int maxlogit_run_read(const struct maxlogit_run *run, const char *name, struct maxlogit_values *out,
                      struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  struct run_series s;
  *out = (struct maxlogit_values){.rows = 0};
  int status = run_read_all(run->file, name, &s, &e);
  run_rest(run->file);
  if (status) return error_export(error, status, &e);
  snprintf(out->name, sizeof out->name, "%s", s.name);
  snprintf(out->unit, sizeof out->unit, "%s", s.unit);
  snprintf(out->long_name, sizeof out->long_name, "%s", s.long_name);
  snprintf(out->definition, sizeof out->definition, "%s", s.definition);
  out->axes = s.axes;
  for (int i = 0; i < s.axes; i++) {
    snprintf(out->axis_name[i], sizeof out->axis_name[i], "%s", s.axis_name[i]);
    out->size[i] = s.size[i];
  }
  out->rows = s.rows;
  out->width = s.width;
  out->step = s.step;
  out->value = s.value;
  s.step = s.value = NULL;
  run_series_free(&s);
  return error_export(error, STATUS_OK, &e);
}

void maxlogit_values_free(struct maxlogit_values *values)
{
  memory_free(values->step);
  memory_free(values->value);
  *values = (struct maxlogit_values){.rows = 0};
}

int maxlogit_run_place(const struct maxlogit_run *of, const char *axis, long i, char *name, size_t room)
{
  struct maxlogit_run *run = (struct maxlogit_run *)(size_t)of; /* caches the last query */
  if (strcmp(run->places.axis, axis) != 0) {
    memory_free(run->places.names);
    run->places.count = 0;
    run->places.names = run_axis_names(run->file, axis, &run->places.count, &run->places.room);
    run_rest(run->file);
    snprintf(run->places.axis, sizeof run->places.axis, "%s", axis);
  }
  if (!run->places.names || i < 0 || i >= run->places.count) return 0;
  snprintf(name, room, "%s", run->places.names + (size_t)i * run->places.room);
  return 1;
}

int maxlogit_run_events(const struct maxlogit_run *run, struct maxlogit_event **out, long *count,
                        struct maxlogit_error *error)
{
  IN_C_LOCALE;
  struct error e = {0};
  struct run_event *events;
  *out = NULL;
  *count = 0;
  int status = run_events(run->file, &events, count, &e);
  run_rest(run->file);
  if (status) return error_export(error, status, &e);
  *out = memory_new((size_t)*count + 1, sizeof **out);
  for (long i = 0; i < *count; i++) {
    struct maxlogit_event *to = &(*out)[i];
    *to = (struct maxlogit_event){
      .step = events[i].step, .layer = events[i].layer, .head = events[i].head, .value = events[i].value};
    snprintf(to->kind, sizeof to->kind, "%s", events[i].kind);
  }
  memory_free(events);
  return error_export(error, STATUS_OK, &e);
}

void maxlogit_events_free(struct maxlogit_event *events) { memory_free(events); }

int maxlogit_run_note_at(const struct maxlogit_run *run, long i, const char **date, const char **text)
{
  if (i < 0 || i >= run->notes.count) return 0;
  *date = run->notes.note[i].date;
  *text = run->notes.note[i].text;
  return 1;
}
