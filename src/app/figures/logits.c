/* logits.c - max logit of the largest head against step, one curve a group */
#include <math.h>
#include "app/figure.h"
#include "app/text_page.h"

static void keep_largest(struct table *t) { table_reduce_max(t, "max"); }

/* $data: a band a group, geometric; last[g], where its mean ends. */
static int logits_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  struct spread spread = SPREAD_EMPTY;
  double last[FIGURE_GROUPS];
  figure_put_heading(f, set, "Max logit of the largest head against training step");
  fprintf(f, "$data << EOD\n");
  for (int g = 0; g < set->groups; g++) {
    struct table band;
    int status = figure_band(&set->group[g], "attn/max_logit", keep_largest, 1, &band, error);
    if (status) return status;
    figure_see(&band, 0, figure_sets_axis(set, &set->group[g]), 1, &spread);
    last[g] = figure_last(&band, 1);
    table_bins(&band, FIGURE_BINS);
    figure_put_block(f, &band, g);
    table_free(&band);
  }
  fprintf(f, "EOD\n");
  gnuplot_numbers(f, "last", last, set->groups);
  return figure_put_logits_axis(f, set, &spread, error);
}

static void logits_text(struct text_page *t)
{
  struct text_panel p = figure_text_logits(t);
  p.title = "max logit, largest head (log scale)";
  text_panels(t, &p, 1, 1, 1);
  figure_text_threshold(t);
  text_note_means(t, "Line: geometric mean", FIGURE_TEXT_BAND);
}

const struct figure figure_logits = {
  .name = "logits",
  .help = "max logit of the largest head, with bands over seeds",
  .data = logits_data,
  .text = logits_text,
  .needs = "attn/max_logit",
};
