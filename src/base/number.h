/* number.h - arithmetic of single numbers that keeps NaN */
#ifndef MAXLOGIT_NUMBER_H
#define MAXLOGIT_NUMBER_H
#include <math.h>

/* The larger of two; NaN if either is: fmax() would drop it. */
static inline double max_keeping_nan(double a, double b) { return a > b || isnan(a) ? a : b; }

/* For printf, which writes a NaN's sign: -nan says nothing that nan does not. */
static inline double without_nan_sign(double x) { return isnan(x) ? (double)NAN : x; }
#endif
