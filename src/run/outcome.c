#include "run/outcome.h"
#include "model/model.h"

#include <math.h>

long outcome_largest(const real *x, long n)
{
  long best = 0;
  for (long i = 1; i < n && !isnan(x[best]); i++)
    if (!(x[i] <= x[best])) best = i;
  return best;
}

void outcome_init(struct outcome *p, struct arena *arena, const struct model *m)
{
  long n = m->step.stats->rows;
  *p = (struct outcome){NAN, arena_get(arena, (size_t)n, sizeof(real)),
                        arena_get(arena, (size_t)n, sizeof(real))};
  for (long i = 0; i < n; i++) p->max_logit[i] = p->max_abs_logit[i] = (real)NAN;
}

void outcome_read(struct outcome *p, const struct model *m)
{
  const struct tensor *stats = m->step.stats;
  const real *row = report_of(m->report, stats);
  p->loss = (double)report_of(m->report, m->step.loss)[0];
  for (long i = 0; i < stats->rows; i++, row += stats->cols) {
    p->max_logit[i] = row[0];
    p->max_abs_logit[i] = row[1];
  }
}
