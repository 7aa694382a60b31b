/* c_locale.h - numbers with a decimal point, whatever the locale of the host program */
#ifndef MAXLOGIT_BASE_C_LOCALE_H
#define MAXLOGIT_BASE_C_LOCALE_H
#include <locale.h>

/* Set the C locale for the calling thread; returns the previous one. */
locale_t c_locale_enter(void);
void c_locale_leave(const locale_t *before);
/* First statement of a library function: the C locale for this thread until the function returns. */
#define IN_C_LOCALE \
  __attribute__((cleanup(c_locale_leave), unused)) const locale_t locale_before = c_locale_enter()
#endif
