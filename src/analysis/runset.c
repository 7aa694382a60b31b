/* runset.c - run files and folders opened, and what is read of one */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "base/text.h"

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
  run->identity = run_identity(run, o->keys);
  run->path = memory_text(path);
  run->seed = strtol(run_parameter_or(run, "train.seed", "0"), NULL, 10);
  run_name_kind(run);
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
    runset_group(set, &keys);
  memory_free(keys.key);
  return status;
}

void run_free(struct run *run)
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

/* --- what counts in a mean ------------------------------------------------------------------------------ */

int run_is_diverged(const struct run *run) { return strcmp(run_state(run->file), "diverged") == 0; }

int run_group_counted(const struct run_group *group, const struct run **out)
{
  int count = 0;
  for (int i = 0; i < group->count; i++)
    if (!run_is_diverged(&group->run[i])) out[count++] = &group->run[i];
  return count;
}

/* --- reading ------------------------------------------------------------------------------------------- */

const char *run_parameter_or(const struct run *run, const char *key, const char *otherwise)
{
  const char *value = run_parameter(run->file, key);
  return value && *value ? value : otherwise;
}

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
  const char *stack = run_parameter_or(run, "stabilizers", "none");
  return text_split(stack, '+', is_qk_clip, NULL) ? run_number(run, "qk_clip.tau", NAN) : NAN;
}
