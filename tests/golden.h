/* golden.h - a text against one that is kept: numbers may differ in their last digits */
#ifndef MAXLOGIT_TESTS_GOLDEN_H
#define MAXLOGIT_TESTS_GOLDEN_H
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* The end of a number that begins here, or where it began. */
static inline const char *number_end(const char *at, double *value)
{
  char *end = (char *)at;
  *value =
    (*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9') ? strtod(at, &end) : NAN;
  return end;
}

/* Where two texts differ in more than the last digits of numbers; NULL: nowhere. */
static inline const char *difference(const char *wanted, const char *got, double tolerance)
{
  while (*wanted || *got) {
    double a, b;
    const char *after_a = number_end(wanted, &a), *after_b = number_end(got, &b);
    if (after_a > wanted && after_b > got) {
      if (fabs(a - b) > tolerance * fabs(a)) return got;
      wanted = after_a, got = after_b;
    } else if (*wanted++ != *got++)
      return got - 1;
  }
  return NULL;
}
#endif
