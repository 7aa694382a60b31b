/* log_csv.c - columns of text with commas, tabs, semicolons or blanks between, those of `maxlogit export` among it */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "zoo/log.h"

enum { MOST_FIELDS = 1 << 16, MOST_SAID = 64 };
struct csv {
  struct log *log;
  const char *path;
  long line;
  char separator; /* ' ': any number of blanks */
  char *text;     /* of the header's names */
  char **name, **field;
  int names, step; /* step: which is the steps' */
  struct said {    /* what export says of its series */
    char name[96], unit[32];
  } said[MOST_SAID];
  int series;
};

/* Cuts a line into fields, in place; -1: a quote has no end. Fields beyond MOST_FIELDS are counted alone. */
static int split(char *line, char separator, char **field)
{
  int n = 0;
  for (char *from = line, *to;; n++) {
    while (*from == ' ') from++;
    char *begin = to = from;
    if (*from == '"') {
      for (from++; *from && !(*from == '"' && from[1] != '"'); from++) {
        if (*from == '"') from++;
        *to++ = *from;
      }
      if (!*from++) return -1;
    }
    while (*from && *from != separator) *to++ = *from++;
    while (to > begin && to[-1] == ' ') to--;
    int more = *from == separator;
    if (separator == ' ')
      while (*from == ' ') from++;
    *to = 0;
    if (n < MOST_FIELDS) field[n] = begin;
    if (!more || (separator == ' ' && !*from)) return n + 1;
    if (separator != ' ') from++;
  }
}

static char separator_of(const char *line)
{
  static const char all[] = "\t,;";
  for (const char *s = all; *s; s++)
    if (strchr(line, *s)) return *s;
  return strchr(line, ' ') ? ' ' : ',';
}

/* "# series NAME [UNIT]: ...", and "# step l0h0 ..." where columns are between blanks. */
static int comment(struct csv *c, char *line)
{
  struct said s = {"", ""};
  if (sscanf(line, "# series %95[^ ] [%31[^]]]", s.name, s.unit) >= 1 && c->series < MOST_SAID)
    c->said[c->series++] = s;
  return !c->names && !strncmp(line, "# step ", 7);
}

/* A name that two columns have; NULL: none. c->field is room. */
static const char *twice(const struct csv *c)
{
  memcpy(c->field, c->name, (size_t)c->names * sizeof *c->field);
  qsort(c->field, (size_t)c->names, sizeof *c->field, text_order);
  for (int i = 1; i < c->names; i++)
    if (*c->field[i] && !strcmp(c->field[i], c->field[i - 1])) return c->field[i];
  return NULL;
}

static int header(struct csv *c, const char *line, struct error *e)
{
  c->text = memory_text(line);
  c->separator = separator_of(line);
  c->names = split(c->text, c->separator, c->name);
  if (c->names < 0 || c->names > MOST_FIELDS)
    return error_set(e, STATUS_USAGE, "%s:%ld: no first line with names of columns", c->path, c->line);
  if (twice(c))
    return error_set(e, STATUS_USAGE, "%s:%ld: two columns are called '%.60s'", c->path, c->line, twice(c));
  c->step = -1;
  for (int i = 0; i < c->names; i++)
    if (log_is_step(c->log, c->name[i]) && c->step < 0) c->step = i;
  if (c->step < 0)
    return error_set(e, STATUS_USAGE, "%s:%ld: no column of steps%s%s; --step NAME says which it is", c->path,
                     c->line, c->log->step ? " called " : "", c->log->step ? c->log->step : "");
  text_fill(c->log->step_found, sizeof c->log->step_found, c->name[c->step]);
  return STATUS_OK;
}

/* "l0h0" of the one series that export has told. */
static const char *full_name(const struct csv *c, int i, char room[256])
{
  const char *name = c->name[i], *end = name + strspn(name, "lhe0123456789");
  if (c->series != 1 || *name != 'l' || *end) return name;
  snprintf(room, 256, "%s:%s", c->said[0].name, name);
  return room;
}

static const char *unit_of(const struct csv *c, const char *name)
{
  for (int i = 0; i < c->series; i++) {
    size_t length = strlen(c->said[i].name);
    if (!strncmp(c->said[i].name, name, length) && (!name[length] || name[length] == ':'))
      return c->said[i].unit;
  }
  return "";
}

static int row(struct csv *c, char *line, struct error *e)
{
  int n = split(line, c->separator, c->field);
  if (n < 0) return error_set(e, STATUS_USAGE, "%s:%ld: a \" without its end", c->path, c->line);
  if (n != c->names)
    return error_set(e, STATUS_USAGE, "%s:%ld: %d columns where the first line names %d", c->path, c->line, n,
                     c->names);
  double step = log_step(c->field[c->step]), x;
  if (step < 0)
    return error_set(e, STATUS_USAGE, "%s:%ld: step '%.40s' is no whole number from 0 on", c->path, c->line,
                     c->field[c->step]);
  for (int i = 0; i < n; i++) {
    char room[256];
    if (i == c->step || !*c->field[i] || !*c->name[i]) continue;
    if (!log_number(c->field[i], &x)) {
      if (!strcmp(c->name[i], "run") || !strcmp(c->name[i], "group"))
        return error_set(e, STATUS_USAGE, "%s:%ld: several runs in one file (column '%s'): one at a time",
                         c->path, c->line, c->name[i]);
      return error_set(e, STATUS_USAGE, "%s:%ld: %s: '%.40s' is no number", c->path, c->line, c->name[i],
                       c->field[i]);
    }
    struct log_column *column = log_put(c->log, full_name(c, i, room), step, x);
    if (!*column->unit) text_fill(column->unit, sizeof column->unit, unit_of(c, column->name));
  }
  return STATUS_OK;
}

int log_csv(struct log *l, FILE *f, const char *path, struct error *e)
{
  struct csv *c = memory_new(1, sizeof *c);
  char *line = NULL;
  size_t room = 0;
  int status = STATUS_OK;
  c->log = l, c->path = path;
  c->name = memory_new(MOST_FIELDS, sizeof *c->name);
  c->field = memory_new(MOST_FIELDS, sizeof *c->field);
  for (ssize_t n; !status && (n = getline(&line, &room, f)) >= 0;) {
    c->line++;
    if (strlen(line) != (size_t)n) {
      status = error_set(e, STATUS_USAGE, "%s:%ld: a NUL byte: this is no text", path, c->line);
      break;
    }
    line[strcspn(line, "\r\n")] = 0;
    char *text = c->line == 1 && !strncmp(line, "\357\273\277", 3) ? line + 3 : line;
    if (!*text) continue;
    if (*text == '#') {
      if (!comment(c, text)) continue;
      text += 2;
    }
    status = c->names ? row(c, text, e) : header(c, text, e);
  }
  if (!status && !c->names) status = error_set(e, STATUS_USAGE, "%s: no line", path);
  free(line);
  memory_free(c->text);
  memory_free(c->name);
  memory_free(c->field);
  memory_free(c);
  return status;
}
