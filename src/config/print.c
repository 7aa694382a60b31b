/* print.c - a resolved configuration entry by entry, as an id, as a text */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/text.h"
#include "model/model.h"
#include "config/state.h"
#include "training/optimizer.h"

/* --- walking -------------------------------------------------------------------------------------------- */

static int in_list(void *name, const char *part) { return !strcmp(name, part); }

/* Does a pattern list GLOB:NAME+GLOB:NAME name this plug-in? */
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
  const struct model_options *model = config_section(c, "model");
  char *name = (char *)(size_t)s->prefix;
  if (!s->is_plugin) return strcmp(name, "sweep") != 0;
  const struct optimizer *optimizer = optimizer_find(top->optimizer);
  int takes_rest = !strcmp(name, "adam") && optimizer && optimizer->takes;
  return takes_rest || !strcmp(name, top->optimizer) || !strcmp(name, top->data) ||
         !strcmp(name, train->schedule) || !strcmp(name, model->ffn) ||
         text_split(top->stabilizers, '+', in_list, name) ||
         text_split(override->optimizer, '+', in_override, name);
}

/* Does the value equal the row's default? */
static int is_default(const struct key *key, const char *value)
{
  union {
    long whole;
    double number;
  } standard;
  struct option_row row = *key->row;
  const char *field = (const char *)key->base + row.offset;
  if (row.type == OPTION_TEXT) return !strcmp(value, row.standard);
  row.offset = 0;
  option_parse(&row, &standard, row.standard, NULL);
  return row.type == OPTION_REAL ? *(const double *)field == standard.number
                                 : *(const long *)field == standard.whole;
}

int config_each(const struct config *c, int (*each)(void *, const struct config_entry *), void *context)
{
  const struct config_section *section = NULL;
  for (int i = 0, used = 0; i < c->key_count; i++) {
    const struct key *key = &c->keys[i];
    char number[64];
    if (key->section != section) used = is_used(c, section = key->section);
    const char *origin = key->origin ? key->origin : "default";
    struct config_entry entry = {key->name, key->row, key->base, number, origin, 0, used};
    if (key->row->type == OPTION_TEXT)
      entry.value = *(const char **)((char *)key->base + key->row->offset);
    else
      option_format(key->row, key->base, number, sizeof number);
    entry.is_default = !strcmp(origin, "default") || is_default(key, entry.value);
    int result = each(context, &entry);
    if (result) return result;
  }
  return 0;
}

static int warn_unused(void *context, const struct config_entry *x)
{
  const struct top_options *top = config_section(context, "");
  if (!strcmp(x->key, "data.path") && *x->value && strcmp(top->data, "bytes"))
    warning("%s: data.path has no effect: data = %s reads no file, data = bytes does", x->origin, top->data);
  if (!x->used && strcmp(x->origin, "default") && strncmp(x->key, "sweep.", 6))
    warning("%s: %s has no effect: this run does not use %.*s", x->origin, x->key, (int)strcspn(x->key, "."),
            x->key);
  return 0;
}

void config_warn_unused(const struct config *c) { config_each(c, warn_unused, (void *)(size_t)c); }

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
  if (x->row->flags & OPTION_LATER && x->is_default) return 0;
  if (l->count == l->room) {
    l->line = memory_grow(l->line, l->count, 2 * l->room + 64, sizeof *l->line);
    l->room = 2 * l->room + 64;
  }
  struct buffer line = {0};
  buffer_add(&line, "%s=%s\n", x->key, x->row->flags & OPTION_CONTENT ? l->start : x->value);
  l->line[l->count++] = line.text;
  return 0;
}

void config_id(const struct config *c, uint64_t data_content, uint64_t start_content, char out[16])
{
  struct lines l = {0};
  struct buffer all = {0};
  if (start_content) snprintf(l.start, sizeof l.start, "%016llx", (unsigned long long)start_content);
  config_each(c, add_identity, &l);
  qsort(l.line, l.count, sizeof *l.line, text_order);
  buffer_add(&all, "numerics %d, data %016llx\n", NUMERICS_VERSION, (unsigned long long)data_content);
  for (size_t i = 0; i < l.count; i++) {
    buffer_add(&all, "%s", l.line[i]);
    memory_free(l.line[i]);
  }
  snprintf(out, 16, "%012llx", (unsigned long long)XXH3_64bits(all.text, all.length) >> 16);
  memory_free(all.text);
  memory_free(l.line);
}

static int add_structure(void *context, const struct config_entry *x)
{
  struct buffer *text = context;
  if (!x->used || !strcmp(x->key, "preset")) return 0;
  if (!option_is_number(x->row))
    buffer_add(text, "%s=%s\n", x->key, x->value);
  else if (x->row->flags & OPTION_OFF)
    buffer_add(text, "%s is %s\n", x->key, strtod(x->value, NULL) == 0 ? "off" : "on");
  return 0;
}

uint64_t config_structure(const struct config *c)
{
  struct buffer text = {0};
  config_each(c, add_structure, &text);
  uint64_t structure = XXH3_64bits(text.text, text.length);
  memory_free(text.text);
  return structure;
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

void config_quote(struct buffer *b, const char *value)
{
  if (needs_quotes(value))
    write_quoted(b, value);
  else
    buffer_add(b, "%s", value);
}

struct config_writing {
  struct buffer out;
  size_t section;
  char name[64];
};

static int write_entry(void *context, const struct config_entry *x)
{
  struct config_writing *w = context;
  const char *dot = strchr(x->key, '.');
  size_t length = dot ? (size_t)(dot - x->key) : 0;
  if (!x->used) return 0;
  if (dot && (strncmp(w->name, x->key, length) || w->name[length])) {
    snprintf(w->name, sizeof w->name, "%.*s", (int)length, x->key);
    buffer_add(&w->out, "\n[%s]\n", w->name);
  }
  buffer_add(&w->out, "%s = ", x->row->name);
  if (x->row->type == OPTION_TEXT)
    config_quote(&w->out, x->value);
  else
    buffer_add(&w->out, "%s", x->value);
  buffer_add(&w->out, "\n");
  return 0;
}

char *config_text(const struct config *c)
{
  struct config_writing w = {0};
  config_each(c, write_entry, &w);
  return w.out.text;
}
