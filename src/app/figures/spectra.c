/* spectra.c - spectra of the weights against step, by kind of tensor */
#include <math.h>
#include <string.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "analysis/gnuplot.h"
#include "base/memory.h"
#include "base/text.h"

enum { MEASURES = 3, KINDS = 5, MOST_NAMES = 8, ENTROPY = 1 };
static const char *const measures[MEASURES] = {"weight/spectral_norm", "weight/svd_entropy",
                                               "weight/stable_rank"};
/* Kinds by the last part of tensors' names. All others belong to the last kind, so that tensors of new variants of
   attention or feed-forward are not left out. */
static const struct {
  const char *name, *ends[MOST_NAMES];
} kinds[KINDS] = {
  {"queries and keys", {"w_q", "w_k", "w_dq", "w_qc", "w_qr", "w_dkv", "w_kc", "w_kr"}},
  {"values and output", {"w_v", "w_o"}},
  {"feed-forward", {"w_gate", "w_up", "w_down"}},
  {"embedding and head", {"embed", "head"}},
  {"other", {NULL}},
};

static const char *last_part(const char *tensor)
{
  const char *dot = strrchr(tensor, '.');
  return dot ? dot + 1 : tensor;
}

static int kind_of(const char *tensor)
{
  for (int k = 0; k < KINDS - 1; k++)
    for (int i = 0; i < MOST_NAMES && kinds[k].ends[i]; i++)
      if (strcmp(last_part(tensor), kinds[k].ends[i]) == 0) return k;
  return KINDS - 1;
}

enum { LEGEND = 4096 };

/* The names of the tensors of a kind, each once, as many as a legend has room for: " w_q w_k ". */
static void add_name(struct buffer *names, const char *tensor)
{
  char wanted[140];
  snprintf(wanted, sizeof wanted, " %s ", last_part(tensor));
  if (!names->text) buffer_add(names, " ");
  if (names->length < LEGEND && !strstr(names->text, wanted)) buffer_add(names, "%s", wanted + 1);
}

/* One column for each measure and kind: the mean over the tensors of that kind, NaN where a run has none. */
static int kind_means(const struct run *run, struct buffer names[KINDS], struct table *out,
                      struct error *error)
{
  for (int m = 0; m < MEASURES; m++) {
    struct table all, means;
    int status = run_table(run, measures[m], &all, error);
    if (status) {
      if (m > 0) table_free(out);
      return status;
    }
    int count[KINDS] = {0};
    table_new(&means, all.rows, KINDS);
    memcpy(means.step, all.step, (size_t)all.rows * sizeof *all.step);
    for (int c = 0; c < all.columns; c++) {
      int k = kind_of(all.column[c].name);
      count[k]++;
      add_name(&names[k], all.column[c].name);
      for (long r = 0; r < all.rows; r++) means.value[r * KINDS + k] += all.value[r * all.columns + c];
    }
    for (int k = 0; k < KINDS; k++) {
      snprintf(means.column[k].name, sizeof means.column[k].name, "%s:%d", measures[m], k);
      for (long r = 0; r < all.rows; r++) means.value[r * KINDS + k] /= count[k]; /* 0/0: NaN */
    }
    table_free(&all);
    if (m == 0)
      *out = means;
    else {
      table_join(out, &means);
      table_free(&means);
    }
  }
  return STATUS_OK;
}

/* SVD entropies are shares of the largest that there can be: their intervals end at 1. */
static void see_kinds(struct table *band, int counts, struct spread spread[MEASURES])
{
  for (long r = 0; r < band->rows; r++)
    for (int i = 0; i < MEASURES * KINDS; i++) {
      double *mean = &band->value[r * band->columns + 1 + 3 * i];
      if (mean[1] < 0) mean[1] = 0;
      if (i / KINDS == ENTROPY && mean[2] > 1) mean[2] = 1;
      spread_see(&spread[i / KINDS], counts, 0, mean[0], mean[1], mean[2]);
      if (counts && isfinite(*mean)) spread->value.last_step = fmax(spread->value.last_step, band->step[r]);
    }
}

