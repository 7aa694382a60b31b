/* json.h - JSON out of every command by the same rules
   A number that is not finite is the text "NaN", "Infinity" or "-Infinity"; a value that was not recorded is null. */
#ifndef MAXLOGIT_ANALYSIS_JSON_H
#define MAXLOGIT_ANALYSIS_JSON_H
#include <jansson.h>
#include "analysis/statistics.h"

#define JSON_HELP \
  "as JSON; a number that is not finite is the text \"NaN\", \"Infinity\" or \"-Infinity\", one that is " \
  "not " \
  "there is null"

json_t *json_number(double);                    /* with the digits that table_number gives it */
json_t *json_known(int known, double);          /* null where it is not */
json_t *json_interval(const struct interval *); /* n, mean, lo, hi: known from 1 value on, from 2 */
json_t *json_text(const char *text); /* NULL is null; else cleaned (text_clean), but line ends stay */
/* Jansson returns NULL for a text that is not UTF-8, and leaves out a member that is NULL: a page would lose a series
   without a word. Texts of a file go through json_text; where one does not, these end the program. */
json_t *json_there(json_t *);
void json_member(json_t *object, const char *key,
                 json_t *value); /* takes the value; the key is cleaned as a text is */
void json_element(json_t *array, json_t *value);
char *json_line(const json_t *); /* compact, with 9 digits, any value; memory_free */
#define json_pack(...) json_there(json_pack(__VA_ARGS__))
#define json_object_set_new(object, key, value) json_member(object, key, value)
#define json_array_append_new(array, value) json_element(array, value)
/* On standard output, an element of the outermost array or object a line; takes the value. */
void json_print(json_t *);
#endif
