/* parameter.c - a metric over a parameter: a curve for each kind */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/figure.h"
#include "app/text_page.h"
#include "analysis/gnuplot.h"
#include "app/measures.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"

enum { LOG_X_FROM = 4 }; /* largest value over the smallest */

struct parameter_figure {
  const struct runset *set;
  const char *x;
  struct metric *metric;
  struct measured *value;         /* [runs] */
  struct runset curves;           /* a group each: the runs of all groups that differ in x alone */
  const struct run_group **group; /* [groups] those of a curve together, by x */
  int *first;                     /* [curves + 1] its groups */
  int log_x, log_y;
  struct extent x_range, y_range; /* y: of the runs */
  struct spread y;
  double *last, *last_x, *dots;  /* where each curve ends; how many runs it has to draw */
  double *cross_x, *cross_curve; /* [groups] where a run failed */
  int crosses;
};

static double x_of(const struct parameter_figure *d, const struct run_group *group)
{
  char room[RUN_VALUE], *end;
  const char *text = run_value(group->run, d->x, room);
  double x = strtod(text, &end);
  return end == text || *end ? NAN : x;
}

static int compare_by_x(const void *a, const void *b, void *context)
{
  const struct run_group *const *x = a, *const *y = b;
  double left = x_of(context, *x), right = x_of(context, *y);
  return (left > right) - (left < right);
}

static void make_curves(struct parameter_figure *d, const char *by)
{
  struct key_list keys;
  key_list_split(&keys, by);
  int groups = d->set->groups, *curve_of = memory_new((size_t)groups + 1, sizeof *curve_of), placed = 0;
  runset_merge(d->set, &keys, &d->curves, curve_of);
  key_list_free(&keys);
  d->first = memory_new((size_t)groups + 2, sizeof *d->first);
  d->group = memory_new((size_t)groups + 1, sizeof *d->group);
  for (int k = 0; k < d->curves.groups; k++) {
    d->first[k] = placed;
    for (int g = 0; g < groups; g++)
      if (curve_of[g] == k) d->group[placed++] = &d->set->group[g];
    platform_sort(d->group + d->first[k], (size_t)(placed - d->first[k]), sizeof *d->group, compare_by_x, d);
  }
  d->first[d->curves.groups] = placed;
  memory_free(curve_of);
}

static int counts(const struct parameter_figure *d, const struct run *run)
{
  return metric_counts(d->metric, run, &d->value[run - d->set->run]);
}

/* Axes: that of x is logarithmic where all is positive and spreads far. */
static int find_ranges(struct parameter_figure *d, struct error *error)
{
  d->x_range = d->y_range = (struct extent){NAN, NAN, 0};
  d->y = SPREAD_EMPTY;
  for (int g = 0; g < d->set->groups; g++) {
    double x = x_of(d, &d->set->group[g]);
    if (isnan(x))
      return error_set(error, STATUS_USAGE, "--x %s: %s has no number there", d->x,
                       d->set->group[g].run->path);
    extent_see(&d->x_range, x);
  }
  int passed = 0;
  for (int i = 0; i < d->set->runs; i++) {
    if (!counts(d, &d->set->run[i])) continue;
    passed |= !d->value[i].censored;
    extent_see(&d->y_range, d->value[i].value);
    spread_see(&d->y, 1, 0, d->value[i].value, NAN, NAN);
  }
  if (!isnan(d->y_range.low) && !passed)
    return error_set(error, STATUS_USAGE, "metric %s: no run passed the level", d->metric->name);
  if (isnan(d->y_range.low))
    return error_set(error, STATUS_USAGE, "metric %s: no value that can be drawn", d->metric->name);
  d->log_x = d->x_range.low > 0 && d->x_range.high >= LOG_X_FROM * d->x_range.low * (1 - 1e-12);
  d->log_y = figure_is_log(&d->y_range, d->metric);
  return STATUS_OK;
}

static void put_curve(FILE *f, struct parameter_figure *d, int c)
{
  if (c) fputs("\n\n", f);
  fprintf(f, "# x n mean lo hi diverged blown_up\n");
  d->last[c] = d->last_x[c] = NAN;
  for (int g = d->first[c]; g < d->first[c + 1]; g++) {
    const struct run_group *group = d->group[g];
    struct measure m = measure_group(group, d->metric, d->value + (group->run - d->set->run), 1,
                                     d->log_y ? MEAN_GEOMETRIC : MEAN_ARITHMETIC);
    struct run_failures failed = run_group_failures(group);
    int left_out = 0, narrow = isnan(m.lo) || isinf(m.hi);
    if (isinf(m.middle)) m.middle = NAN; /* not reached by half */
    char number[4][32];
    double lo = narrow ? m.middle : m.lo, hi = narrow ? m.middle : m.hi;
    if (metric_is_share(d->metric)) lo = lo < 0 ? 0 : lo, hi = hi > 1 ? 1 : hi;
    spread_see(&d->y, 1, d->log_y, m.middle, lo, hi);
    for (int i = 0; i < group->count; i++)
      left_out += run_has_failed(&group->run[i]) && !counts(d, &group->run[i]);
    fprintf(f, "%s %d %s %s %s %d %d\n", table_number(x_of(d, group), number[0]), m.n,
            table_number(m.middle, number[1]), table_number(lo, number[2]), table_number(hi, number[3]),
            failed.diverged, failed.blown_up);
    if (left_out) {
      d->cross_x[d->crosses] = x_of(d, group);
      d->cross_curve[d->crosses++] = c + 1;
    }
    if (isfinite(m.middle)) d->last[c] = m.middle, d->last_x[c] = x_of(d, group);
  }
}

