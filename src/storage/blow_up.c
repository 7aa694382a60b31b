#include "storage/blow_up.h"

#include <math.h>

#include "base/elementary.h"
#include "base/number.h"

static int is_far_above(double loss, double other) { return loss > other + BLOW_UP_MARGIN * fabs(other); }

int losses_blew_up(const double *step, const double *loss, long rows, double vocab)
{
  double guess = vocab > 1 ? same_log(vocab) : NAN, sum = 0;
  long n = 0, below = 0;
  if (rows < 2 || !(loss[0] > 0 && isfinite(loss[0])))
    return 0; /* of a policy, for example: no cross entropy */
  for (long i = 0; i < rows; i++) {
    if (is_missing(loss[i])) continue;
    below += loss[i] < guess;
    if (i + 1 < rows && step[i] < 0.9 * (step[rows - 1] + 1)) continue;
    sum += loss[i], n++;
  }
  double mean = n ? sum / (double)n : NAN;
  if (!isfinite(mean)) return 0;
  return is_far_above(mean, loss[0]) || (below && is_far_above(mean, guess));
}
