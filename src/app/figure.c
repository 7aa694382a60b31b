/* figure.c - the registry of figures, and their common parts */
#include "app/figure.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "app/text_page.h"
#include "base/memory.h"
#include "base/registry.h"
#include "base/text.h"

REGISTRY(figure)
const char *const figure_names[] = {PLUGINS_figure(PLUGIN_NAME) NULL};

FILE *figure_script(const struct figure *figure, const struct figure_request *r, const char *scripts,
                    const char *term, const char *out, const struct gnuplot_page *page, struct error *error)
{
  FILE *f = gnuplot_file(error);
  if (!f) return NULL;
  gnuplot_terminal(f, scripts, term, out, page);
  if (!figure->asked) figure_put_groups(f, r->set);
  int status = figure->data(f, r, error);
  fprintf(f, "load plots.'/%s.gp'\n", figure->name);
  if (!status && (fflush(f) != 0 || ferror(f)))
    status = error_set(error, STATUS_FAIL, "file in memory: %s", strerror(errno));
  if (!status) return f;
  fclose(f);
  return NULL;
}

int figure_fits(const struct runset *set, struct error *error)
{
  if (set->groups <= FIGURE_GROUPS) return STATUS_OK;
  char *differences = runset_differences(set);
  int status =
    error_set(error, STATUS_USAGE,
              "%d groups of runs (those that differ only in their seed are one); %d fit in a figure. "
              "Choose with --where KEY=VALUE[,VALUE]; they differ in%.1500s",
              set->groups, FIGURE_GROUPS, differences);
  memory_free(differences);
  return status;
}

int figure_needs(const struct runset *set, const char *series)
{
  for (int i = 0; i < set->runs; i++)
    if (!run_rows(set->run[i].file, series)) return 0;
  return 1;
}

/* --- the runs ------------------------------------------------------------------------------------------ */

int figure_runs(const struct run_group *group, const struct run **out)
{
  int count = run_group_counted(group, out);
  if (!count) out[count++] = group->run;
  return count;
}

int figure_sets_axis(const struct runset *set, const struct run_group *group)
{
  const struct run **counted = memory_new((size_t)set->runs, sizeof *counted);
  int own = run_group_counted(group, counted), some = 0;
  for (int g = 0; g < set->groups && !some; g++) some = run_group_counted(&set->group[g], counted);
  memory_free(counted);
  return own || !some;
}

void figure_note_failures(struct run_failures f, int of, char *out, size_t room)
{
  char text[64];
  if (f.diverged && f.blown_up)
    snprintf(out, room, " (of %d %s)", of, run_failures_text(f, text));
  else if (f.diverged + f.blown_up)
    snprintf(out, room, " (%d of %d %s)", f.diverged + f.blown_up, of, f.blown_up ? "blown up" : "diverged");
  else
    *out = 0;
}

/* The note behind a group's name: runs that failed or have not finished. */
static void write_note(const struct run_group *group, char *out, size_t room)
{
  struct run_failures f = run_group_failures(group);
  int unfinished = run_group_unfinished(group), failed = f.diverged + f.blown_up,
      all = failed == group->count;
  char text[64];
  run_failures_text(f, text);
  if (unfinished && failed)
    snprintf(out, room, " (of %d %s, %d unfinished)", group->count, text, unfinished);
  else if (unfinished && group->count > 1)
    snprintf(out, room, " (%d of %d unfinished)", unfinished, group->count);
  else if (unfinished)
    snprintf(out, room, " (unfinished)");
  else if (all && group->count == 1)
    snprintf(out, room, " (%s)", f.blown_up ? "blown up" : "diverged");
  else if (all && failed)
    snprintf(out, room, " (all %s; seed %ld)", text, group->run->seed);
  else
    figure_note_failures(f, group->count, out, room);
}

