/* elementary.c - exp, log, powers, circles by their series
   Arguments are first reduced to values near 0. ln 2 has two parts, the first of 32 bits, so that its multiples by
   exponents are exact (Cody and Waite, Software Manual for the Elementary Functions, 1980, ch. 5 and 6). */
#include "base/elementary.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

/* y 2^n, rounded once */
static double times_power(double y, int n)
{
  if (n < -1000 || n > 1000) return ldexp(y, n);
  const uint64_t bits = (uint64_t)(n + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return y * power;
}

/* x = n ln 2 + r, |r| <= ln 2 / 2; 1 + r + r^2/2! + ... + r^13/13!, even and odd terms apart */
double same_exp(double x)
{
  if (!(x > -746)) return x < 0 ? 0 : x;
  if (x > 710) return INFINITY;
  const double n = floor(x * M_LOG2E + 0.5), r = (x - n * ln2_high) - n * ln2_low, z = r * r;
  const double even =
    0.5 + z * (1.0 / 24 + z * (1.0 / 720 + z * (1.0 / 40320 + z * (1.0 / 3628800 + z * (1.0 / 479001600)))));
  const double odd =
    1.0 / 6 +
    z * (1.0 / 120 + z * (1.0 / 5040 + z * (1.0 / 362880 + z * (1.0 / 39916800 + z * (1.0 / 6227020800)))));
  return times_power(1 + (r + z * (even + r * odd)), (int)n);
}

/* x = 2^n m, 1/sqrt 2 <= m < sqrt 2; f = m - 1, s = f / (2 + f):
   ln m = 2 (s + s^3/3 + s^5/5 + ...) = f - (f^2/2 - s (f^2/2 + R)), R = 2 s^2/3 + 2 s^4/5 + ... + 2 s^22/23. The term s
   f of the first form is split, so that the rounded terms are small (as in fdlibm's e_log.c). */
double same_log(double x)
{
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (isinf(x)) return x;
  int n = 0;
  if (x < 0x1p-1000) x *= 0x1p64, n = -64;
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  n += (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffff) | (uint64_t)1023 << 52;
  const int above = bits > 0x3ff6a09e667f3bcd; /* the root of 2; not a branch, which would be unpredictable */
  bits -= (uint64_t)above << 52;
  n += above;
  double m;
  memcpy(&m, &bits, sizeof m);
  const double f = m - 1, s = f / (2 + f), z = s * s, w = z * z, v = w * w, half = 0.5 * f * f;
  const double odd =
    (2.0 / 3 + w * (2.0 / 7)) + v * ((2.0 / 11 + w * (2.0 / 15)) + v * (2.0 / 19 + w * (2.0 / 23)));
  const double even = (2.0 / 5 + w * (2.0 / 9)) + v * ((2.0 / 13 + w * (2.0 / 17)) + v * (2.0 / 21));
  return n * ln2_high - ((half - (s * (half + z * (odd + z * even)) + n * ln2_low)) - f);
}

double same_pow(double x, double y)
{
  if (y == 0 || x == 1) return 1;
  if (y == 1) return x;
  if (y == 0.5) return sqrt(x);
  if (x < 0) return y != floor(y) ? NAN : fmod(y, 2) != 0 ? -same_pow(-x, y) : same_pow(-x, y);
  return same_exp(y * same_log(x));
}

/* Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))) where 1 - exp would cancel */
double same_tanh(double x)
{
  const double size = fabs(x);
  if (size < 1) {
    double below = 23;
    for (int k = 21; k >= 1; k -= 2) below = k + x * x / below;
    return x / below;
  }
  const double e = same_exp(-2 * size), y = (1 - e) / (1 + e);
  return x < 0 ? -y : y;
}

/* t = q/4 + r, |r| <= 1/8; the series of a = 2 pi r to a^18/18! and a^19/19! */
void same_turn(double t, double *cosine, double *sine)
{
  const double q = floor(4 * t + 0.5), a = 2 * M_PI * (t - 0.25 * q), z = a * a;
  double c = 1, s = 1;
  for (int k = 18; k >= 2; k -= 2) {
    c = 1 - c * z / (k * (k - 1));
    s = 1 - s * z / (k * (k + 1));
  }
  s *= a;
  const int quarter = (int)(q - 4 * floor(0.25 * q));
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
}
