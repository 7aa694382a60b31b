/* figure.c - the figure of a claim: each arm over the steps, and the value of every run (plots/claim.gp) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gnuplot.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/page.h"
#include "storage/run_file.h"

enum { BINS = 120 };

static void extend(struct extent *e, double value, int log)
{
  if (!log || value > 0) extent_see(e, value);
}

static int is_drawn(const struct entry_run *run) { return run->fate == SWEEP_FINISHED; }

/* The compared arms, and further arms with the metric of the first; other metrics do not fit on its axis. */
static int drawn_arms(const struct claim *c)
{
  int arms = claim_arms(c);
  while (arms > 1 && arms > claim_compared(c) && strcmp(claim_metric(c, arms - 1), claim_metric(c, 0)) != 0)
    arms--;
  return arms;
}

/* One arm's curve: mean and interval over its runs. The table is empty if no run has more than one row. */
static int arm_band(const struct entry *x, int a, int geometric, struct table *band, struct error *error)
{
  const struct entry_arm *arm = &x->arm[a];
  struct table *runs = memory_new((size_t)arm->runs + 1, sizeof *runs);
  struct metric m;
  int n = 0, status = metric_read(&m, claim_metric(x->claim, a), error);
  for (int i = 0; i < arm->runs && !status; i++) {
    struct run opened = {.path = arm->run[i].path};
    if (!is_drawn(&arm->run[i])) continue;
    status = run_open(&opened.file, opened.path, error);
    if (!status) status = metric_curve(&m, &opened, &runs[n], error);
    run_close(opened.file);
    n += !status;
  }
  table_band(band, runs, status ? 0 : n, geometric);
  for (int i = 0; i < n; i++) table_free(&runs[i]);
  memory_free(runs);
  return status;
}

/* Can the curves share an axis? They need the same series, and more than one step. */
static int has_curves(const struct entry *x)
{
  struct metric first, m;
  if (metric_read(&first, claim_metric(x->claim, 0), NULL) || !*first.series) return 0;
  for (int a = 1; a < drawn_arms(x->claim); a++)
    if (metric_read(&m, claim_metric(x->claim, a), NULL) || strcmp(m.series, first.series) != 0) return 0;
  return 1;
}

/* *curves: whether any has more than one step. */
static int put_curves(FILE *f, const struct entry *x, int log, int *curves, struct error *error)
{
  struct spread spread = SPREAD_EMPTY;
  double first_step = INFINITY, last_step = 0; /* first and last step with a value */
  int status = STATUS_OK;
  fprintf(f, "$curves << EOD\n");
  for (int a = 0; a < drawn_arms(x->claim) && !status; a++) {
    struct table band = {0};
    status = arm_band(x, a, log, &band, error);
    for (long r = 0; r < band.rows && !status; r++) {
      double *v = &band.value[r * band.columns];
      spread_see(&spread, 1, log, v[1], v[2], v[3]);
      if (isnan(v[2])) v[2] = v[3] = v[1];
      if (!isnan(v[1]))
        first_step = fmin(first_step, band.step[r]), last_step = fmax(last_step, band.step[r]);
      spread.value.last_step = fmax(spread.value.last_step, band.step[r]);
    }
    if (!status) {
      table_bins(&band, BINS);
      if (a) fputs("\n\n", f);
      table_write_header(f, &band, TABLE_COLUMNS, NULL);
      table_write_rows(f, &band, TABLE_COLUMNS, NULL);
      if (!band.rows) fprintf(f, "0 0 NaN NaN NaN\n");
    }
    table_free(&band);
  }
  fprintf(f, "EOD\n");
  struct extent span = spread_axis(&spread, log);
  gnuplot_number(f, "curve_low", span.low);
  gnuplot_number(f, "curve_high", span.high);
  gnuplot_number(f, "last_step", fmax(span.last_step, 1));
  *curves = first_step < last_step;
  return status;
}

static void put_values(FILE *f, const struct entry *x, int log)
{
  struct spread spread = SPREAD_EMPTY;
  int arms = drawn_arms(x->claim);
  double mean[3][CLAIM_ARMS];
  fprintf(f, "$values << EOD\n");
  for (int a = 0; a < arms; a++) {
    const struct entry_arm *arm = &x->arm[a];
    if (a) fputs("\n\n", f);
    int n = 0;
    for (int i = 0; i < arm->runs; i++) {
      char text[32];
      const struct measured *v = &arm->run[i].value;
      if (!is_drawn(&arm->run[i]) || !v->has || !isfinite(v->value) || (log && v->value <= 0)) continue;
      fprintf(f, "%d %s\n", a + 1, table_number(v->value, text));
      spread_see(&spread, 1, log, v->value, NAN, NAN);
      n++;
    }
    if (!n) fprintf(f, "%d NaN\n", a + 1);
    mean[0][a] = arm->mean.mean, mean[1][a] = arm->mean.lo, mean[2][a] = arm->mean.hi;
  }
  fprintf(f, "EOD\n");
  for (int a = 0; a < arms; a++) spread_see(&spread, 1, log, mean[0][a], mean[1][a], mean[2][a]);
  struct extent span = spread_axis(&spread, log);
  if (claim_compared(x->claim) == 1) extend(&span, x->claim->level, log);
  gnuplot_numbers(f, "mean", mean[0], arms);
  gnuplot_numbers(f, "mean_low", mean[1], arms);
  gnuplot_numbers(f, "mean_high", mean[2], arms);
  gnuplot_number(f, "value_low", span.low);
  gnuplot_number(f, "value_high", span.high);
  gnuplot_number(f, "level", claim_compared(x->claim) == 1 ? x->claim->level : NAN);
}

