/* long.h - how much a test tries: little in `make check`, all of it where MAXLOGIT_TEST_LONG=1 (make check-long) */
#ifndef MAXLOGIT_TESTS_LONG_H
#define MAXLOGIT_TESTS_LONG_H
#include <stdlib.h>

static inline int is_long(void) { return getenv("MAXLOGIT_TEST_LONG") != NULL; }
static inline long amount(long quick, long thorough) { return is_long() ? thorough : quick; }
#endif
