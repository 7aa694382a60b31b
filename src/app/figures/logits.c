/* logits.c - max logit of the largest head against step, one curve a group */
#include "app/figure.h"

static void keep_largest(struct table *t) { table_reduce_max(t, "max"); }

static int logits_data(FILE *f, const struct figure_request *r, struct error *error)
{
  const struct runset *set = r->set;
  figure_put_heading(f, set, "Max logit of the largest head against training step");
  return figure_put_logits(f, set, keep_largest, error);
}

const struct figure figure_logits = {
  .name = "logits",
  .help = "max logit of the largest head, with bands over seeds",
  .data = logits_data,
  .needs = "attn/max_logit",
};
