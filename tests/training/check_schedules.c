/* check_schedules.c - learning-rate schedules */
#include <check.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "training/schedule.h"

enum { STEPS = 1000 };

static void *standard(const struct schedule *s)
{
  void *options = memory_new(1, s->options_size + 1);
  if (s->options) option_defaults(s->options, options);
  return options;
}

static double factor(const char *name, const char *option, const char *value, long step)
{
  const struct schedule *s = schedule_find(name);
  void *options = standard(s);
  for (const struct option_row *row = s->options; row && row->name; row++)
    if (!strcmp(row->name, option)) ck_assert_int_eq(option_parse(row, options, value, NULL), STATUS_OK);
  double f = s->factor(options, step, STEPS);
  memory_free(options);
  return f;
}

/* Every schedule starts at 1, never rises, never leaves [0, 1]. */
START_TEST(falls_from_one)
{
  int count = 0;
  for (const struct schedule *const *s = schedules; *s; s++, count++) {
    void *options = standard(*s);
    double before = 1;
    ck_assert_double_eq((*s)->factor(options, 0, STEPS), 1);
    for (long step = 0; step < STEPS; step++) {
      double f = (*s)->factor(options, step, STEPS);
      ck_assert_msg(f <= before && f >= 0, "%s at step %ld: %g after %g", (*s)->name, step, f, before);
      before = f;
    }
    ck_assert_ptr_eq(schedule_find((*s)->name), *s);
    memory_free(options);
  }
  ck_assert_int_ge(count, 4);
  ck_assert_ptr_null(schedule_find("cosin"));
}
END_TEST

START_TEST(warm_up)
{
  const struct schedule *s = schedule_find("constant");
  ck_assert_double_eq(schedule_rate(s, NULL, 0.02, 50, 0, STEPS), 0.02 * 1 / 50);
  ck_assert_double_eq(schedule_rate(s, NULL, 0.02, 50, 24, STEPS), 0.02 * 25 / 50);
  ck_assert_double_eq(schedule_rate(s, NULL, 0.02, 50, 49, STEPS), 0.02);
  ck_assert_double_eq(schedule_rate(s, NULL, 0.02, 50, 999, STEPS), 0.02);
  ck_assert_double_eq(schedule_rate(s, NULL, 0.02, 0, 0, STEPS), 0.02);
}
END_TEST

START_TEST(known_points)
{
  const double eps = 1e-14;
  ck_assert_double_eq_tol(factor("linear", "floor", "0", 250), 0.75, eps);
  ck_assert_double_eq_tol(factor("linear", "floor", "0.2", 500), 0.6, eps);
  ck_assert_double_eq_tol(factor("linear", "floor", "0.2", STEPS), 0.2, eps);
  ck_assert_double_eq_tol(factor("cosine", "floor", "0", 500), 0.5, eps);
  ck_assert_double_eq_tol(factor("cosine", "floor", "0.1", 250), 0.1 + 0.9 * (0.5 + sqrt(0.125)), eps);
  ck_assert_double_eq_tol(factor("cosine", "floor", "0.1", STEPS), 0.1, eps);
  ck_assert_double_eq(factor("wsd", "decay", "0.4", 600), 1);
  ck_assert_double_eq_tol(factor("wsd", "decay", "0.4", 601), 1 - 1 / 400., eps);
  ck_assert_double_eq_tol(factor("wsd", "decay", "0.4", 700), 0.75, eps);
  ck_assert_double_eq_tol(factor("wsd", "decay", "0.4", 800), 0.5, eps);
  ck_assert_double_eq_tol(factor("wsd", "floor", "0.1", 950), 0.325, eps);
  ck_assert_double_eq_tol(factor("wsd", "floor", "0.1", STEPS), 0.1, eps);
  ck_assert_double_eq(factor("wsd", "decay", "0", 999), 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("schedules");
  TCase *tests = tcase_create("schedules");
  tcase_add_test(tests, falls_from_one);
  tcase_add_test(tests, warm_up);
  tcase_add_test(tests, known_points);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
