/* heads.c - max logit of every head against step: small multiples */
#include "app/figure.h"

enum { MOST_PANELS = 64, MOST_ACROSS = 8 };

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
  return figure_put_logits(f, set, NULL, error);
}

const struct figure figure_heads = {
  .name = "heads",
  .help = "max logit of every head, small multiples",
  .data = heads_data,
  .needs = "attn/max_logit",
};
