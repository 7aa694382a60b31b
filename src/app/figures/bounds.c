/* bounds.c - heads of a checkpoint, layer by head: the bound on their logits, and the spectrum of their form */
#include <math.h>
#include <string.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "analysis/gnuplot.h"
#include "base/memory.h"

enum { MEASURES = 3 };
enum { MOST_LAYERS = 4096 };
static const char *const measures[MEASURES] = {"attn/bound", "head_qk/spectral_norm", "head_qk/svd_entropy"};

/* The last row of a series, a line a head: head, layer, value. */
static int put_measure(FILE *f, const struct run_file *file, const char *name, struct extent *extent,
                       double *layers, double *heads, struct error *error)
{
  struct run_series s;
  int status = run_read(file, name, &s, error);
  if (status) return status;
  if (strcmp(name, measures[0]) == 0)
    *layers = (double)s.layers, *heads = (double)s.heads;
  else if (*layers != (double)s.layers || *heads != (double)s.heads)
    status = error_set(error, STATUS_FAIL, "%s and %s have other heads", measures[0], name);
  if (s.layers > MOST_LAYERS)
    status = error_set(error, STATUS_USAGE, "%ld layers are too many for a map: %d at most", (long)s.layers,
                       MOST_LAYERS);
  if (!s.rows) status = error_set(error, STATUS_USAGE, "%s has no row", name);
  for (long i = 0; i < s.width && !status; i++) {
    double value = s.value[(s.rows - 1) * s.width + i];
    char text[32];
    extent_see(extent, value > 0 ? value : NAN);
    fprintf(f, "%ld %ld %s\n", i % s.heads, i / s.heads, gnuplot_value(value, text));
  }
  run_series_free(&s);
  return status;
}

static int bounds_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct extent extent[MEASURES] = {{NAN, NAN, 0}, {NAN, NAN, 0}, {NAN, NAN, 0}};
  double layers[FIGURE_GROUPS], heads[FIGURE_GROUPS], low[MEASURES], high[MEASURES];
  const char *source[FIGURE_GROUPS];
  int status = STATUS_OK;
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups && !status; g++)
    for (int m = 0; m < MEASURES && !status; m++) {
      const struct run_file *file = set->group[g].run->file;
      if (g || m) fputs("\n\n", f);
      source[g] = run_data_text(file);
      status = put_measure(f, file, measures[m], &extent[m], &layers[g], &heads[g], error);
    }
  if (status) return status;
  fprintf(f, "EOD\n");
  for (int m = 0; m < MEASURES; m++) {
    if (!isfinite(extent[m].high))
      return error_set(error, STATUS_USAGE, "no finite bound or spectrum to draw");
    low[m] = extent[m].low;
    high[m] = extent[m].high;
  }
  gnuplot_numbers(f, "low", low, MEASURES);
  gnuplot_numbers(f, "high", high, MEASURES);
  gnuplot_numbers(f, "layers", layers, set->groups);
  gnuplot_numbers(f, "heads", heads, set->groups);
  gnuplot_texts(f, "source", source, set->groups);
  figure_put_heading(f, set, "What bounds the logits of every head");
  return STATUS_OK;
}

static void text_measure(struct text_page *t, int g, int m, const char *const *row_name)
{
  static const char *const names[MEASURES] = {"Bound on |logit|", "spectral norm of w_q^T w_k",
                                              "SVD entropy of w_q^T w_k"};
  const struct script_block b = script_block(t->values, "data", MEASURES * g + m);
  const int heads = (int)script_number(t->values, "heads", g),
            layers = (int)script_number(t->values, "layers", g);
  const double low = script_number(t->values, "low", m), high = script_number(t->values, "high", m);
  double *value = memory_new((size_t)b.rows + 1, sizeof *value);
  char title[256], last[32];
  for (long r = 0; r < b.rows; r++) value[r] = b.value[r * 3 + 2];
  snprintf(title, sizeof title, "%s: '%s' is %.3g to %.3g", names[m], chart_levels[t->utf8], low, high);
  snprintf(last, sizeof last, "%d", heads - 1);
  const struct chart_map map = {title, "head", "0",        last,  row_name, value,
                                heads, layers, t->columns, m < 2, low,      high};
  text_map(t, &map);
  memory_free(value);
}

static void bounds_text(struct text_page *t)
{
  for (int g = 0; g < t->groups; g++) {
    const int layers = (int)script_number(t->values, "layers", g);
    char(*name)[24] = memory_new((size_t)layers + 1, sizeof *name);
    const char **row_name = memory_new((size_t)layers + 1, sizeof *row_name);
    for (int i = 0; i < layers; i++) {
      snprintf(name[i], sizeof name[i], "layer %d", i);
      row_name[i] = name[i];
    }
    text_note(t, "%s", script_text(t->values, "source", g));
    for (int m = 0; m < MEASURES; m++) text_measure(t, g, m, row_name);
    memory_free(name);
    memory_free(row_name);
  }
}

const struct figure figure_bounds = {
  .name = "bounds",
  .help = "heads of a checkpoint, layer by head: bound on the logits, spectrum of the form",
  .data = bounds_data,
  .text = bounds_text,
  .needs = "attn/bound",
};
