/* map.c - a metric over two parameters: a cell for each pair of values, a panel for each kind */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/figure.h"
#include "app/text_page.h"
#include "analysis/gnuplot.h"
#include "app/measures.h"
#include "base/memory.h"
#include "base/text.h"

enum { PANELS = 8, MOST_VALUES = 40 };

struct map_axis {
  const char *key;
  const struct run *run[MOST_VALUES]; /* one that has the value, in their order */
  char text[MOST_VALUES][RUN_VALUE];
  int count;
};

struct map {
  const struct runset *set;
  struct metric *metric;
  struct measured *value; /* [runs] */
  struct map_axis x, y;
  struct runset panels; /* a group each: the runs of all groups that differ in x and y alone */
  int *panel_of;        /* [groups] */
  int is_log;
  struct extent range; /* of the cells */
};

/* Where a run's value stands on the axis; it is put there where it is new, -1 where there is no room. */
static int place_on(struct map_axis *a, const struct run *run)
{
  int at = 0;
  while (at < a->count && run_order(a->run[at], run, a->key) < 0) at++;
  if (at < a->count && run_order(a->run[at], run, a->key) == 0) return at;
  if (a->count == MOST_VALUES) return -1;
  memmove(&a->run[at + 1], &a->run[at], (size_t)(a->count - at) * sizeof *a->run);
  a->run[at] = run;
  a->count++;
  return at;
}

static int make_axes(struct map *m, struct error *error)
{
  struct map_axis *axes[] = {&m->x, &m->y};
  for (int i = 0; i < 2; i++) {
    struct map_axis *a = axes[i];
    for (int g = 0; g < m->set->groups; g++)
      if (place_on(a, m->set->group[g].run) < 0)
        return error_set(error, STATUS_USAGE, "%s has more than %d values: choose with --where", a->key,
                         MOST_VALUES);
    for (int k = 0; k < a->count; k++) {
      static const char ellipsis[] = "\342\200\246";
      char room[RUN_VALUE];
      const char *value = run_value(a->run[k], a->key, room);
      const int is_long = strlen(value) >= RUN_VALUE;
      const size_t fits = text_fill(a->text[k], is_long ? RUN_VALUE + 1 - sizeof ellipsis : RUN_VALUE, value);
      if (is_long) memcpy(a->text[k] + fits, ellipsis, sizeof ellipsis);
    }
  }
  return STATUS_OK;
}

static int make_panels(struct map *m, const char *by, struct error *error)
{
  struct key_list keys;
  m->panel_of = memory_new((size_t)m->set->groups + 1, sizeof *m->panel_of);
  key_list_split(&keys, by);
  runset_merge(m->set, &keys, &m->panels, m->panel_of);
  key_list_free(&keys);
  if (m->panels.groups <= PANELS) return STATUS_OK;
  return error_set(error, STATUS_USAGE, "%d panels; %d fit in a figure: choose with --where",
                   m->panels.groups, PANELS);
}

static int counts(const struct map *m, const struct run *run)
{
  return metric_counts(m->metric, run, &m->value[run - m->set->run]);
}

static int find_range(struct map *m, struct error *error)
{
  m->range = (struct extent){NAN, NAN, 0};
  for (int i = 0; i < m->set->runs; i++)
    if (counts(m, &m->set->run[i])) extent_see(&m->range, m->value[i].value);
  if (isnan(m->range.low))
    return error_set(error, STATUS_USAGE, "metric %s: no value that can be drawn", m->metric->name);
  m->is_log = figure_is_log(&m->range, m->metric);
  m->range = (struct extent){NAN, NAN, 0};
  return STATUS_OK;
}

static void put_panel(FILE *f, struct map *m, int panel)
{
  if (panel) fputs("\n\n", f);
  fprintf(f, "# column row value n failed\n");
  for (int g = 0; g < m->set->groups; g++) {
    const struct run_group *group = &m->set->group[g];
    if (m->panel_of[g] != panel) continue;
    struct measure cell = measure_group(group, m->metric, m->value + (group->run - m->set->run), 1,
                                        m->is_log ? MEAN_GEOMETRIC : MEAN_ARITHMETIC);
    int failed = 0;
    char number[32];
    for (int i = 0; i < group->count; i++)
      failed += run_has_failed(&group->run[i]) && !counts(m, &group->run[i]);
    extent_see(&m->range, cell.middle);
    fprintf(f, "%d %d %s %d %d\n", place_on(&m->x, group->run), place_on(&m->y, group->run),
            gnuplot_value(cell.middle, number), cell.n, failed);
  }
}

static void put_axis(FILE *f, const char *name, const struct map_axis *a)
{
  const char *text[MOST_VALUES];
  char label[32];
  for (int i = 0; i < a->count; i++) text[i] = a->text[i];
  snprintf(label, sizeof label, "%s_value", name);
  gnuplot_tics(f, label, text, a->count);
  snprintf(label, sizeof label, "%s_name", name);
  gnuplot_text(f, label, a->key);
  snprintf(label, sizeof label, "%s_values", name);
  fprintf(f, "%s = %d\n", label, a->count);
}

