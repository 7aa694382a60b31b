/* score.h - scores on their way into weights, and rows into a cache: for the kinds of attention */
#ifndef MAXLOGIT_CUDA_SCORE_H
#define MAXLOGIT_CUDA_SCORE_H
#include "cuda/kernels.h"

static __device__ inline float capped(int cap, float limit, float s)
{
  if (cap == 1) return limit * tanhf(s / limit);
  return cap == 2 && s > limit ? limit : s;
}

/* f(r(s)), and df/ds there; where nothing is rounded or capped nobody asks. */
struct adjusted {
  float f, slope;
};
static __device__ SELDOM struct adjusted adjust(int cap, float limit, enum number_format format, float s)
{
  s = rounded(s, format);
  struct adjusted a = {capped(cap, limit, s), cap == 2 && s > limit ? 0.0f : 1.0f};
  if (cap == 1) { /* 1 - tanh^2 without its cancellation */
    float c = coshf(s / limit);
    a.slope = 1 / (c * c);
  }
  return a;
}

/* Row n of `from` into place `slot` of its sequence. */
struct put_rows {
  view to, from;
  ints slot;
  long length, news; /* positions of a sequence: of its cache, new ones */
  __device__ void operator()(long n, long j) const
  {
    to.at(n / news * length + slot.base()[n], j) = from.at(n, j);
  }
};
#endif
