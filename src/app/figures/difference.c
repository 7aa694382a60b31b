/* difference.c - two arms over the steps: the mean of the pairs' differences, or of their log ratios
   Pairs of which a run failed are left out. */

#include <math.h>
#include <string.h>

#include "analysis/pairs.h"
#include "app/figure.h"
#include "app/text_page.h"
#include "base/memory.h"
#include "base/text.h"

struct curve {
  int first, count, n; /* pairs; those that are drawn */
  struct run_failures failed;
  char label[160];
  struct table band;
};

struct difference_figure {
  const struct figure_arms *what;
  const char *by;
  struct pair *pair;
  int pairs, curves;
  struct curve curve[FIGURE_GROUPS];
};

/* The difference of two runs at the steps that both have: one column. */
static int pair_table(const struct figure_arms *d, const struct pair *p, struct table *out,
                      struct error *error)
{
  struct table one, two;
  int status = curve_of(d->series, p->a, &one, error);
  if (status) return status;
  status = curve_of(d->series, p->b, &two, error);
  if (!status) {
    table_join(&one, &two);
    table_new(out, one.rows, 1);
    snprintf(out->column->name, sizeof out->column->name, "%s", d->ratio ? "ratio" : "difference");
    out->rows = 0;
    for (long r = 0; r < one.rows; r++) {
      double a = one.value[2 * r], b = one.value[2 * r + 1];
      if (!isfinite(a) || !isfinite(b) || (d->ratio && !(a > 0 && b > 0))) continue;
      out->step[out->rows] = one.step[r];
      out->value[out->rows++] = d->ratio ? b / a : b - a;
    }
    table_free(&two);
  }
  table_free(&one);
  return status;
}

static int make_curve(const struct difference_figure *d, struct curve *c, struct error *error)
{
  struct table *runs = memory_new((size_t)c->count + 1, sizeof *runs);
  int status = STATUS_OK;
  for (int i = c->first; i < c->first + c->count && !status; i++) {
    const struct pair *p = &d->pair[i];
    if (!p->a || !p->b) continue;
    if (run_has_failed(p->a) || run_has_failed(p->b)) {
      int diverged = run_is_diverged(p->a) || run_is_diverged(p->b);
      c->failed.diverged += diverged, c->failed.blown_up += !diverged;
      continue;
    }
    status = pair_table(d->what, p, &runs[c->n], error);
    c->n += !status;
  }
  if (!status && c->n) table_band(&c->band, runs, c->n, d->what->ratio);
  if (!status && c->n && !d->what->ratio && metric_is_share(d->what->series)) figure_bound(&c->band, -1);
  for (int i = 0; i < c->n; i++) table_free(&runs[i]);
  memory_free(runs);
  return status;
}

/* "muonclip / muon" of kind=muonclip over kind=muon. */
static void put_arms(const struct figure_arms *what, char *out, size_t room)
{
  static const char kind[] = "kind=";
  const size_t length = strlen(kind);
  const char *const *name = what->name;
  const size_t from = strncmp(name[0], kind, length) || strncmp(name[1], kind, length) ? 0 : length;
  snprintf(out, room, "%.70s %s %.70s", name[1] + from, what->ratio ? "/" : "-", name[0] + from);
}

static int make_curves(struct difference_figure *d, struct error *error)
{
  int status = STATUS_OK;
  for (int first = 0, end; first < d->pairs && !status; first = end) {
    struct curve c = {.first = first};
    for (end = first + 1; end < d->pairs && pairs_together(&d->pair[first], &d->pair[end], d->by);) end++;
    c.count = end - first;
    pairs_values(&d->pair[first], d->by, 1, c.label, sizeof c.label);
    if (!*c.label) put_arms(d->what, c.label, sizeof c.label);
    status = make_curve(d, &c, error);
    if (status || !c.n) continue;
    if (d->curves == FIGURE_GROUPS) {
      table_free(&c.band);
      return error_set(error, STATUS_USAGE, "more than %d curves: choose with --where", FIGURE_GROUPS);
    }
    d->curve[d->curves++] = c;
  }
  if (!status && !d->curves)
    status = error_set(error, STATUS_USAGE, "every pair has a run that diverged or blew up: nothing to draw");
  return status;
}

static double scale_of(const struct difference_figure *d, double x) { return d->what->ratio ? log(x) : x; }

