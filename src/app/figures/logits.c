/* logits.c - max logit of the largest head against step, one curve a group */
#include "app/figure.h"
#include "app/text_page.h"

static void keep_largest(struct table *t) { table_reduce_max(t, "max"); }

static int logits_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  figure_put_heading(f, set, "Max logit of the largest head against training step");
  return figure_put_logits(f, set, keep_largest, error);
}

static void logits_text(struct text_page *t)
{
  struct text_panel p = figure_text_logits(t, 2);
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