static void put_all(FILE *f, struct map *m)
{
  struct buffer heading = {0};
  char title[256];
  metric_title(m->metric, title, sizeof title);
  buffer_add(&heading, "%s over %s and %s", title, m->x.key, m->y.key);
  figure_put_groups(f, &m->panels);
  figure_put_heading(f, m->set, heading.text);
  put_axis(f, "x", &m->x);
  put_axis(f, "y", &m->y);
  gnuplot_axis(f, "z_name", title, m->metric->unit);
  gnuplot_number(f, "log_z", m->is_log);
  gnuplot_number(f, "times", metric_is_time(m->metric));
  fprintf(f, "$cells << EOD\n");
  for (int p = 0; p < m->panels.groups; p++) put_panel(f, m, p);
  fprintf(f, "EOD\n");
  extent_put(f, &m->range);
  memory_free(heading.text);
}

static int map_data(FILE *f, const struct figure_request *r, struct error *error)
{
  struct map *m = memory_new(1, sizeof *m);
  *m = (struct map){.set = r->set, .metric = r->metric, .x.key = r->x, .y.key = r->y};
  int status = metrics_of(r->metric, 1, r->set, &m->value, error);
  if (!status) status = metrics_have_one_unit(r->metric, 1, r->set, &m->value, 1, error);
  if (!status) status = make_axes(m, error);
  if (!status) status = make_panels(m, r->by, error);
  if (!status) status = find_range(m, error);
  if (!status) put_all(f, m);
  memory_free(m->value);
  memory_free(m->panels.group);
  memory_free(m->panel_of);
  memory_free(m);
  return status;
}

/* Columns that a text of an axis takes, and two behind it; at least 10, for a number. */
static int room_of(const struct text_page *t, const char *texts, int i)
{
  const char *text = script_text(t->values, texts, i);
  const int letters = text_columns(text, strlen(text)) + 2;
  return letters > 10 ? letters : 10;
}

/* A table: a column a value of x, a line a value of y, the largest on top. */
static void text_cells(struct text_page *t, int panel)
{
  const struct script_block b = script_block(t->values, "cells", panel);
  const int wide = (int)script_number(t->values, "x_values", 0),
            high = (int)script_number(t->values, "y_values", 0);
  int at[MOST_VALUES + 1] = {10}, shown = 0;
  for (int y = 0; y < high; y++)
    if (room_of(t, "y_value", y) > at[0]) at[0] = room_of(t, "y_value", y);
  if (at[0] > t->columns / 2) at[0] = t->columns / 2;
  for (; shown < wide && shown < MOST_VALUES; shown++) {
    at[shown + 1] = at[shown] + room_of(t, "x_value", shown);
    if (shown && at[shown + 1] > t->columns + 2) break;
  }
  struct chart_page page;
  chart_page_new(&page, t->columns, high + 1, t->utf8);
  for (int y = 0; y < high; y++)
    chart_text_in(&page, 0, high - 1 - y, at[0] - 2, script_text(t->values, "y_value", y));
  for (int x = 0; x < shown; x++) /* the first may be wider than the page */
    chart_text_in(&page, at[x], high, (at[x + 1] - 2 < t->columns ? at[x + 1] - 2 : t->columns) - at[x],
                  script_text(t->values, "x_value", x));
  for (long r = 0; r < b.rows; r++) {
    const double *cell = b.value + r * b.columns;
    char text[48];
    if (!(cell[0] >= 0 && cell[0] < shown)) continue;
    snprintf(text, sizeof text, cell[4] > 0 ? "%.4g %.0fx" : "%.4g", cell[2], cell[4]);
    chart_text(&page, at[(int)cell[0]], high - 1 - (int)cell[1], 0, isnan(cell[2]) ? "x" : text);
  }
  chart_page_end(&t->out, &page, 0);
  if (shown < wide)
    text_note(t, "... and %d more values of %s", wide - shown, script_text(t->values, "x_name", 0));
}

static void map_text(struct text_page *t)
{
  text_note(t, "Lines: %s; columns: %s", script_text(t->values, "y_name", 0),
            script_text(t->values, "x_name", 0));
  for (int g = 0; g < t->groups; g++) {
    struct buffer name = {0};
    text_group_name(t, g, &name);
    text_note(t, "%s", name.text);
    text_cells(t, g);
    memory_free(name.text);
  }
  text_note(t, "x: every run failed; 2x: two of them did.");
}

const struct figure figure_map = {
  .name = "map",
  .help = "a metric over two parameters, a panel for each kind",
  .data = map_data,
  .text = map_text,
  .asked = "--x KEY --y KEY --of METRIC",
};
