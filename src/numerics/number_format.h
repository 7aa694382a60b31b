/* number_format.h - rounding to narrow floating-point formats, to emulate arithmetic in low precision */
#ifndef MAXLOGIT_NUMERICS_NUMBER_FORMAT_H
#define MAXLOGIT_NUMERICS_NUMBER_FORMAT_H

/* FORMAT_F32 stands for the calculation's own precision: nothing is rounded. */
enum number_format { FORMAT_F32, FORMAT_BF16, FORMAT_FP16, FORMAT_FP8_E4M3, FORMAT_COUNT };
extern const char *const number_formats[]; /* their names, NULL-terminated */

/* x to the nearest number of the format, ties to even, subnormals kept. NaN stays. Overflow gives infinity. fp8_e4m3
   has no infinities: overflow gives NaN, as in its conversion without saturation (OCP OFP8, rev. 1.0, sec. 5.2; arXiv
   2209.05433). */
double number_round(double x, enum number_format);
#endif
