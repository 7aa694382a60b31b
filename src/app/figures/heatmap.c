/* heatmap.c - max logit, head by step, of the first seed of every group (of those that did not diverge, if any) */
#include <math.h>
#include "app/figure.h"
#include "base/memory.h"
#include "base/number.h"

enum { COLUMNS = 240 };

/* One value for each head and each of at most COLUMNS intervals: the largest. */
static void put_image(FILE *f, const struct table *t, int sets_axis, struct extent *extent,
                      struct extent *all)
{
  long columns = t->rows < COLUMNS ? t->rows : COLUMNS;
  double span = t->rows > 0 ? t->step[t->rows - 1] - t->step[0] : 0;
  for (long b = 0; b < columns; b++) {
    long first = b * t->rows / columns, last = (b + 1) * t->rows / columns;
    for (int c = 0; c < t->columns; c++) {
      double m = t->value[first * t->columns + c];
      char text[32];
      for (long r = first; r < last; r++) m = max_known(m, t->value[r * t->columns + c]);
      if (m > 0 && sets_axis) extent_see(extent, m);
      extent_see(all, m);
      fprintf(f, "%.6g %d %s\n", t->step[0] + span * ((double)b + 0.5) / (double)columns, c,
              gnuplot_value(m, text));
    }
  }
  if (t->rows > 0) extent->last_step = fmax(extent->last_step, t->step[t->rows - 1]);
}

static int heatmap_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct extent extent = {NAN, NAN, 0}, all = extent;
  struct figure_blocks b;
  int status = figure_common_blocks(set, &b, error);
  if (status) return status;
  const struct run **drawn = memory_new((size_t)set->runs, sizeof *drawn);
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups && !status; g++) {
    struct table table;
    figure_runs(&set->group[g], drawn);
    status = run_table(drawn[0], "attn/max_logit", &table, error);
    if (status) break;
    if (table.rows < 2 || table.columns < 2)
      status = error_set(error, STATUS_USAGE, "%s: a map wants two heads and two steps", drawn[0]->path);
    if (g) fputs("\n\n", f);
    put_image(f, &table, figure_sets_axis(set, &set->group[g]), &extent, &all);
    table_free(&table);
  }
  memory_free(drawn);
  if (status) return status;
  fprintf(f, "EOD\n");
  if (!(extent.high > 0)) return error_set(error, STATUS_USAGE, "no positive max logit to draw");
  extent.low = fmax(extent.low, extent.high * 1e-4);
  extent_put(f, &extent);
  gnuplot_number(f, "all_low", all.low);
  gnuplot_number(f, "all_high", all.high);
  fprintf(f, "bin_steps = %d\n", (int)ceil((extent.last_step + 1) / COLUMNS));
  fprintf(f, "heads = %d\nheads_all = %d\nlayers = %d\n", b.heads, (b.layers + b.modules) * b.heads,
          b.layers);
  figure_put_heading(f, set, "Max logit: head by training step");
  return STATUS_OK;
}

const struct figure figure_heatmap = {
  .name = "heatmap",
  .help = "max logit, head by step",
  .data = heatmap_data,
  .needs = "attn/max_logit",
  .no_text = 1,
};
