/* bounds.c - heads of a checkpoint, layer by head: the bound on their logits, and the spectrum of their form */
#include <math.h>
#include "app/figure.h"
#include "analysis/gnuplot.h"
#include "base/memory.h"

enum { MEASURES = 3 };
static const char *const measures[MEASURES] = {"attn/bound", "head_qk/spectral_norm", "head_qk/svd_entropy"};

/* The last row of a series, a line a head: head, layer, value. */
static int put_measure(FILE *f, const struct run_file *file, const char *name, struct extent *extent,
                       double *layers, double *heads, struct error *error)
{
  struct run_series s;
  int status = run_read(file, name, &s, error);
  if (status) return status;
  *layers = (double)s.layers;
  *heads = (double)s.heads;
  for (long i = 0; i < s.width && s.rows; i++) {
    double value = s.value[(s.rows - 1) * s.width + i];
    char text[32];
    extent_see(extent, value > 0 ? value : NAN);
    fprintf(f, "%ld %ld %s\n", i % s.heads, i / s.heads, gnuplot_value(value, text));
  }
  run_series_free(&s);
  return STATUS_OK;
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

const struct figure figure_bounds = {
  .name = "bounds",
  .help = "heads of a checkpoint, layer by head: bound on the logits, spectrum of the form",
  .data = bounds_data,
  .needs = "attn/bound",
};
