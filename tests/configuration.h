/* configuration.h - a finished configuration of a test's words */
#ifndef MAXLOGIT_TESTS_CONFIGURATION_H
#define MAXLOGIT_TESTS_CONFIGURATION_H
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config/config.h"

/* Of "key=value key=value ...", printed by `format`. */
static inline __attribute__((format(printf, 1, 2))) struct config *configuration(const char *format, ...)
{
  struct config *c = config_new();
  struct error e = {0};
  char words[4096];
  va_list list;
  va_start(list, format);
  ck_assert_int_lt(vsnprintf(words, sizeof words, format, list), (int)sizeof words);
  va_end(list);
  for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
    ck_assert_msg(!config_assign(c, word, &e), "%s", e.text);
  ck_assert_msg(!config_finish(c, &e), "%s", e.text);
  return c;
}

struct wanted_number {
  const char *key;
  double value;
};
static inline int see_number(void *context, const struct config_entry *x)
{
  struct wanted_number *n = context;
  if (strcmp(x->key, n->key)) return 0;
  n->value = strtod(x->value, NULL);
  return 1;
}

/* A number of a finished configuration. */
static inline double number_in(const struct config *c, const char *key)
{
  struct wanted_number n = {key, 0};
  ck_assert(config_each(c, see_number, &n));
  return n.value;
}
#endif
