/* config.c - a configuration is the list of its assignments in the order they were written
   config_finish applies the list to the option structs. So a preset takes effect at its place in the list, and a
   sweep's point is the same list with one value chosen from each. */
#include "config/config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/options.h"
#include "config/state.h"
#include "config/preset.h"

/* --- sections and keys --------------------------------------------------------------------------------- */

/* The start of every configuration, built once and never changed: all keys, and each section with its defaults. */
struct blank {
  struct arena *arena;
  struct key *keys; /* base: not set */
  int *by_name;     /* indices of keys, sorted by name */
  void **structs;   /* one per section */
  int sections, key_count;
};

static const struct key *sorting;

static int by_key_name(const void *a, const void *b)
{
  return strcmp(sorting[*(const int *)a].name, sorting[*(const int *)b].name);
}

static const struct blank *blank(void)
{
  static struct blank made;
  if (made.keys) return &made;
  const struct config_section *sections = config_sections();
  struct arena *arena = arena_new();
  struct blank b = {.arena = arena};
  for (; sections[b.sections].rows; b.sections++)
    for (const struct option_row *row = sections[b.sections].rows; row->name; row++) b.key_count++;
  b.structs = arena_get(arena, (size_t)b.sections, sizeof *b.structs);
  b.keys = arena_get(arena, (size_t)b.key_count, sizeof *b.keys);
  b.by_name = arena_get(arena, (size_t)b.key_count, sizeof *b.by_name);
  struct key *key = b.keys;
  for (int i = 0; i < b.sections; i++) {
    const struct config_section *s = &sections[i];
    b.structs[i] = arena_get(arena, 1, s->size);
    option_defaults(s->rows, b.structs[i]);
    for (const struct option_row *row = s->rows; row->name; row++)
      *key++ = (struct key){arena_format(arena, "%s%s%s", s->prefix, *s->prefix ? "." : "", row->name), row,
                            s, NULL, NULL};
  }
  for (int i = 0; i < b.key_count; i++) b.by_name[i] = i;
  sorting = b.keys;
  qsort(b.by_name, (size_t)b.key_count, sizeof *b.by_name, by_key_name);
  return made = b, &made;
}

void config_set_defaults(struct config *c)
{
  const struct blank *b = blank();
  for (int i = 0; i < b->sections; i++) memcpy(c->structs[i], b->structs[i], c->sections[i].size);
}

