/* read.c - reads configurations: values, the command line, files */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/elementary.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/text.h"
#include "config/state.h"

/* --- values: quotes, lists, ranges ---------------------------------------------------------------------- */

struct values {
  struct config *config;
  const struct key *key;
  const char **text;
  int count, room;
  struct error *error;
};

static int push_value(struct values *v, const char *text)
{
  if (v->count == MOST_VALUES) return error_set(v->error, STATUS_USAGE, "more than %d values", MOST_VALUES);
  if (config_check_value(v->key, text, v->error)) return STATUS_USAGE;
  if (v->count == v->room) {
    v->text = memory_grow(v->text, (size_t)v->count, 2 * (size_t)v->room + 4, sizeof *v->text);
    v->room = 2 * v->room + 4;
  }
  v->text[v->count++] = config_keep_value(v->config, v->key, text);
  return STATUS_OK;
}

static const char *skip_blanks(const char *at)
{
  while (isspace((unsigned char)*at)) at++;
  return at;
}

/* Read "..." "..." with escapes and join adjacent strings; `*at` moves to their end. */
static int read_quoted(const char **at, struct buffer *out, struct error *e)
{
  static const char escapes[] = "\"\\nt", meanings[] = "\"\\\n\t";
  const char *c = *at;
  for (buffer_add(out, "%s", ""); *c == '"'; c = skip_blanks(c + 1)) {
    for (c++; *c != '"'; c++) {
      const char *escape = c[0] == '\\' && c[1] ? strchr(escapes, c[1]) : NULL;
      if (!*c) return error_set(e, STATUS_USAGE, "a quote is not closed");
      if (*c == '\\' && !escape)
        return error_set(e, STATUS_USAGE, "only \\\" \\\\ \\n \\t may stand in quotes after a backslash");
      buffer_add(out, "%c", escape ? meanings[escape - escapes] : *c);
      c += escape != NULL;
    }
  }
  *at = c;
  return STATUS_OK;
}

static void read_plain(const char **at, struct buffer *out)
{
  const char *end = *at + strcspn(*at, ","), *stop = end;
  while (stop > *at && isspace((unsigned char)stop[-1])) stop--;
  buffer_add(out, "%.*s", (int)(stop - *at), *at);
  *at = end;
}

static int bad_range(struct values *v, const char *text)
{
  return error_set(v->error, STATUS_USAGE,
                   "'%s' is not a range, FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT (at least 2)", text);
}

/* Value i of n between first and last; inner ones are rounded, so that they are short and do not depend on libm. */
static void range_value(double first, double last, int is_log, int is_whole, long i, long n, char out[32])
{
  double t = (double)i / (double)(n - 1);
  if (i > 0 && i < n - 1) {
    snprintf(out, 32, "%.6g", is_log ? first * same_pow(last / first, t) : first + (last - first) * t);
    double x = strtod(out, NULL);
    text_number(is_whole ? nearbyint(x) : x, out);
  } else
    text_number(i ? last : first, out);
}

static int push_range(struct values *v, const char *text)
{
  double first, last;
  char kind[4], number[32], before[32] = "";
  long n;
  int end = -1;
  if (sscanf(text, "%lf:%lf:%3[a-z]:%ld%n", &first, &last, kind, &n, &end) != 4 || end < 0 || text[end])
    return bad_range(v, text);
  int is_log = !strcmp(kind, "log");
  if ((!is_log && strcmp(kind, "lin")) || n < 2 || !isfinite(first) || !isfinite(last))
    return bad_range(v, text);
  if (n > MOST_VALUES) return error_set(v->error, STATUS_USAGE, "more than %d values", MOST_VALUES);
  if (is_log && !(first > 0 && last > 0))
    return error_set(v->error, STATUS_USAGE, "'%s': a log range needs positive ends", text);
  for (long i = 0; i < n; i++) {
    range_value(first, last, is_log, v->key->row->type == OPTION_INT, i, n, number);
    if (strcmp(number, before) && push_value(v, number)) /* rounding may repeat a whole number */
      return STATUS_USAGE;
    memcpy(before, number, sizeof before);
  }
  return STATUS_OK;
}

