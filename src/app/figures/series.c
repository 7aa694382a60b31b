/* series.c - any series over the steps or the tokens, a panel each: means and intervals over the runs of a group */
#include <math.h>
#include <string.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "base/memory.h"
#include "base/text.h"

struct panel {
  struct metric *metric;
  struct table *run; /* [runs], of those that are drawn, group by group */
  int *runs;         /* [groups] */
  int log_y;
  struct spread spread;
};

/* Steps become tokens: so many a step, where the file has them. */
static int count_tokens(const struct run *run, struct table *t, struct error *error)
{
  double tokens = run_number(run, "train.batch", NAN) * run_number(run, "model.context", NAN);
  if (!(tokens > 0))
    return error_set(error, STATUS_USAGE,
                     "%s: how many tokens a step has is not known (train.batch times model.context)",
                     run->shown);
  for (long r = 0; r < t->rows; r++) t->step[r] *= tokens;
  return STATUS_OK;
}

/* Tables of all runs that are drawn, and whether the axis is logarithmic. */
static int read_panel(struct panel *p, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  const struct run **drawn = memory_new((size_t)set->runs, sizeof *drawn);
  struct extent values = {NAN, NAN, 0};
  int at = 0, status = runs_have_one_unit(set->run, set->runs, p->metric->series, error);
  p->run = memory_new((size_t)set->runs + 1, sizeof *p->run);
  p->runs = memory_new((size_t)set->groups + 1, sizeof *p->runs);
  for (int g = 0; g < set->groups && !status; g++) {
    int count = figure_runs(&set->group[g], drawn), counts = figure_sets_axis(set, &set->group[g]);
    for (int i = 0; i < count && !status; i++) {
      struct table *t = &p->run[at];
      status = curve_of(p->metric, drawn[i], t, error);
      if (!status && r->tokens) status = count_tokens(drawn[i], t, error);
      for (long row = 0; row < t->rows && counts; row++) extent_see(&values, t->value[row]);
      at++, p->runs[g]++;
    }
  }
  if (!status && isnan(values.low))
    status = error_set(error, STATUS_USAGE, "series %s: no finite value to draw", p->metric->name);
  p->log_y = figure_is_log(&values, p->metric);
  memory_free(drawn);
  return status;
}

static void put_panel(FILE *f, struct panel *p, const struct runset *set, int first, double *last)
{
  int at = 0;
  p->spread = SPREAD_EMPTY;
  for (int g = 0; g < set->groups; g++) {
    struct table band;
    table_band(&band, p->run + at, p->runs[g], p->log_y);
    at += p->runs[g];
    if (metric_is_share(p->metric)) figure_bound(&band, 0);
    figure_see(&band, 0, figure_sets_axis(set, &set->group[g]), p->log_y, &p->spread);
    last[g] = figure_last(&band, 1);
    table_bins(&band, FIGURE_BINS);
    figure_put_block(f, &band, first + g);
    if (!band.rows) fprintf(f, "0 0 NaN NaN NaN\n");
    table_free(&band);
  }
}

static void put_axes(FILE *f, const struct panel *p, int panels, const struct figure_request *r)
{
  double low[FIGURE_SERIES], high[FIGURE_SERIES], all_low[FIGURE_SERIES], all_high[FIGURE_SERIES],
    log_y[FIGURE_SERIES], share[FIGURE_SERIES], last_of_all = 1;
  char title[FIGURE_SERIES][256];
  const char *name[FIGURE_SERIES];
  for (int i = 0; i < panels; i++) {
    struct extent axis = spread_axis(&p[i].spread, p[i].log_y);
    const char *unit = text_unit(p[i].metric->unit);
    low[i] = axis.low, high[i] = axis.high;
    all_low[i] = p[i].spread.all.low, all_high[i] = p[i].spread.all.high;
    log_y[i] = p[i].log_y, share[i] = metric_is_share(p[i].metric);
    last_of_all = fmax(last_of_all, axis.last_step);
    curve_title(p[i].metric, title[i], sizeof title[i]);
    size_t length = strlen(title[i]);
    if (*unit) snprintf(title[i] + length, sizeof title[i] - length, "  (%s)", unit);
    name[i] = title[i];
  }
  fprintf(f, "panels = %d\n", panels);
  gnuplot_texts(f, "panel_name", name, panels);
  gnuplot_numbers(f, "low", low, panels);
  gnuplot_numbers(f, "high", high, panels);
  gnuplot_numbers(f, "all_low", all_low, panels);
  gnuplot_numbers(f, "all_high", all_high, panels);
  gnuplot_numbers(f, "log_y", log_y, panels);
  gnuplot_numbers(f, "share", share, panels);
  gnuplot_number(f, "last_of_all", last_of_all);
  gnuplot_text(f, "x_name", r->tokens ? "training tokens" : "training step");
}

static int series_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct panel panel[FIGURE_SERIES] = {{0}};
  double *last = memory_new((size_t)(r->series_count * set->groups) + 1, sizeof *last);
  struct buffer heading = {0};
  char title[256];
  int status = STATUS_OK;
  for (int i = 0; i < r->series_count && !status; i++) {
    panel[i].metric = &r->series[i];
    status = read_panel(&panel[i], r, error);
  }
  if (!status) {
    figure_put_groups(f, set);
    fprintf(f, "$data << EOD\n");
    for (int i = 0; i < r->series_count; i++)
      put_panel(f, &panel[i], set, i * set->groups, last + i * set->groups);
    fprintf(f, "EOD\n");
    put_axes(f, panel, r->series_count, r);
    gnuplot_numbers(f, "last", last, r->series_count * set->groups);
    curve_title(r->series, title, sizeof title);
    if (r->series_count > 1) snprintf(title, sizeof title, "%d series", r->series_count);
    buffer_add(&heading, "%s against training %s", title, r->tokens ? "tokens" : "step");
    figure_put_heading(f, set, heading.text);
  }
  for (int i = 0; i < r->series_count; i++) {
    for (int k = 0; k < set->runs && panel[i].run; k++) table_free(&panel[i].run[k]);
    memory_free(panel[i].run);
    memory_free(panel[i].runs);
  }
  memory_free(heading.text);
  memory_free(last);
  return status;
}

static void series_text(struct text_page *t)
{
  const int panels = (int)script_number(t->values, "panels", 0);
  struct text_panel p[FIGURE_SERIES];
  struct buffer title[FIGURE_SERIES] = {{0}};
  for (int i = 0; i < panels; i++) {
    const int log_y = script_number(t->values, "log_y", i) > 0;
    buffer_add(&title[i], "%s%s", script_text(t->values, "panel_name", i), log_y ? "  (log scale)" : "");
    p[i] = (struct text_panel){.title = title[i].text,
                               .x_name = script_text(t->values, "x_name", 0),
                               .block = "data",
                               .first = i * t->groups,
                               .y = 2,
                               .lo = 3,
                               .hi = 4,
                               .x_low = 0,
                               .x_high = script_number(t->values, "last_of_all", 0),
                               .y_low = script_number(t->values, "low", i),
                               .y_high = script_number(t->values, "high", i),
                               .level = NAN,
                               .log_y = log_y};
  }
  text_panels(t, p, panels, 56, 2);
  for (int i = 0; i < panels; i++) memory_free(title[i].text);
  text_note_means(t, "Line: mean (geometric on a log axis)", FIGURE_TEXT_BAND);
}

const struct figure figure_series = {
  .name = "series",
  .help = "any series over the steps or tokens, a panel for each",
  .data = series_data,
  .text = series_text,
  .asked = "--series NAME",
};
