/* elementary.h - exp, log, powers, circles: the same bits on every processor
   A step, and what is drawn before the first one, calls these in place of the C library's, whose last bit depends on
   the library's version and on the processor it finds. Sums, products, quotients and roots alone, each rounded once,
   as IEEE 754 has it. In double; errors in units of the last place. */
#ifndef MAXLOGIT_BASE_ELEMENTARY_H
#define MAXLOGIT_BASE_ELEMENTARY_H

double same_exp(double x); /* 1.1 units; 0 from -746 on, infinite above 709.8 */
double same_log(double x); /* 1 unit; NaN of x < 0, -infinity of 0 */
/* x^y as exp(y ln x): |y ln x| + 2 units; as sqrt where y = 1/2. NaN of x < 0, but for whole y. */
double same_pow(double x, double y);
double same_tanh(double x); /* 2 units */
/* cos and sin of 2 pi t, to 2^-52 where t has no more than 50 bits before and behind the point */
void same_turn(double t, double *cosine, double *sine);

#endif
