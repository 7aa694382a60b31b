/* loss.c - training and validation loss against step, and where each group ends */
#include <math.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "analysis/gnuplot.h"
#include "base/memory.h"

enum { LOSS_BINS = 40, EXPLODED = 20 }; /* highest loss over the lowest from which the axis is logarithmic */
static const double first_shown =
  0.08; /* of the steps done: the fall from the start would take all of the axis; it is marked */

static void smooth(struct table *t) { table_means(t, LOSS_BINS); }

enum { LATER, ALL, WHOLE, SPREADS }; /* without the first steps; all; all, on a logarithmic axis */

static int put_curves(FILE *f, const struct runset *set, const char *series, const char *block,
                      void (*prepare)(struct table *), struct spread *spread, struct error *error)
{
  double last[FIGURE_GROUPS];
  char name[32];
  fprintf(f, "$%s << EOD\n", block);
  for (int g = 0; g < set->groups; g++) {
    struct table band;
    int status = figure_band(&set->group[g], series, prepare, 0, &band, error);
    if (status) return status;
    figure_see(&band, band.rows ? first_shown * band.step[band.rows - 1] : 0,
               figure_sets_axis(set, &set->group[g]), 0, &spread[LATER]);
    figure_see(&band, 0, figure_sets_axis(set, &set->group[g]), 0, &spread[ALL]);
    figure_see(&band, 0, figure_sets_axis(set, &set->group[g]), 1, &spread[WHOLE]);
    last[g] = figure_last(&band, 1);
    figure_put_block(f, &band, g);
    table_free(&band);
  }
  fprintf(f, "EOD\n");
  snprintf(name, sizeof name, "%s_last", block);
  gnuplot_numbers(f, name, last, set->groups);
  return STATUS_OK;
}

/* The last validation loss of every seed drawn, as block g of $final; their mean and interval. */
static int put_final(FILE *f, const struct run_group *group, int g, struct interval *out, int counts,
                     struct spread *spread, struct error *error)
{
  double *values = memory_new((size_t)group->count, sizeof *values);
  const struct run **drawn = memory_new((size_t)group->count, sizeof *drawn);
  int count = figure_runs(group, drawn), status = STATUS_OK;
  if (g) fputs("\n\n", f);
  for (int i = 0; i < count && !status; i++) {
    struct table table;
    char text[32];
    status = run_table(drawn[i], "val_loss", &table, error);
    if (status) break;
    values[i] = table.rows && table.columns == 1 ? table.value[table.rows - 1] : NAN;
    fprintf(f, "%s\n", table_number(values[i], text));
    spread_see(spread, counts, 0, values[i], values[i], values[i]);
    table_free(&table);
  }
  *out = interval_of(values, count, 0);
  if (count < 2) out->lo = out->hi = out->mean;
  memory_free(values);
  memory_free(drawn);
  return status;
}

static int put_finals(FILE *f, const struct runset *set, struct spread *spread, struct error *error)
{
  double mean[FIGURE_GROUPS], lo[FIGURE_GROUPS], hi[FIGURE_GROUPS];
  fprintf(f, "$final << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    struct interval interval;
    int counts = figure_sets_axis(set, &set->group[g]);
    int status = put_final(f, &set->group[g], g, &interval, counts, spread, error);
    if (status) return status;
    mean[g] = interval.mean;
    lo[g] = interval.lo;
    hi[g] = interval.hi;
    spread_see(spread, counts, 0, mean[g], lo[g], hi[g]);
  }
  fprintf(f, "EOD\n");
  gnuplot_numbers(f, "final_mean", mean, set->groups);
  gnuplot_numbers(f, "final_lo", lo, set->groups);
  gnuplot_numbers(f, "final_hi", hi, set->groups);
  return STATUS_OK;
}

/* How many rows one point of the training curve is the mean of: smooth() of the longest run that is drawn. */
static int rows_averaged(const struct runset *set)
{
  long most = 0;
  for (int i = 0; i < set->runs; i++) {
    long rows = run_rows(set->run[i].file, "loss");
    if (rows > most) most = rows;
  }
  return most > LOSS_BINS ? (int)round((double)most / LOSS_BINS) : 1;
}

/* The entropy rate of the data that all runs have; NaN: not known, or not the same. */
static double common_floor(const struct runset *set)
{
  double rate = run_loss_floor(set->run->file);
  for (int i = 1; i < set->runs; i++)
    if (run_loss_floor(set->run[i].file) != rate) return NAN;
  return rate;
}

