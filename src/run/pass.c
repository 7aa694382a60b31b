#include "run/pass.h"

#include <math.h>

#include "base/number.h"

void pass_init(struct pass *p, struct arena *arena, struct model *m, long parts)
{
  size_t n = (size_t)(m->options.layers * m->options.heads);
  real **const all[] = {&p->max_logit, &p->max_abs_logit, &p->max_logit_capped, &p->entropy, &p->share_above,
                        &p->pairs,     &p->q_norm,        &p->k_norm,           &p->cosine};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = arena_get(arena, n, sizeof(real));
    for (size_t j = 0; j < n; j++) (*all[i])[j] = (real)NAN;
  }
  p->model = m;
  p->parts = parts;
  p->loss = NAN;
  p->stats = arena_get(arena, (size_t)(4 * m->options.heads), sizeof(real));
  p->look = arena_get(arena, (size_t)(5 * m->options.heads), sizeof(real));
  p->watched = arena_get(arena, (size_t)(m->stabilizer_count * m->options.layers) + 1, sizeof(real));
}

/* Is `a` the maximum where `b` was? Of several NaN the first is. */
static int passes(real a, real b) { return isnan(a) ? !isnan(b) : a > b; }

/* What a program has seen of the pairs of head i: shares are averaged, the pair is that of the largest logit. */
static void collect_look(struct pass *pass, long i, const real *look, int first, int largest)
{
  real pairs = first ? 0 : pass->pairs[i], share = first ? 0 : pass->share_above[i];
  pass->pairs[i] = pairs + look[1];
  pass->share_above[i] = share + (look[0] - share) * (look[1] / pass->pairs[i]);
  if (!first && !largest) return;
  pass->q_norm[i] = look[2];
  pass->k_norm[i] = look[3];
  pass->cosine[i] = look[4];
}

static void collect_watched(struct pass *pass, const struct model_program *p, int first)
{
  struct device *d = pass->model->device;
  for (long i = 0; i < pass->model->stabilizer_count * pass->model->options.layers; i++) {
    real x;
    if (!p->watched[i]) continue;
    d->download(d, &x, p->watched[i]->data, sizeof x);
    pass->watched[i] = first ? x : (real)max_keeping_nan(pass->watched[i], x);
  }
}

void pass_collect(struct pass *pass, const struct model_program *p, long part)
{
  struct device *d = pass->model->device;
  int first = part == 0;
  long layers = pass->model->options.layers, heads = pass->model->options.heads;
  real loss[2];
  d->download(d, loss, p->loss->data, sizeof loss);
  pass->loss = (first ? 0 : pass->loss) + (double)loss[0];
  for (long l = 0; l < layers; l++) {
    d->download(d, pass->stats, p->stats[l]->data, (size_t)heads * 4 * sizeof(real));
    if (p->looks) d->download(d, pass->look, p->looks[l]->data, (size_t)heads * 5 * sizeof(real));
    for (long h = 0; h < heads; h++) {
      const real *s = pass->stats + 4 * h;
      long i = l * heads + h;
      real share = s[3] / (real)pass->parts;
      if (p->looks) collect_look(pass, i, pass->look + 5 * h, first, passes(s[0], pass->max_logit[i]));
      pass->max_logit[i] = first ? s[0] : (real)max_keeping_nan(pass->max_logit[i], s[0]);
      pass->max_abs_logit[i] = first ? s[1] : (real)max_keeping_nan(pass->max_abs_logit[i], s[1]);
      pass->max_logit_capped[i] = first ? s[2] : (real)max_keeping_nan(pass->max_logit_capped[i], s[2]);
      pass->entropy[i] = first ? share : pass->entropy[i] + share;
    }
  }
  collect_watched(pass, p, first);
}
