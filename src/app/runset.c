/* runset.c - several run files, grouped by everything but their seed */
#include "app/runset.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/preset.h"

/* --- which parameters count ---------------------------------------------------------------------------- */

/* A key that tells groups apart. Not so the seed, the preset's name (its settings are stored too), keys that
   cannot change the numbers, and names of sources whose content counts. */
struct key {
  char name[96], standard[64];
  int clashes; /* among the differences of this set another key has the same last part */
};
struct keys {
  struct key *key;
  size_t count;
};

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

static void keys_init(struct keys *keys)
{
  struct config *config = config_new();
  *keys = (struct keys){0};
  config_each(config, add_key, keys);
  config_free(config);
  qsort(keys->key, keys->count, sizeof *keys->key, compare_keys);
}

static const char *parameter_or(const struct run *run, const char *key, const char *otherwise)
{
  const char *value = run_parameter(run->file, key);
  return value && *value ? value : otherwise;
}

/* A key that a file does not have counts as at its default. */
static char *identity_of(const struct run *run, const struct keys *keys)
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
    buffer_add(&text, "data %s start %s\n", parameter_or(run, "data.path", ""),
               parameter_or(run, "train.init_from", ""));
  return text.text;
}

/* --- the name of what a run does ----------------------------------------------------------------------- */

static int setting_differs(void *context, const char *setting)
{
  const struct run *run = context;
  const char *equals = strchr(setting, '=');
  if (!equals) return 0;
  char key[96];
  snprintf(key, sizeof key, "%.*s", (int)(equals - setting), setting);
  const char *value = run_parameter(run->file, key);
  return !value || strcmp(value, equals + 1) != 0;
}

static int has_settings(struct run *run, int preset)
{
  return text_split(presets[preset].settings, ' ', setting_differs, run) == 0;
}

static int count_one(void *count, const char *part)
{
  (void)part;
  ++*(int *)count;
  return 0;
}

/* The preset that the run was given, if later keys have left it as it is; else the one that says most of what
   the run has; -1: none. */
static int preset_of(struct run *run)
{
  const char *given = parameter_or(run, "preset", "");
  int best = -1, most = 0;
  for (int i = 0; presets[i].name; i++) {
    int settings = 0;
    if (!has_settings(run, i)) continue;
    if (strcmp(presets[i].name, given) == 0) return i;
    text_split(presets[i].settings, ' ', count_one, &settings);
    if (settings >= most) best = i, most = settings;
  }
  return best;
}

static void name_kind(struct run *run)
{
  const char *stabilizers = parameter_or(run, "stabilizers", "none");
  int preset = preset_of(run), is_bare = strcmp(stabilizers, "none") == 0;
  const char *name = preset < 0 ? parameter_or(run, "optimizer", "?") : presets[preset].name;
  if (preset >= 0 && strstr(presets[preset].settings, "stabilizers=")) is_bare = 1; /* the name says them */
  snprintf(run->kind, sizeof run->kind, "%.40s%s%.50s", name, is_bare ? "" : "+", is_bare ? "" : stabilizers);
  for (run->rank = 0; presets[run->rank].name; run->rank++)
    if (run->rank == preset) break;
}

/* --- opening ------------------------------------------------------------------------------------------- */

struct opening {
  struct runset *set;
  const struct keys *keys;
  unsigned flags;
};

static int is_empty(const struct run_file *file)
{
  struct run_series loss;
  if (run_read(file, "loss", &loss, NULL) != STATUS_OK) return 1;
  int empty = loss.rows == 0;
  run_series_free(&loss);
  return empty;
}

static int add_run(const struct opening *o, const char *path, struct error *error)
{
  struct runset *set = o->set;
  set->run = memory_grow(set->run, (size_t)set->runs, (size_t)set->runs + 1, sizeof *set->run);
  struct run *run = &set->run[set->runs];
  int status = run_open(&run->file, path, error);
  if (status) return status;
  if ((o->flags & RUNSET_RECORDED) && is_empty(run->file)) {
    warning("%s: no step recorded yet, left out", path);
    run_close(run->file);
    return STATUS_OK;
  }
  run->identity = identity_of(run, o->keys);
  run->path = memory_text(path);
  run->seed = strtol(parameter_or(run, "train.seed", "0"), NULL, 10);
  name_kind(run);
  set->runs++;
  return STATUS_OK;
}

static int is_run_name(const struct dirent *entry)
{
  size_t length = strlen(entry->d_name);
  return length > 3 && strcmp(entry->d_name + length - 3, ".h5") == 0;
}

