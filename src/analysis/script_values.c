/* script_values.c - the numbers and texts of a figure's script, read back */
#include "analysis/script_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gnuplot.h"
#include "base/memory.h"
#include "base/text.h"

struct value {
  const char *name, *text; /* NULL: a number */
  double number;
  int at; /* in its array */
};
struct block {
  const char *name;
  int index;
  struct script_block read;
};
struct script_values {
  struct arena *arena;
  struct value *value;
  struct block *block;
  size_t values, blocks;
};

/* --- assignments ---------------------------------------------------------------------------------------- */

/* A text as gnuplot.c quotes it: a quote or a control character stands outside of the quotes, as an octal number. */
static const char *read_text(struct script_values *v, const char *at, const char **out)
{
  struct buffer text = {0};
  buffer_add(&text, "%s", "");
  for (at++; *at && *at != '\n'; at++) {
    unsigned code;
    if (!strncmp(at, "'.\"\\", 4) && sscanf(at + 4, "%3o", &code) == 1)
      buffer_add(&text, "%c", (int)code), at += 9;
    else if (*at == '\'')
      break;
    else
      buffer_add(&text, "%c", *at);
  }
  *out = arena_text(v->arena, text.text);
  memory_free(text.text);
  return *at == '\'' ? at + 1 : at;
}

/* One value of this name; returns the place behind it, NULL where there is none. */
static const char *read_value(struct script_values *v, const char *name, int at, const char *text)
{
  struct value one = {.name = name, .at = at, .number = NAN};
  char *end = (char *)text;
  if (*text == '\'')
    text = read_text(v, text, &one.text);
  else
    one.number = strtod(text, &end);
  if (!one.text && end == text) return NULL;
  v->value = memory_grow(v->value, v->values, v->values + 1, sizeof *v->value);
  v->value[v->values++] = one;
  return one.text ? text : end;
}

static void read_assignment(struct script_values *v, const char *line)
{
  const int is_array = !strncmp(line, "array ", 6);
  if (is_array) line += 6;
  const size_t length = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
  const char *equals = strstr(line + length, " = ");
  if (!length || !equals || (!is_array && equals != line + length)) return;
  const char *name = arena_format(v->arena, "%.*s", (int)length, line);
  const char *at = equals + 3;
  if (!is_array)
    read_value(v, name, 0, at);
  else
    for (int i = 0; at && (*at == '[' || !strncmp(at, ", ", 2)); i++)
      at = read_value(v, name, i, at + (*at == ',' ? 2 : 1));
}

/* --- data ----------------------------------------------------------------------------------------------- */

/* Numbers of a line into out (NULL: none are kept); returns how many. */
static int read_row(const char *line, const char *line_end, double *out, int most)
{
  int count = 0;
  for (char *end; line < line_end; line = end) {
    double x = strtod(line, &end);
    if (end == line || end > line_end) break;
    if (out && count < most) out[count] = x;
    count++;
  }
  return count;
}

static const char *line_end_of(const char *at) { return at + strcspn(at, "\n"); }

static const char *next_line(const char *end) { return end + (*end == '\n'); }

/* Lines up to two empty ones, or the end of the data; returns the line that ends the block. */
static const char *read_block(struct script_values *v, const char *name, int index, const char *text)
{
  struct block b = {.name = name, .index = index};
  const char *at = text, *end;
  double *value = NULL;
  for (int pass = 0; pass < 2; pass++) {
    if (pass) value = arena_get(v->arena, (size_t)(b.read.rows * b.read.columns) + 1, sizeof *value);
    long row = 0;
    for (at = text; *at && strncmp(at, "EOD\n", 4) && strncmp(at, "\n\n", 2); at = next_line(end)) {
      end = line_end_of(at);
      if (*at == '#' || end == at) continue;
      for (int c = 0; value && c < b.read.columns; c++) value[row * b.read.columns + c] = NAN;
      int count = read_row(at, end, value ? value + row * b.read.columns : NULL, b.read.columns);
      if (!pass && count > b.read.columns) b.read.columns = count;
      row++;
    }
    b.read.rows = row;
  }
  b.read.value = value;
  v->block = memory_grow(v->block, v->blocks, v->blocks + 1, sizeof *v->block);
  v->block[v->blocks++] = b;
  return at;
}

static const char *read_data(struct script_values *v, const char *line)
{
  const char *name = arena_format(v->arena, "%.*s", (int)strcspn(line + 1, " "), line + 1);
  const char *at = next_line(line_end_of(line));
  for (int index = 0;; index++) {
    at = read_block(v, name, index, at);
    if (strncmp(at, "\n\n", 2)) return at;
    at += 2;
  }
}

/* --- the whole ------------------------------------------------------------------------------------------ */

struct script_values *script_values_read(FILE *f)
{
  struct script_values *v = memory_new(1, sizeof *v);
  char *text = gnuplot_whole(f, &(size_t){0});
  v->arena = arena_new();
  for (const char *at = text; *at; at = next_line(line_end_of(at)))
    if (*at == '$')
      at = read_data(v, at);
    else
      read_assignment(v, at);
  memory_free(text);
  return v;
}

void script_values_free(struct script_values *v)
{
  arena_free(v->arena);
  memory_free(v->value);
  memory_free(v->block);
  memory_free(v);
}

static const struct value *find(const struct script_values *v, const char *name, int i)
{
  for (size_t k = 0; k < v->values; k++)
    if (v->value[k].at == i && !strcmp(v->value[k].name, name)) return &v->value[k];
  return NULL;
}

double script_number(const struct script_values *v, const char *name, int i)
{
  const struct value *found = find(v, name, i);
  return found ? found->number : NAN;
}

const char *script_text(const struct script_values *v, const char *name, int i)
{
  const struct value *found = find(v, name, i);
  return found ? found->text : NULL;
}

struct script_block script_block(const struct script_values *v, const char *name, int index)
{
  for (size_t k = 0; k < v->blocks; k++)
    if (v->block[k].index == index && !strcmp(v->block[k].name, name)) return v->block[k].read;
  return (struct script_block){0};
}
