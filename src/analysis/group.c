/* group.c - runs that differ only in their seed are one group; names of groups */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/text.h"
#include "config/config.h"
#include "storage/layout.h"

/* --- which parameters count ---------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
  return strcmp(((const struct sort_key *)a)->name, ((const struct sort_key *)b)->name);
}

static int add_key(void *context, const struct config_entry *x)
{
  struct keys *keys = context;
  if (strcmp(x->key, "train.seed") == 0 || strcmp(x->key, "preset") == 0) return 0;
  if (x->row->flags & (OPTION_FREE | OPTION_CONTENT)) return 0;
  keys->key = memory_grow(keys->key, keys->count, keys->count + 1, sizeof *keys->key);
  struct sort_key *key = &keys->key[keys->count++];
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

/* A recording without these keys has no description: only a seed makes it one of several. */
static int is_unnamed(const struct run *run)
{
  static const char *const keys[] = {"optimizer", "stabilizers", "preset", "train.seed", "seed"};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (run_parameter(run->file, keys[k])) return 0;
  return !strcmp(run_data(run->file), DATA_RECORDED);
}

/* A key that a file does not have counts as at its default; of a recording it is unknown. */
static const char *value_or_standard(const struct run *run, const struct sort_key *key)
{
  const char *value = run_parameter(run->file, key->name);
  return value ? value : strcmp(run_data(run->file), DATA_RECORDED) ? key->standard : "";
}

char *run_identity(const struct run *run, const struct keys *keys)
{
  struct buffer text = {0};
  uint64_t data, start;
  for (size_t k = 0; k < keys->count; k++) {
    buffer_add(&text, "%s=%s\n", keys->key[k].name, value_or_standard(run, &keys->key[k]));
  }
  run_contents(run->file, &data, &start);
  buffer_add(&text, "data %016" PRIx64 " start %016" PRIx64 "\n", data, start);
  if (is_unnamed(run)) buffer_add(&text, "run %s\n", run_id(run->file));
  return text.text;
}

/* --- groups -------------------------------------------------------------------------------------------- */

/* Marks are lines "key=value" or values: the first in which two differ counts: numbers as numbers, before texts. */
static int is_number(const char *value, double *number)
{
  char *end;
  *number = strtod(value, &end);
  return end != value && *end == '\n' && *number == *number;
}

static int compare_marks(const char *a, const char *b)
{
  const char *line = a;
  double x, y;
  size_t at = 0;
  while (a[at] && a[at] == b[at])
    if (a[at++] == '\n') line = a + at;
  const char *equals = strpbrk(line, "=\n");
  size_t skip = (size_t)(line - a);
  if (equals && *equals == '=' && (size_t)(equals - a) < at) skip = (size_t)(equals + 1 - a);
  int number_a = is_number(a + skip, &x), number_b = is_number(b + skip, &y);
  if (number_a != number_b) return number_a ? -1 : 1;
  return number_a && x != y ? (x > y) - (x < y) : strcmp(a, b);
}