/* "1..5" of a key that is a whole number. */
static int push_whole_range(struct values *v, const char *text)
{
  long first, last;
  char number[32];
  int end = -1;
  if (sscanf(text, "%ld..%ld%n", &first, &last, &end) != 2 || end < 0 || text[end] || last < first)
    return error_set(v->error, STATUS_USAGE, "'%s' is not a range, FIRST..LAST", text);
  const unsigned long steps = (unsigned long)last - (unsigned long)first;
  if (steps >= MOST_VALUES) return error_set(v->error, STATUS_USAGE, "more than %d values", MOST_VALUES);
  for (unsigned long i = 0; i <= steps; i++) {
    snprintf(number, sizeof number, "%ld", first + (long)i);
    if (push_value(v, number)) return STATUS_USAGE;
  }
  return STATUS_OK;
}

/* Read one part of a comma list. */
static int read_part(struct values *v, const char **at)
{
  struct buffer part = {0};
  int status = STATUS_OK, quoted = **at == '"';
  if (quoted)
    status = read_quoted(at, &part, v->error);
  else
    read_plain(at, &part);
  int is_number = v->key->row->type == OPTION_INT || v->key->row->type == OPTION_REAL;
  if (!status && **at && **at != ',')
    status = error_set(v->error, STATUS_USAGE, "after the closing quote stands '%.20s'", *at);
  if (!status && !*part.text && !quoted && (**at == ',' || v->count))
    status = error_set(v->error, STATUS_USAGE, "the list has an empty part");
  if (!status)
    status = v->key->row->type == OPTION_INT && strstr(part.text, "..") ? push_whole_range(v, part.text)
             : is_number && strchr(part.text, ':')                      ? push_range(v, part.text)
                                                                        : push_value(v, part.text);
  memory_free(part.text);
  return status;
}

/* Assign a value from a file or the command line: a single value, or an axis of several. */
static int config_write(struct config *c, const char *name, const char *text, const char *origin,
                        struct error *e)
{
  int index = config_find_key(c, name), status = STATUS_OK;
  struct values v = {.config = c, .error = e};
  if (index < 0 && config_is_ignored(name, text)) return STATUS_OK;
  if (index < 0)
    status = config_unknown_key(c, name, e);
  else {
    v.key = &c->keys[index];
    const char *at = skip_blanks(text);
    for (status = read_part(&v, &at); !status && *at;) {
      at = skip_blanks(at + 1);
      status = read_part(&v, &at);
    }
  }
  if (!status && v.count > 1 && !strncmp(name, "sweep.", 6))
    status = error_set(e, STATUS_USAGE,
                       "one value, for the whole sweep, is wanted (a comma in a text: put it in quotes)");
  if (status && e) error_prefix(e, "%s: %s", origin, name);
  if (!status) {
    struct assignment a = {index, arena_text(c->arena, origin), v.count, config_values_new(c, v.count),
                           c->arm_now};
    memcpy(a.value, v.text, (size_t)v.count * sizeof *a.value);
    config_add(c, a);
  }
  memory_free(v.text);
  return status;
}

/* The key of "key=value", which the caller frees, and the start of the value; NULL if there is no =. */
static char *key_of(const char *assignment, const char **value)
{
  const char *equals = strchr(assignment, '='), *start = skip_blanks(assignment), *end = equals;
  if (!equals || start == equals) return NULL;
  while (end > start && isspace((unsigned char)end[-1])) end--;
  char *key = memory_text(start);
  key[end - start] = 0;
  *value = equals + 1;
  return key;
}

int config_assign(struct config *c, const char *assignment, struct error *e)
{
  const char *value;
  char *key = key_of(assignment, &value);
  if (!key) return error_set(e, STATUS_USAGE, "command line: '%.200s' is not key=value", assignment);
  int status = config_write(c, key, value, "command line", e);
  memory_free(key);
  return status;
}

