/* runset.c - several run files, grouped by everything but their seed */
#include "app/runset.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/preset.h"

/* --- which parameters count ---------------------------------------------------------------------------- */

struct key_search {
  const char *key;
  int is_free;
};

static int look_at_key(void *context, const struct config_entry *entry)
{
  struct key_search *search = context;
  if (strcmp(entry->key, search->key) != 0) return 0;
  search->is_free = (entry->row->flags & OPTION_FREE) != 0;
  return 1;
}

/* The seed, the preset's name (its settings are stored too) and keys that cannot change the numbers. */
static int key_is_free(const struct config *config, const char *key)
{
  struct key_search search = {key, 0};
  if (strcmp(key, "train.seed") == 0 || strcmp(key, "preset") == 0) return 1;
  config_each(config, look_at_key, &search);
  return search.is_free;
}

struct identity {
  const struct config *config;
  struct buffer text;
};

static int add_to_identity(void *context, const char *key, const char *value)
{
  struct identity *identity = context;
  if (!key_is_free(identity->config, key)) buffer_add(&identity->text, "%s=%s\n", key, value);
  return 0;
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

static const char *parameter_or(const struct run *run, const char *key, const char *otherwise)
{
  const char *value = run_parameter(run->file, key);
  return value && *value ? value : otherwise;
}

static void name_kind(struct run *run)
{
  const char *optimizer = parameter_or(run, "optimizer", "?");
  const char *stabilizers = parameter_or(run, "stabilizers", "none");
  for (run->rank = 0; presets[run->rank].name; run->rank++) {
    if (text_split(presets[run->rank].settings, ' ', setting_differs, run) != 0) continue;
    snprintf(run->kind, sizeof run->kind, "%s", presets[run->rank].name);
    return;
  }
  if (strcmp(stabilizers, "none") == 0)
    snprintf(run->kind, sizeof run->kind, "%s", optimizer);
  else
    snprintf(run->kind, sizeof run->kind, "%.30s+%.30s", optimizer, stabilizers);
}

/* --- opening ------------------------------------------------------------------------------------------- */

struct opening {
  struct runset *set;
  const struct config *config;
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
  struct identity identity = {o->config, {0}};
  run_parameters(run->file, add_to_identity, &identity);
  run->identity = identity.text.text ? identity.text.text : memory_text("");
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

struct difference {
  const struct runset *set;
  struct run_group *group;
  const struct config *config;
};

/* Add " lr=0.01" where another group of the same kind has another value. */
static int label_difference(void *context, const char *key, const char *value)
{
  struct difference *d = context;
  if (key_is_free(d->config, key)) return 0;
  for (int g = 0; g < d->set->groups; g++) {
    const struct run *other = d->set->group[g].run;
    if (strcmp(other->kind, d->group->run->kind) != 0) continue;
    if (strcmp(parameter_or(other, key, ""), value) == 0) continue;
    const char *dot = strrchr(key, '.');
    size_t length = strlen(d->group->label);
    snprintf(d->group->label + length, sizeof d->group->label - length, " %s=%s", dot ? dot + 1 : key, value);
    break;
  }
  return 0;
}

static void make_groups(struct runset *set, const struct config *config)
{
  qsort(set->run, (size_t)set->runs, sizeof *set->run, compare_runs);
  set->group = memory_new((size_t)set->runs + 1, sizeof *set->group);
  for (int i = 0; i < set->runs; i++) {
    struct run *run = &set->run[i];
    int same = i > 0 && strcmp(run->kind, run[-1].kind) == 0 && strcmp(run->identity, run[-1].identity) == 0;
    if (!same) set->group[set->groups++].run = run;
    set->group[set->groups - 1].count++;
  }
  for (int g = 0; g < set->groups; g++) {
    struct difference d = {set, &set->group[g], config};
    snprintf(d.group->label, sizeof d.group->label, "%s", d.group->run->kind);
    run_parameters(d.group->run->file, label_difference, &d);
  }
}

int runset_open(struct runset *set, char *const *paths, int count, unsigned flags, struct error *error)
{
  struct config *config = config_new();
  struct opening o = {set, config, flags};
  int status = STATUS_OK;
  *set = (struct runset){0};
  for (int i = 0; i < count && !status; i++) {
    struct stat info;
    if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
      status = add_folder(&o, paths[i], error);
    else
      status = add_run(&o, paths[i], error);
  }
  if (!status && set->runs == 0) status = error_set(error, STATUS_USAGE, "no run with a recorded step");
  if (status)
    runset_close(set);
  else
    make_groups(set, config);
  config_free(config);
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
    make_groups(set, config);
  }
  config_free(config);
  return status;
}

struct differences {
  const struct runset *set;
  const struct config *config;
  struct buffer text;
};

static int add_difference(void *context, const char *key, const char *value)
{
  struct differences *d = context;
  char line[100];
  int differs = 0;
  (void)value;
  snprintf(line, sizeof line, "\n  %.90s =", key);
  if (key_is_free(d->config, key) || (d->text.text && strstr(d->text.text, line))) return 0;
  for (int g = 1; g < d->set->groups && !differs; g++) {
    const struct run *run = d->set->group[g].run,
                     *before = d->set->group[g - 1].run; /* kinds stand together */
    differs = strcmp(run->kind, before->kind) == 0 && strcmp(value_of(run, key), value_of(before, key)) != 0;
  }
  if (!differs) return 0;
  buffer_add(&d->text, "\n  ");
  add_values(&d->text, d->set, key);
  return 0;
}

char *runset_differences(const struct runset *set)
{
  struct config *config = config_new();
  struct differences d = {set, config, {0}};
  buffer_add(&d.text, "\n  ");
  if (add_values(&d.text, set, "kind") < 2) {
    memory_free(d.text.text);
    d.text = (struct buffer){0};
    buffer_add(&d.text, "%s", "");
  }
  for (int g = 0; g < set->groups; g++) run_parameters(set->group[g].run->file, add_difference, &d);
  config_free(config);
  return d.text.text;
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
