/* check.h - Check's own header, for the tests: an assertion that is repeated marks its place once
   Check writes the place of each assertion that holds to a file, in case the next one crashes: a call of the system
   each. In a loop over numbers that was most of a test's time. */
#ifndef MAXLOGIT_TESTS_INCLUDE_CHECK_H
#define MAXLOGIT_TESTS_INCLUDE_CHECK_H
#pragma GCC system_header /* for include_next */
#include_next <check.h>
static inline void mark_place(const char *file, int line)
{
  static int last;
  if (line != last) _mark_point(file, line);
  last = line;
}
#define _mark_point(file, line) mark_place(file, line)
#endif