struct search {
  const char *key;
  struct config_entry *found;
  struct arena *arena;
};

static int find_entry(void *context, const struct config_entry *x)
{
  struct search *s = context;
  if (strcmp(s->key, x->key)) return 0;
  *s->found = *x;
  s->found->value = arena_text(s->arena, x->value); /* the entry's own ends with this call */
  return 1;
}

int config_assigned(const struct config *c, const char *assignment, struct config_entry *out)
{
  const char *value;
  char *key = key_of(assignment, &value);
  int found = key && config_each(c, find_entry, &(struct search){key, out, c->arena});
  memory_free(key);
  return found;
}

/* --- files ---------------------------------------------------------------------------------------------- */

struct config_reading {
  struct config *config;
  const char *name;
  int line;
  char section[64];
  int *line_of; /* [keys]: line of the assignment; 0: none yet */
  int *in_arm;  /* the same within this arm */
  struct error *error;
};

static int bad_line(struct config_reading *r, const char *what, const char *detail)
{
  return error_set(r->error, STATUS_USAGE, "%s:%d: %s%s", r->name, r->line, what, detail);
}

/* Cut off a comment: a # at the start or after a blank, outside quotes. */
static void cut_comment(char *line)
{
  int quoted = 0;
  for (char *c = line; *c; c++) {
    if (*c == '\\' && quoted && c[1])
      c++;
    else if (*c == '"')
      quoted = !quoted;
    else if (*c == '#' && !quoted && (c == line || isspace((unsigned char)c[-1]))) {
      *c = 0;
      return;
    }
  }
}

static char *trim(char *text)
{
  char *start = (char *)(size_t)skip_blanks(text), *end = start + strlen(start);
  while (end > start && isspace((unsigned char)end[-1])) *--end = 0;
  return start;
}

/* [arm NAME] */
static int read_arm(struct config_reading *r, const char *name)
{
  struct config *c = r->config;
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+");
  if (!length || name[length] || length > 40)
    return bad_line(r, "the name of an arm is of letters, digits, _ . - +, at most 40", "");
  for (int i = 0; i < c->arms; i++)
    if (!strcmp(c->arm[i], name)) return bad_line(r, "there is this arm already: ", name);
  if (c->arms == MOST_ARMS) return bad_line(r, "too many arms", "");
  const char **arms = arena_get(c->arena, (size_t)c->arms + 1, sizeof *arms);
  for (int i = 0; i < c->arms; i++) arms[i] = c->arm[i];
  arms[c->arms++] = arena_text(c->arena, name);
  c->arm = arms;
  c->arm_now = c->arms;
  *r->section = 0;
  memset(r->in_arm, 0, (size_t)c->key_count * sizeof *r->in_arm);
  return STATUS_OK;
}

static int read_section(struct config_reading *r, char *line)
{
  char *end = strchr(line, ']');
  if (!end || end[1]) return bad_line(r, "a section is written [name]", "");
  *end = 0;
  char *name = trim(line + 1);
  r->config->arm_now = 0;
  if (!strncmp(name, "arm", 3) && isspace((unsigned char)name[3])) return read_arm(r, trim(name + 3));
  if (!strcmp(name, "arm")) {
    error_set(r->error, STATUS_USAGE, "%s:%d: an arm has a name: [arm NAME]", r->name, r->line);
    return STATUS_USAGE;
  }
  const struct config_section *sections = r->config->sections;
  const char *names[MOST_NAMES];
  size_t count = 0;
  for (; sections[count].rows; count++) {
    names[count] = sections[count].prefix;
    if (!strcmp(name, names[count])) {
      snprintf(r->section, sizeof r->section, "%s", name);
      return STATUS_OK;
    }
  }
  const char *near = text_nearest(name, names, count);
  error_set(r->error, STATUS_USAGE, "%s:%d: unknown section [%.80s]%s%s%s", r->name, r->line, name,
            near ? "; did you mean [" : "", near ? near : "", near ? "]?" : "");
  return STATUS_USAGE;
}

