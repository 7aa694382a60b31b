/* run.c - one run of a set: its label, parameters and tables */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "config/plugin.h"
#include "storage/layout.h"

void run_free(struct run *run)
{
  run_close(run->file);
  memory_free(run->path);
  memory_free(run->shown);
  memory_free(run->identity);
  memory_free(run->mark);
}

int run_is_diverged(const struct run *run) { return strcmp(run_state(run->file), "diverged") == 0; }

int run_is_unfinished(const struct run *run)
{
  return strcmp(run_state(run->file), "finished") != 0 && !run_has_failed(run);
}

int run_has_failed(const struct run *run) { return run_is_diverged(run) || run_blew_up(run->file); }

const char *const run_facts_known[RUN_FACTS] = {"kind", "state", "id", "seed", "steps", "date"};

int is_fact(const char *key)
{
  int found = 0;
  for (int i = 0; i < RUN_FACTS; i++) found |= strcmp(run_facts_known[i], key) == 0;
  return found;
}

const char *run_value(const struct run *run, const char *key, char room[RUN_VALUE])
{
  if (strcmp(key, "kind") == 0) return run->kind;
  if (strcmp(key, "state") == 0) return run_shown_state(run->file);
  if (strcmp(key, "id") == 0) return run_id(run->file);
  if (strcmp(key, "date") == 0) return run_date(run->file);
  if (strcmp(key, "seed") != 0 && strcmp(key, "steps") != 0) return run_parameter_or(run, key, "");
  snprintf(room, RUN_VALUE, "%ld", *key == 's' && key[1] == 'e' ? run->seed : run_last_step(run->file));
  return room;
}

int run_is_number(const char *text, double *number)
{
  char *end;
  *number = strtod(text, &end);
  return end != text && !*end;
}

int run_order(const struct run *x, const struct run *y, const char *key)
{
  char rooms[2][RUN_VALUE];
  double a, b;
  if (strcmp(key, "kind") == 0) {
    int order = (x->rank > y->rank) - (x->rank < y->rank);
    return order ? order : strcmp(x->kind, y->kind);
  }
  const char *one = run_value(x, key, rooms[0]), *two = run_value(y, key, rooms[1]);
  int first = run_is_number(one, &a), second = run_is_number(two, &b);
  if (first && second) return (a > b) - (a < b);
  return first != second ? second - first : strcmp(one, two);
}

/* --- reading ------------------------------------------------------------------------------------------- */

const char *run_parameter_or(const struct run *run, const char *key, const char *otherwise)
{
  const char *value = run_parameter(run->file, key);
  return value && *value ? value : otherwise;
}

double run_number(const struct run *run, const char *key, double otherwise)
{
  const char *value = run_parameter(run->file, key);
  char *end;
  double number = value ? strtod(value, &end) : otherwise;
  return value && (end == value || *end) ? otherwise : number;
}

int run_table(const struct run *run, const char *series, struct table *table, struct error *error)
{
  struct run_series data;
  int status = run_read(run->file, series, &data, error);
  run_rest(run->file);
  if (status) return status;
  table_from_series(table, &data, 0, -1, -1);
  run_series_free(&data);
  return STATUS_OK;
}

int run_is_thin(const struct run *run)
{
  if (!strcmp(run_data(run->file), DATA_RECORDED)) return 0; /* its interval is not known */
  const long rows = run_rows(run->file, "loss");             /* a resume may have changed the interval */
  return run_number(run, "record.every", 1) > 1 || (rows > 0 && rows < run_last_step(run->file));
}

int one_unit_add(struct one_unit *seen, const char *series, const struct run *run, const char *unit,
                 struct error *error)
{
  if (!*unit) return STATUS_OK;
  if (seen->run && strcmp(seen->unit, unit))
    return error_set(error, STATUS_USAGE, "%s is in %s in %s, and in %s in %s: runs of one unit are wanted",
                     series, seen->unit, seen->run->shown, unit, run->shown);
  snprintf(seen->unit, sizeof seen->unit, "%s", unit);
  if (!seen->run) seen->run = run;
  return STATUS_OK;
}

int runs_have_one_unit(const struct run *run, int runs, const char *series, struct error *error)
{
  struct one_unit seen = {0};
  struct run_series s;
  int status = STATUS_OK;
  for (int i = 0; i < runs && !status; i++) {
    if (!run_describe(run[i].file, series, &s, NULL)) {
      status = one_unit_add(&seen, series, &run[i], text_unit(s.unit), error);
      run_series_free(&s);
    }
    run_rest(run[i].file); /* of thousands of runs few files can be open */
  }
  return status;
}

struct threshold {
  const struct run *run;
  double value;
};

/* The first of a member of the stack that has one. */
static int take_threshold(void *context, const char *part)
{
  struct threshold *t = context;
  char key[128];
  for (const struct plugin *p = plugin_table(); p->kind; p++)
    for (const struct option_row *row = p->options; row && row->name && !strcmp(p->name, part); row++) {
      if (strcmp(p->kind, "stabilizer") || !(row->flags & OPTION_THRESHOLD)) continue;
      snprintf(key, sizeof key, "%s.%s", p->name, row->name);
      t->value = run_number(t->run, key, NAN);
      return 1;
    }
  return 0;
}

double run_threshold(const struct run *run)
{
  struct threshold t = {run, NAN};
  text_split(run_parameter_or(run, "stabilizers", "none"), '+', take_threshold, &t);
  return t.value;
}
