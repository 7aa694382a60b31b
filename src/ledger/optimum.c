#include "ledger/optimum.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stddef.h>

#include "base/random.h"

/* The lowest point of the parabola through three losses; of one that has none, the lower end. */
static double lowest(const double loss[OPTIMUM_RATES])
{
  double bend = loss[0] - 2 * loss[1] + loss[2], fall = loss[0] - loss[2];
  if (bend > 0) return fmax(-1, fmin(1, fall / (2 * bend)));
  return (fall > 0) - (fall < 0);
}

static double optimum_of(const double *loss, int seeds, const struct draw *draw)
{
  double sum[OPTIMUM_RATES] = {0};
  for (int i = 0; i < seeds; i++) {
    int s = draw ? (int)draw_below(*draw, (uint64_t)i, (uint64_t)seeds) : i;
    for (int k = 0; k < OPTIMUM_RATES; k++) sum[k] += loss[k * seeds + s];
  }
  return lowest(sum);
}

int optimum_resample(const double *loss, int seeds, double at[1 + OPTIMUM_RESAMPLES])
{
  for (int i = 0; i < OPTIMUM_RATES * seeds; i++)
    if (!isfinite(loss[i])) return 0;
  at[0] = optimum_of(loss, seeds, NULL);
  for (int r = 1; r <= OPTIMUM_RESAMPLES; r++)
    at[r] = optimum_of(loss, seeds, &(struct draw){1, STREAM_BOOTSTRAP, (uint64_t)r});
  return 1;
}

struct interval optimum_rate(double at[1 + OPTIMUM_RESAMPLES], int seeds, double best, double factor)
{
  if (seeds < OPTIMUM_SEEDS) return (struct interval){seeds, best * pow(factor, at[0]), NAN, NAN};
  int beyond = (int)(optimum_tail(seeds) * OPTIMUM_RESAMPLES);
  gsl_sort(at + 1, 1, OPTIMUM_RESAMPLES);
  return (struct interval){seeds, best * pow(factor, at[0]), best * pow(factor, at[1 + beyond]),
                           best * pow(factor, at[OPTIMUM_RESAMPLES - beyond])};
}

void optimum_weights(double at, double weight[OPTIMUM_RATES])
{
  weight[0] = at * (at - 1) / 2;
  weight[1] = 1 - at * at;
  weight[2] = at * (at + 1) / 2;
}

double optimum_tail(int seeds)
{
  double n = seeds;
  return gsl_cdf_ugaussian_P(-sqrt(n / (n - 1)) * gsl_cdf_tdist_Pinv(0.975, n - 1));
}
