/* option.c - converts text to option fields and back */
#include "base/option.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

static long *long_at(const struct option_row *row, const void *base)
{
  return (long *)((char *)(size_t)base + row->offset);
}

static double *double_at(const struct option_row *row, const void *base)
{
  return (double *)((char *)(size_t)base + row->offset);
}

static const char **text_at(const struct option_row *row, const void *base)
{
  return (const char **)((char *)(size_t)base + row->offset);
}

static void allowed_numbers(const struct option_row *row, char *out, size_t room)
{
  double least = row->type == OPTION_INT ? (double)INT64_MIN : -HUGE_VAL;
  double most = row->type == OPTION_INT ? (double)INT64_MAX : HUGE_VAL;
  double largest = row->type == OPTION_INT ? fmin(row->max, (double)LONG_MAX) : row->max;
  char low[32], high[32];
  if (row->type == OPTION_INT && fabs(row->min) < 1e15 && fabs(largest) < 1e15) {
    snprintf(low, sizeof low, "%.0f", row->min);
    snprintf(high, sizeof high, "%.0f", largest);
  } else {
    text_number(row->min, low);
    text_number(largest, high);
  }
  if (row->min > least && largest < most)
    snprintf(out, room, "%s to %s", low, high);
  else if (row->min > least)
    snprintf(out, room, "at least %s", low);
  else if (largest < most)
    snprintf(out, room, "at most %s", high);
  else
    snprintf(out, room, "any");
}

void option_allowed(const struct option_row *row, char *out, size_t room)
{
  size_t used = 0;
  switch (row->type) {
  case OPTION_INT:
  case OPTION_REAL: allowed_numbers(row, out, room); break;
  case OPTION_BOOL: snprintf(out, room, "0, 1"); break;
  case OPTION_CHOICE:
    *out = 0;
    for (const char *const *c = row->choices; *c && used < room; c++)
      used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "", *c);
    break;
  case OPTION_TEXT: snprintf(out, room, row->flags & OPTION_LIST ? "a list joined by +" : "text"); break;
  }
}

static int out_of_range(const struct option_row *row, const char *text, struct error *e)
{
  char range[80];
  option_allowed(row, range, sizeof range);
  return error_set(e, STATUS_USAGE, "'%s' is out of range (allowed: %s)", text, range);
}

static int not_a(const struct option_row *row, const char *what, const char *text, struct error *e)
{
  char range[80];
  option_allowed(row, range, sizeof range);
  return error_set(e, STATUS_USAGE, "'%s' is not a %s (allowed: %s)", text, what, range);
}

static int parse_real(const struct option_row *row, double *value, const char *text, const char *what,
                      struct error *e)
{
  char *end;
  errno = 0;
  double x = strtod(text, &end);
  if (end == text || *end || isnan(x)) return not_a(row, what, text, e);
  if (isinf(x) || (errno == ERANGE && x == 0) || !(x >= row->min && x <= row->max))
    return out_of_range(row, text, e);
  *value = x;
  return STATUS_OK;
}

static int parse_int(const struct option_row *row, long *value, const char *text, struct error *e)
{
  char *end;
  errno = 0;
  long n = strtol(text, &end, 10);
  if (end == text || *end) { /* 1e4 is also a whole number */
    double x;
    int status = parse_real(row, &x, text, "whole number", e);
    if (status) return status;
    if (x != floor(x) || fabs(x) > 0x1p53) return not_a(row, "whole number", text, e);
    if (x < (double)LONG_MIN || x > (double)LONG_MAX)
      return out_of_range(row, text, e); /* long may have 32 bits */
    n = (long)x;
  } else if (errno == ERANGE || (row->min > (double)LONG_MIN && n < (long)row->min) ||
             (row->max < (double)LONG_MAX && n > (long)row->max))
    return out_of_range(row, text, e); /* compared as whole numbers: as doubles 2^53 + 1 is 2^53 */
  *value = n;
  return STATUS_OK;
}

static int parse_bool(long *value, const char *text, struct error *e)
{
  static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
  for (int i = 0; i < 8; i++)
    if (!strcasecmp(text, words[i])) {
      *value = i % 2;
      return STATUS_OK;
    }
  return error_set(e, STATUS_USAGE, "'%s' is neither 1 nor 0 (yes, no, on, off, true and false will do)",
                   text);
}

static int parse_choice(const struct option_row *row, long *value, const char *text, struct error *e)
{
  size_t count = 0;
  for (; row->choices[count]; count++)
    if (!strcmp(text, row->choices[count])) {
      *value = (long)count;
      return STATUS_OK;
    }
  char list[512];
  option_allowed(row, list, sizeof list);
  const char *near = text_nearest(text, row->choices, count);
  return error_set(e, STATUS_USAGE, "'%s' is not one of %s%s%s%s", text, list, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

static int part_is_empty(void *context, const char *part)
{
  (void)context;
  return !*part;
}

int option_parse(const struct option_row *row, void *base, const char *text, struct error *e)
{
  switch (row->type) {
  case OPTION_INT: return parse_int(row, long_at(row, base), text, e);
  case OPTION_REAL: return parse_real(row, double_at(row, base), text, "number", e);
  case OPTION_BOOL: return parse_bool(long_at(row, base), text, e);
  case OPTION_CHOICE: return parse_choice(row, long_at(row, base), text, e);
  case OPTION_TEXT:
    if (row->flags & OPTION_LIST && *text && text_split(text, '+', part_is_empty, NULL))
      return error_set(e, STATUS_USAGE, "'%s' has an empty part (a list is joined by +)", text);
    *text_at(row, base) = text;
    return STATUS_OK;
  }
  BUG("option %s has no type", row->name);
}

void option_format(const struct option_row *row, const void *base, char *out, size_t room)
{
  char number[32];
  switch (row->type) {
  case OPTION_INT:
  case OPTION_BOOL: snprintf(out, room, "%ld", *long_at(row, base)); break;
  case OPTION_REAL:
    text_number(*double_at(row, base), number);
    snprintf(out, room, "%s", number);
    break;
  case OPTION_CHOICE: snprintf(out, room, "%s", row->choices[*long_at(row, base)]); break;
  case OPTION_TEXT: snprintf(out, room, "%s", *text_at(row, base)); break;
  }
}

int option_is_number(const struct option_row *row)
{
  if (row->flags & OPTION_STRUCTURE) return 0;
  return row->type == OPTION_REAL || row->flags & OPTION_NUMBER;
}

void option_defaults(const struct option_row *rows, void *base)
{
  for (; rows->name; rows++) {
    struct error e = {0};
    if (option_parse(rows, base, rows->standard, &e)) BUG("default of option %s: %s", rows->name, e.text);
  }
}
