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

void runset_close(struct runset *set)
{
  for (int i = 0; i < set->runs; i++) {
    run_close(set->run[i].file);
    memory_free(set->run[i].path);
    memory_free(set->run[i].identity);
  }
  memory_free(set->run);
  memory_free(set->group);
  *set = (struct runset){0};
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
