/* check_chart.c - curves drawn with characters: where the dots are, and where there must be none */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "app/chart.h"
#include "base/memory.h"

/* The chart as text; memory_free. */
static char *drawn(const double *y, long count, int log_scale, int utf8)
{
  double x[16];
  for (long i = 0; i < count; i++) x[i] = (double)i;
  struct buffer b = {0};
  chart_draw(&b, &(struct chart){.title = "title",
                                 .x = x,
                                 .y = y,
                                 .count = count,
                                 .columns = 11 + 9,
                                 .rows = 2 + 5,
                                 .log_scale = log_scale,
                                 .utf8 = utf8});
  return b.text;
}

static void expect(const double *y, long count, int log_scale, const char *text)
{
  char *found = drawn(y, count, log_scale, 0);
  ck_assert_str_eq(found, text);
  memory_free(found);
}

START_TEST(a_line)
{
  expect((double[]){0, 1, 2, 3, 4}, 5, 0,
         "          title\n"
         "        4 |        *\n"
         "          |      * *\n"
         "          |    * *  \n"
         "          |  * *    \n"
         "        0 |* *      \n"
         "           0       4\n");
}
END_TEST

/* Five heights a factor of 10 apart: equal steps. What is not positive has no logarithm and breaks the line. */
START_TEST(a_log_scale)
{
  expect((double[]){1, 10, 100, 1000, 10000}, 5, 1,
         "          title\n"
         "    1e+04 |        *\n"
         "          |      * *\n"
         "          |    * *  \n"
         "          |  * *    \n"
         "        1 |* *      \n"
         "           0       4\n");
  expect((double[]){1, -10, 100, 0, 10000}, 5, 1,
         "          title\n"
         "    1e+04 |        *\n"
         "          |         \n"
         "          |    *    \n"
         "          |         \n"
         "        1 |*        \n"
         "           0       4\n");
}
END_TEST

/* A curve of one value has an axis around it; one of one point is a point. */
START_TEST(a_flat_curve)
{
  static const char *const middle[] = {"|* * * * *", "|*        "};
  for (int log_scale = 0; log_scale < 2; log_scale++)
    for (int i = 0; i < 2; i++) {
      char text[256];
      snprintf(text, sizeof text,
               "          title\n"
               "%9s |         \n"
               "          |         \n"
               "          %s\n"
               "          |         \n"
               "%9s |         \n"
               "           0       %d\n",
               log_scale ? "316.2" : "100.5", middle[i], log_scale ? "31.62" : " 99.5", i ? 0 : 4);
      expect((double[]){100, 100, 100, 100, 100}, i ? 1 : 5, log_scale, text);
    }
}
END_TEST

/* A NaN is a gap, and a spike of one step is a line from its neighbour. */
START_TEST(gaps_and_spikes)
{
  expect((double[]){0, NAN, 0, 4, 0}, 5, 0,
         "          title\n"
         "        4 |      * *\n"
         "          |      * *\n"
         "          |      * *\n"
         "          |      * *\n"
         "        0 |*   * * *\n"
         "           0       4\n");
  expect((double[]){NAN, NAN}, 2, 0, "          title\n");
  expect((double[]){-1, 0, -1}, 3, 1, "          title\n");
}
END_TEST

/* Two by four dots a character, U+2800 plus a bit a dot; a cell without dots is a blank. */
START_TEST(braille)
{
  const double y[] = {3, 3, 3};
  char *found = drawn(y, 3, 0, 1);
  ck_assert_ptr_null(strstr(found, "\342\240\200"));
  long cells = 0;
  for (const char *c = found; (c = strstr(c, "\342\240")) != NULL; c++) cells++;
  ck_assert_int_eq(cells, 3);
  memory_free(found);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("chart");
  TCase *tests = tcase_create("chart");
  tcase_add_test(tests, a_line);
  tcase_add_test(tests, a_log_scale);
  tcase_add_test(tests, a_flat_curve);
  tcase_add_test(tests, gaps_and_spikes);
  tcase_add_test(tests, braille);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