static int add_folder(const struct opening *o, const char *path, struct error *error)
{
  struct dirent **list;
  int n = scandir(path, &list, is_run_name, alphasort), status = STATUS_OK;
  if (n == 0) status = error_set(error, STATUS_USAGE, "%s: no run file (*.h5) in this folder", path);
  if (n < 0) return error_set(error, STATUS_USAGE, "%s: cannot be read", path);
  for (int i = 0; i < n; i++) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", path, list[i]->d_name);
    if (!status) status = add_run(o, full, error);
    free(list[i]);
  }
  free(list);
  return status;
}

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

static int compare_ids(const void *a, const void *b)
{
  const struct run *const *x = a, *const *y = b;
  int order = strcmp(run_id((*x)->file), run_id((*y)->file));
  return order ? order : strcmp((*x)->path, (*y)->path);
}

static int check_once(const struct runset *set, struct error *error)
{
  const struct run **by_id = memory_new((size_t)set->runs + 1, sizeof *by_id);
  int status = STATUS_OK;
  for (int i = 0; i < set->runs; i++) by_id[i] = &set->run[i];
  qsort(by_id, (size_t)set->runs, sizeof *by_id, compare_ids);
  for (int i = 1; i < set->runs && !status; i++)
    if (strcmp(run_id(by_id[i - 1]->file), run_id(by_id[i]->file)) == 0)
      status = error_set(error, STATUS_USAGE,
                         "%s and %s are the same run (id %s), which would count as two seeds; give it once",
                         by_id[i - 1]->path, by_id[i]->path, run_id(by_id[i]->file));
  memory_free(by_id);
  return status;
}

/* --- labels -------------------------------------------------------------------------------------------- */

static const char *group_value(const struct run_group *group, const struct key *key)
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
      const char *path = parameter_or(group->run, "data.path", ""), *slash = strrchr(path, '/');
      snprintf(group->label + length, sizeof group->label - length, " %s%.12s",
               *path ? slash ? slash + 1 : path : "start of ", *path ? "" : run_id(group->run->file));
    }
  }
  memory_free(by_label);
}

static void make_groups(struct runset *set, struct keys *keys)
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

int runset_open(struct runset *set, char *const *paths, int count, unsigned flags, struct error *error)
{
  struct keys keys;
  struct opening o = {set, &keys, flags};
  int status = STATUS_OK;
  *set = (struct runset){0};
  keys_init(&keys);
  for (int i = 0; i < count && !status; i++) {
    struct stat info;
    if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
      status = add_folder(&o, paths[i], error);
    else
      status = add_run(&o, paths[i], error);
  }
  if (!status && set->runs == 0) status = error_set(error, STATUS_USAGE, "no run with a recorded step");
  if (!status && flags & RUNSET_ONCE) status = check_once(set, error);
  if (status)
    runset_close(set);
  else
    make_groups(set, &keys);
  memory_free(keys.key);
  return status;
}

static void run_free(struct run *run)
{
  run_close(run->file);
  memory_free(run->path);
  memory_free(run->identity);
}

void runset_close(struct runset *set)
{
  for (int i = 0; i < set->runs; i++) run_free(&set->run[i]);
  memory_free(set->run);
  memory_free(set->group);
  *set = (struct runset){0};
}

/* --- choosing ------------------------------------------------------------------------------------------ */

static const char *value_of(const struct run *run, const char *key)
{
  return strcmp(key, "kind") == 0 ? run->kind : parameter_or(run, key, "");
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
    make_groups(set, &keys);
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

/* --- reading ------------------------------------------------------------------------------------------- */

double run_number(const struct run *run, const char *key, double otherwise)
{
  const char *value = run_parameter(run->file, key);
  char *end;
  double number = value ? strtod(value, &end) : otherwise;
  return value && (end == value || *end) ? otherwise : number;
}

int run_table(const struct run *run, const char *series, struct table *table, struct error *error)
{
  struct run_series data;
  int status = run_read(run->file, series, &data, error);
  if (status) return error_prefix(error, "%s", run->path);
  table_from_series(table, &data, 0, -1, -1);
  run_series_free(&data);
  return STATUS_OK;
}

static int is_qk_clip(void *context, const char *part)
{
  (void)context;
  return strcmp(part, "qk_clip") == 0;
}

double run_threshold(const struct run *run)
{
  const char *stack = parameter_or(run, "stabilizers", "none");
  return text_split(stack, '+', is_qk_clip, NULL) ? run_number(run, "qk_clip.tau", NAN) : NAN;
}
