#include "run/pass.h"

#include <math.h>

void pass_init(struct pass *p, struct arena *arena, const struct model *m)
{
  size_t n = (size_t)(m->options.layers * m->options.heads);
  real **const all[] = {&p->max_logit, &p->max_abs_logit, &p->max_logit_capped, &p->entropy, &p->share_above,
                        &p->pairs,     &p->q_norm,        &p->k_norm,           &p->cosine};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = arena_get(arena, n, sizeof(real));
    for (size_t j = 0; j < n; j++) (*all[i])[j] = (real)NAN;
  }
  p->loss = NAN;
}

void pass_read(struct pass *p, const struct report *r, const struct seen *seen, int looks)
{
  const real *stats = report_of(r, seen->stats), *pairs = report_of(r, seen->pairs);
  p->loss = (double)report_of(r, seen->loss)[0];
  for (long i = 0; i < seen->stats->rows; i++, stats += 4, pairs += 5) {
    p->max_logit[i] = stats[0];
    p->max_abs_logit[i] = stats[1];
    p->max_logit_capped[i] = stats[2];
    p->entropy[i] = stats[3];
    if (!looks) continue;
    p->share_above[i] = pairs[0];
    p->pairs[i] = pairs[1];
    p->q_norm[i] = pairs[2];
    p->k_norm[i] = pairs[3];
    p->cosine[i] = pairs[4];
  }
}