static int compare_runs(const void *a, const void *b, void *by)
{
  const struct run *x = a, *y = b;
  const struct key_list *keys = by;
  int order = 0;
  for (int k = 0; k < keys->count && !order; k++) order = run_order(x, y, keys->name[k]);
  if (!keys->count) order = run_order(x, y, "kind");
  if (!order) order = compare_marks(x->mark, y->mark);
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

void runset_share_names(struct runset *set)
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

const char *group_value(const struct run_group *group, const struct sort_key *key)
{
  return value_or_standard(group->run, key);
}

static int has_value(const struct run_group *group, const struct sort_key *key)
{
  const char *value = group_value(group, key);
  return *value && strcmp(value, "none") != 0;
}

/* Do groups [first, end), those of a kind, differ in it? */
static int differ(const struct run_group *first, const struct run_group *end, const struct sort_key *key)
{
  const char *value = group_value(first, key);
  for (const struct run_group *group = first + 1; group < end; group++)
    if (strcmp(group_value(group, key), value) != 0) return 1;
  return 0;
}

/* said[group * keys + key]: groups of its kind differ in it, and this one has a value. */
static unsigned char *find_differences(const struct runset *set, const struct keys *keys)
{
  unsigned char *said = memory_new((size_t)set->groups * keys->count + 1, 1);
  struct run_group *all = set->group, *past = all + set->groups;
  for (struct run_group *first = all, *end; first < past; first = end) {
    for (end = first + 1; end < past && strcmp(end->run->kind, first->run->kind) == 0;) end++;
    for (size_t k = 0; k < keys->count; k++)
      if (differ(first, end, &keys->key[k]))
        for (struct run_group *group = first; group < end; group++)
          said[(size_t)(group - all) * keys->count + k] = (unsigned char)has_value(group, &keys->key[k]);
  }
  return said;
}

/* A value that may be a path: without its folders if they are not to be published. */
static const char *shown_value(const struct runset *set, const char *value)
{
  return set->is_bare ? text_file_name(value) : value;
}

static void label_groups(struct runset *set, struct keys *keys)
{
  unsigned char *said = find_differences(set, keys), *any = memory_new(keys->count + 1, 1);
  for (int g = 0; g < set->groups; g++)
    for (size_t k = 0; k < keys->count; k++) any[k] |= said[(size_t)g * keys->count + k];
  for (size_t k = 0; k < keys->count; k++)
    for (size_t j = 0; j < keys->count && any[k]; j++)
      if (j != k && any[j] &&
          strcmp(text_last_part(keys->key[j].name), text_last_part(keys->key[k].name)) == 0)
        keys->key[k].clashes = 1;
  for (int g = 0; g < set->groups; g++) {
    struct run_group *group = &set->group[g];
    group->kind_length = snprintf(group->label, sizeof group->label, "%s", group->run->kind);
    for (size_t k = 0; k < keys->count; k++) {
      const struct sort_key *key = &keys->key[k];
      size_t length = strlen(group->label);
      if (said[(size_t)g * keys->count + k])
        snprintf(group->label + length, sizeof group->label - length, " %s=%s",
                 key->clashes ? key->name : text_last_part(key->name),
                 shown_value(set, group_value(group, key)));
    }
  }
  memory_free(said);
  memory_free(any);
}

const char *key_list_short(const struct key_list *keys, int k)
{
  const char *last = text_last_part(keys->name[k]);
  for (int i = 0; i < keys->count; i++)
    if (i != k && strcmp(text_last_part(keys->name[i]), last) == 0) return keys->name[k];
  return last;
}

/* "muon lr=0.01": the value of `optimizer` stands without its key, as values that name a plug-in do. */
static void label_by(const struct runset *set, struct run_group *group, const struct key_list *by)
{
  static const char *const names[] = {"kind", "optimizer", "preset", "stabilizers", "data", NULL};
  char room[RUN_VALUE];
  for (int k = 0; k < by->count; k++) {
    const char *key = by->name[k], *value = shown_value(set, run_value(group->run, key, room));
    size_t length = strlen(group->label);
    int is_name = 0;
    for (int i = 0; names[i] && !is_name; i++) is_name = strcmp(names[i], key) == 0;
    snprintf(group->label + length, sizeof group->label - length, "%s%s%s%s", k ? " " : "",
             is_name ? "" : key_list_short(by, k), is_name ? "" : "=", *value ? value : "none");
    text_clean(group->label, sizeof group->label, ""); /* one that was cut ends with a whole letter */
    if (k == 0) group->kind_length = (int)strlen(group->label);
  }
}

static int compare_labels(const void *a, const void *b)
{
  const struct run_group *const *x = a, *const *y = b;
  return strcmp((*x)->label, (*y)->label);
}

static void add_text(struct run_group *group)
{
  size_t length = strlen(group->label);
  const char *path = run_parameter_or(group->run, "data.path", "");
  if (*path) snprintf(group->label + length, sizeof group->label - length, " %s", text_file_name(path));
}

static void add_example(struct run_group *group)
{
  size_t length = strlen(group->label);
  snprintf(group->label + length, sizeof group->label - length, " start of %.12s", run_id(group->run->file));
}

/* More is said of groups that are called the same. */
static void tell_apart(struct runset *set, void (*say_more)(struct run_group *))
{
  struct run_group **by_label = memory_new((size_t)set->groups + 1, sizeof *by_label);
  for (int g = 0; g < set->groups; g++) by_label[g] = &set->group[g];
  qsort(by_label, (size_t)set->groups, sizeof *by_label, compare_labels);
  for (int first = 0, end; first < set->groups; first = end) {
    for (end = first + 1; end < set->groups && !strcmp(by_label[first]->label, by_label[end]->label);) end++;
    for (int g = first; g < end && end > first + 1; g++) say_more(by_label[g]);
  }
  memory_free(by_label);
}

static char *mark_of(const struct run *run, const struct key_list *by)
{
  struct buffer text = {0};
  char room[RUN_VALUE];
  if (!by->count) return memory_text(run->identity);
  for (int k = 0; k < by->count; k++) buffer_add(&text, "%s\n", run_value(run, by->name[k], room));
  return text.text;
}

void runset_group(struct runset *set, struct keys *keys, const struct key_list *by)
{
  for (int i = 0; i < set->runs; i++) set->run[i].mark = mark_of(&set->run[i], by);
  platform_sort(set->run, (size_t)set->runs, sizeof *set->run, compare_runs, (void *)(uintptr_t)by);
  set->group = memory_new((size_t)set->runs + 1, sizeof *set->group);
  for (int i = 0; i < set->runs; i++) {
    struct run *run = &set->run[i];
    if (i == 0 || strcmp(run->mark, run[-1].mark) != 0) set->group[set->groups++].run = run;
    set->group[set->groups - 1].count++;
  }
  for (int g = 0; g < set->groups && by->count; g++) label_by(set, &set->group[g], by);
  if (!by->count) label_groups(set, keys);
  /* differences in no key: the text, the first weights, or two texts of one name */
  if (!by->count) tell_apart(set, add_text);
  tell_apart(set, add_example);
  for (int g = 0; g < set->groups; g++) text_clean(set->group[g].label, sizeof set->group->label, "");
}

/* --- columns ------------------------------------------------------------------------------------------- */

/* Do runs that have the key differ in it? Another optimizer has other keys, and the kind states it. */
static int is_column(const struct runset *set, const char *key)
{
  const char *first = NULL;
  if (strcmp(key, "optimizer") == 0 || strcmp(key, "stabilizers") == 0) return 0;
  for (int i = 0; i < set->runs; i++) {
    const char *value = run_parameter(set->run[i].file, key);
    if (first && value && strcmp(first, value) != 0) return 1;
    if (value) first = value;
  }
  return 0;
}

static void add_name(struct key_list *list, const char *name)
{
  list->name = memory_grow(list->name, (size_t)list->count, (size_t)list->count + 1, sizeof *list->name);
  text_fill(list->name[list->count++], sizeof *list->name, name);
}

static void add_column(const struct runset *set, const char *key, struct key_list *out)
{
  if (is_column(set, key)) add_name(out, key);
}

void key_list_free(struct key_list *list)
{
  memory_free(list->name);
  *list = (struct key_list){0};
}

static int is_own_key(const char *key)
{
  for (const struct config_section *s = config_sections(); s->rows; s++) {
    const size_t length = strlen(s->prefix);
    if (strncmp(key, s->prefix, length) != 0 || (length && key[length] != '.')) continue;
    for (const struct option_row *row = s->rows; row->name; row++)
      if (!strcmp(key + length + (length > 0), row->name)) return 1;
  }
  return 0;
}

struct foreign_keys {
  const struct runset *set;
  struct key_list seen, *out;
};

enum { MOST_FOREIGN = 1000 };

/* A key that only another program has; more of them than a table has room for are not compared. */
static int add_foreign(void *context, const char *key, const char *value)
{
  struct foreign_keys *f = context;
  (void)value;
  if (f->seen.count == MOST_FOREIGN) return 1;
  if (is_own_key(key)) return 0;
  if (is_fact(key)) return 0;
  for (int k = 0; k < f->seen.count; k++)
    if (!strcmp(f->seen.name[k], key)) return 0;
  add_name(&f->seen, key);
  add_column(f->set, key, f->out);
  return 0;
}

void runset_columns(const struct runset *set, const char *but, struct key_list *out)
{
  struct keys keys;
  keys_init(&keys);
  *out = (struct key_list){0};
  for (size_t k = 0; k < keys.count; k++)
    if (!but || strcmp(but, keys.key[k].name) != 0) add_column(set, keys.key[k].name, out);
  add_column(set, "data.path", out); /* groups compare the content of these */
  add_column(set, "train.init_from", out);
  struct foreign_keys foreign = {.set = set, .out = out};
  for (int i = 0; i < set->runs; i++)
    if (!strcmp(run_data(set->run[i].file), DATA_RECORDED))
      run_parameters(set->run[i].file, add_foreign, &foreign);
  key_list_free(&foreign.seen);
  memory_free(keys.key);
}

struct mixed_keys {
  const struct run *first;
  struct key_list *out;
};

/* Names and folders differ from seed to seed. */
static int differs_by_seed(const char *key, const char *value)
{
  static const char *const parts[] = {"name", "dir",  "path", "file", "id",
                                      "host", "date", "time", "rank", "token"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(text_last_part(key), parts[i])) return 1;
  return is_fact(key) || text_ends_with(key, "seed") || strlen(value) > 40 || strchr(value, '/');
}

static int add_mixed(void *context, const char *key, const char *value)
{
  struct mixed_keys *m = context;
  const char *own = run_parameter(m->first->file, key);
  double x, y;
  if (m->out->count == 3) return 1;
  if (!own || !strcmp(own, value) || is_own_key(key) || differs_by_seed(key, value)) return 0;
  if (run_is_number(own, &x) && run_is_number(value, &y) && x == y) return 0;
  for (int k = 0; k < m->out->count; k++)
    if (!strcmp(m->out->name[k], key)) return 0;
  add_name(m->out, key);
  return 0;
}

void runset_add_mixed(const struct run *first, const struct run *other, struct key_list *out)
{
  struct mixed_keys m = {first, out};
  if (!strcmp(run_data(other->file), DATA_RECORDED)) run_parameters(other->file, add_mixed, &m);
}

static int has_seed(const struct run *run)
{
  return run_parameter(run->file, "train.seed") || run_parameter(run->file, "seed");
}

static void warn_of_seeds(const struct run_group *group)
{
  int without = 0;
  const struct run *twice = NULL;
  for (int i = 0; i < group->count; i++) {
    const struct run *run = &group->run[i];
    if (strcmp(run_data(run->file), DATA_RECORDED) != 0) return;
    without += !has_seed(run);
    if (!twice && i && has_seed(run) && run->seed == run[-1].seed) twice = run;
  }
  if (without > 1) warning("%d runs of %s have no seed, and count as %d", without, group->label, without);
  if (twice)
    warning("%s and %s have the same seed, %ld, and count as two", twice[-1].shown, twice->shown,
            twice->seed);
}

void runset_warn_of_mixed(const struct runset *set)
{
  struct key_list out = {0};
  for (int g = 0; g < set->groups; g++) {
    warn_of_seeds(&set->group[g]);
    for (int i = 1; i < set->group[g].count; i++)
      runset_add_mixed(set->group[g].run, set->group[g].run + i, &out);
  }
  if (out.count)
    warning("runs of one group differ in %s%s%s%s%s: --by %s keeps them apart", out.name[0],
            out.count > 1 ? ", " : "", out.count > 1 ? out.name[1] : "", out.count > 2 ? ", " : "",
            out.count > 2 ? out.name[2] : "", out.name[0]);
  key_list_free(&out);
}

/* Of runs without one, their kind. */
static int have_one_preset(const struct run *a, const struct run *b)
{
  const char *one = run_parameter_or(a, "preset", ""), *other = run_parameter_or(b, "preset", "");
  return *one || *other ? !strcmp(one, other) : !strcmp(a->kind, b->kind);
}

/* Do runs of one preset differ in it? */
static int differs_in_preset(const struct runset *set, const char *key)
{
  for (int i = 1; i < set->runs; i++) {
    const char *value = run_parameter(set->run[i].file, key), *other = NULL;
    for (int j = i - 1; j >= 0 && value && !other; j--)
      if (have_one_preset(&set->run[j], &set->run[i])) other = run_parameter(set->run[j].file, key);
    if (other && strcmp(other, value) != 0) return 1;
  }
  return 0;
}

void runset_text_columns(const struct runset *set, const char *but, struct key_list *out,
                         struct key_list *rest)
{
  enum { MOST_COLUMNS = 8 };
  struct key_list all;
  runset_columns(set, but, &all);
  *out = *rest = (struct key_list){0};
  for (int k = 0; k < all.count; k++) {
    const char *name = all.name[k];
    const int stays = all.count <= MOST_COLUMNS || !strcmp(name, "train.lr") || differs_in_preset(set, name);
    add_name(stays ? out : rest, name);
  }
  if (rest->count) add_name(out, "preset");
  key_list_free(&all);
}

/* --- groups of groups ---------------------------------------------------------------------------------- */

static int same_values(const struct run *a, const struct run *b, const struct key_list *by)
{
  for (int k = 0; k < by->count; k++)
    if (run_order(a, b, by->name[k])) return 0;
  return 1;
}

void runset_merge(const struct runset *set, const struct key_list *by, struct runset *out, int *of)
{
  *out = (struct runset){.run = set->run, .runs = set->runs, .is_bare = set->is_bare};
  out->group = memory_new((size_t)set->groups + 1, sizeof *out->group);
  for (int g = 0, k; g < set->groups; g++) {
    const struct run_group *group = &set->group[g];
    for (k = 0; k < out->groups && !same_values(out->group[k].run, group->run, by);) k++;
    struct run_group *merged = &out->group[of[g] = k];
    if (k == out->groups) {
      *merged = (struct run_group){.run = group->run};
      label_by(set, merged, by);
      out->groups++;
    }
    merged->count += group->count;
    if (group->run < merged->run) merged->run = group->run;
  }
}
