/* log_json.c - objects, one a line: JSON, or dictionaries as Python prints them; and Megatron-LM's lines */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "zoo/log.h"

/* Python writes NaN and Infinity, which JSON does not have, and prints 'texts', None, True and False: as JSON, numbers
   that are none in quotes. New memory. */
static char *as_json(const char *line)
{
  static const char *const words[][2] = {
    {"NaN", "\"nan\""},      {"nan", "\"nan\""},   {"-Infinity", "\"-inf\""},
    {"Infinity", "\"inf\""}, {"-inf", "\"-inf\""}, {"inf", "\"inf\""},
    {"None", "null"},        {"True", "true"},     {"False", "false"}};
  struct buffer out = {0};
  char quote = 0;
  for (const char *at = line; *at; at++) {
    const char *const *word = NULL;
    if (quote) {
      if (*at == '\\' && at[1]) {
        if (at[1] != '\'') buffer_add(&out, "\\");
        buffer_add(&out, "%c", *++at);
      } else if (*at == quote) {
        buffer_add(&out, "\"");
        quote = 0;
      } else
        buffer_add(&out, *at == '"' ? "\\\"" : "%c", *at);
      continue;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words && !word; i++) {
      size_t n = strlen(words[i][0]);
      if (!strncmp(at, words[i][0], n) && !isalnum((unsigned char)at[n]) && at[n] != '(') word = words[i];
    }
    if (word) {
      buffer_add(&out, "%s", word[1]);
      at += strlen(word[0]) - 1;
    } else if (*at == '"' || *at == '\'') {
      quote = *at;
      buffer_add(&out, "\"");
    } else
      buffer_add(&out, "%c", *at);
  }
  return out.text;
}

static const char *text_of(const json_t *x, char room[32])
{
  if (json_is_string(x)) return json_string_value(x);
  if (!json_is_number(x)) return "";
  snprintf(room, 32, "%.17g", json_number_value(x));
  return room;
}

static void find_step(struct log *l, const json_t *object, const char *before, double *step)
{
  const char *key;
  json_t *value;
  char room[32], name[256];
  json_object_foreach((json_t *)object, key, value)
  {
    snprintf(name, sizeof name, "%s%s", before, key);
    if (json_is_object(value)) {
      strncat(name, "/", sizeof name - strlen(name) - 1);
      find_step(l, value, name, step);
    } else if (*step < 0 && log_is_step(l, name) && (*step = log_step(text_of(value, room))) >= 0)
      text_fill(l->step_found, sizeof l->step_found, name);
  }
}

/* Numbers of an object, of those in it as "a/b", of lists as "name:l0", of lists of lists as "name:l0h0". */
static void put_all(struct log *l, const char *name, const json_t *x, double step)
{
  char longer[512], room[32];
  const char *key;
  json_t *value, *inner;
  double number;
  size_t i, k;
  if (json_is_object(x)) json_object_foreach((json_t *)x, key, value)
    {
      snprintf(longer, sizeof longer, "%.240s%s%.240s", name, *name ? "/" : "", key);
      if (!log_is_step(l, longer)) put_all(l, longer, value, step);
    }
  else if (json_is_array(x))
    json_array_foreach(x, i, value)
    {
      if (!json_is_array(value)) {
        snprintf(longer, sizeof longer, "%.400s:l%zu", name, i);
        put_all(l, longer, value, step);
      } else
        json_array_foreach(value, k, inner)
        {
          snprintf(longer, sizeof longer, "%.400s:l%zuh%zu", name, i, k);
          if (!json_is_array(inner)) put_all(l, longer, inner, step);
        }
    }
  else if ((json_is_number(x) || json_is_string(x)) && log_number(text_of(x, room), &number))
    log_put(l, name, step, number);
}