void figure_put_groups(FILE *f, const struct runset *set)
{
  struct text {
    char kind[sizeof set->group->label], note[96];
  } *text = memory_new((size_t)set->groups, sizeof *text);
  struct gnuplot_group *out = memory_new((size_t)set->groups, sizeof *out);
  double *first_seed = memory_new((size_t)set->groups, sizeof *first_seed);
  const struct run **drawn = memory_new((size_t)set->runs, sizeof *drawn);
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    const char *stabilizers = run_parameter(group->run->file, "stabilizers");
    snprintf(text[g].kind, sizeof text->kind, "%.*s", group->kind_length, group->label);
    write_note(group, text[g].note, sizeof text->note);
    out[g] =
      (struct gnuplot_group){.kind = text[g].kind,
                             .rest = group->label + group->kind_length,
                             .note = text[g].note,
                             .seeds = figure_runs(group, drawn),
                             .clipped = stabilizers && *stabilizers && strcmp(stabilizers, "none") != 0};
    first_seed[g] = (double)drawn[0]->seed;
  }
  gnuplot_groups(f, out, set->groups);
  gnuplot_numbers(f, "first_seed", first_seed, set->groups);
  gnuplot_text(f, "one_is", runset_over_seeds(set) ? "seed" : "run");
  memory_free(text);
  memory_free(out);
  memory_free(first_seed);
  memory_free(drawn);
}

/* A parameter that all runs share, or NULL. */
static const char *common(const struct runset *set, const char *key)
{
  const char *value = run_parameter(set->run->file, key);
  for (int i = 1; i < set->runs && value; i++) {
    const char *other = run_parameter(set->run[i].file, key);
    if (!other || strcmp(other, value) != 0) return NULL;
  }
  return value && *value ? value : NULL;
}

void figure_put_title(FILE *f, const char *heading)
{
  char *text = memory_text(heading);
  const size_t word = strcspn(text, " ");
  if (strcspn(text, "/_:=.@") >= word) *text = (char)toupper((unsigned char)*text);
  gnuplot_text(f, "heading", text);
  memory_free(text);
}

void figure_put_heading(FILE *f, const struct runset *set, const char *heading)
{
  static const struct {
    const char *key, *between, *before, *counted;
  } parts[] = {
    {"model.layers", "", "", " layer"},
    {"model.heads", " \303\227 ", "", " head"},
    {"model.width", ", ", "width ", ""},
    {"model.context", ", ", "context ", ""},
    {"train.batch", ", ", "batch ", ""},
    {"train.lr", ", ", "lr ", ""},
    {"train.weight_decay", ", ", "weight decay ", ""},
    {"train.schedule", ", ", "schedule ", ""},
    {"data", ". ", "Data: ", ""},
    {"data.path", ", ", "", ""},
  };
  struct buffer text = {0};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const char *value = common(set, parts[i].key), *counted = parts[i].counted;
    if (!value) continue;
    buffer_add(&text, "%s%s%s%s%s", text.length ? parts[i].between : "", parts[i].before,
               text_file_name(value), counted, *counted ? text_s(strtol(value, NULL, 10)) : "");
  }
  figure_put_title(f, heading);
  gnuplot_text(f, "about", text.text ? text.text : "");
  memory_free(text.text);
}

/* tau and tau_name: the threshold where all runs that have one have the same, else NaN. */
static void put_threshold(FILE *f, const struct runset *set)
{
  double tau = NAN;
  for (int i = 0; i < set->runs; i++) {
    double own = run_threshold(&set->run[i]);
    if (isnan(tau))
      tau = own;
    else if (!isnan(own) && own != tau) {
      tau = NAN;
      break;
    }
  }
  char name[64], number[32];
  snprintf(name, sizeof name, "threshold %s", table_number(tau, number));
  gnuplot_number(f, "tau", tau);
  gnuplot_text(f, "tau_name", name);
}

enum { MOST_HEADS = 1 << 20 }; /* of a figure */

int figure_common_blocks(const struct runset *set, struct figure_blocks *b, struct error *error)
{
  const double layers = run_number(set->run, "model.layers", 1),
               heads = run_number(set->run, "model.heads", 1), modules = run_number(set->run, "model.mtp", 0);
  int same = common(set, "model.layers") && common(set, "model.heads");
  for (int i = 1; i < set->runs; i++) same &= run_number(&set->run[i], "model.mtp", 0) == modules;
  if (!same)
    return error_set(error, STATUS_USAGE, "the runs differ in model.layers, model.heads or model.mtp");
  if (!(layers >= 1 && heads >= 1 && modules >= 0 && (layers + modules) * heads <= MOST_HEADS))
    return error_set(error, STATUS_USAGE, "%g layers of %g heads and %g modules cannot be drawn", layers,
                     heads, modules);
  *b = (struct figure_blocks){.layers = (int)layers, .modules = (int)modules, .heads = (int)heads};
  return STATUS_OK;
}

