/* runset.c - run files and folders opened and put in order; reading one run */
#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/runset_parts.h"
#include "base/file.h"
#include "base/markup.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"
#include "config/plugin.h"
#include "storage/layout.h"

/* --- opening ------------------------------------------------------------------------------------------- */

struct opening {
  struct runset *set;
  const struct keys *keys;
  unsigned flags;
  struct error *damage; /* of the files that cannot be read */
  int damaged;
};

/* One broken file of many is no reason to show none of the others. */
static void leave_out(struct opening *o, struct error *error)
{
  o->damage = memory_grow(o->damage, (size_t)o->damaged, (size_t)o->damaged + 1, sizeof *o->damage);
  o->damage[o->damaged++] = *error;
  *error = (struct error){0};
}

static int has_rows(void *file, const char *series) { return run_rows(file, series) > 0; }

static int is_empty(struct run_file *file) { return !run_series_names(file, has_rows, file); }

static void warn_of_journal(const struct run_file *file, const char *path)
{
  if (!run_has_journal_of_recording(file)) return;
  char *word = shell_word(path);
  warning("%s: its program was killed, and its journal may have more steps: `maxlogit resume %s` puts them "
          "into the file",
          path, word);
  memory_free(word);
}

/* A run that is named must be there. Of a folder, a link may lead nowhere, or a file may be gone by now. */
static int add_run(struct opening *o, const char *path, int is_named, struct error *error)
{
  struct runset *set = o->set;
  set->run = memory_grow(set->run, (size_t)set->runs, (size_t)set->runs + 1, sizeof *set->run);
  struct run *run = &set->run[set->runs];
  if (run_peek(&run->file, path, error)) {
    if (is_named && access(path, F_OK)) return error->status;
    leave_out(o, error);
    return STATUS_OK;
  }
  if (!(o->flags & RUNSET_FIRST)) warn_of_journal(run->file, path); /* the page has those steps */
  if ((o->flags & RUNSET_RECORDED) && is_empty(run->file)) {
    warning("%s: no step recorded yet, left out", path);
    run_close(run->file);
    return STATUS_OK;
  }
  run->identity = run_identity(run, o->keys);
  run->path = memory_text(path);
  run->shown = text_cleaned(path, "");
  run->seed = strtol(run_parameter_or(run, "train.seed", run_parameter_or(run, "seed", "0")), NULL, 10);
  run_name_kind(run);
  set->runs++;
  return STATUS_OK;
}

static int is_run_name(const struct dirent *entry) { return run_stem(entry->d_name) > 0; }

static int has_runs(const char *path)
{
  struct dirent **list;
  int n = scandir(path, &list, is_run_name, NULL);
  for (int i = 0; i < n; i++) free(list[i]);
  if (n >= 0) free(list);
  return n > 0;
}

/* May a folder of this name hold runs? A run's own holds checkpoints. */
static int is_folder_name(const struct dirent *entry)
{
  return *entry->d_name != '.' && !text_ends_with(entry->d_name, ".ckpt");
}

/* Runs of sweeps lie a folder deeper: the first of those is named. */
static int no_run_in(const char *path, struct error *error)
{
  struct dirent **list;
  char below[4096] = "";
  int n = scandir(path, &list, is_folder_name, alphasort), found = 0;
  for (int i = 0; i < n; i++) {
    if (!found) {
      snprintf(below, sizeof below, "%s/%s", path, list[i]->d_name);
      found = has_runs(below);
    }
    free(list[i]);
  }
  if (n >= 0) free(list);
  return error_set(error, STATUS_USAGE, "%s: no run file (*.h5) in this folder%s%s%s", path,
                   found ? "; did you mean " : "", found ? below : "", found ? "?" : "");
}

static int add_folder(struct opening *o, const char *path, struct error *error)
{
  struct dirent **list;
  int n = scandir(path, &list, is_run_name, alphasort), status = STATUS_OK;
  if (n == 0) status = no_run_in(path, error);
  if (n < 0) return error_set(error, STATUS_USAGE, "%s: cannot be read", path);
  for (int i = 0; i < n; i++) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", path, list[i]->d_name);
    if (!status) status = add_run(o, full, 0, error);
    free(list[i]);
  }
  free(list);
  return status;
}

static int compare_ids(const void *a, const void *b)
{
  const struct run *const *x = a, *const *y = b;
  int order = strcmp(run_id((*x)->file), run_id((*y)->file));
  const long steps = run_last_step((*x)->file), others = run_last_step((*y)->file);
  if (!order) order = (steps < others) - (steps > others);
  return order ? order : strcmp((*x)->path, (*y)->path);
}