/* No difference is on the axis, too. */
static void find_range(const struct difference_figure *d, struct spread *s)
{
  *s = SPREAD_EMPTY;
  spread_see(s, 1, 0, 0, 0, 0);
  for (int c = 0; c < d->curves; c++)
    for (long r = 0; r < d->curve[c].band.rows; r++) {
      const double *v = &d->curve[c].band.value[4 * r];
      s->value.last_step = fmax(s->value.last_step, d->curve[c].band.step[r]);
      spread_see(s, 1, 0, scale_of(d, v[1]), scale_of(d, v[2]), scale_of(d, v[3]));
    }
}

static void put_curves(FILE *f, struct difference_figure *d)
{
  struct gnuplot_group group[FIGURE_GROUPS];
  double last[FIGURE_GROUPS];
  char note[FIGURE_GROUPS][96];
  struct spread spread;
  find_range(d, &spread);
  struct extent axis = spread_axis(&spread, 0);
  fprintf(f, "$data << EOD\n");
  for (int c = 0; c < d->curves; c++) {
    struct curve *curve = &d->curve[c];
    last[c] = figure_last(&curve->band, 1);
    table_bins(&curve->band, FIGURE_BINS);
    figure_put_block(f, &curve->band, c);
    int failed = curve->failed.diverged + curve->failed.blown_up;
    figure_note_failures(curve->failed, failed + curve->n, note[c], sizeof *note);
    group[c] = (struct gnuplot_group){curve->label, "", note[c], curve->n, 1};
  }
  fprintf(f, "EOD\n");
  gnuplot_groups(f, group, d->curves);
  gnuplot_numbers(f, "last", last, d->curves);
  spread_put(f, &spread, &axis);
}

/* The settings that both arms have in common. */
static void put_heading(FILE *f, const struct figure_arms *what, const char *heading)
{
  int a = what->set[0].runs, b = what->set[1].runs;
  struct runset both = {.run = memory_new((size_t)(a + b), sizeof *both.run), .runs = a + b};
  memcpy(both.run, what->set[0].run, (size_t)a * sizeof *both.run);
  memcpy(both.run + a, what->set[1].run, (size_t)b * sizeof *both.run);
  figure_put_heading(f, &both, heading);
  memory_free(both.run);
}

static void put_unit(FILE *f, const struct figure_arms *what)
{
  enum { LONGEST = 48 }; /* letters that fit beside the axis */
  char arms[160], quantity[320];
  put_arms(what, arms, sizeof arms);
  if (strlen(arms) > LONGEST) snprintf(arms, sizeof arms, "%s", what->ratio ? "B / A" : "B - A");
  snprintf(quantity, sizeof quantity, "%s, %s", what->series->label, arms);
  gnuplot_axis(f, "y_name", quantity, what->ratio ? "log scale" : what->series->unit);
}

static int difference_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct figure_arms *what = r->arms;
  struct difference_figure *d = memory_new(1, sizeof *d);
  struct buffer heading = {0};
  d->what = what;
  d->by = r->by;
  int status = pairs_of(&what->set[0], &what->set[1], d->by, &d->pair, &d->pairs, error);
  if (!status) status = make_curves(d, error);
  if (!status) {
    put_curves(f, d);
    char series[256];
    curve_title(what->series, series, sizeof series);
    buffer_add(&heading, "%s: %s %s %s", series, what->name[1], what->ratio ? "over" : "minus",
               what->name[0]);
    put_heading(f, what, heading.text);
    gnuplot_number(f, "ratio", what->ratio);
    put_unit(f, what);
  }
  for (int c = 0; c < d->curves; c++) table_free(&d->curve[c].band);
  memory_free(heading.text);
  memory_free(d->pair);
  memory_free(d);
  return status;
}

static void difference_text(struct text_page *t)
{
  const int ratio = script_number(t->values, "ratio", 0) > 0;
  const double low = script_number(t->values, "low", 0), high = script_number(t->values, "high", 0);
  const struct text_panel p = {.title = script_text(t->values, "y_name", 0),
                               .x_name = "training step",
                               .block = "data",
                               .y = 2,
                               .lo = 3,
                               .hi = 4,
                               .x_low = 0,
                               .x_high = script_number(t->values, "last_of_all", 0),
                               .y_low = ratio ? exp(low) : low,
                               .y_high = ratio ? exp(high) : high,
                               .level = ratio,
                               .log_y = ratio};
  text_panels(t, &p, 1, 1, 1);
  text_note(t, "- - -: no difference");
  text_note_means(t, ratio ? "Line: geometric mean" : "Line: mean", FIGURE_TEXT_BAND);
}

const struct figure figure_difference = {
  .name = "difference",
  .help = "two arms over the steps: mean of the pairs' differences or ratios",
  .data = difference_data,
  .text = difference_text,
  .asked = "--diff",
};
