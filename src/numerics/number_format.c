#include "numerics/number_format.h"
#include <math.h>
#include <stddef.h>

const char *const number_formats[] = {"f32", "bf16", "fp16", "fp8_e4m3", NULL};

/* Digits of the significand, the exponent of the smallest subnormal, the largest number. */
static const struct {
  int digits, smallest;
  double largest, overflow;
} formats[FORMAT_COUNT] = {
  [FORMAT_BF16] = {8, -133, 0x1.fep127, INFINITY},
  [FORMAT_FP16] = {11, -24, 65504, INFINITY},
  [FORMAT_FP8_E4M3] = {4, -9, 448, NAN},
};

double number_round(double x, enum number_format format)
{
  if (format == FORMAT_F32 || isnan(x)) return x;
  int exponent = 0;
  if (isfinite(x)) {
    frexp(x, &exponent);
    exponent -= formats[format].digits;
    if (exponent < formats[format].smallest) exponent = formats[format].smallest;
    x = scalbn(rint(scalbn(x, -exponent)), exponent); /* rint: ties to even */
  }
  return fabs(x) <= formats[format].largest ? x : copysign(formats[format].overflow, x);
}