/* RUNSET_ONCE: the same run given twice is an error; RUNSET_FIRST: the one with the most steps stays. */
static int check_once(struct runset *set, unsigned flags, struct error *error)
{
  struct run **by_id = memory_new((size_t)set->runs + 1, sizeof *by_id);
  int status = STATUS_OK, kept = 0;
  for (int i = 0; i < set->runs; i++) by_id[i] = &set->run[i];
  qsort(by_id, (size_t)set->runs, sizeof *by_id, compare_ids);
  for (int i = 1; i < set->runs && !status; i++) {
    if (strcmp(run_id(by_id[i - 1]->file), run_id(by_id[i]->file)) != 0) continue;
    if (strcmp(by_id[i - 1]->identity, by_id[i]->identity) != 0) continue; /* continued with other settings */
    if (flags & RUNSET_FIRST) {
      by_id[i]->is_copy = 1;
      snprintf(set->copy, sizeof set->copy, "%s is a copy of %s", by_id[i]->shown, by_id[i - 1]->shown);
    } else
      status = error_set(error, STATUS_USAGE,
                         "%s and %s are the same run (id %s), which would count as two seeds; give it once",
                         by_id[i - 1]->path, by_id[i]->path, run_id(by_id[i]->file));
  }
  memory_free(by_id);
  for (int i = 0; i < set->runs; i++)
    if (set->run[i].is_copy)
      run_free(&set->run[i]), set->copies++;
    else
      set->run[kept++] = set->run[i];
  set->runs = kept;
  return status;
}

static int open_paths(struct opening *o, const struct selection *selection, struct error *error)
{
  int status = STATUS_OK;
  for (int i = 0; i < selection->paths && !status; i++) {
    const char *path = selection->path[i];
    if (access(path, F_OK) && strchr(path, '='))
      return error_set(error, STATUS_USAGE, "%s: no such file; a condition is --where '%s'", path, path);
    status = file_is_folder(path) ? add_folder(o, path, error) : add_run(o, path, 1, error);
  }
  if (!status && o->set->runs == 0 && !o->damaged)
    status = error_set(error, STATUS_USAGE, "no run with a recorded step");
  return status;
}

/* Summaries of files were enough to choose runs; the whole file of each chosen run is checked now. */
static void keep_readable(struct opening *o, struct error *error)
{
  struct runset *set = o->set;
  int kept = 0;
  for (int i = 0; i < set->runs; i++) {
    if (!run_check(set->run[i].file, error)) {
      set->run[kept++] = set->run[i];
      continue;
    }
    leave_out(o, error);
    run_free(&set->run[i]);
  }
  set->runs = kept;
}

/* Name the files that were left out; if no run remains, the first reason is the error. */
static int tell_damage(struct opening *o, int status, struct error *error)
{
  int first = 0;
  if (o->damaged) o->set->damage = STATUS_FAIL;
  if (o->damaged && !status && o->set->runs == 0) {
    *error = o->damage[first++];
    status = error->status;
  }
  for (int i = first; i < o->damaged; i++) message("left out: %s", o->damage[i].text);
  memory_free(o->damage);
  return status;
}

/* --- order --------------------------------------------------------------------------------------------- */

struct runset_order {
  char key[96];
  int by_metric;
  int downwards;
};

static int compare_by_order(const void *a, const void *b, void *context)
{
  const struct run *x = *(struct run *const *)a, *y = *(struct run *const *)b;
  const struct runset_order *o = context;
  const int unknown = o->by_metric ? isnan(x->metric) - isnan(y->metric) : 0; /* last, whichever the order */
  if (unknown) return unknown;
  int order = o->by_metric ? (x->metric > y->metric) - (x->metric < y->metric) : run_order(x, y, o->key);
  if (o->downwards) order = -order;
  return order ? order : (x > y) - (x < y); /* else as they stand */
}

static int read_order(struct runset_order *o, const struct selection *selection, const struct runset *set,
                      struct error *error)
{
  const char *sort = selection->sort ? selection->sort : "date";
  struct key_list keys = {0};
  o->downwards = *sort == '-';
  o->by_metric = is_metric_name(sort + o->downwards);
  if (o->by_metric) {
    text_fill(o->key, sizeof o->key, sort + o->downwards);
    return STATUS_OK;
  }
  int status = key_list_read(&keys, "--sort", sort + o->downwards, set, error);
  if (!status && keys.count != 1)
    status = error_set(error, STATUS_USAGE, "--sort=%s: one key is wanted", sort);
  if (!status) snprintf(o->key, sizeof o->key, "%s", keys.name[0]);
  key_list_free(&keys);
  return status;
}

static void list_runs(struct runset *set, const struct runset_order *o)
{
  memory_free(set->list);
  set->list = memory_new((size_t)set->runs + 1, sizeof *set->list);
  for (int i = 0; i < set->runs; i++) set->list[i] = &set->run[i];
  if (o)
    platform_sort(set->list, (size_t)set->runs, sizeof *set->list, compare_by_order, (void *)(uintptr_t)o);
}

static void keep_last(struct runset *set, long last, const struct runset_order *o)
{
  list_runs(set, o);
  struct run *kept = memory_new((size_t)set->runs + 1, sizeof *kept);
  int count = last < set->runs ? (int)last : set->runs, dropped = set->runs - count;
  for (int i = 0; i < set->runs; i++) {
    if (i < dropped)
      run_free(set->list[i]);
    else
      kept[i - dropped] = *set->list[i];
  }
  memory_free(set->run);
  set->run = kept;
  set->runs = count;
}

