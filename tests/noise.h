/* noise.h - numbers for tests that want many and of no great quality */
#ifndef MAXLOGIT_TESTS_NOISE_H
#define MAXLOGIT_TESTS_NOISE_H
#include <stdint.h>

/* Uniform in [-1, 1] (the finaliser of splitmix64: Steele et al., OOPSLA 2014). */
static inline double noise(uint64_t i)
{
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
  i = (i ^ i >> 27) * 0x94d049bb133111ebu;
  return (double)(int64_t)(i ^ i >> 31) * 0x1p-63;
}

/* Nearly normal, with a variance of 1: the sum of three uniform numbers. Keys below 2^32 have numbers of their own. */
static inline double noise_normal(uint64_t key, uint64_t i)
{
  const uint64_t at = key << 32 | 3 * i;
  return noise(at) + noise(at + 1) + noise(at + 2);
}
#endif
