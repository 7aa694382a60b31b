#include "run/health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void health_init(struct health *h, struct arena *arena, const struct model *m, const long *step)
{
  *h = (struct health){
    .step = step, .peak = {-INFINITY, -1, -1}, .layers = m->options.layers, .heads = m->options.heads};
  for (int i = 0; i < SPIKE_WINDOW; i++) h->spike_window[i] = (real)NAN;
  h->told_at = arena_get(arena, (size_t)((h->layers + 1) * (h->heads + 1)), sizeof *h->told_at);
}

void health_event(void *context, const char *kind, int layer, int head, double value)
{
  struct health *h = context;
  if (!strcmp(kind, "nonfinite")) {
    long *told = &h->told_at[(layer + 1) * (h->heads + 1) + head + 1];
    if (*told == *h->step + 1) return;
    *told = *h->step + 1;
  }
  recorder_event(h->recorder, *h->step, kind, layer, head, value);
}

int health_finite(struct health *h, const struct pass *pass, double grad_norm)
{
  long heads = h->heads, n = h->layers * heads;
  int bad = 0;
  for (long i = 0; i < n; i++)
    if (!isfinite(pass->max_abs_logit[i])) {
      health_event(h, "nonfinite", (int)(i / heads), (int)(i % heads), (double)pass->max_abs_logit[i]);
      bad = 1;
    }
  if (!isfinite(pass->loss)) {
    health_event(h, "nonfinite", -1, -1, pass->loss);
    bad = 1;
  } else if (!isfinite(grad_norm)) {
    health_event(h, "nonfinite", -1, -1, grad_norm);
    bad = 1;
  }
  return bad;
}

static int by_size(const void *a, const void *b)
{
  real x = *(const real *)a, y = *(const real *)b;
  return (x > y) - (x < y);
}

void health_spike(struct health *h, double loss, double limit)
{
  real sorted[SPIKE_WINDOW];
  int n = 0;
  if (!isfinite(loss)) return;
  for (int i = 0; i < SPIKE_WINDOW; i++)
    if (!isnan(h->spike_window[i])) sorted[n++] = h->spike_window[i];
  if (limit > 0 && n == SPIKE_WINDOW) {
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double median = (double)sorted[n / 2];
    for (int i = 0; i < n; i++) sorted[i] = (real)fabs((double)sorted[i] - median);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    if (loss > median + limit * (double)sorted[n / 2]) health_event(h, "spike", -1, -1, loss);
  }
  h->spike_window[*h->step % SPIKE_WINDOW] = (real)loss;
}

void health_peak(struct health *h, const struct pass *pass)
{
  for (long i = 0; i < h->layers * h->heads; i++) {
    double s = (double)pass->max_logit[i];
    if (!isnan(h->peak.value) && !(s <= h->peak.value)) h->peak = (struct peak){s, *h->step, i};
  }
}