static void put_runs(FILE *f, struct parameter_figure *d, int c)
{
  if (c) fputs("\n\n", f);
  for (int g = d->first[c]; g < d->first[c + 1]; g++) {
    const struct run_group *group = d->group[g];
    for (int i = 0; i < group->count; i++) {
      char x[32], y[32];
      const struct measured *v = &d->value[group->run + i - d->set->run];
      double value = counts(d, &group->run[i]) && !v->censored ? v->value : NAN;
      d->dots[c] += isfinite(value);
      fprintf(f, "%s %s\n", table_number(x_of(d, group), x), gnuplot_value(value, y));
    }
  }
}

static void put_all(FILE *f, struct parameter_figure *d)
{
  struct buffer heading = {0};
  char title[256];
  metric_title(d->metric, title, sizeof title);
  buffer_add(&heading, "%s against %s", title, d->x);
  figure_put_groups(f, &d->curves);
  figure_put_heading(f, d->set, heading.text);
  gnuplot_text(f, "x_name", d->x);
  gnuplot_axis(f, "y_name", title, d->metric->unit);
  gnuplot_number(f, "log_x", d->log_x);
  gnuplot_number(f, "log_y", d->log_y);
  gnuplot_number(f, "times", metric_is_time(d->metric));
  gnuplot_number(f, "x_low", d->x_range.low);
  gnuplot_number(f, "x_high", d->x_range.high);
  fprintf(f, "$curves << EOD\n");
  for (int c = 0; c < d->curves.groups; c++) put_curve(f, d, c);
  fprintf(f, "EOD\n$runs << EOD\n");
  for (int c = 0; c < d->curves.groups; c++) put_runs(f, d, c);
  fprintf(f, "EOD\n");
  struct extent axis = spread_axis(&d->y, d->log_y);
  spread_put(f, &d->y, &axis);
  gnuplot_number(f, "share", metric_is_share(d->metric));
  gnuplot_numbers(f, "last", d->last, d->curves.groups);
  gnuplot_numbers(f, "last_x", d->last_x, d->curves.groups);
  gnuplot_numbers(f, "dots", d->dots, d->curves.groups);
  fprintf(f, "crosses = %d\n", d->crosses);
  if (d->crosses) gnuplot_numbers(f, "cross_x", d->cross_x, d->crosses);
  if (d->crosses) gnuplot_numbers(f, "cross_g", d->cross_curve, d->crosses);
  memory_free(heading.text);
}

static int parameter_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct parameter_figure d = {.set = set, .x = r->x, .metric = r->metric};
  int status = metrics_of(r->metric, 1, set, &d.value, error);
  if (!status) status = metrics_have_one_unit(r->metric, 1, set, &d.value, 1, error);
  if (status) {
    memory_free(d.value);
    return status;
  }
  make_curves(&d, r->by);
  d.last = memory_new(3 * (size_t)d.curves.groups + 1, sizeof *d.last);
  d.last_x = d.last + d.curves.groups;
  d.dots = d.last_x + d.curves.groups;
  d.cross_x = memory_new(2 * (size_t)set->groups + 1, sizeof *d.cross_x);
  d.cross_curve = d.cross_x + set->groups;
  if (!status) status = figure_fits(&d.curves, error);
  if (!status) status = find_ranges(&d, error);
  if (!status) put_all(f, &d);
  memory_free(d.value);
  memory_free(d.curves.group);
  memory_free(d.first);
  memory_free(d.group);
  memory_free(d.last);
  memory_free(d.cross_x);
  return status;
}

static void parameter_text(struct text_page *t)
{
  struct text_panel p = {.title = script_text(t->values, "y_name", 0),
                         .x_name = script_text(t->values, "x_name", 0),
                         .block = "curves",
                         .y = 2,
                         .lo = 3,
                         .hi = 4,
                         .runs = "runs",
                         .y_low = script_number(t->values, "low", 0),
                         .y_high = script_number(t->values, "high", 0),
                         .x_low = script_number(t->values, "x_low", 0),
                         .x_high = script_number(t->values, "x_high", 0),
                         .level = NAN,
                         .log_x = script_number(t->values, "log_x", 0) > 0,
                         .log_y = script_number(t->values, "log_y", 0) > 0};
  text_panels(t, &p, 1, 1, 1);
  int is_time = script_number(t->values, "times", 0) > 0;
  text_note(t, "Line: %s of the runs at a point; dots: 95 %% interval%s; letters apart from it: runs.",
            is_time   ? "median (Kaplan and Meier)"
            : p.log_y ? "geometric mean"
                      : "mean",
            is_time ? "" : " (Student's t)");
  for (int i = 0; i < (int)script_number(t->values, "crosses", 0); i++) {
    struct buffer name = {0};
    text_group_name(t, (int)script_number(t->values, "cross_g", i) - 1, &name);
    text_note(t, "at %s %.4g a run diverged or blew up: %s", p.x_name, script_number(t->values, "cross_x", i),
              name.text);
    memory_free(name.text);
  }
}

const struct figure figure_parameter = {
  .name = "parameter",
  .help = "a metric over a parameter, a curve for each kind",
  .data = parameter_data,
  .text = parameter_text,
  .asked = "--x KEY",
};
