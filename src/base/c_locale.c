#include "base/c_locale.h"
#include <pthread.h>

static locale_t c_locale;

static void make(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t c_locale_enter(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make);
  return uselocale(c_locale); /* no memory for a locale: no change */
}

void c_locale_leave(const locale_t *before) { uselocale(*before); }
