/* config.c - a configuration is the list of its assignments in the order they were written; config_finish
   plays it into the option structs. So a preset stands where it is written, and a sweep's point is the same
   list with one value chosen from each. */
#include "storage/config.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "storage/plugin.h"
#include "storage/preset.h"
#include "training/optimizer.h"

enum { MOST_NAMES = 256, MOST_VALUES = 100000 };

struct key {
  const char *name; /* dotted */
  const struct option_row *row;
  const struct config_section *section;
  void *base;         /* the section's struct */
  const char *origin; /* NULL: default */
};

struct assignment {
  int key;
  const char *origin;
  int count;
  const char **value;
};

struct config {
  struct arena *arena;
  const struct config_section *sections;
  void **structs; /* one a section */
  struct key *keys;
  int key_count;
  struct assignment *list;
  int count, room;
};

/* --- sections and keys --------------------------------------------------------------------------------- */

static void add_section(struct config *c, int index)
{
  const struct config_section *s = &c->sections[index];
  c->structs[index] = arena_get(c->arena, 1, s->size);
  for (const struct option_row *row = s->rows; row->name; row++) {
    const char *name = arena_format(c->arena, "%s%s%s", s->prefix, *s->prefix ? "." : "", row->name);
    c->keys[c->key_count++] = (struct key){name, row, s, c->structs[index], NULL};
  }
}

struct config *config_new(void)
{
  struct config *c = memory_new(1, sizeof *c);
  c->arena = arena_new();
  c->sections = config_sections();
  int sections = 0, keys = 0;
  for (; c->sections[sections].rows; sections++)
    for (const struct option_row *row = c->sections[sections].rows; row->name; row++) keys++;
  c->structs = arena_get(c->arena, (size_t)sections, sizeof *c->structs);
  c->keys = arena_get(c->arena, (size_t)keys, sizeof *c->keys);
  for (int i = 0; i < sections; i++) {
    add_section(c, i);
    option_defaults(c->sections[i].rows, c->structs[i]);
  }
  return c;
}

void config_free(struct config *c)
{
  if (!c) return;
  memory_free(c->list);
  arena_free(c->arena);
  memory_free(c);
}

void *config_section(const struct config *c, const char *prefix)
{
  for (int i = 0; c->sections[i].rows; i++)
    if (!strcmp(c->sections[i].prefix, prefix)) return c->structs[i];
  return NULL;
}

static int find_key(const struct config *c, const char *name)
{
  for (int i = 0; i < c->key_count; i++)
    if (!strcmp(c->keys[i].name, name)) return i;
  return -1;
}

/* What may have been meant by an unknown key: the nearest, or one with this last part, or NULL. */
static const char *suggest_key(const struct config *c, const char *name)
{
  const char **names = memory_new((size_t)c->key_count, sizeof *names);
  for (int i = 0; i < c->key_count; i++) names[i] = c->keys[i].name;
  const char *near = text_nearest(name, names, (size_t)c->key_count);
  const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
  for (int i = 0; i < c->key_count && !near; i++)
    if (!strcmp(c->keys[i].row->name, last)) near = names[i];
  memory_free(names);
  return near;
}

static int unknown_key(const struct config *c, const char *name, struct error *e)
{
  const char *near = suggest_key(c, name);
  if (near) return error_set(e, STATUS_USAGE, "unknown key; did you mean '%s'?", near);
  return error_set(e, STATUS_USAGE, "unknown key; all keys: maxlogit help config");
}

/* --- one value ------------------------------------------------------------------------------------------ */

/* Keys that name plug-ins, and of which kind. */
static const struct {
  const char *key, *kind;
} name_keys[] = {
  {"optimizer", "optimizer"}, {"stabilizers", "stabilizer"},  {"data", "data"},
  {"preset", "preset"},       {"train.schedule", "schedule"}, {"model.attention", "attention"},
};
static const char *const device_names[] = {"cpu", "cuda", "reference", NULL};

struct naming {
  const char *const *names;
  size_t count;
  const char *seen[MAX_STABILIZERS];
  int parts;
  struct error *error;
};