struct config *config_new(void)
{
  const struct blank *b = blank();
  struct config *c = memory_new(1, sizeof *c);
  c->arena = arena_new();
  c->sections = config_sections();
  c->structs = arena_get(c->arena, (size_t)b->sections, sizeof *c->structs);
  for (int i = 0; i < b->sections; i++) c->structs[i] = arena_get(c->arena, 1, c->sections[i].size);
  c->key_count = b->key_count;
  c->keys = arena_get(c->arena, (size_t)b->key_count, sizeof *c->keys);
  memcpy(c->keys, b->keys, (size_t)b->key_count * sizeof *c->keys);
  for (int i = 0; i < b->key_count; i++) c->keys[i].base = c->structs[c->keys[i].section - c->sections];
  config_set_defaults(c);
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

int config_find_key(const struct config *c, const char *name)
{
  const int *by_name = blank()->by_name;
  int low = 0, high = c->key_count;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(name, c->keys[by_name[middle]].name);
    if (!order) return by_name[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return -1;
}

/* Names that other programs use. */
static const struct {
  const char *theirs, *ours;
} synonyms[] = {
  {"out", "record.path"},
  {"output", "record.path"},
  {"name", "record.path"},
  {"logdir", "record.path"},
  {"learning_rate", "train.lr"},
  {"wd", "train.weight_decay"},
  {"epochs", "train.steps"},
  {"iters", "train.steps"},
  {"iterations", "train.steps"},
  {"max_steps", "train.steps"},
  {"batch_size", "train.batch"},
  {"warmup_steps", "train.warmup"},
  {"max_norm", "train.grad_clip"},
  {"scheduler", "train.schedule"},
  {"tau", "qk_clip.tau"},
  {"momentum", "muon.momentum"},
  {"seq_len", "model.context"},
  {"block_size", "model.context"},
  {"d_model", "model.width"},
  {"hidden_size", "model.width"},
  {"n_embd", "model.width"},
  {"dim", "model.width"},
  {"n_layer", "model.layers"},
  {"num_layers", "model.layers"},
  {"n_head", "model.heads"},
  {"num_heads", "model.heads"},
  {"vocab_size", "model.vocab"},
  {"dataset", "data"},
  {"log_every", "record.every"},
  {"save_every", "checkpoint.every"},
  {"eval_every", "train.val_every"},
  {"grad_accum", "train.micro_batches"},
  {"opt", "optimizer"},
};

const char *config_near_key(const struct config *c, const char *name)
{
  const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (!strcmp(synonyms[i].theirs, last)) return synonyms[i].ours;
  for (int i = 0; i < c->key_count && !dot; i++)
    if (!strcmp(c->keys[i].row->name, name)) return c->keys[i].name;
  const char **names = memory_new((size_t)c->key_count, sizeof *names);
  for (int i = 0; i < c->key_count; i++) names[i] = c->keys[i].name;
  const char *near = text_nearest(name, names, (size_t)c->key_count);
  for (int i = 0; i < c->key_count && !near; i++)
    if (!strcmp(c->keys[i].row->name, last)) near = names[i];
  memory_free(names);
  return near;
}

/* Keys of earlier versions, with the values that had no effect; NULL: any. */
static const char *const removed[][2] = {
  {"record.dense", "0"}, {"record.dense_level", NULL}, {"record.dense_around", NULL}};
enum { REMOVED = sizeof removed / sizeof *removed };

static int find_removed(const char *name)
{
  int i = 0;
  while (i < REMOVED && strcmp(removed[i][0], name)) i++;
  return i;
}

int config_is_ignored(const char *name, const char *value)
{
  int i = find_removed(name);
  return i < REMOVED && (!removed[i][1] || !strcmp(removed[i][1], value + strspn(value, " ")));
}

int config_unknown_key(const struct config *c, const char *name, struct error *e)
{
  if (find_removed(name) < REMOVED)
    return error_set(
      e, STATUS_USAGE,
      "removed; `maxlogit rerun RUN.h5 --from STEP record.every=1 record.probe_every=1` records "
      "any steps again, to the same bits");
  const char *near = config_near_key(c, name);
  if (near) return error_set(e, STATUS_USAGE, "unknown key; did you mean '%s'?", near);
  return error_set(e, STATUS_USAGE, "unknown key; all keys: maxlogit help config");
}

/* --- assignments ---------------------------------------------------------------------------------------- */

void config_add(struct config *c, struct assignment a)
{
  if (c->count == c->room) {
    c->list = memory_grow(c->list, (size_t)c->count, 2 * (size_t)c->room + 16, sizeof *c->list);
    c->room = 2 * c->room + 16;
  }
  c->list[c->count++] = a;
}

const char **config_values_new(struct config *c, int count)
{
  return arena_get(c->arena, (size_t)count, sizeof(const char *));
}

int config_set(struct config *c, const char *name, const char *value, const char *origin, struct error *e)
{
  int index = config_find_key(c, name);
  if (index < 0 && config_is_ignored(name, value)) return STATUS_OK;
  int status = index < 0 ? config_unknown_key(c, name, e) : config_check_value(&c->keys[index], value, e);
  if (status) return e ? error_prefix(e, "%s: %s", origin, name) : status;
  struct assignment a = {index, arena_text(c->arena, origin), 1, config_values_new(c, 1), 0};
  a.value[0] = config_keep_value(c, &c->keys[index], value);
  config_add(c, a);
  return STATUS_OK;
}

/* --- presets --------------------------------------------------------------------------------------------- */

static const struct preset *find_preset(const char *name)
{
  const struct preset *p = presets;
  while (p->name && strcmp(p->name, name)) p++;
  return p->name ? p : NULL;
}

int config_is_preset(const struct config *c, int key) { return !strcmp(c->keys[key].name, "preset"); }

int config_preset_settings(const struct config *c, const char *name,
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
    int key = config_find_key(c, word);
    if (key < 0) BUG("preset %s: unknown key %s", name, word);
    result = each(context, key, value);
  }
  memory_free(settings);
  return result;
}
