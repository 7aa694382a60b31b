/* attention.h - shared by both kinds of attention on the CPU: caps, and statistics of heads */
#ifndef MAXLOGIT_NUMERICS_CPU_ATTENTION_H
#define MAXLOGIT_NUMERICS_CPU_ATTENTION_H
#include <math.h>
#include "numerics/cpu/cpu.h"

/* The capped score f(s), input of the softmax: see attention_forward. */
INLINE vec capped(vec s, long cap, float value)
{
  if (cap == 1) return value * vec_tanh(s / value);
  return cap == 2 ? where_above(s, ALL(value), ALL(value), s) : s;
}

/* 1 - tanh^2 of s/value without its cancellation: 4 e / (1 + e)^2, e = exp(-2 |s/value|) */
INLINE vec soft_slope(vec s, float value)
{
  vec x = s / value, e = vec_exp(-2.0f * larger(-x, x));
  return 4.0f * e / ((1.0f + e) * (1.0f + e));
}

/* Maxima of one head and sequence, and the sum of its rows' entropies. */
struct maxima {
  float top, bottom, capped;
  int nan;
  double entropy;
};

/* stats [H,4] from `of` [batch, heads] */
static inline void put_stats(const struct tensor *stats, const struct maxima *of, long rows,
                             const struct attention_score *score)
{
  const int cap_is_nan = score->cap == 1 && isnan((float)number(score->cap_value));
  for (long head = 0; head < score->heads; head++) {
    struct maxima all = {.top = -INFINITY, .bottom = INFINITY, .capped = -INFINITY};
    for (long sequence = 0; sequence < score->batch; sequence++) {
      const struct maxima *m = &of[sequence * score->heads + head];
      all.top = fmaxf(all.top, m->top);
      all.bottom = fminf(all.bottom, m->bottom);
      all.capped = fmaxf(all.capped, m->capped);
      all.nan |= m->nan;
      all.entropy += m->entropy;
    }
    float *to = AT(stats, head, 0);
    /* + 0: which of 0 and -0 is met first depends on the vector's width */
    to[0] = all.nan ? NAN : all.top + 0;
    to[1] = all.nan ? NAN : fmaxf(fmaxf(all.top, -all.bottom), 0) + 0;
    to[2] = all.nan || cap_is_nan ? NAN : all.capped + 0;
    to[3] = (float)(all.entropy / (double)rows);
  }
}
#endif
