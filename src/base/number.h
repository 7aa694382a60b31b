/* number.h - arithmetic of scalars that keeps NaN */
#ifndef MAXLOGIT_BASE_NUMBER_H
#define MAXLOGIT_BASE_NUMBER_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The maximum of two; NaN if either is: fmax() would drop it. */
static inline double max_keeping_nan(double a, double b) { return a > b || isnan(a) ? a : b; }

/* Missing value: a distinguished NaN that float, double and files preserve. A run's own NaN counts; this one is
   skipped. */
static inline double missing_value(void)
{
  const uint64_t bits = 0x7ff8000020000000;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline int is_missing(double x)
{
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits & 0x7fffffffffffffff) == 0x7ff8000020000000;
}

/* A step or number of steps from a file, clipped to 0 to 2^53, where doubles are exact integers; NaN: 0. */
static inline long whole_step(double x) { return x > 0 ? (long)(x < 0x1p53 ? x : 0x1p53) : 0; }

/* The maximum of those that are not missing; NaN if either is NaN. */
static inline double max_known(double a, double b)
{
  return is_missing(a) ? b : is_missing(b) ? a : max_keeping_nan(a, b);
}

/* For qsort: doubles that are not NaN, the smallest first. */
static inline int number_order(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* For printf, which would print "-nan" for a negative NaN. */
static inline double without_nan_sign(double x) { return isnan(x) ? (double)NAN : x; }
#endif
