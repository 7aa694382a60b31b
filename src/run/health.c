#include "run/health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

void health_init(struct health *h, struct arena *arena, const struct model *m, const long *step)
{
  *h = (struct health){.step = step,
                       .peak = {-INFINITY, -1, -1},
                       .layers = model_blocks(&m->options),
                       .heads = m->options.heads};
  for (int i = 0; i < SPIKE_WINDOW; i++) h->spike_window[i] = (real)NAN;
  h->told_at = arena_get(arena, (size_t)((h->layers + 1) * (h->heads + 1)), sizeof *h->told_at);
}

void health_event(struct health *h, const char *kind, int layer, int head, double value)
{
  if (!strcmp(kind, "nonfinite")) {
    long *told = &h->told_at[(layer + 1) * (h->heads + 1) + head + 1];
    if (*told == *h->step + 1) return;
    *told = *h->step + 1;
  }
  recorder_event(h->recorder, *h->step, kind, layer, head, value);
}

void health_finite(struct health *h, const struct outcome *o, double grad_norm)
{
  long heads = h->heads, n = h->layers * heads;
  for (long i = 0; i < n; i++)
    if (!isfinite(o->max_abs_logit[i]))
      health_event(h, "nonfinite", (int)(i / heads), (int)(i % heads), (double)o->max_abs_logit[i]);
  if (!isfinite(o->loss))
    health_event(h, "nonfinite", -1, -1, o->loss);
  else if (!isfinite(grad_norm))
    health_event(h, "nonfinite", -1, -1, grad_norm);
}

static void tell_series(struct health *h, const struct model *m, const struct series *series,
                        const real *value)
{
  for (long k = 0; k < model_series_size(m, series->shape); k++) {
    int by_head = series->shape == PER_HEAD;
    int layer = (int)(by_head ? k / h->heads : k), head = by_head ? (int)(k % h->heads) : -1;
    if (series->event == EVENT_CLIP && value[k] < 1) health_event(h, "clip", layer, head, (double)value[k]);
    if (series->event == EVENT_NONFINITE && !isfinite(value[k]))
      health_event(h, "nonfinite", layer, head, (double)value[k]);
  }
}

void health_series(struct health *h, const struct model *m)
{
  for (int s = 0; s < m->stabilizer_count; s++) {
    const struct series *emits = m->stabilizer[s]->emits;
    for (int i = 0; emits && emits[i].name; i++)
      if (emits[i].event) tell_series(h, m, &emits[i], report_of(m->report, m->context[s].series[i]));
  }
}

/* Sorts x. */
static double median_of(double *x, size_t n)
{
  qsort(x, n, sizeof *x, number_order);
  return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

void health_spike(struct health *h, double loss, double limit)
{
  double before[SPIKE_WINDOW], away[SPIKE_WINDOW];
  size_t n = 0;
  if (!isfinite(loss)) return;
  for (int i = 0; i < SPIKE_WINDOW; i++)
    if (!isnan(h->spike_window[i])) before[n++] = (double)h->spike_window[i];
  if (limit > 0 && n == SPIKE_WINDOW) {
    const double median = median_of(before, n);
    for (size_t i = 0; i < n; i++) away[i] = fabs(before[i] - median);
    if (loss > median + limit * median_of(away, n)) health_event(h, "spike", -1, -1, loss);
  }
  h->spike_window[*h->step % SPIKE_WINDOW] = (real)loss;
}

void health_peak(struct health *h, const struct outcome *o)
{
  long at = outcome_largest(o->max_logit, h->layers * h->heads);
  double s = (double)o->max_logit[at];
  if (!isnan(h->peak.value) && !(s <= h->peak.value)) h->peak = (struct peak){s, *h->step, at};
}