static int check_name(void *context, const char *part)
{
  struct naming *n = context;
  for (size_t i = 0; i < n->count; i++)
    if (!strcmp(n->names[i], part)) {
      for (int k = 0; k < n->parts; k++)
        if (n->seen[k] == n->names[i])
          return error_set(n->error, STATUS_USAGE, "'%s' stands there twice", part);
      if (n->parts == MAX_STABILIZERS)
        return error_set(n->error, STATUS_USAGE, "more than %d in a list", MAX_STABILIZERS);
      n->seen[n->parts++] = n->names[i];
      return STATUS_OK;
    }
  struct buffer list = {0};
  for (size_t i = 0; i < n->count; i++) buffer_add(&list, "%s%s", i ? ", " : "", n->names[i]);
  const char *near = text_nearest(part, n->names, n->count);
  error_set(n->error, STATUS_USAGE, "'%s' is not one of %s%s%s%s", part, list.text ? list.text : "(none)",
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  memory_free(list.text);
  return STATUS_USAGE;
}

static int check_names(const char *const *names, size_t count, const char *value, int is_list,
                       struct error *e)
{
  struct naming n = {.names = names, .count = count, .error = e};
  return is_list ? text_split(value, '+', check_name, &n) : check_name(&n, value);
}

static int check_keep(const char *value, struct error *e)
{
  char *end;
  long n = strtol(value, &end, 10);
  if (!strcmp(value, "all") || (end != value && !*end && n >= 1)) return STATUS_OK;
  return error_set(e, STATUS_USAGE, "'%s' is neither a number (at least 1) nor all", value);
}

/* Texts with a meaning of their own. */
static int check_text(const struct key *key, const char *value, struct error *e)
{
  for (const unsigned char *c = (const unsigned char *)value; *c; c++)
    if (*c < 0x20 && *c != '\n' && *c != '\t')
      return error_set(e, STATUS_USAGE, "there is a control character (0x%02x) in the value", *c);
  if (!strcmp(key->name, "checkpoint.keep")) return check_keep(value, e);
  if (!strcmp(key->name, "device")) return check_names(device_names, 3, value, 0, e);
  if (!strcmp(key->name, "preset") && !*value) return STATUS_OK;
  const char *names[MOST_NAMES];
  for (size_t i = 0; i < sizeof name_keys / sizeof *name_keys; i++)
    if (!strcmp(key->name, name_keys[i].key))
      return check_names(names, plugin_names(name_keys[i].kind, names, MOST_NAMES), value,
                         key->row->flags & OPTION_LIST, e);
  return STATUS_OK;
}

/* Would this text do? Nothing is changed. */
static int check_value(const struct key *key, const char *value, struct error *e)
{
  union {
    long whole;
    double number;
    const char *text;
  } field;
  struct option_row row = *key->row;
  row.offset = 0;
  int status = option_parse(&row, &field, value, e);
  return !status && row.type == OPTION_TEXT ? check_text(key, value, e) : status;
}

static int join_part(void *context, const char *part)
{
  struct buffer *b = context;
  buffer_add(b, "%s%s", b->length ? "+" : "", part);
  return 0;
}

/* A copy that lives as long as the configuration; of a list without blanks around its +. */
static const char *keep_value(struct config *c, const struct key *key, const char *value)
{
  if (!(key->row->flags & OPTION_LIST)) return arena_text(c->arena, value);
  struct buffer joined = {0};
  text_split(value, '+', join_part, &joined);
  const char *kept = arena_text(c->arena, joined.text);
  memory_free(joined.text);
  return kept;
}

static void add_assignment(struct config *c, struct assignment a)
{
  if (c->count == c->room) {
    c->list = memory_grow(c->list, (size_t)c->count, 2 * (size_t)c->room + 16, sizeof *c->list);
    c->room = 2 * c->room + 16;
  }
  c->list[c->count++] = a;
}

static const char **values_new(struct config *c, int count)
{
  return arena_get(c->arena, (size_t)count, sizeof(const char *));
}

int config_set(struct config *c, const char *name, const char *value, const char *origin, struct error *e)
{
  int index = find_key(c, name);
  int status = index < 0 ? unknown_key(c, name, e) : check_value(&c->keys[index], value, e);
  if (status) return e ? error_prefix(e, "%s: %s", origin, name) : status;
  struct assignment a = {index, arena_text(c->arena, origin), 1, values_new(c, 1)};
  a.value[0] = keep_value(c, &c->keys[index], value);
  add_assignment(c, a);
  return STATUS_OK;
}

/* --- values as they are written: quotes, lists, ranges -------------------------------------------------- */

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
  if (check_value(v->key, text, v->error)) return STATUS_USAGE;
  if (v->count == v->room) {
    v->text = memory_grow(v->text, (size_t)v->count, 2 * (size_t)v->room + 4, sizeof *v->text);
    v->room = 2 * v->room + 4;
  }
  v->text[v->count++] = keep_value(v->config, v->key, text);
  return STATUS_OK;
}

