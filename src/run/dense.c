#include "run/dense.h"

#include <math.h>
#include <string.h>

static int is_threshold(void *context, const struct config_entry *x)
{
  double *tau = context;
  if (!x->used || !(x->row->flags & OPTION_THRESHOLD)) return 0;
  memcpy(tau, (const char *)x->base + x->row->offset, sizeof *tau);
  return 1;
}

void dense_init(struct dense *d, const struct config *c, const struct record_options *record)
{
  double tau = record->dense_level;
  *d = (struct dense){.level = NAN, .around = record->dense_around, .quiet = -1};
  if (!(record->dense > 0)) return;
  config_each(c, is_threshold, &tau);
  d->level = record->dense * tau;
}

int dense_wanted(const struct dense *d) { return !isnan(d->level); }
int dense_on(const struct dense *d) { return d->quiet >= 0; }

long dense_first(const struct dense *d, long step)
{
  if (!dense_wanted(d)) return step + 1;
  return step < d->around ? 0 : step - d->around + 1;
}

int dense_look(struct dense *d, struct health *h, const struct outcome *o)
{
  if (!dense_wanted(d)) return 0;
  long best = outcome_largest(o->max_logit, h->layers * h->heads), was = d->quiet;
  double max = (double)o->max_logit[best];
  if (!(max <= d->level))
    d->quiet = 0;
  else if (d->quiet >= 0 && ++d->quiet > d->around)
    d->quiet = -1;
  if ((was < 0) == (d->quiet < 0)) return 0;
  health_event(h, was < 0 ? "dense" : "dense_end", (int)(best / h->heads), (int)(best % h->heads), max);
  return was < 0;
}
