/* noise.h - numbers for tests that want many and of no great quality */
#ifndef MAXLOGIT_TESTS_NOISE_H
#define MAXLOGIT_TESTS_NOISE_H
#include <stdint.h>
#include "base/random.h"

/* Uniform in [-1, 1] (the finaliser of splitmix64: Steele et al., OOPSLA 2014). */
static inline double noise(uint64_t i)
{
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
  i = (i ^ i >> 27) * 0x94d049bb133111ebu;
  return (double)(int64_t)(i ^ i >> 31) * 0x1p-63;
}

/* Normal numbers of a table, since each draw costs a logarithm and a rotation. */
static inline double noise_normal(uint64_t key, uint64_t i)
{
  enum { DRAWS = 4096 };
  static double drawn[DRAWS];
  if (!drawn[0])
    for (uint64_t k = 0; k < DRAWS; k++) drawn[k] = draw_normal((struct draw){9, STREAM_TEST, 0}, k);
  return drawn[(uint64_t)((noise(key << 32 | i) + 1) * (DRAWS / 2)) % DRAWS];
}
#endif