static const char *skip_blanks(const char *at)
{
  while (isspace((unsigned char)*at)) at++;
  return at;
}

/* "..." "..." with escapes, adjacent strings joined; `*at` moves behind them. */
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

/* Value i of n between first and last; inner ones are rounded, so that they read well and no libm decides. */
static void range_value(double first, double last, int is_log, int is_whole, long i, long n, char out[32])
{
  double t = (double)i / (double)(n - 1);
  if (i > 0 && i < n - 1) {
    snprintf(out, 32, "%.6g", is_log ? first * pow(last / first, t) : first + (last - first) * t);
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

/* One part of a comma list. */
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
    status = is_number && strchr(part.text, ':') ? push_range(v, part.text) : push_value(v, part.text);
  memory_free(part.text);
  return status;
}

/* A value as it is written in a file or on the command line: one, or an axis of several. */
static int config_write(struct config *c, const char *name, const char *text, const char *origin,
                        struct error *e)
{
  int index = find_key(c, name), status = STATUS_OK;
  struct values v = {.config = c, .error = e};
  if (index < 0)
    status = unknown_key(c, name, e);
  else {
    v.key = &c->keys[index];
    const char *at = skip_blanks(text);
    for (status = read_part(&v, &at); !status && *at;) {
      at = skip_blanks(at + 1);
      status = read_part(&v, &at);
    }
  }
  if (status && e) error_prefix(e, "%s: %s", origin, name);
  if (!status) {
    struct assignment a = {index, arena_text(c->arena, origin), v.count, values_new(c, v.count)};
    memcpy(a.value, v.text, (size_t)v.count * sizeof *a.value);
    add_assignment(c, a);
  }
  memory_free(v.text);
  return status;
}

int config_assign(struct config *c, const char *assignment, struct error *e)
{
  const char *equals = strchr(assignment, '='), *start = skip_blanks(assignment), *end = equals;
  if (!equals || start == equals)
    return error_set(e, STATUS_USAGE, "command line: '%.200s' is not key=value", assignment);
  while (end > start && isspace((unsigned char)end[-1])) end--;
  char *name = memory_text(start);
  name[end - start] = 0;
  int status = config_write(c, name, equals + 1, "command line", e);
  memory_free(name);
  return status;
}

/* --- files ---------------------------------------------------------------------------------------------- */

struct reading {
  struct config *config;
  const char *name;
  int line;
  char section[64];
  int *line_of; /* [keys]: where each was given; 0: not yet */
  struct error *error;
};

static int bad_line(struct reading *r, const char *what, const char *detail)
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

static int read_section(struct reading *r, char *line)
{
  char *end = strchr(line, ']');
  if (!end || end[1]) return bad_line(r, "a section is written [name]", "");
  *end = 0;
  char *name = trim(line + 1);
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

static int read_setting(struct reading *r, char *line, int first_line)
{
  char *equals = strchr(line, '=');
  if (!equals || equals == line) return bad_line(r, "neither 'key = value' nor [section]", "");
  *equals = 0;
  char *key = trim(line);
  int is_whole = !*r->section || strchr(key, '.');
  struct arena *arena = r->config->arena;
  char *origin = arena_format(arena, "%s:%d", r->name, first_line);
  char *name = arena_format(arena, "%s%s%.100s", is_whole ? "" : r->section, is_whole ? "" : ".", key);
  int index = find_key(r->config, name);
  if (index < 0 && !is_whole && find_key(r->config, key) >= 0)
    return error_set(r->error, STATUS_USAGE, "%s: %s: unknown key; '%s' stands before the first [section]",
                     origin, name, key);
  if (index >= 0 && r->line_of[index])
    return error_set(r->error, STATUS_USAGE, "%s: %s: given twice (first in line %d)", origin, name,
                     r->line_of[index]);
  if (index >= 0) r->line_of[index] = first_line;
  return config_write(r->config, name, equals + 1, origin, r->error);
}

/* The next line without comment and outer blanks, in memory to free; NULL at the end. */
static char *next_line(struct reading *r, const char **at)
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

/* A line with those it goes on in, joined by blanks. */
static char *next_lines(struct reading *r, const char **at)
{
  char *line = next_line(r, at);
  for (size_t n; line && (n = strlen(line)) > 0 && line[n - 1] == '\\';) {
    line[n - 1] = ' ';
    char *more = next_line(r, at);
    struct buffer joined = {0};
    buffer_add(&joined, "%s%s", line, more ? more : "");
    memory_free(line);
    memory_free(more);
    line = joined.text;
  }
  return line;
}

int config_read(struct config *c, const char *text, const char *name, struct error *e)
{
  struct reading r = {.config = c, .name = name, .error = e};
  r.line_of = memory_new((size_t)c->key_count, sizeof *r.line_of);
  if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3;
  int status = STATUS_OK, first = 1;
  for (char *line; !status && (line = next_lines(&r, &text)); first = r.line + 1) {
    if (*line == '[')
      status = read_section(&r, line);
    else if (*line)
      status = read_setting(&r, line, first);
    memory_free(line);
  }
  memory_free(r.line_of);
  return status;
}

int config_file(struct config *c, const char *path, struct error *e)
{
  char *text;
  size_t length;
  int status = file_read(path, &text, &length, e);
  if (status) return status;
  if (!strncmp(text, "\x89HDF", 4))
    status = error_set(e, STATUS_USAGE,
                       "%s: an HDF5 file, not a configuration; to continue a run: "
                       "maxlogit resume %s",
                       path, path);
  else if (strlen(text) != length)
    status = error_set(e, STATUS_USAGE, "%s: not a configuration: there is a zero byte in it", path);
  else
    status = config_read(c, text, path, e);
  memory_free(text);
  return status;
}

/* --- playing the list into the structs ------------------------------------------------------------------ */

static const struct preset *find_preset(const char *name)
{
  const struct preset *p = presets;
  while (p->name && strcmp(p->name, name)) p++;
  return p->name ? p : NULL;
}

static int is_preset(const struct config *c, int key) { return !strcmp(c->keys[key].name, "preset"); }

/* Call each(context, key, value) for the settings of a preset; "" has none. Stops at the first non-zero. */
static int preset_settings(const struct config *c, const char *name,
                           int (*each)(void *, int key, const char *value), void *context)
{
  const struct preset *preset = find_preset(name);
  if (!preset) return 0;
  int result = 0;
  char *settings = memory_text(preset->settings), *rest = settings, *word;
  while (!result && (word = strsep(&rest, " "))) {
    char *value = strchr(word, '=');
    REQUIRE(value);
    *value++ = 0;
    int key = find_key(c, word);
    if (key < 0) BUG("preset %s: unknown key %s", name, word);
    result = each(context, key, value);
  }
  memory_free(settings);
  return result;
}

struct playing {
  struct config *config;
  const char *origin;
};

static int play(void *context, int index, const char *value)
{
  struct playing *p = context;
  struct key *key = &p->config->keys[index];
  struct error e = {0};
  if (check_value(key, value, &e) || option_parse(key->row, key->base, value, &e))
    BUG("%s: %s: %s", p->origin, key->name, e.text);
  key->origin = p->origin;
  return 0;
}

static int play_preset_setting(void *context, int index, const char *value)
{
  struct playing *p = context;
  return play(p, index, arena_text(p->config->arena, value));
}

static const struct assignment *first_axis(const struct config *c);

int config_finish(struct config *c, struct error *e)
{
  const struct assignment *axis = first_axis(c);
  if (axis)
    return error_set(e, STATUS_USAGE,
                     "%s: %s: %d values where a run takes one (several: maxlogit sweep; "
                     "a comma in a text: put it in quotes)",
                     axis->origin, c->keys[axis->key].name, axis->count);
  for (int i = 0; c->sections[i].rows; i++) option_defaults(c->sections[i].rows, c->structs[i]);
  for (int i = 0; i < c->key_count; i++) c->keys[i].origin = NULL;
  for (int i = 0; i < c->count; i++) {
    const struct assignment *a = &c->list[i];
    struct playing p = {c, a->origin};
    play(&p, a->key, a->value[0]);
    if (is_preset(c, a->key)) {
      p.origin = arena_format(c->arena, "preset %s", a->value[0]);
      preset_settings(c, a->value[0], play_preset_setting, &p);
    }
  }
  return STATUS_OK;
}

/* --- axes ----------------------------------------------------------------------------------------------- */

static int is_key(void *context, int key, const char *value)
{
  (void)value;
  return *(int *)context == key;
}

/* Does assignment `later` set `key` whichever of its values is chosen? */
static int overrides(const struct config *c, const struct assignment *later, int key)
{
  if (later->key == key) return 1;
  if (!is_preset(c, later->key)) return 0;
  for (int i = 0; i < later->count; i++)
    if (!preset_settings(c, later->value[i], is_key, &key)) return 0;
  return 1;
}

static int is_axis(const struct config *c, int index)
{
  if (c->list[index].count < 2) return 0;
  for (int i = index + 1; i < c->count; i++)
    if (overrides(c, &c->list[i], c->list[index].key)) return 0;
  return 1;
}

static const struct assignment *first_axis(const struct config *c)
{
  for (int i = 0; i < c->count; i++)
    if (is_axis(c, i)) return &c->list[i];
  return NULL;
}

long config_points(const struct config *c)
{
  long points = 1;
  for (int i = 0; i < c->count; i++)
    if (is_axis(c, i) && __builtin_mul_overflow(points, (long)c->list[i].count, &points)) return LONG_MAX;
  return points;
}

/* Which value of each axis makes point `index`; calls visit(context, assignment, its value). */
static void visit_point(const struct config *c, long index,
                        void (*visit)(void *, const struct assignment *, const char *, int), void *context)
{
  long block = config_points(c);
  REQUIRE(index >= 0 && index < block && block < LONG_MAX);
  for (int i = 0; i < c->count; i++) {
    const struct assignment *a = &c->list[i];
    int axis = is_axis(c, i);
    if (axis) block /= a->count;
    visit(context, a, a->value[axis ? index / block % a->count : 0], axis);
  }
}

static void copy_assignment(void *context, const struct assignment *a, const char *value, int axis)
{
  struct config *copy = context;
  (void)axis;
  struct assignment one = {a->key, arena_text(copy->arena, a->origin), 1, values_new(copy, 1)};
  one.value[0] = arena_text(copy->arena, value);
  add_assignment(copy, one);
}

struct config *config_point(const struct config *c, long index)
{
  struct config *copy = config_new();
  visit_point(c, index, copy_assignment, copy);
  return copy;
}

struct label {
  const struct config *config;
  char *out;
  size_t room;
};

static void add_label(void *context, const struct assignment *a, const char *value, int axis)
{
  struct label *l = context;
  if (!axis) return;
  size_t used = strlen(l->out);
  snprintf(l->out + used, l->room - used, "%s%s=%s", used ? " " : "", l->config->keys[a->key].name, value);
}

void config_point_label(const struct config *c, long index, char *out, size_t room)
{
  struct label l = {c, out, room};
  *out = 0;
  visit_point(c, index, add_label, &l);
}

/* --- walking -------------------------------------------------------------------------------------------- */

static int in_list(void *name, const char *part) { return !strcmp(name, part); }

/* A pattern list GLOB:NAME+GLOB:NAME names this plug-in. */
static int in_override(void *name, const char *part)
{
  const char *colon = strrchr(part, ':');
  return colon && !strcmp(name, colon + 1);
}

static int is_used(const struct config *c, const struct config_section *s)
{
  const struct top_options *top = config_section(c, "");
  const struct train_options *train = config_section(c, "train");
  const struct override_options *override = config_section(c, "override");
  char *name = (char *)(size_t)s->prefix;
  if (!s->is_plugin) return strcmp(name, "sweep") != 0;
  const struct optimizer *optimizer = optimizer_find(top->optimizer);
  int takes_rest = !strcmp(name, "adam") && optimizer && optimizer->takes;
  return takes_rest || !strcmp(name, top->optimizer) || !strcmp(name, top->data) ||
         !strcmp(name, train->schedule) || text_split(top->stabilizers, '+', in_list, name) ||
         text_split(override->optimizer, '+', in_override, name);
}

static int is_default(const struct key *key, const char *value)
{
  union {
    long whole;
    double number;
  } field;
  struct option_row row = *key->row;
  char text[64];
  if (row.type == OPTION_TEXT) return !strcmp(value, row.standard);
  row.offset = 0;
  option_parse(&row, &field, row.standard, NULL);
  option_format(&row, &field, text, sizeof text);
  return !strcmp(value, text);
}

int config_each(const struct config *c, int (*each)(void *, const struct config_entry *), void *context)
{
  for (int i = 0; i < c->key_count; i++) {
    const struct key *key = &c->keys[i];
    char number[64];
    const char *origin = key->origin ? key->origin : "default";
    struct config_entry entry = {key->name, key->row, key->base, number, origin, 0, is_used(c, key->section)};
    if (key->row->type == OPTION_TEXT)
      entry.value = *(const char **)((char *)key->base + key->row->offset);
    else
      option_format(key->row, key->base, number, sizeof number);
    entry.is_default = !key->origin || is_default(key, entry.value);
    int result = each(context, &entry);
    if (result) return result;
  }
  return 0;
}

static int warn_unused(void *context, const struct config_entry *x)
{
  (void)context;
  if (!x->used && strcmp(x->origin, "default") && strncmp(x->key, "sweep.", 6))
    warning("%s: %s has no effect: this run does not use %.*s", x->origin, x->key, (int)strcspn(x->key, "."),
            x->key);
  return 0;
}

void config_warn_unused(const struct config *c) { config_each(c, warn_unused, NULL); }

/* --- identity ------------------------------------------------------------------------------------------- */

struct lines {
  char **line;
  size_t count, room;
  char start[24]; /* stands for train.init_from */
};

static int add_identity(void *context, const struct config_entry *x)
{
  struct lines *l = context;
  if (!x->used || x->row->flags & OPTION_FREE || !strcmp(x->key, "preset")) return 0;
  if (l->count == l->room) {
    l->line = memory_grow(l->line, l->count, 2 * l->room + 64, sizeof *l->line);
    l->room = 2 * l->room + 64;
  }
  struct buffer line = {0};
  buffer_add(&line, "%s=%s\n", x->key, x->row->flags & OPTION_CONTENT ? l->start : x->value);
  l->line[l->count++] = line.text;
  return 0;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void config_id(const struct config *c, uint64_t data_content, uint64_t start_content, char out[16])
{
  struct lines l = {0};
  struct buffer all = {0};
  if (start_content) snprintf(l.start, sizeof l.start, "%016llx", (unsigned long long)start_content);
  config_each(c, add_identity, &l);
  qsort(l.line, l.count, sizeof *l.line, by_text);
  buffer_add(&all, "numerics %d, data %016llx\n", NUMERICS_VERSION, (unsigned long long)data_content);
  for (size_t i = 0; i < l.count; i++) {
    buffer_add(&all, "%s", l.line[i]);
    memory_free(l.line[i]);
  }
  snprintf(out, 16, "%012llx", (unsigned long long)XXH3_64bits(all.text, all.length) >> 16);
  memory_free(all.text);
  memory_free(l.line);
}

/* --- writing -------------------------------------------------------------------------------------------- */

static int needs_quotes(const char *text)
{
  size_t n = strlen(text);
  return n > 0 && (strpbrk(text, ",\"#\n\t") || text[n - 1] == '\\' || isspace((unsigned char)text[0]) ||
                   isspace((unsigned char)text[n - 1]));
}

static void write_quoted(struct buffer *b, const char *text)
{
  buffer_add(b, "\"");
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      buffer_add(b, "\\%c", *text);
    else if (*text == '\n' || *text == '\t')
      buffer_add(b, *text == '\n' ? "\\n" : "\\t");
    else
      buffer_add(b, "%c", *text);
  }
  buffer_add(b, "\"");
}

struct writing {
  struct buffer out;
  size_t section;
  char name[64];
};

static int write_entry(void *context, const struct config_entry *x)
{
  struct writing *w = context;
  const char *dot = strchr(x->key, '.');
  size_t length = dot ? (size_t)(dot - x->key) : 0;
  if (!x->used) return 0;
  if (dot && (strncmp(w->name, x->key, length) || w->name[length])) {
    snprintf(w->name, sizeof w->name, "%.*s", (int)length, x->key);
    buffer_add(&w->out, "\n[%s]\n", w->name);
  }
  buffer_add(&w->out, "%s = ", x->row->name);
  if (x->row->type == OPTION_TEXT && needs_quotes(x->value))
    write_quoted(&w->out, x->value);
  else
    buffer_add(&w->out, "%s", x->value);
  buffer_add(&w->out, "\n");
  return 0;
}

char *config_text(const struct config *c)
{
  struct writing w = {0};
  config_each(c, write_entry, &w);
  return w.out.text;
}