static double length_of(const struct extent *e) { return e->high - e->low; }

static int loss_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct spread curves[SPREADS] = {SPREAD_EMPTY, SPREAD_EMPTY, SPREAD_EMPTY}, finals = SPREAD_EMPTY;
  int has_val = figure_needs(set, "val_loss");
  int status = put_curves(f, set, "loss", "train", smooth, curves, error);
  if (!status && has_val) status = put_curves(f, set, "val_loss", "val", NULL, curves, error);
  if (!status && has_val) status = put_finals(f, set, &finals, error);
  if (status) return status;
  double floor_ = common_floor(set);
  /* One that explodes has its start on the axis, which is logarithmic then: on a linear one all before the end would
     lie at the bottom. */
  const struct extent *later = &curves[LATER].value, *whole = &curves[WHOLE].value;
  int log_y = isnan(later->low) ? whole->high >= EXPLODED * whole->low
                                : later->low > 0 && later->high >= EXPLODED * later->low;
  if (isnan(later->low) && isnan(whole->low)) return error_set(error, STATUS_USAGE, "no finite loss to draw");
  if (isnan(later->low)) curves[LATER] = curves[WHOLE];
  if (!log_y) extent_see(&curves[LATER].value, floor_), extent_see(&curves[ALL].value, floor_);
  /* a start that takes half of the axis at most is on it */
  if (!log_y && length_of(&curves[ALL].value) <= 2 * length_of(&curves[LATER].value))
    curves[LATER] = curves[ALL];
  struct extent axis = spread_axis(&curves[log_y ? WHOLE : LATER], log_y), final = spread_axis(&finals, 0);
  if (!(final.high >= final.low)) has_val = 0;
  fprintf(f, "has_val = %d\nbin_steps = %d\n", has_val, rows_averaged(set));
  fprintf(f, "log_y = %d\n", log_y);
  spread_put(f, &curves[log_y ? WHOLE : LATER], &axis);
  gnuplot_number(f, "final_low", final.low);
  gnuplot_number(f, "final_high", final.high);
  gnuplot_number(f, "final_all_low", finals.all.low);
  gnuplot_number(f, "final_all_high", finals.all.high);
  gnuplot_number(f, "loss_floor", floor_);
  figure_put_heading(f, set, has_val ? "Training and validation loss" : "Training loss");
  return STATUS_OK;
}

/* Where each group ends; the enlarged panel of the figure. */
static void text_ends(struct text_page *t)
{
  for (int g = 0; g < t->groups; g++) {
    const double mean = script_number(t->values, "final_mean", g),
                 lo = script_number(t->values, "final_lo", g), hi = script_number(t->values, "final_hi", g);
    struct buffer name = {0};
    text_group_name(t, g, &name);
    if (hi > lo)
      text_note(t, "last validation loss: %.4f [%.4f, %.4f]  %s", mean, lo, hi, name.text);
    else
      text_note(t, "last validation loss: %.4f  %s", mean, name.text);
    memory_free(name.text);
  }
}

static void loss_text(struct text_page *t)
{
  const int has_val = script_number(t->values, "has_val", 0) > 0;
  struct text_panel p = {.x_name = "training step",
                         .y = 2,
                         .lo = 3,
                         .hi = 4,
                         .x_low = 0,
                         .x_high = script_number(t->values, "last_of_all", 0),
                         .y_low = script_number(t->values, "low", 0),
                         .y_high = script_number(t->values, "high", 0),
                         .level = script_number(t->values, "loss_floor", 0),
                         .log_y = script_number(t->values, "log_y", 0) > 0};
  struct text_panel both[] = {p, p};
  both[0].block = "train", both[0].title = p.log_y ? "training (nat, log scale)" : "training (nat)";
  both[1].block = "val", both[1].title = p.log_y ? "validation (nat, log scale)" : "validation (nat)";
  text_panels(t, both, 1 + has_val, 56, 2);
  if (isfinite(p.level)) text_note(t, "- - -: entropy rate of the data");
  text_note_means(t, "Line: mean", FIGURE_TEXT_BAND);
  if (has_val) text_ends(t);
}

const struct figure figure_loss = {
  .name = "loss",
  .help = "training and validation loss",
  .data = loss_data,
  .text = loss_text,
  .needs = "loss",
};