static int put_curves(FILE *f, const struct runset *set, struct spread spread[MEASURES],
                      struct buffer names[KINDS], struct error *error)
{
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    const struct run **drawn = memory_new((size_t)group->count, sizeof *drawn);
    struct table *runs = memory_new((size_t)group->count, sizeof *runs), band;
    int count = figure_runs(group, drawn), status = STATUS_OK;
    for (int i = 0; i < count && !status; i++) status = kind_means(drawn[i], names, &runs[i], error);
    if (!status) {
      table_band(&band, runs, count, 0);
      see_kinds(&band, figure_sets_axis(set, group), spread);
      table_bins(&band, FIGURE_BINS);
      figure_put_block(f, &band, g);
      table_free(&band);
    }
    for (int i = 0; i < count; i++) table_free(&runs[i]);
    memory_free(runs);
    memory_free(drawn);
    if (status) return status;
  }
  fprintf(f, "EOD\n");
  return STATUS_OK;
}

/* The kinds that some run has: their place among the columns, their names and their tensors'. */
static void put_panels(FILE *f, struct buffer names[KINDS])
{
  const char *name[KINDS], *tensors[KINDS];
  double kind[KINDS];
  int panels = 0;
  for (int k = 0; k < KINDS; k++) {
    if (!names[k].text) continue;
    names[k].text[names[k].length - 1] = '\0'; /* the last blank */
    name[panels] = kinds[k].name;
    tensors[panels] = names[k].text + 1;
    kind[panels++] = k;
  }
  fprintf(f, "kinds = %d\npanels = %d\n", KINDS, panels);
  gnuplot_numbers(f, "panel_kind", kind, panels);
  gnuplot_texts(f, "panel_name", name, panels);
  gnuplot_texts(f, "panel_tensors", tensors, panels);
}

static int spectra_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct spread spread[MEASURES] = {SPREAD_EMPTY, SPREAD_EMPTY, SPREAD_EMPTY};
  struct buffer names[KINDS] = {{0}};
  double low[MEASURES], high[MEASURES], all_low[MEASURES], all_high[MEASURES];
  int status = put_curves(f, set, spread, names, error);
  for (int m = 0; m < MEASURES && !status; m++) {
    struct extent axis = spread_axis(&spread[m], 0);
    if (!isfinite(axis.high)) status = error_set(error, STATUS_USAGE, "no finite spectrum to draw");
    double margin = 0.06 * (axis.high - axis.low) + 1e-6 * axis.high;
    low[m] = m == ENTROPY ? fmax(axis.low - margin, 0) : 0; /* entropies lie near 1, the others begin at 0 */
    high[m] = m == ENTROPY ? fmin(axis.high + margin, 1) : axis.high + margin;
    if (!(high[m] > low[m])) low[m] = 0;
    all_low[m] = spread[m].all.low;
    all_high[m] = spread[m].all.high;
  }
  if (!status) {
    gnuplot_numbers(f, "low", low, MEASURES);
    gnuplot_numbers(f, "high", high, MEASURES);
    gnuplot_numbers(f, "all_low", all_low, MEASURES);
    gnuplot_numbers(f, "all_high", all_high, MEASURES);
    put_panels(f, names);
    gnuplot_number(f, "last_of_all", fmax(spread->value.last_step, 1));
    figure_put_heading(f, set, "Spectra of the weights against training step");
  }
  for (int k = 0; k < KINDS; k++) memory_free(names[k].text);
  return status;
}

static void spectra_text(struct text_page *t)
{
  const int panels = (int)script_number(t->values, "panels", 0);
  struct text_panel p[MEASURES * KINDS];
  char title[MEASURES * KINDS][96];
  for (int i = 0; i < MEASURES * panels; i++) {
    const int m = i / panels,
              column = 2 + 3 * (KINDS * m + (int)script_number(t->values, "panel_kind", i % panels));
    snprintf(title[i], sizeof title[i], "%s: %s", strchr(measures[m], '/') + 1,
             script_text(t->values, "panel_name", i % panels));
    p[i] = (struct text_panel){.title = title[i],
                               .block = "data",
                               .y = column,
                               .lo = column + 1,
                               .hi = column + 2,
                               .x_low = 0,
                               .x_high = script_number(t->values, "last_of_all", 0),
                               .y_low = script_number(t->values, "low", m),
                               .y_high = script_number(t->values, "high", m),
                               .level = NAN};
  }
  text_panels(t, p, MEASURES * panels, 36, panels);
  text_note_means(t, "Line: mean of the mean over the tensors of a kind", FIGURE_TEXT_BAND);
}

const struct figure figure_spectra = {
  .name = "spectra",
  .help = "spectral norm, SVD entropy and stable rank of the weights",
  .data = spectra_data,
  .needs = "weight/spectral_norm",
  .text = spectra_text,
};