/* The label of the values: the claim's metric, unless arms have their own. */
static const char *measure(const struct claim *c)
{
  for (int a = 0; a < drawn_arms(c); a++)
    if (c->arm[a].metric) return "what each arm is measured by";
  return c->metric;
}

/* The label of the curves: their series and, if it is the same for all arms, the selection of its values; or the share
   of values above a level. */
static void put_curve_label(FILE *f, const struct entry *x)
{
  struct metric first = {0}, m;
  const char *unit = x->arm[0].unit;
  char text[256], share[64] = "", level[32];
  int one = 1;
  metric_read(&first, claim_metric(x->claim, 0), NULL);
  for (int a = 1; a < drawn_arms(x->claim); a++)
    one &= !metric_read(&m, claim_metric(x->claim, a), NULL) && !strcmp(m.glob, first.glob);
  if (first.reduction == TAKE_OVER) {
    snprintf(share, sizeof share, " above %s", table_number(first.level, level));
  } else if (first.reduction != TAKE_SLOPE && !metric_is_time(&first) && *text_unit(unit))
    snprintf(share, sizeof share, " [%s]", unit);
  snprintf(text, sizeof text, "%s%s%s%s%s", first.reduction == TAKE_OVER ? "share of " : "", first.series,
           one && *first.glob ? "@" : "", one ? first.glob : "", share);
  gnuplot_text(f, "curve_label", text);
}

/* The style has fixed colors for presets, by their names. */
static const char *kind_of(const char *arm)
{
  static const char *const presets[] = {"adam", "muon", "adamclip", "muonclip"};
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    if (!strcasecmp(arm, presets[i])) return presets[i];
  return arm;
}

static void put_arms(FILE *f, const struct entry *x)
{
  struct gnuplot_group group[CLAIM_ARMS];
  for (int a = 0; a < drawn_arms(x->claim); a++)
    group[a] = (struct gnuplot_group){kind_of(x->claim->arm[a].name), "", "", x->arm[a].mean.n, 1};
  gnuplot_groups(f, group, drawn_arms(x->claim));
}

/* Extract the <svg> element and prefix its ids: several figures are on one page. */
static char *clean(const char *text, const char *prefix)
{
  static const char *const names[] = {" id=\"", " id='", "href='#", "href=\"#", "url(#"};
  struct buffer out = {0};
  const char *at = strstr(text, "<svg");
  while (at && *at) {
    size_t length = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !length; i++)
      if (!strncmp(at, names[i], strlen(names[i]))) length = strlen(names[i]);
    if (length)
      buffer_add(&out, "%.*s%s-", (int)length, at, prefix);
    else
      buffer_add(&out, "%c", *at);
    at += length ? length : 1;
  }
  return out.text;
}

static int draw(FILE *script, const char *prefix, char **svg, struct error *error)
{
  char *text;
  size_t length;
  int status = gnuplot_run(script, &text, &length, error);
  if (status) return status;
  *svg = clean(text, prefix);
  if (!*svg) status = error_set(error, STATUS_FAIL, "gnuplot drew nothing");
  memory_free(text);
  return status;
}

int claim_figure(const struct entry *x, const char *scripts, const char *prefix, char **svg,
                 struct error *error)
{
  int some = 0, log = x->claim->contrast == CONTRAST_RATIO;
  *svg = NULL;
  for (int a = 0; a < claim_arms(x->claim); a++) some |= x->arm[a].mean.n > 0;
  if (!some) return STATUS_OK;
  FILE *f = gnuplot_file(error);
  if (!f) return error->status;
  gnuplot_terminal(f, scripts, "svg", "", NULL);
  put_arms(f, x);
  put_values(f, x, log);
  gnuplot_number(f, "logarithmic", log);
  put_curve_label(f, x);
  gnuplot_text(f, "metric", measure(x->claim));
  int curves = has_curves(x), status = STATUS_OK;
  if (curves) status = put_curves(f, x, log, &curves, error);
  gnuplot_number(f, "has_curves", curves);
  fprintf(f, "load plots.'/claim.gp'\n");
  if (!status) status = draw(f, prefix, svg, error);
  fclose(f);
  return status ? error_prefix(error, "%s", x->claim->id) : STATUS_OK;
}
