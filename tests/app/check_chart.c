/* check_chart.c - curves drawn with characters: where the dots are, and where there must be none */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include "app/chart.h"
#include "base/memory.h"

enum { COLUMNS = 11 + 9, ROWS = 2 + 5 }; /* with numbers, title and ends */

/* The chart as text; memory_free. */
static char *drawn_of(const struct chart_curve *curve, int curves, int log_scale, int utf8)
{
  struct buffer b = {0};
  struct chart_page page;
  struct chart chart = {.title = "title",
                        .curve = curve,
                        .curves = curves,
                        .columns = COLUMNS + 20,
                        .rows = ROWS,
                        .log_y = log_scale,
                        CHART_ENDS};
  chart_page_new(&page, chart.columns, chart.rows, utf8);
  chart_draw(&page, &chart, 0, 0);
  chart_page_end(&b, &page, 0);
  return b.text;
}

static char *drawn(const double *y, long count, int log_scale, int utf8)
{
  double x[16];
  for (long i = 0; i < count; i++) x[i] = (double)i;
  const struct chart_curve curve = {.x = x, .y = y, .count = count};
  return drawn_of(&curve, 1, log_scale, utf8);
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
         "        4 |                         ****\n"
         "          |                  ********\n"
         "          |           ********\n"
         "          |    ********\n"
         "        0 |*****\n"
         "           0                           4\n");
}
END_TEST

/* Five heights a factor of 10 apart: equal steps. What is not positive has no logarithm and breaks the line. */
START_TEST(a_log_scale)
{
  expect((double[]){1, 10, 100, 1000, 10000}, 5, 1,
         "          title\n"
         "    1e+04 |                         ****\n"
         "          |                  ********\n"
         "          |           ********\n"
         "          |    ********\n"
         "        1 |*****\n"
         "           0                           4\n");
  expect((double[]){1, -10, 100, 0, 10000}, 5, 1,
         "          title\n"
         "    1e+04 |                            *\n"
         "          |\n"
         "          |              *\n"
         "          |\n"
         "        1 |*\n"
         "           0                           4\n");
}
END_TEST

/* A curve of one value has an axis around it; one of one point is a point. */
START_TEST(a_flat_curve)
{
  static const char *const middle[] = {"|*****************************", "|*"};
  for (int log_scale = 0; log_scale < 2; log_scale++)
    for (int i = 0; i < 2; i++) {
      char text[256];
      snprintf(text, sizeof text,
               "          title\n"
               "%9s |\n"
               "          |\n"
               "          %s\n"
               "          |\n"
               "%9s |\n"
               "           0                           %d\n",
               log_scale ? "316.2" : "100.5", middle[i], log_scale ? "31.62" : "99.5", i ? 0 : 4);
      expect((double[]){100, 100, 100, 100, 100}, i ? 1 : 5, log_scale, text);
    }
}
END_TEST

/* A NaN is a gap, and a spike of one step is a line from its neighbour. */
START_TEST(gaps_and_spikes)
{
  expect((double[]){0, NAN, 0, 4, 0}, 5, 0,
         "          title\n"
         "        4 |                     **\n"
         "          |                   ******\n"
         "          |                 ***    ***\n"
         "          |               ***        ***\n"
         "        0 |*             **            *\n"
         "           0                           4\n");
  expect((double[]){NAN, NAN}, 2, 0, "          title\n\n\n\n\n\n\n");
  expect((double[]){-1, 0, -1}, 3, 1, "          title\n\n\n\n\n\n\n");
}
END_TEST

/* Curves are told apart by their letters, and a cell of two has neither; a band is dotted, and does not hide a line. */
START_TEST(several_curves)
{
  const double x[] = {0, 4}, up[] = {0, 4}, down[] = {4, 0}, lo[] = {0, 0}, hi[] = {2, 2}, one[] = {1, 1};
  const struct chart_curve two[] = {{.x = x, .y = up, .count = 2, .letter = 'a'},
                                    {.x = x, .y = down, .count = 2, .letter = 'b'}};
  const struct chart_curve band[] = {{.x = x, .y = one, .lo = lo, .hi = hi, .count = 2},
                                     {.x = x, .y = up, .count = 2}};
  char *found = drawn_of(two, 2, 0, 0);
  ck_assert_str_eq(found, "          title\n"
                          "        4 |bbbbb                    aaaa\n"
                          "          |    bbbbbbbb      aaaaaaaa\n"
                          "          |           ++++++++\n"
                          "          |    aaaaaaaa      bbbbbbbb\n"
                          "        0 |aaaaa                    bbbb\n"
                          "           0                           4\n");
  memory_free(found);
  found = drawn_of(band, 2, 0, 0);
  ck_assert_str_eq(found, "          title\n"
                          "        4 |                         ****\n"
                          "          |                  ********\n"
                          "          |. . . . . .******** . . . . .\n"
                          "          |*****************************\n"
                          "        0 |***** . . . . . . . . . . . .\n"
                          "           0                           4\n");
  memory_free(found);
}
END_TEST

