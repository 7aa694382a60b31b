#include "run/pass.h"

#include <math.h>

static real *unknown(struct arena *arena, long count)
{
  real *x = arena_get(arena, (size_t)count + 1, sizeof *x);
  for (long i = 0; i < count; i++) x[i] = (real)NAN;
  return x;
}

long pass_largest(const real *x, long n)
{
  long best = 0;
  for (long i = 1; i < n && !isnan(x[best]); i++)
    if (!(x[i] <= x[best])) best = i;
  return best;
}

void pass_init(struct pass *p, struct arena *arena, const struct model *m)
{
  size_t n = (size_t)(model_blocks(&m->options) * m->options.heads);
  real **const all[] = {&p->max_logit, &p->max_abs_logit, &p->max_logit_capped, &p->entropy, &p->share_above,
                        &p->pairs,     &p->q_norm,        &p->k_norm,           &p->cosine};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = arena_get(arena, n, sizeof(real));
    for (size_t j = 0; j < n; j++) (*all[i])[j] = (real)NAN;
  }
  real **const of_layer[] = {&p->max_vio, &p->router_entropy, &p->router_max,
                             &p->moved,   &p->balance_loss,   &p->ahead};
  for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++)
    *of_layer[i] = unknown(arena, model_blocks(&m->options));
  p->load = unknown(arena, model_blocks(&m->options) * m->experts);
  p->router_bias = unknown(arena, model_blocks(&m->options) * m->experts);
  p->loss = NAN;
}

/* One row of seen.routes: E counts | entropy | moved | loss | largest. A token chooses so many experts that the counts
   sum to as many a token. */
static void read_router(struct pass *p, const struct model *m, long layer, const real *row, const real *bias)
{
  long experts = model_router(m, (int)layer).experts;
  double all = 0, most = 0;
  for (long e = 0; e < experts; e++) {
    all += (double)row[e];
    if (!((double)row[e] <= most)) most = (double)row[e];
  }
  double tokens = all / (double)model_router(m, (int)layer).active;
  for (long e = 0; e < experts; e++) {
    p->load[layer * m->experts + e] = (real)((double)row[e] / all);
    p->router_bias[layer * m->experts + e] = bias[e];
  }
  p->max_vio[layer] = (real)(most * (double)experts / all - 1);
  p->router_entropy[layer] = (real)((double)row[m->experts] / tokens);
  p->moved[layer] = (real)((double)row[m->experts + 1] / tokens);
  p->balance_loss[layer] = row[m->experts + 2];
  p->router_max[layer] = row[m->experts + 3];
}

void pass_read_routes(struct pass *p, const struct report *r, const struct seen *seen, const struct model *m)
{
  for (long l = 0; m->experts && l < model_blocks(&m->options); l++)
    if (model_router(m, (int)l).experts)
      read_router(p, m, l, report_of(r, seen->routes) + l * seen->routes->cols,
                  report_of(r, seen->biases) + l * seen->biases->cols);
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

void pass_read_ahead(struct pass *p, const struct report *r, const struct seen *seen, const struct model *m,
                     long batches)
{
  for (long k = 0; k < m->options.mtp; k++)
    p->ahead[m->options.layers + k] = report_of(r, seen->ahead)[2 * k] / (real)batches;
}