/* --- the numbers --------------------------------------------------------------------------------------- */

int figure_band(const struct run_group *group, const char *series, void (*prepare)(struct table *),
                int geometric, struct table *band, struct error *error)
{
  const struct run **drawn = memory_new((size_t)group->count, sizeof *drawn);
  struct table *runs = memory_new((size_t)group->count, sizeof *runs);
  int count = figure_runs(group, drawn), status = runs_have_one_unit(group->run, group->count, series, error);
  for (int i = 0; i < count && !status; i++) {
    status = run_table(drawn[i], series, &runs[i], error);
    if (!status && prepare) prepare(&runs[i]);
    if (!status && !table_columns_agree(&runs[0], &runs[i]))
      status = error_set(error, STATUS_USAGE, "%s: its %s has other columns than that of %s", drawn[i]->shown,
                         series, drawn[0]->shown);
  }
  if (!status) table_band(band, runs, count, geometric);
  for (int i = 0; i < count; i++) table_free(&runs[i]);
  memory_free(runs);
  memory_free(drawn);
  return status;
}

void figure_bound(struct table *band, double least)
{
  for (long r = 0; r < band->rows; r++)
    for (int c = 1; c < band->columns; c += 3) {
      double *mean = &band->value[r * band->columns + c];
      if (isnan(mean[1])) continue; /* fmax would take the bound; a NaN is that there is none */
      mean[1] = fmax(mean[1], least);
      mean[2] = fmin(mean[2], 1);
    }
}

void figure_see(const struct table *band, double from_step, int counts, int logarithmic, struct spread *s)
{
  for (long r = 0; r < band->rows; r++) {
    if (counts) s->value.last_step = fmax(s->value.last_step, band->step[r]);
    for (int c = 1; c < band->columns; c += 3) {
      const double *mean = &band->value[r * band->columns + c];
      spread_see(s, counts && band->step[r] >= from_step, logarithmic, mean[0], mean[1], mean[2]);
    }
  }
}

void figure_put_block(FILE *f, struct table *band, int g)
{
  for (long r = 0; r < band->rows; r++)
    for (int c = 1; c < band->columns; c += 3) {
      double *mean = &band->value[r * band->columns + c];
      if (isnan(mean[1])) mean[1] = mean[2] = *mean;
    }
  if (g) fputs("\n\n", f);
  table_write_header(f, band, TABLE_COLUMNS, NULL);
  table_write_rows(f, band, TABLE_COLUMNS, NULL);
}

int figure_is_log(const struct extent *e, const struct metric *m)
{
  enum { LOG_FROM = 8 }; /* the highest value over the lowest */
  return e->low > 0 && e->high >= LOG_FROM * e->low && metric_suits_log(m);
}

double figure_last(const struct table *t, int column)
{
  for (long r = t->rows - 1; r >= 0; r--)
    if (isfinite(t->value[r * t->columns + column])) return t->value[r * t->columns + column];
  return NAN;
}

int figure_put_logits_axis(FILE *f, const struct runset *set, const struct spread *spread,
                           struct error *error)
{
  struct extent axis = spread_axis(spread, 1);
  if (!(axis.high > 0)) return error_set(error, STATUS_USAGE, "no positive max logit to draw");
  axis.low = fmax(axis.low, spread->value.high * 1e-6); /* a wide interval hides no curve */
  spread_put(f, spread, &axis);
  put_threshold(f, set);
  return STATUS_OK;
}

struct text_panel figure_text_logits(const struct text_page *t)
{
  const double low = script_number(t->values, "low", 0), high = script_number(t->values, "high", 0);
  const double widen = high < 3 * low ? sqrt(3 * low / high) : 1; /* half a decade at least */
  return (struct text_panel){.x_name = "training step",
                             .block = "data",
                             .y = 2,
                             .lo = 3,
                             .hi = 4,
                             .x_low = 0,
                             .x_high = script_number(t->values, "last_of_all", 0),
                             .y_low = low / widen,
                             .y_high = high * widen,
                             .level = script_number(t->values, "tau", 0),
                             .log_y = 1};
}

void figure_text_threshold(struct text_page *t)
{
  if (isfinite(script_number(t->values, "tau", 0)))
    text_note(t, "- - -: %s", script_text(t->values, "tau_name", 0));
}