/* What is beyond ends that are given is marked at the frame, and the chart says so. */
START_TEST(beyond_the_frame)
{
  const double x[] = {0, 7, 14, 21, 28}, y[] = {1, 9, 1, -9, 1};
  const struct chart_curve curve = {.x = x, .y = y, .count = 5};
  struct buffer b = {0};
  struct chart_page page;
  struct chart chart = {.title = "", .curve = &curve, .curves = 1, .columns = 40, .rows = ROWS, CHART_ENDS};
  chart.y_low = 0, chart.y_high = 4;
  chart_page_new(&page, 40, ROWS, 0);
  chart_draw(&page, &chart, 0, 0);
  chart_page_end(&b, &page, 0);
  ck_assert_int_eq(chart.is_cut, 1);
  const char *up = strchr(b.text, '^'), *down = strrchr(b.text, 'v');
  ck_assert(up && down && strchr(b.text, '^') == strrchr(b.text, '^') && strchr(b.text, 'v') == down);
  const char *top = strchr(b.text, '\n') + 1;
  ck_assert_int_eq(up - top, 11 + 7);
  memory_free(b.text);
}
END_TEST

/* Colors are those of the curves; axes and texts have the terminal's own. */
START_TEST(in_color)
{
  const double x[] = {0, 4}, y[] = {1, 1};
  const struct chart_curve curve = {.x = x, .y = y, .count = 2, .color = 3, .letter = 'a'};
  for (int color = 0; color < 2; color++) {
    struct buffer b = {0};
    struct chart_page page;
    struct chart chart = {.title = "t", .curve = &curve, .curves = 1, .columns = 40, .rows = 5, CHART_ENDS};
    chart_page_new(&page, 40, 5, 0);
    chart_draw(&page, &chart, 0, 0);
    chart_page_end(&b, &page, color);
    ck_assert_str_eq(b.text, color ? "          t\n"
                                     "      1.5 |\n"
                                     "          |\033[33maaaaaaaaaaaaaaaaaaaaaaaaaaaaa\033[0m\n"
                                     "      0.5 |\n"
                                     "           0                           4\n"
                                   : "          t\n"
                                     "      1.5 |\n"
                                     "          |aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                                     "      0.5 |\n"
                                     "           0                           4\n");
    memory_free(b.text);
  }
}
END_TEST

/* Ten levels from low to high; what is not known is '?', what has no logarithm the lowest. */
/* A wide character takes two cells, which count where a text is cut and where it is centered. */
START_TEST(wide_characters)
{
  if (!setlocale(LC_CTYPE, "C.UTF-8") || wcwidth(0x4E2D) != 2) return; /* a C library without widths */
  struct chart_page page;
  struct buffer out = {0};
  chart_page_new(&page, 7, 6, 1);
  ck_assert_int_eq(chart_text(&page, 0, 0, 0, "\344\270\255\346\226\207|"), 5);
  chart_text_in(&page, 0, 1, 5, "\344\270\255\346\226\207|"); /* fits */
  chart_text_in(&page, 0, 2, 4, "\344\270\255\346\226\207|"), chart_text(&page, 4, 2, 0, "|");
  chart_text_in(&page, 0, 3, 3, "abcd"), chart_text(&page, 3, 3, 0, "|");
  chart_text(&page, 4, 4, 0, "\344\270\255\346\226\207"); /* half of the last is beyond */
  chart_text_in(&page, 0, 5, 3, "a\314\201bc");           /* an accent apart takes no cell */
  chart_page_end(&out, &page, 0);
  ck_assert_str_eq(out.text,
                   "\344\270\255\346\226\207|\n\344\270\255\346\226\207|\n\344\270\255\342\200\246 |\n"
                   "ab\342\200\246|\n    \344\270\255\nabc\n");
  memory_free(out.text);
  out = (struct buffer){0};
  chart_page_new(&page, 7, 1, 0);
  chart_text_in(&page, 0, 0, 3, "abcd"), chart_text(&page, 3, 0, 0, "|");
  chart_page_end(&out, &page, 0);
  ck_assert_str_eq(out.text, "ab~|\n");
  memory_free(out.text);
}
END_TEST

START_TEST(a_map)
{
  static const char *const rows[] = {"L0", "L1"};
  const double value[] = {1, 10, 100, 1000, NAN, -1};
  for (int utf8 = 0; utf8 < 2; utf8++) {
    struct buffer b = {0};
    struct chart_page page;
    const struct chart_map m = {"map", "x", "0", "2", rows, value, 3, 2, 40, 1, 1, 1000};
    chart_page_new(&page, 40, 4, utf8);
    chart_map_draw(&page, &m, 0, 0);
    chart_page_end(&b, &page, 0);
    ck_assert_str_eq(b.text, utf8 ? "          map\n"
                                    "       L0 \342\224\202   \342\226\203\342\226\203\342\226\203"
                                    "\342\226\205\342\226\205\342\226\205\n"
                                    "       L1 \342\224\202\342\226\210\342\226\210\342\226\210???\n"
                                    "           0   x   2\n"
                                  : "          map\n"
                                    "       L0 |   ---***\n"
                                    "       L1 |@@@???\n"
                                    "           0   x   2\n");
    memory_free(b.text);
  }
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
  ck_assert_int_eq(cells, 29); /* a line through all columns */
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
  tcase_add_test(tests, several_curves);
  tcase_add_test(tests, beyond_the_frame);
  tcase_add_test(tests, in_color);
  tcase_add_test(tests, wide_characters);
  tcase_add_test(tests, a_map);
  tcase_add_test(tests, braille);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