static int read_setting(struct config_reading *r, char *line, int first_line)
{
  char *equals = strchr(line, '=');
  if (!equals || equals == line) return bad_line(r, "neither 'key = value' nor [section]", "");
  *equals = 0;
  char *key = trim(line);
  int is_whole = !*r->section || strchr(key, '.');
  struct arena *arena = r->config->arena;
  char *origin = arena_format(arena, "%s:%d", r->name, first_line);
  char *name = arena_format(arena, "%s%s%.100s", is_whole ? "" : r->section, is_whole ? "" : ".", key);
  int index = config_find_key(r->config, name);
  if (index < 0 && !is_whole && config_find_key(r->config, key) >= 0)
    return error_set(r->error, STATUS_USAGE, "%s: %s: unknown key; '%s' stands before the first [section]",
                     origin, name, key);
  int *line_of = r->config->arm_now ? r->in_arm : r->line_of;
  if (index >= 0 && !strcmp(name, "arm") && r->config->arms)
    return error_set(r->error, STATUS_USAGE, "%s: arm: [arm NAME] sets it", origin);
  if (index >= 0 && line_of[index])
    return error_set(r->error, STATUS_USAGE, "%s: %s: given twice (first in line %d)", origin, name,
                     line_of[index]);
  if (index >= 0) line_of[index] = first_line;
  return config_write(r->config, name, equals + 1, origin, r->error);
}

/* The next line without comment and outer blanks, which the caller frees; NULL at the end. */
static char *next_line(struct config_reading *r, const char **at)
{
  if (!**at) return NULL;
  size_t length = strcspn(*at, "\n");
  char *line = memory_new(length + 1, 1);
  memcpy(line, *at, length);
  *at += length + ((*at)[length] == '\n');
  r->line++;
  cut_comment(line);
  char *text = memory_text(trim(line));
  memory_free(line);
  return text;
}

/* A line joined with its continuation lines by blanks. */
static char *next_lines(struct config_reading *r, const char **at)
{
  struct buffer joined = {0};
  for (char *line; (line = next_line(r, at));) {
    buffer_add(&joined, "%s", line);
    memory_free(line);
    if (!joined.length || joined.text[joined.length - 1] != '\\') break;
    joined.text[joined.length - 1] = ' ';
  }
  return joined.text;
}

int config_read(struct config *c, const char *text, const char *name, struct error *e)
{
  struct config_reading r = {.config = c, .name = name, .error = e};
  r.line_of = memory_new((size_t)c->key_count, sizeof *r.line_of);
  r.in_arm = memory_new((size_t)c->key_count, sizeof *r.in_arm);
  if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3;
  int status = STATUS_OK, first = 1;
  for (char *line; !status && (line = next_lines(&r, &text)); first = r.line + 1) {
    if (*line == '[')
      status = read_section(&r, line);
    else if (*line)
      status = read_setting(&r, line, first);
    memory_free(line);
  }
  c->arm_now = 0;
  memory_free(r.line_of);
  memory_free(r.in_arm);
  return status;
}

int config_file(struct config *c, const char *path, struct error *e)
{
  char *text;
  size_t length;
  int status = file_read(path, &text, &length, e);
  if (status) return status;
  if (!strncmp(text, "\x89HDF", 4)) {
    char *word = shell_word(path);
    status = error_set(e, STATUS_USAGE,
                       "%s: an HDF5 file, not a configuration; to continue a run: "
                       "maxlogit resume %s",
                       path, word);
    memory_free(word);
  } else if (strlen(text) != length)
    status = error_set(e, STATUS_USAGE, "%s: not a configuration: there is a zero byte in it", path);
  else
    status = config_read(c, text, path, e);
  memory_free(text);
  return status;
}
