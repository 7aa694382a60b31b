/* json.h - JSON out of every command by the same rules
   A number that is not finite is the text "NaN", "Infinity" or "-Infinity"; what was not recorded is null. */
#ifndef MAXLOGIT_JSON_H
#define MAXLOGIT_JSON_H
#include <jansson.h>
#include "analysis/statistics.h"

#define JSON_HELP \
  "as JSON; a number that is not finite is the text \"NaN\", \"Infinity\" or \"-Infinity\", one that is " \
  "not " \
  "there is null"

json_t *json_number(double);                    /* with the digits that table_number gives it */
json_t *json_known(int known, double);          /* null where it is not */
json_t *json_interval(const struct interval *); /* n, mean, lo, hi: known from 1 value on, from 2 */
json_t *json_text(const char *text); /* NULL is null; bytes that are no UTF-8 become question marks */
/* On standard output, an element of the outermost array or object a line; takes the value. */
void json_print(json_t *);
#endif
