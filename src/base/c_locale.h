/* c_locale.h - numbers with a decimal point, in whatever locale the host program is */
#ifndef MAXLOGIT_BASE_C_LOCALE_H
#define MAXLOGIT_BASE_C_LOCALE_H
#include <locale.h>

/* The calling thread takes the C locale; the result is the one it had. */
locale_t c_locale_enter(void);
void c_locale_leave(const locale_t *before);
/* First in a function of the library: the C locale until it returns, in this thread alone. */
#define IN_C_LOCALE \
  __attribute__((cleanup(c_locale_leave), unused)) const locale_t locale_before = c_locale_enter()
#endif
