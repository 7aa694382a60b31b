/* choose.c - which runs of a set are meant */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "base/text.h"

static const char *value_of(const struct run *run, const char *key)
{
  return strcmp(key, "kind") == 0 ? run->kind : run_parameter_or(run, key, "");
}

static int same_value(void *context, const char *wanted)
{
  const char *value = context;
  char *end, *own_end;
  double number = strtod(wanted, &end), own = strtod(value, &own_end);
  if (strcmp(wanted, value) == 0) return 1;
  return end != wanted && !*end && own_end != value && !*own_end && number == own;
}

/* "KEY = a, b": the values that occur; how many. */
static int add_values(struct buffer *b, const struct runset *set, const char *key)
{
  int different = 0;
  buffer_add(b, "%s =", key);
  for (int i = 0; i < set->runs; i++) {
    const char *value = value_of(&set->run[i], key);
    int seen = 0;
    for (int k = 0; k < i && !seen; k++) seen = strcmp(value_of(&set->run[k], key), value) == 0;
    if (!seen) buffer_add(b, "%s %s", different++ ? "," : "", value);
  }
  return different;
}

struct key_names {
  const char **name;
  size_t count;
};

static int add_key_name(void *context, const struct config_entry *entry)
{
  struct key_names *keys = context;
  keys->name = memory_grow(keys->name, keys->count, keys->count + 1, sizeof *keys->name);
  keys->name[keys->count++] = memory_text(entry->key);
  return 0;
}

static int check_key(const struct config *config, const char *key, struct error *error)
{
  struct key_names keys = {0};
  int status = STATUS_OK, known = strcmp(key, "kind") == 0;
  config_each(config, add_key_name, &keys);
  for (size_t i = 0; i < keys.count && !known; i++) known = strcmp(keys.name[i], key) == 0;
  if (!known) {
    const char *near = text_nearest(key, keys.name, keys.count);
    status = error_set(error, STATUS_USAGE, "--where %s: no such key%s%s%s", key,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  for (size_t i = 0; i < keys.count; i++) memory_free((char *)keys.name[i]);
  memory_free(keys.name);
  return status;
}

static int keep_where(struct runset *set, const struct config *config, const char *condition,
                      struct error *error)
{
  char key[96];
  const char *equals = strchr(condition, '=');
  if (!equals || equals == condition || equals - condition >= (long)sizeof key)
    return error_set(error, STATUS_USAGE, "--where %s: KEY=VALUE is wanted", condition);
  snprintf(key, sizeof key, "%.*s", (int)(equals - condition), condition);
  int status = check_key(config, key, error), kept = 0;
  if (status) return status;
  struct buffer values = {0};
  add_values(&values, set, key);
  for (int i = 0; i < set->runs; i++) {
    if (text_split(equals + 1, ',', same_value, (void *)value_of(&set->run[i], key)))
      set->run[kept++] = set->run[i];
    else
      run_free(&set->run[i]);
  }
  set->runs = kept;
  if (!kept)
    status = error_set(error, STATUS_USAGE, "--where %s: no such run; there is %s", condition, values.text);
  memory_free(values.text);
  return status;
}

int runset_where(struct runset *set, char *const *conditions, int count, struct error *error)
{
  struct config *config = config_new();
  int status = STATUS_OK;
  for (int i = 0; i < count && !status; i++) status = keep_where(set, config, conditions[i], error);
  if (!status && count) {
    memory_free(set->group);
    set->group = NULL;
    set->groups = 0;
    struct keys keys;
    keys_init(&keys);
    runset_group(set, &keys);
    memory_free(keys.key);
  }
  config_free(config);
  return status;
}

char *runset_differences(const struct runset *set)
{
  struct buffer text = {0};
  struct keys keys;
  keys_init(&keys);
  buffer_add(&text, "\n  ");
  if (add_values(&text, set, "kind") < 2) text.text[text.length = 0] = 0;
  for (size_t k = 0; k < keys.count; k++) {
    int said = 0;
    for (int g = 1; g < set->groups && !said; g++) { /* kinds stand together */
      const struct run_group *group = &set->group[g], *before = group - 1;
      said = strcmp(group->run->kind, before->run->kind) == 0 &&
             strcmp(group_value(group, &keys.key[k]), group_value(before, &keys.key[k])) != 0;
    }
    if (!said) continue;
    buffer_add(&text, "\n  ");
    add_values(&text, set, keys.key[k].name);
  }
  memory_free(keys.key);
  return text.text;
}
