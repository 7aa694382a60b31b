/* elementary.h - exp, log, powers, circles: the same bits on every processor
   Steps and initial draws call these functions instead of the C library's, because the last bit of the latter depends
   on the library's version and the processor. They use only sums, products, quotients and roots, each rounded once as
   IEEE 754 requires. In double precision; errors are in units of the last place. */
#ifndef MAXLOGIT_BASE_ELEMENTARY_H
#define MAXLOGIT_BASE_ELEMENTARY_H

double same_exp(double x); /* 1.1 units; 0 from -746 on, infinite above 709.8 */
double same_log(double x); /* 1 unit; NaN for x < 0, -infinity for 0 */
/* x^y as exp(y ln x): |y ln x| + 2 units; as sqrt if y = 1/2. NaN for x < 0, unless y is a whole number. */
double same_pow(double x, double y);
double same_tanh(double x); /* 2 units */
/* cos and sin of 2 pi t, to 2^-52 if t has at most 50 bits before and after the point */
void same_turn(double t, double *cosine, double *sine);

#endif
