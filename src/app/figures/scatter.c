/* scatter.c - one metric against another: a point for each run, mean and intervals of each group, and the front */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "app/measures.h"
#include "base/memory.h"
#include "base/text.h"

struct scatter_figure {
  const struct runset *set;
  struct metric *metric;  /* [2]: x and y */
  struct measured *value; /* [runs, 2] */
  struct spread spread[2];
  int log[2], geometric[2];
  double mean[2][FIGURE_GROUPS];
};

static const struct measured *values_of(const struct scatter_figure *d, const struct run *run)
{
  return &d->value[2 * (run - d->set->run)];
}

static int counts(const struct scatter_figure *d, const struct run *run)
{
  const struct measured *v = values_of(d, run);
  int both = 1;
  for (int k = 0; k < 2; k++)
    both &= metric_counts(&d->metric[k], run, &v[k]) && !v[k].censored && isfinite(v[k].value);
  return both;
}

static int find_scales(struct scatter_figure *d, struct error *error)
{
  for (int k = 0; k < 2; k++) {
    struct extent e = {NAN, NAN, 0};
    for (int i = 0; i < d->set->runs; i++)
      if (counts(d, &d->set->run[i])) extent_see(&e, values_of(d, &d->set->run[i])[k].value);
    if (isnan(e.low))
      return error_set(error, STATUS_USAGE, "no run that has finished has both %s and %s", d->metric[0].name,
                       d->metric[1].name);
    d->log[k] = figure_is_log(&e, &d->metric[k]);
    d->geometric[k] = d->log[k] || (e.low > 0 && metric_is_logit(&d->metric[k]));
    d->spread[k] = SPREAD_EMPTY;
  }
  return STATUS_OK;
}

/* "x lo hi y lo hi" of a group, over the runs that have both. */
static void put_mean(FILE *f, struct scatter_figure *d, int g)
{
  const struct run_group *group = &d->set->group[g];
  double *x = memory_new((size_t)group->count + 1, sizeof *x);
  char text[3][32];
  for (int k = 0; k < 2; k++) {
    int n = 0;
    for (int i = 0; i < group->count; i++)
      if (counts(d, &group->run[i])) x[n++] = values_of(d, &group->run[i])[k].value;
    struct interval m = interval_of(x, n, d->geometric[k]);
    if (!n) m.mean = NAN;
    if (n < 2) m.lo = m.hi = m.mean;
    if (metric_is_share(&d->metric[k]) && n > 1) m.lo = fmax(m.lo, 0), m.hi = fmin(m.hi, 1);
    spread_see(&d->spread[k], 1, d->log[k], m.mean, m.lo, m.hi);
    d->mean[k][g] = m.mean;
    fprintf(f, "%s%s %s %s", k ? " " : "", gnuplot_value(m.mean, text[0]), gnuplot_value(m.lo, text[1]),
            gnuplot_value(m.hi, text[2]));
  }
  fputc('\n', f);
  memory_free(x);
}

static void put_runs(FILE *f, struct scatter_figure *d, int g)
{
  const struct run_group *group = &d->set->group[g];
  int some = 0;
  char text[2][32];
  for (int i = 0; i < group->count; i++) {
    if (!counts(d, &group->run[i])) continue;
    const struct measured *v = values_of(d, &group->run[i]);
    for (int k = 0; k < 2; k++) spread_see(&d->spread[k], 1, d->log[k], v[k].value, NAN, NAN);
    fprintf(f, "%s %s\n", gnuplot_value(v[0].value, text[0]), gnuplot_value(v[1].value, text[1]));
    some = 1;
  }
  if (!some) fprintf(f, "NaN NaN\n");
}

/* Losses and logits are better where they are lower. */
static int lower_is_better(const struct metric *m)
{
  return m->reduction != TAKE_SLOPE && !metric_is_time(m) &&
         (strstr(m->series, "loss") || strstr(m->series, "logit"));
}

