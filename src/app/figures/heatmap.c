/* heatmap.c - max logit, head by step, of the first seed of every group (of those that did not diverge, if any) */
#include <math.h>
#include "app/figure.h"
#include "app/text_page.h"
#include "base/memory.h"
#include "base/number.h"

enum { COLUMNS = 240 };

/* One value for each head and each of at most COLUMNS intervals: the largest. */
static void put_image(FILE *f, const struct table *t, int sets_axis, struct extent *extent,
                      struct extent *start, struct extent *all)
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
      if (m > 0 && sets_axis && !b) extent_see(start, m);
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
  struct extent extent = {NAN, NAN, 0}, start = extent, all = extent;
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
    else if (table.columns != (b.layers + b.modules) * b.heads)
      status = error_set(error, STATUS_FAIL, "%s: attn/max_logit has %d heads, the parameters state %d",
                         drawn[0]->shown, (int)table.columns, (b.layers + b.modules) * b.heads);
    if (g) fputs("\n\n", f);
    put_image(f, &table, figure_sets_axis(set, &set->group[g]), &extent, &start, &all);
    table_free(&table);
  }
  memory_free(drawn);
  if (status) return status;
  fprintf(f, "EOD\n");
  if (!(extent.high > 0)) return error_set(error, STATUS_USAGE, "no positive max logit to draw");
  /* four decades, more where the runs start lower: the way up is to be seen */
  extent.low = fmax(extent.low, fmin(extent.high * 1e-4, start.low));
  extent_put(f, &extent);
  gnuplot_number(f, "all_low", all.low);
  gnuplot_number(f, "all_high", all.high);
  fprintf(f, "bin_steps = %d\n", (int)ceil((extent.last_step + 1) / COLUMNS));
  fprintf(f, "heads = %d\nheads_all = %d\nlayers = %d\n", b.heads, (b.layers + b.modules) * b.heads,
          b.layers);
  figure_put_heading(f, set, "Max logit: head by training step");
  return STATUS_OK;
}

/* The largest of the intervals that share a column. */
static void text_values(const struct script_block *b, int heads, int wide, double *out)
{
  const long columns = b->rows / heads;
  for (int i = 0; i < heads * wide; i++) out[i] = NAN;
  for (long r = 0; r < b->rows; r++) {
    double *cell = &out[(long)b->value[r * 3 + 1] * wide + r / heads * wide / columns];
    *cell = fmax(*cell, b->value[r * 3 + 2]);
  }
}

static void text_group(struct text_page *t, int g, int heads, const char *const *row_name)
{
  enum { MARGIN = 12 };
  const struct script_block b = script_block(t->values, "data", g);
  const int room = t->columns - MARGIN, columns = (int)(b.rows / heads),
            wide = columns < room ? columns : room;
  double *value = memory_new((size_t)(heads * wide) + 1, sizeof *value);
  char title[256], last[32];
  struct buffer name = {0};
  text_values(&b, heads, wide, value);
  text_group_name(t, g, &name);
  snprintf(title, sizeof title, "%s, seed %.0f", name.text, script_number(t->values, "first_seed", g));
  snprintf(last, sizeof last, "%.0f", script_number(t->values, "last_of_all", 0));
  const struct chart_map m = {title,
                              "training step",
                              "0",
                              last,
                              row_name,
                              value,
                              wide,
                              heads,
                              t->columns,
                              1,
                              script_number(t->values, "low", 0),
                              script_number(t->values, "high", 0)};
  text_map(t, &m);
  memory_free(name.text);
  memory_free(value);
}

static void heatmap_text(struct text_page *t)
{
  const int heads = (int)script_number(t->values, "heads_all", 0),
            each = (int)script_number(t->values, "heads", 0),
            layers = (int)script_number(t->values, "layers", 0);
  char(*name)[32] = memory_new((size_t)heads + 1, sizeof *name);
  const char **row_name = memory_new((size_t)heads + 1, sizeof *row_name);
  for (int h = 0; h < heads; h++) {
    const int module = h / each - layers;
    snprintf(name[h], sizeof name[h], "%s%dH%d", module < 0 ? "L" : "MTP", module < 0 ? h / each : module,
             h % each);
    row_name[h] = name[h];
  }
  text_note(t, "'%s': %.3g to %.3g, log scale", chart_levels[t->utf8], script_number(t->values, "low", 0),
            script_number(t->values, "high", 0));
  for (int g = 0; g < t->groups; g++) text_group(t, g, heads, row_name);
  memory_free(name);
  memory_free(row_name);
}

const struct figure figure_heatmap = {
  .name = "heatmap",
  .help = "max logit, head by step",
  .data = heatmap_data,
  .needs = "attn/max_logit",
  .text = heatmap_text,
};