/* Groups in the order of the first of their runs. */
static void order_groups(struct runset *set)
{
  struct run_group *ordered = memory_new((size_t)set->runs + 1, sizeof *ordered);
  int *group_of = memory_new((size_t)set->runs + 1, sizeof *group_of), count = 0;
  for (int g = 0; g < set->groups; g++)
    for (int i = 0; i < set->group[g].count; i++) group_of[set->group[g].run - set->run + i] = g;
  for (int i = 0; i < set->runs; i++) {
    struct run_group *group = &set->group[group_of[set->list[i] - set->run]];
    if (!group->count) continue;
    ordered[count++] = *group;
    group->count = 0;
  }
  memory_free(set->group);
  memory_free(group_of);
  set->group = ordered;
}

static int read_keys(struct key_list *by, const struct selection *selection, const struct runset *set,
                     struct error *error)
{
  const char *const option[] = {"--x", "--y", "--by"}, *const text[] = {selection->x, selection->y,
                                                                        selection->by};
  int status = STATUS_OK;
  for (int i = 0; i < 3 && !status; i++) {
    key_list_free(by);
    if (text[i]) status = key_list_read(by, option[i], text[i], set, error);
  }
  if (!selection->by) key_list_free(by);
  return status;
}

int runset_select(struct runset *set, const struct selection *selection, unsigned flags, struct error *error)
{
  struct keys keys;
  struct key_list by = {0};
  struct runset_order order = {0};
  struct opening o = {.set = set, .keys = &keys, .flags = flags};
  *set = (struct runset){0};
  keys_init(&keys);
  int status = open_paths(&o, selection, error);
  if (!status) status = read_keys(&by, selection, set, error);
  if (!status) status = read_order(&order, selection, set, error);
  if (!status) runset_share_names(set);
  const int by_metric = order.by_metric || runset_keeps_by_metric(selection); /* of files as a whole */
  if (!status && by_metric) keep_readable(&o, error);
  if (!status && set->runs) status = runset_keep(set, selection, error);
  if (!status && set->runs && order.by_metric) status = runset_measure(set, order.key, error);
  if (!status && selection->last) keep_last(set, selection->last, &order);
  if (!status && !by_metric) keep_readable(&o, error);
  status = tell_damage(&o, status, error);
  if (!status && flags & (RUNSET_ONCE | RUNSET_FIRST)) status = check_once(set, flags, error);
  if (status)
    runset_close(set);
  else {
    set->is_bare = (flags & RUNSET_BARE) != 0;
    runset_group(set, &keys, &by);
    if (flags & (RUNSET_RECORDED | RUNSET_MEANS) && !selection->by) runset_warn_of_mixed(set);
    list_runs(set, selection->sort || selection->last ? &order : NULL);
    if (selection->sort) order_groups(set);
  }
  key_list_free(&by);
  memory_free(keys.key);
  return status;
}

int runset_damage(const struct runset *set)
{
  int damage = set->damage;
  for (int i = 0; i < set->runs && !damage; i++)
    if (run_has_unread(set->run[i].file)) damage = STATUS_FAIL;
  return damage;
}

void runset_close(struct runset *set)
{
  for (int i = 0; i < set->runs; i++) run_free(&set->run[i]);
  memory_free(set->run);
  memory_free(set->group);
  memory_free(set->list);
  *set = (struct runset){0};
}

/* --- runs that count in a mean -------------------------------------------------------------------------- */

int runset_over_seeds(const struct runset *set)
{
  for (int g = 0; g < set->groups; g++)
    for (int i = 1; i < set->group[g].count; i++)
      if (strcmp(set->group[g].run[i].identity, set->group[g].run->identity) != 0) return 0;
  return 1;
}

int run_group_unfinished(const struct run_group *group)
{
  int count = 0;
  for (int i = 0; i < group->count; i++) count += run_is_unfinished(&group->run[i]);
  return count;
}

struct run_failures run_group_failures(const struct run_group *group)
{
  struct run_failures f = {0, 0};
  for (int i = 0; i < group->count; i++) {
    int diverged = run_is_diverged(&group->run[i]);
    f.diverged += diverged;
    f.blown_up += !diverged && run_has_failed(&group->run[i]);
  }
  return f;
}

const char *run_failures_text(struct run_failures f, char out[64])
{
  if (f.diverged && f.blown_up)
    snprintf(out, 64, "%d diverged, %d blown up", f.diverged, f.blown_up);
  else
    snprintf(out, 64, "%d %s", f.diverged + f.blown_up, f.blown_up ? "blown up" : "diverged");
  return out;
}

int run_group_counted(const struct run_group *group, const struct run **out)
{
  int count = 0;
  for (int i = 0; i < group->count; i++)
    if (!run_has_failed(&group->run[i])) out[count++] = &group->run[i];
  return count;
}
