/* value.c - checks and stores a single value */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/options.h"
#include "config/state.h"
#include "config/plugin.h"

/* Keys that name plug-ins, with the kind. */
static const struct {
  const char *key, *kind;
} name_keys[] = {
  {"optimizer", "optimizer"}, {"stabilizers", "stabilizer"},    {"data", "data"},
  {"preset", "preset"},       {"train.schedule", "schedule"},   {"model.attention", "attention"},
  {"model.ffn", "ffn"},       {"record.observe", "observable"},
};
static const char *const device_names[] = {"cpu", "cuda", "reference", "isolated", NULL};

enum { MOST_PARTS = 16 }; /* of a list */
struct naming {
  const char *const *names;
  size_t count;
  const char *seen[MOST_PARTS];
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
      if (n->parts == MOST_PARTS)
        return error_set(n->error, STATUS_USAGE, "more than %d in a list", MOST_PARTS);
      n->seen[n->parts++] = n->names[i];
      return STATUS_OK;
    }
  struct buffer list = {0};
  for (size_t i = 0; i < n->count; i++) buffer_add(&list, "%s%s", i ? ", " : "", n->names[i]);
  const char *near = text_nearest(part, n->names, n->count);
  for (size_t i = 0; i < n->count; i++) /* the nearest by letters would be cpu */
    if (!strcmp(part, "gpu") && !strcmp(n->names[i], "cuda")) near = n->names[i];
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

/* Check texts with a special syntax. */
static int check_text(const struct key *key, const char *value, struct error *e)
{
  for (const unsigned char *c = (const unsigned char *)value; *c; c++)
    if (*c < 0x20 && *c != '\n' && *c != '\t')
      return error_set(e, STATUS_USAGE, "there is a control character (0x%02x) in the value", *c);
  if (!strcmp(key->name, "checkpoint.keep")) return check_keep(value, e);
  if (!strcmp(key->name, "device")) return check_names(device_names, 4, value, 0, e);
  if (!strcmp(key->name, "preset") && !*value) return STATUS_OK;
  if (!strcmp(key->name, "data") && strpbrk(value, "./"))
    return error_set(e, STATUS_USAGE, "'%s' looks like a file: data.path=%s trains on its text", value,
                     value);
  const char *names[MOST_NAMES];
  for (size_t i = 0; i < sizeof name_keys / sizeof *name_keys; i++)
    if (!strcmp(key->name, name_keys[i].key))
      return check_names(names, plugin_names(name_keys[i].kind, names, MOST_NAMES), value,
                         key->row->flags & OPTION_LIST, e);
  return STATUS_OK;
}

int config_check_value(const struct key *key, const char *value, struct error *e)
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

const char *config_keep_value(struct config *c, const struct key *key, const char *value)
{
  if (!(key->row->flags & OPTION_LIST)) return arena_text(c->arena, value);
  struct buffer joined = {0};
  text_split(value, '+', join_part, &joined);
  const char *kept = arena_text(c->arena, joined.text);
  memory_free(joined.text);
  return kept;
}
