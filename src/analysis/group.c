/* group.c - runs that differ only in their seed are one group; what groups are called */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "base/text.h"

/* --- which parameters count ---------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
  return strcmp(((const struct key *)a)->name, ((const struct key *)b)->name);
}

static int add_key(void *context, const struct config_entry *x)
{
  struct keys *keys = context;
  if (strcmp(x->key, "train.seed") == 0 || strcmp(x->key, "preset") == 0) return 0;
  if (x->row->flags & (OPTION_FREE | OPTION_CONTENT)) return 0;
  keys->key = memory_grow(keys->key, keys->count, keys->count + 1, sizeof *keys->key);
  struct key *key = &keys->key[keys->count++];
  snprintf(key->name, sizeof key->name, "%s", x->key);
  snprintf(key->standard, sizeof key->standard, "%s", x->value);
  return 0;
}

void keys_init(struct keys *keys)
{
  struct config *config = config_new();
  *keys = (struct keys){0};
  config_each(config, add_key, keys);
  config_free(config);
  qsort(keys->key, keys->count, sizeof *keys->key, compare_keys);
}

/* A key that a file does not have counts as at its default. */
char *run_identity(const struct run *run, const struct keys *keys)
{
  struct buffer text = {0};
  uint64_t data, start;
  for (size_t k = 0; k < keys->count; k++) {
    const char *value = run_parameter(run->file, keys->key[k].name);
    buffer_add(&text, "%s=%s\n", keys->key[k].name, value ? value : keys->key[k].standard);
  }
  if (run_contents(run->file, &data, &start))
    buffer_add(&text, "data %016" PRIx64 " start %016" PRIx64 "\n", data, start);
  else /* a file of old: by name */
    buffer_add(&text, "data %s start %s\n", run_parameter_or(run, "data.path", ""),
               run_parameter_or(run, "train.init_from", ""));
  return text.text;
}

/* --- groups -------------------------------------------------------------------------------------------- */

static int compare_runs(const void *a, const void *b)
{
  const struct run *x = a, *y = b;
  int order = (x->rank > y->rank) - (x->rank < y->rank);
  if (!order) order = strcmp(x->kind, y->kind);
  if (!order) order = strcmp(x->identity, y->identity);
  if (!order) order = (x->seed > y->seed) - (x->seed < y->seed);
  return order ? order : strcmp(x->path, y->path);
}

static int compare_identities(const void *a, const void *b)
{
  const struct run *x = a, *y = b;
  int order = strcmp(x->identity, y->identity);
  if (!order) order = (x->rank > y->rank) - (x->rank < y->rank);
  return order ? order : strcmp(x->path, y->path);
}

/* The same settings have one name, whether a preset or its keys were given. */
static void share_names(struct runset *set)
{
  qsort(set->run, (size_t)set->runs, sizeof *set->run, compare_identities);
  for (int i = 1; i < set->runs; i++) {
    struct run *run = &set->run[i];
    if (strcmp(run->identity, run[-1].identity) != 0) continue;
    memcpy(run->kind, run[-1].kind, sizeof run->kind);
    run->rank = run[-1].rank;
  }
}

/* --- labels -------------------------------------------------------------------------------------------- */

const char *group_value(const struct run_group *group, const struct key *key)
{
  const char *value = run_parameter(group->run->file, key->name);
  return value ? value : key->standard;
}

/* Has another group of the same kind another value? */
static int differs(const struct runset *set, const struct run_group *group, const struct key *key)
{
  for (int g = 0; g < set->groups; g++) {
    const struct run_group *other = &set->group[g];
    if (strcmp(other->run->kind, group->run->kind) == 0 &&
        strcmp(group_value(other, key), group_value(group, key)) != 0)
      return 1;
  }
  return 0;
}

static const char *last_part(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

/* A difference that can be said: one group has it, the other lacks it. */
static int is_said(const struct runset *set, const struct run_group *group, const struct key *key)
{
  const char *value = group_value(group, key);
  return *value && strcmp(value, "none") != 0 && differs(set, group, key);
}

static void label_groups(struct runset *set, struct keys *keys)
{
  unsigned char *said = memory_new(keys->count + 1, 1);
  for (size_t k = 0; k < keys->count; k++)
    for (int g = 0; g < set->groups && !said[k]; g++)
      said[k] = (unsigned char)is_said(set, &set->group[g], &keys->key[k]);
  for (size_t k = 0; k < keys->count; k++)
    for (size_t j = 0; j < keys->count && said[k]; j++)
      if (j != k && said[j] && strcmp(last_part(keys->key[j].name), last_part(keys->key[k].name)) == 0)
        keys->key[k].clashes = 1;
  for (int g = 0; g < set->groups; g++) {
    struct run_group *group = &set->group[g];
    snprintf(group->label, sizeof group->label, "%s", group->run->kind);
    for (size_t k = 0; k < keys->count; k++) {
      const struct key *key = &keys->key[k];
      size_t length = strlen(group->label);
      if (said[k] && is_said(set, group, key))
        snprintf(group->label + length, sizeof group->label - length, " %s=%s",
                 key->clashes ? key->name : last_part(key->name), group_value(group, key));
    }
  }
  memory_free(said);
}

static int compare_labels(const void *a, const void *b)
{
  const struct run_group *const *x = a, *const *y = b;
  return strcmp((*x)->label, (*y)->label);
}

/* Groups that differ in what no key tells, the text, are told apart by it. */
static void tell_data_apart(struct runset *set)
{
  struct run_group **by_label = memory_new((size_t)set->groups + 1, sizeof *by_label);
  for (int g = 0; g < set->groups; g++) by_label[g] = &set->group[g];
  qsort(by_label, (size_t)set->groups, sizeof *by_label, compare_labels);
  for (int first = 0, end; first < set->groups; first = end) {
    for (end = first + 1; end < set->groups && !strcmp(by_label[first]->label, by_label[end]->label);) end++;
    for (int g = first; g < end && end > first + 1; g++) {
      struct run_group *group = by_label[g];
      size_t length = strlen(group->label);
      const char *path = run_parameter_or(group->run, "data.path", ""), *slash = strrchr(path, '/');
      snprintf(group->label + length, sizeof group->label - length, " %s%.12s",
               *path ? slash ? slash + 1 : path : "start of ", *path ? "" : run_id(group->run->file));
    }
  }
  memory_free(by_label);
}

void runset_group(struct runset *set, struct keys *keys)
{
  share_names(set);
  qsort(set->run, (size_t)set->runs, sizeof *set->run, compare_runs);
  set->group = memory_new((size_t)set->runs + 1, sizeof *set->group);
  for (int i = 0; i < set->runs; i++) {
    struct run *run = &set->run[i];
    if (i == 0 || strcmp(run->identity, run[-1].identity) != 0) set->group[set->groups++].run = run;
    set->group[set->groups - 1].count++;
  }
  label_groups(set, keys);
  tell_data_apart(set);
}