static int take_object(struct log *l, const char *text, const char *path, long line, struct error *e)
{
  json_error_t problem;
  double step = -1;
  char *json = as_json(text);
  json_t *object = json_loads(json, 0, &problem);
  memory_free(json);
  if (!json_is_object(object)) {
    json_decref(object);
    return error_set(e, STATUS_USAGE, "%s:%ld: no JSON object: %s", path, line,
                     object ? "something else" : problem.text);
  }
  find_step(l, object, "", &step);
  if (step < 0)
    l->skipped++;
  else
    put_all(l, "", object, step);
  json_decref(object);
  return STATUS_OK;
}

static int is_blank(const char *text) { return !text[strspn(text, " \t\r\n")]; }

typedef int take_line(struct log *, char *text, const char *path, long line, struct error *);

static int each_line(struct log *l, FILE *f, const char *path, take_line *take, struct error *e)
{
  char *line = NULL;
  size_t room = 0;
  int status = STATUS_OK, begun = l->columns;
  long at = 0, values = 0;
  for (int i = 0; i < begun; i++) values -= l->column[i].count;
  for (ssize_t n; !status && (n = getline(&line, &room, f)) >= 0;) {
    at++;
    status = strlen(line) != (size_t)n
               ? error_set(e, STATUS_USAGE, "%s:%ld: a NUL byte: this is no text", path, at)
             : is_blank(line) ? STATUS_OK
                              : take(l, line, path, at, e);
  }
  free(line);
  for (int i = 0; i < l->columns; i++) values += l->column[i].count;
  if (!status && !values)
    status = error_set(e, STATUS_USAGE, "%s: no number with a step in %ld line%s%s", path, at, text_s(at),
                       l->skipped ? "; --step NAME says what steps are called" : "");
  return status;
}

static int take_json(struct log *l, char *text, const char *path, long line, struct error *e)
{
  return take_object(l, text, path, line, e);
}

int log_jsonl(struct log *l, FILE *f, const char *path, struct error *e)
{
  return each_line(l, f, path, take_json, e);
}

/* --- printed lines ----------------------------------------------------------------------------------- */

static char *trimmed(char *text)
{
  while (isspace((unsigned char)*text)) text++;
  for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]);) text[--n] = 0;
  return text;
}

/* "... iteration 10/ 100 | learning rate: 1.0E-04 | lm loss: 2.0E+00 | ...": Megatron-LM's training_log; "... loss at
   iteration 10 | lm loss value: ..." is told of a validation. */
static void take_bars(struct log *l, char *text)
{
  char *at = strstr(text, "iteration ");
  int validation = at && strstr(text, " loss at iteration ") != NULL;
  if (!at || !strchr(at, '|')) return;
  char *rest = strchr(at, '|');
  *rest++ = 0;
  char *slash = strchr(at += strlen("iteration "), '/');
  if (slash) *slash = 0;
  char *end;
  double step = strtod(at, &end), x;
  if (end == at || !(step >= 0) || step != floor(step) || step > 1e15) return;
  snprintf(l->step_found, sizeof l->step_found, "iteration");
  for (char *part; (part = strsep(&rest, "|"));) {
    char *colon = strrchr(part, ':'), name[256];
    if (!colon) continue;
    *colon = 0;
    snprintf(name, sizeof name, "%s%.200s", validation ? "validation/" : "", trimmed(part));
    if (log_number(trimmed(colon + 1), &x)) log_put(l, name, step, x);
  }
}

static int take_printed(struct log *l, char *text, const char *path, long line, struct error *e)
{
  char *brace = strstr(text, "{'");
  if (!brace) brace = strstr(text, "{\"");
  char *end = brace ? strrchr(brace, '}') : NULL;
  if (end) { /* what else is printed in braces is passed over */
    struct error none = {0};
    end[1] = 0;
    take_object(l, brace, path, line, &none);
  } else
    take_bars(l, text);
  (void)e;
  return STATUS_OK;
}

int log_printed(struct log *l, FILE *f, const char *path, struct error *e)
{
  return each_line(l, f, path, take_printed, e);
}
