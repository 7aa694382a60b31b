/* text.c - numbers, lists, spelling */
#include "base/text.h"
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include "base/error.h"
#include "base/memory.h"

void buffer_add(struct buffer *b, const char *format, ...)
{
  va_list arguments;
  size_t left = b->room - b->length;
  va_start(arguments, format);
  int wanted = vsnprintf(left ? b->text + b->length : NULL, left, format, arguments);
  va_end(arguments);
  REQUIRE(wanted >= 0);
  if ((size_t)wanted >= left) { /* again, with enough room */
    size_t room = b->length + (size_t)wanted + 1;
    room += room / 2;
    b->text = memory_grow(b->text, b->length, room, 1);
    b->room = room;
    va_start(arguments, format);
    vsnprintf(b->text + b->length, room - b->length, format, arguments);
    va_end(arguments);
  }
  b->length += (size_t)wanted;
}

char *text_cleaned(const char *text, const char *keep)
{
  char *copy = memory_text(text);
  text_clean(copy, strlen(copy) + 1, keep);
  return copy;
}

void text_print_line(const char *text)
{
  char *clean = text_cleaned(text, "");
  puts(clean);
  memory_free(clean);
}

const char *text_s(long count) { return count == 1 ? "" : "s"; }

const char *text_unit(const char *unit) { return strcmp(unit, "1") ? unit : ""; }

int text_letter(const char *text)
{
  int n = *text ? 1 : 0;
  while (n && n < 4 && ((unsigned char)text[n] & 0xC0) == 0x80) n++;
  return n;
}

int text_letters(const char *text)
{
  int n = 0;
  for (; *text; text += text_letter(text)) n++;
  return n;
}

static int letter_columns(const char *text)
{
  const int bytes = text_letter(text);
  wchar_t code = (unsigned char)*text;
  if (bytes == 1) return 1;
  code &= 0x7F >> bytes;
  for (int i = 1; i < bytes; i++) code = code << 6 | ((unsigned char)text[i] & 0x3F);
  const int columns = wcwidth(code);
  return columns < 0 ? 1 : columns;
}

int text_columns(const char *text, size_t bytes)
{
  int n = 0;
  for (size_t i = 0; i < bytes && text[i]; i += (size_t)text_letter(text + i)) n += letter_columns(text + i);
  return n;
}

const char *text_file_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *text_stem(const char *path, const char *ending)
{
  char *name = memory_text(text_file_name(path));
  size_t length = strlen(name), end = strlen(ending);
  if (length > end && text_ends_with(name, ending)) name[length - end] = 0;
  return name;
}

const char *text_last_part(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

int text_ends_with(const char *text, const char *end)
{
  size_t all = strlen(text), length = strlen(end);
  return all >= length && !strcmp(text + all - length, end);
}

int text_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

enum { WORD = 64 };

static int smaller(int a, int b) { return a < b ? a : b; }
static int is_same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

/* Optimal string alignment: insertions, deletions, substitutions, swaps of neighbors; case is ignored. A result above
   `most` is only a lower bound, because the search ends when a whole row is above it. */
static int distance(const char *a, const char *b, int most)
{
  int m = (int)strlen(a), n = (int)strlen(b), row[3][WORD + 1];
  int *before = row[0], *above = row[1], *here = row[2];
  for (int j = 0; j <= n; j++) above[j] = j;
  for (int i = 1; i <= m; i++) {
    int least = here[0] = i;
    for (int j = 1; j <= n; j++) {
      here[j] = smaller(smaller(above[j], here[j - 1]) + 1, above[j - 1] + !is_same(a[i - 1], b[j - 1]));
      if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]))
        here[j] = smaller(here[j], before[j - 2] + 1);
      least = smaller(least, here[j]);
    }
    if (least > most) return least;
    int *free_row = before;
    before = above, above = here, here = free_row;
  }
  return above[n];
}

/* The symbols of a text, as bits; upper and lower case share one, as do some others. */
static unsigned symbols_of(const char *text)
{
  unsigned seen = 0;
  while (*text) seen |= 1U << ((unsigned char)*text++ & 31);
  return seen;
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
  const char *best = NULL;
  int best_distance = 1000, length = (int)strnlen(word, WORD + 1);
  if (length > WORD) return NULL;
  unsigned own = symbols_of(word);
  for (size_t i = 0; i < count; i++) {
    int other = (int)strnlen(candidates[i], WORD + 1);
    if (other > WORD) continue;
    int longer = length > other ? length : other;
    int most = (longer + 2) / 4;                 /* one letter of two, two of six, three of ten */
    if (abs(length - other) > most) continue;    /* a lower bound of the distance */
    unsigned others = symbols_of(candidates[i]); /* each symbol that only one of them has is a change */
    if (__builtin_popcount(own & ~others) > most || __builtin_popcount(others & ~own) > most) continue;
    int d = distance(word, candidates[i], most);
    if (d < best_distance && d <= most) best_distance = d, best = candidates[i];
  }
  return best;
}

/* The shortest text that reads back as this value; of two equally short ones, the one without an exponent. */
void text_number(double value, char out[32])
{
  char text[32];
  int digits = 1;
  for (; digits < 17; digits++) {
    snprintf(out, 32, "%.*g", digits, value);
    if (strtod(out, NULL) == value) break;
  }
  if (digits == 17) snprintf(out, 32, isnan(value) ? "nan" : "%.17g", value);
  /* more digits change only the form: 2e+01 with one, 20 with two */
  const char *exponent = strchr(out, 'e');
  long more = exponent ? strtol(exponent + 1, NULL, 10) + 1 : 0;
  if (more <= digits || more > 17) return;
  snprintf(text, sizeof text, "%.*g", (int)more, value);
  if (strlen(text) <= strlen(out)) memcpy(out, text, sizeof text);
}

int text_split(const char *list, char separator, int (*each)(void *, const char *), void *context)
{
  int result = 0;
  for (const char *start = list; !result; start++) {
    const char *end = strchr(start, separator), *stop = end ? end : start + strlen(start);
    const char *next = stop;
    while (start < stop && isspace((unsigned char)*start)) start++;
    while (stop > start && isspace((unsigned char)stop[-1])) stop--;
    size_t length = (size_t)(stop - start);
    char *part = memcpy(memory_new(length + 1, 1), start, length);
    result = each(context, part);
    memory_free(part);
    if (!end) break;
    start = next;
  }
  return result;
}
