#include "analysis/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/table.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

json_t *json_number(double value)
{
  char text[32];
  if (isnan(value)) return json_string("NaN");
  if (isinf(value)) return json_string(value > 0 ? "Infinity" : "-Infinity");
  table_number(value, text);
  double short_value = strtod(text, NULL);
  if (short_value == rint(short_value) && fabs(short_value) < 1e9)
    return json_integer((json_int_t)short_value);
  return json_real(short_value);
}

json_t *json_known(int known, double value) { return known ? json_number(value) : json_null(); }

json_t *json_interval(const struct interval *i)
{
  return json_pack("{s:i, s:o, s:o, s:o}", "n", i->n, "mean", json_known(i->n > 0, i->mean), "lo",
                   json_known(i->n > 1, i->lo), "hi", json_known(i->n > 1, i->hi));
}

json_t *json_there(json_t *value)
{
  REQUIRE(value);
  return value;
}

json_t *json_text(const char *text)
{
  if (!text) return json_null();
  char *clean = text_cleaned(text, "\n");
  json_t *value = json_there(json_string(clean));
  memory_free(clean);
  return value;
}

void json_member(json_t *object, const char *key, json_t *value)
{
  char *clean = text_cleaned(key, "");
  REQUIRE(value && (json_object_set_new)(object, clean, value) == 0);
  memory_free(clean);
}

void json_element(json_t *array, json_t *value)
{
  REQUIRE(value && (json_array_append_new)(array, value) == 0);
}

char *json_line(const json_t *value)
{
  char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  REQUIRE(dumped);
  char *text = memory_text(dumped);
  free(dumped);
  return text;
}

static void print_value(const json_t *value)
{
  /* 15 digits: every decimal of so many is the text of a double, so that 0.1 stays 0.1 */
  REQUIRE(value && json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) == 0);
}

void json_print(json_t *root)
{
  int is_array = json_is_array(root);
  const char *comma = "\n", *key;
  size_t i;
  json_t *value;
  printf(is_array ? "[" : "{");
  if (is_array) json_array_foreach(root, i, value)
    {
      printf("%s  ", comma);
      print_value(value);
      comma = ",\n";
    }
  else
    json_object_foreach(root, key, value)
    {
      json_t *name = json_string(key);
      printf("%s  ", comma);
      print_value(name);
      printf(": ");
      print_value(value);
      json_decref(name);
      comma = ",\n";
    }
  printf(is_array ? "\n]\n" : "\n}\n");
  json_decref(root);
}