/* The groups that no other is at least as good as in both, and better in one, by x. */
static void put_front(FILE *f, const struct scatter_figure *d)
{
  const double *x = d->mean[0], *y = d->mean[1];
  int on[FIGURE_GROUPS], count = 0;
  for (int g = 0; g < d->set->groups; g++) {
    int beaten = isnan(x[g]) || !lower_is_better(&d->metric[0]) || !lower_is_better(&d->metric[1]),
        at = count;
    for (int o = 0; o < d->set->groups && !beaten; o++)
      beaten = x[o] <= x[g] && y[o] <= y[g] && (x[o] < x[g] || y[o] < y[g]);
    if (beaten) continue;
    for (; at > 0 && x[on[at - 1]] > x[g]; at--) on[at] = on[at - 1];
    on[at] = g;
    count++;
  }
  fprintf(f, "front = %d\nfront_first = %d\n$front << EOD\n", count, count ? *on + 1 : 0);
  for (int i = 0; i < count; i++) {
    char text[2][32];
    fprintf(f, "%s %s\n", gnuplot_value(x[on[i]], text[0]), gnuplot_value(y[on[i]], text[1]));
  }
  fprintf(f, "%sEOD\n", count ? "" : "NaN NaN\n");
}

static void put_axis(FILE *f, const struct scatter_figure *d, int k)
{
  static const char *const name[] = {"x", "y"};
  struct extent axis = spread_axis(&d->spread[k], d->log[k]);
  const double ends[] = {axis.low, axis.high, d->spread[k].all.low, d->spread[k].all.high};
  char variable[16], title[256];
  snprintf(variable, sizeof variable, "%s_ends", name[k]);
  gnuplot_numbers(f, variable, ends, 4);
  snprintf(variable, sizeof variable, "log_%s", name[k]);
  gnuplot_number(f, variable, d->log[k]);
  snprintf(variable, sizeof variable, "geometric_%s", name[k]);
  gnuplot_number(f, variable, d->geometric[k]);
  snprintf(variable, sizeof variable, "%s_share", name[k]);
  gnuplot_number(f, variable, metric_is_share(&d->metric[k]));
  snprintf(variable, sizeof variable, "%s_name", name[k]);
  metric_title(&d->metric[k], title, sizeof title);
  gnuplot_axis(f, variable, title, d->metric[k].unit);
}

static int scatter_data(FILE *f, const struct figure_request *r, struct error *error)
{
  struct scatter_figure d = {.set = r->set, .metric = r->metric};
  struct buffer heading = {0};
  char title[2][256];
  int status = metrics_of(r->metric, 2, r->set, &d.value, error);
  if (!status) status = metrics_have_one_unit(r->metric, 2, r->set, &d.value, 1, error);
  if (status) {
    memory_free(d.value);
    return status;
  }
  status = find_scales(&d, error);
  if (!status) {
    figure_put_groups(f, r->set);
    fprintf(f, "$means << EOD\n");
    for (int g = 0; g < r->set->groups; g++) fputs(g ? "\n\n" : "", f), put_mean(f, &d, g);
    fprintf(f, "EOD\n$runs << EOD\n");
    for (int g = 0; g < r->set->groups; g++) fputs(g ? "\n\n" : "", f), put_runs(f, &d, g);
    fprintf(f, "EOD\n");
    put_front(f, &d);
    put_axis(f, &d, 0);
    put_axis(f, &d, 1);
    for (int k = 0; k < 2; k++) metric_title(&r->metric[k], title[k], sizeof title[k]);
    buffer_add(&heading, "%s against %s", title[1], title[0]);
    figure_put_heading(f, r->set, heading.text);
  }
  memory_free(heading.text);
  memory_free(d.value);
  return status;
}

static void scatter_text(struct text_page *t)
{
  const struct text_panel p = {.title = script_text(t->values, "y_name", 0),
                               .x_name = script_text(t->values, "x_name", 0),
                               .block = "means",
                               .y = 3,
                               .lo = 4,
                               .hi = 5,
                               .points = 1,
                               .runs = "runs",
                               .x_low = script_number(t->values, "x_ends", 0),
                               .x_high = script_number(t->values, "x_ends", 1),
                               .y_low = script_number(t->values, "y_ends", 0),
                               .y_high = script_number(t->values, "y_ends", 1),
                               .level = NAN,
                               .log_x = script_number(t->values, "log_x", 0) > 0,
                               .log_y = script_number(t->values, "log_y", 0) > 0};
  text_panels(t, &p, 1, 1, 1);
  text_note(t, "Small letters: runs; capitals: means, with the 95 %% interval (Student's t) of the height.");
}

const struct figure figure_scatter = {
  .name = "scatter",
  .help = "a metric against another, with the front of the groups that no other beats in both",
  .data = scatter_data,
  .text = scatter_text,
  .asked = "--x METRIC --y METRIC",
};
