/* heads.c - max logit of every head against step: small multiples, a line a run
   A mean over seeds would mix heads: which of them grow, and which die, differs from seed to seed. */
#include <math.h>
#include "analysis/dead.h"
#include "app/figure.h"
#include "app/text_page.h"
#include "base/memory.h"

enum { MOST_PANELS = 64, MOST_ACROSS = 8 };

/* A run as block `block` of $data: step, then max logit of each head. */
static int put_run(FILE *f, const struct run *run, int block, int counts, struct spread *spread,
                   double *largest, struct error *error)
{
  struct table t;
  int status = run_table(run, "attn/max_logit", &t, error);
  if (status) return status;
  for (long i = 0; i < t.rows * t.columns && t.columns <= MOST_PANELS; i++)
    largest[i % t.columns] = fmax(largest[i % t.columns], t.value[i]);
  for (long i = 0; i < t.rows * t.columns; i++) spread_see(spread, counts, 1, t.value[i], NAN, NAN);
  if (counts && t.rows) spread->value.last_step = fmax(spread->value.last_step, t.step[t.rows - 1]);
  table_bins(&t, FIGURE_BINS);
  if (block) fputs("\n\n", f);
  table_write_header(f, &t, TABLE_COLUMNS, NULL);
  table_write_rows(f, &t, TABLE_COLUMNS, NULL);
  if (!t.rows) fputs("0 NaN\n", f);
  table_free(&t);
  return STATUS_OK;
}

/* order[p]: the head of panel p, from 1; by the largest value of the drawn runs, or as they are in the model. */
static void put_order(FILE *f, const double *largest, int panels, int sorted)
{
  double order[MOST_PANELS];
  for (int p = 0; p < panels; p++) {
    int at = p;
    for (; sorted && at > 0 && largest[p] > largest[(int)order[at - 1] - 1]; at--) order[at] = order[at - 1];
    order[at] = p + 1;
  }
  gnuplot_numbers(f, "order", order, panels);
}

static int put_runs(FILE *f, const struct runset *set, int panels, int sorted, struct error *error)
{
  double largest[MOST_PANELS];
  for (int p = 0; p < MOST_PANELS; p++) largest[p] = -INFINITY;

  const struct run **drawn = memory_new((size_t)set->runs, sizeof *drawn);
  double *group_of = memory_new((size_t)set->runs, sizeof *group_of);
  struct spread spread = SPREAD_EMPTY;
  int runs = 0, status = STATUS_OK;
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    const int count = figure_runs(&set->group[g], drawn), counts = figure_sets_axis(set, &set->group[g]);
    for (int i = 0; i < count && !status; i++) {
      status = put_run(f, drawn[i], runs, counts, &spread, largest, error);
      group_of[runs++] = g + 1;
    }
  }
  fprintf(f, "EOD\nruns = %d\n", runs);
  gnuplot_numbers(f, "group_of", group_of, runs);
  put_order(f, largest, panels, sorted);
  memory_free(group_of);
  memory_free(drawn);
  return status ? status : figure_put_logits_axis(f, set, &spread, error);
}

/* "step max_logit panel group", panel and group from 1, of every head of every drawn run that died. */
static int put_run_deaths(FILE *f, const struct run *run, int g, int heads, long *deaths, struct error *error)
{
  struct dead_head *dead = NULL;
  struct table t;
  long count = 0;
  int looked, status = dead_heads(run->file, DEAD_SHARE, &dead, &count, &looked, error);
  if (!status) status = run_table(run, "attn/max_logit", &t, error);
  for (long i = 0; i < count && !status; i++) {
    const long panel = (long)dead[i].layer * heads + dead[i].head;
    char text[32];
    long row = 0;
    while (row < t.rows - 1 && t.step[row] < dead[i].step) row++;
    if (dead[i].head >= heads || panel >= t.columns || !t.rows) continue;
    fprintf(f, "%.0f %s %ld %d\n", dead[i].step, gnuplot_value(t.value[row * t.columns + panel], text),
            panel + 1, g + 1);
    ++*deaths;
  }
  if (!status) table_free(&t);
  memory_free(dead);
  return status;
}

static int put_deaths(FILE *f, const struct runset *set, int heads, struct error *error)
{
  const struct run **drawn = memory_new((size_t)set->runs, sizeof *drawn);
  long deaths = 0;
  int status = STATUS_OK;
  fprintf(f, "$deaths << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    int count = figure_runs(&set->group[g], drawn);
    for (int i = 0; i < count && !status; i++) status = put_run_deaths(f, drawn[i], g, heads, &deaths, error);
  }
  fprintf(f, "%sEOD\ndeaths = %ld\n", deaths ? "" : "NaN NaN NaN NaN\n", deaths);
  gnuplot_number(f, "dead_share", DEAD_SHARE);
  memory_free(drawn);
  return status;
}

static int heads_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct figure_blocks b;
  int status = figure_common_blocks(set, &b, error);
  if (status) return status;
  const int panels = (b.layers + b.modules) * b.heads;
  if (panels > MOST_PANELS)
    return error_set(error, STATUS_USAGE, "%d heads; at most %d can be drawn on a page", panels, MOST_PANELS);
  fprintf(f, "panels = %d\nacross = %d\n", panels, b.heads < MOST_ACROSS ? b.heads : MOST_ACROSS);
  fprintf(f, "array panel_name[%d] = [", panels);
  for (int p = 0; p < panels; p++) {
    const int module = p / b.heads - b.layers;
    fprintf(f, "%s'%s %d, head %d'", p ? ", " : "", module < 0 ? "layer" : "MTP",
            module < 0 ? p / b.heads : module, p % b.heads);
  }
  fprintf(f, "]\n");
  figure_put_heading(f, set, "Max logit of every head against training step");
  status = put_runs(f, set, panels, r->sort_heads, error);
  return status ? status : put_deaths(f, set, b.heads, error);
}

static void heads_text(struct text_page *t)
{
  const int panels = (int)script_number(t->values, "panels", 0);
  struct text_panel *p = memory_new((size_t)panels + 1, sizeof *p);
  for (int i = 0; i < panels; i++) {
    p[i] = figure_text_logits(t);
    const int head = (int)script_number(t->values, "order", i);
    p[i].y = head, p[i].hi = 0;
    p[i].group_of = "group_of", p[i].blocks = (int)script_number(t->values, "runs", 0);
    p[i].title = script_text(t->values, "panel_name", head - 1);
    p[i].x_name = NULL;
    p[i].marks = "deaths", p[i].panel = head;
  }
  text_panels(t, p, panels, 28, (int)script_number(t->values, "across", 0));
  figure_text_threshold(t);
  if (script_number(t->values, "deaths", 0) > 0)
    text_note(t, "%s: a head died; `maxlogit show --dead` lists them.", t->utf8 ? "\303\227" : "x");
  text_note(t, "Log scale.");
  if (script_number(t->values, "runs", 0) > t->groups)
    text_note(t, "A line for each %s.", script_text(t->values, "one_is", 0));
  memory_free(p);
}

const struct figure figure_heads = {
  .name = "heads",
  .help = "max logit of every head, small multiples",
  .data = heads_data,
  .text = heads_text,
  .needs = "attn/max_logit",
};
