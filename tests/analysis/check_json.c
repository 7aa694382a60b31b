/* check_json.c - one rule for numbers and texts, and what is printed is JSON that reads back */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "analysis/json.h"

/* What json_print writes for this value, parsed again. */
static json_t *printed(json_t *value, char *text, size_t room)
{
  FILE *f = tmpfile();
  ck_assert_ptr_nonnull(f);
  fflush(stdout);
  int kept = dup(STDOUT_FILENO);
  ck_assert_int_ge(dup2(fileno(f), STDOUT_FILENO), 0);
  json_print(value);
  fflush(stdout);
  ck_assert_int_ge(dup2(kept, STDOUT_FILENO), 0);
  close(kept);
  rewind(f);
  text[fread(text, 1, room - 1, f)] = 0;
  fclose(f);
  json_error_t e;
  json_t *back = json_loads(text, JSON_REJECT_DUPLICATES, &e);
  ck_assert_msg(back, "%s in %s", e.text, text);
  return back;
}

START_TEST(numbers)
{
  char text[1024];
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0, "0"},
               {-3, "-3"},
               {0.1, "0.1"},
               {0.1f, "0.1"},
               {1e-8, "1e-8"},
               {NAN, "\"NaN\""},
               {-2.5, "-2.5"},
               {1.0 / 3, "0.333333333333333"},
               {INFINITY, "\"Infinity\""},
               {1e300, "1e300"},
               {-INFINITY, "\"-Infinity\""},
               {1234567890123.0, "1234567890123.0"}};
  json_t *all = json_array();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    json_array_append_new(all, json_number(cases[i].value));
  json_decref(printed(all, text, sizeof text));
  char *line = strtok(text, "\n");
  ck_assert_str_eq(line, "[");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    line = strtok(NULL, "\n");
    ck_assert_ptr_nonnull(line);
    line[strcspn(line, ",")] = 0;
    ck_assert_str_eq(line + 2, cases[i].text);
  }
}
END_TEST

START_TEST(texts)
{
  char text[256];
  json_t *all = json_pack("{s:o, s:o, s:o}", "a", json_text("say \"\\\" \n \xc3\xa9"), "b", json_text(NULL),
                          "c", json_text("run\xff.h5"));
  json_t *back = printed(all, text, sizeof text);
  ck_assert_str_eq(json_string_value(json_object_get(back, "a")), "say \"\\\" \n \xc3\xa9");
  ck_assert(json_is_null(json_object_get(back, "b")));
  ck_assert_str_eq(json_string_value(json_object_get(back, "c")), "run?.h5");
  json_decref(back);
  back = printed(json_array(), text, sizeof text);
  ck_assert_uint_eq(json_array_size(back), 0);
  json_decref(back);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("json");
  TCase *k = tcase_create("values");
  tcase_add_test(k, numbers);
  tcase_add_test(k, texts);
  suite_add_tcase(suite, k);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed > 0;
}
