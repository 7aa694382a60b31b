/* choose.c - which runs of a set are meant: conditions, and the keys and metrics that they know */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/metric.h"
#include "analysis/runset_parts.h"
#include "base/memory.h"
#include "config/config.h"

/* --- keys ---------------------------------------------------------------------------------------------- */

int is_metric_name(const char *key) { return metric_named(key) || strchr(key, ':'); }

int runset_measure(struct runset *set, const char *metric, struct error *error)
{
  struct metric m;
  struct measured *value = NULL;
  int status = metric_read(&m, metric, error);
  if (!status) status = metrics_of(&m, 1, set, &value, error);
  for (int i = 0; i < set->runs && !status; i++) set->run[i].metric = value[i].has ? value[i].value : NAN;
  memory_free(value);
  return status;
}

static int is_key(void *wanted, const struct config_entry *entry) { return strcmp(wanted, entry->key) == 0; }

static int check_key(const struct runset *set, const char *option, const char *key, struct error *error)
{
  struct config *config = config_new();
  int status = STATUS_OK, known = is_fact(key) || config_each(config, is_key, (void *)(uintptr_t)key);
  for (int i = 0; set && i < set->runs && !known; i++) known = run_parameter(set->run[i].file, key) != NULL;
  if (!known) {
    const char *near = config_near_key(config, key);
    if (!near) near = text_nearest(key, run_facts_known, RUN_FACTS);
    if (!near) near = metric_near(key);
    status = error_set(error, STATUS_USAGE, "%s %s: no such key%s%s%s", option, key,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  config_free(config);
  return status;
}

static int add_listed(void *context, const char *part)
{
  struct key_list *l = context;
  l->name = memory_grow(l->name, (size_t)l->count, (size_t)l->count + 1, sizeof *l->name);
  snprintf(l->name[l->count++], sizeof *l->name, "%s", part);
  return 0;
}

void key_list_split(struct key_list *list, const char *text)
{
  *list = (struct key_list){0};
  text_split(text, ',', add_listed, list);
}

int key_list_read(struct key_list *list, const char *option, const char *text, const struct runset *set,
                  struct error *error)
{
  int status = STATUS_OK;
  key_list_split(list, text);
  for (int k = 0; k < list->count && !status; k++) status = check_key(set, option, list->name[k], error);
  if (status) key_list_free(list);
  return status;
}

/* --- conditions ---------------------------------------------------------------------------------------- */

enum operator{ IS, IS_NOT, LESS, AT_MOST, MORE, AT_LEAST };
static const char *const operators[] = {
  [IS] = "=", [IS_NOT] = "!=", [LESS] = "<", [AT_MOST] = "<=", [MORE] = ">", [AT_LEAST] = ">="};

struct condition {
  char key[96];
  enum operator operator;
  const char *values;
  int of_metric;
};

static int same_value(void *context, const char *wanted)
{
  const char *value = context;
  double number, own;
  return strcmp(wanted, value) == 0 ||
         (run_is_number(wanted, &number) && run_is_number(value, &own) && number == own);
}

static int holds(const struct condition *c, const struct run *run)
{
  char room[RUN_VALUE] = "";
  const char *value = room;
  double own, wanted;
  if (!c->of_metric)
    value = run_value(run, c->key, room);
  else if (!isnan(run->metric))
    snprintf(room, sizeof room, "%.17g", run->metric);
  if (c->operator<= IS_NOT)
    return (same_value((void *)(uintptr_t)value, c->values) || /* a text with a comma */
            text_split(c->values, ',', same_value, (void *)(uintptr_t)value)) == (c->operator== IS);
  int order, comparable = run_is_number(value, &own) && run_is_number(c->values, &wanted);
  if (comparable)
    order = (own > wanted) - (own < wanted), comparable = own == own;
  else {
    order = strcmp(value, c->values); /* dates */
    comparable = strcmp(c->key, "date") == 0;
  }
  switch (c->operator) {
  case LESS: return comparable && order < 0;
  case AT_MOST: return comparable && order <= 0;
  case MORE: return comparable && order > 0;
  default: return comparable && order >= 0;
  }
}

/* "KEY OP VALUES", all of it in `text`, which is cut in pieces. */
static int read_condition(struct condition *c, char *text, const struct runset *set, struct error *error)
{
  size_t length = strcspn(text, "!<>="), end = length;
  char sign[3] = "";
  double number;
  while (end < strlen(text) && end - length < 2 && strchr("!<>=", text[end])) end++;
  memcpy(sign, text + length, end - length);
  for (c->operator= IS; c->operator<= AT_LEAST; c->operator++)
    if (strcmp(sign, operators[c->operator]) == 0) break;
  while (length && text[length - 1] == ' ') length--;
  const char *joint = strcasestr(text + end, " and ");
  if (joint && strpbrk(joint, "<>="))
    return error_set(error, STATUS_USAGE, "--where %s: '&' joins conditions: '%.*s &%s'", text,
                     (int)(joint - text), text, joint + 4);
  if (c->operator> AT_LEAST || !length || length >= sizeof c->key)
    return error_set(error, STATUS_USAGE, "--where %s: KEY=VALUE is wanted; or !=, <, <=, >, >=", text);
  snprintf(c->key, sizeof c->key, "%.*s", (int)length, text);
  c->values = text + end;
  while (*c->values == ' ') c->values++;
  c->of_metric = is_metric_name(c->key);
  int status = c->of_metric ? STATUS_OK : check_key(set, "--where", c->key, error);
  if (!status && c->operator> IS_NOT && strcmp(c->key, "date") != 0 && !run_is_number(c->values, &number))
    status = error_set(error, STATUS_USAGE, "--where %s: %s wants one number", text, sign);
  return status;
}

/* "KEY = a, b": the values that occur; how many. */
static int put_values(struct buffer *b, const struct runset *set, const char *key)
{
  enum { MOST = 24 };
  int different = 0;
  char rooms[2][RUN_VALUE];
  buffer_add(b, "%s =", key);
  for (int i = 0; i < set->runs; i++) {
    const char *value = run_value(&set->run[i], key, rooms[0]);
    int seen = 0;
    for (int k = 0; k < i && !seen; k++) seen = strcmp(run_value(&set->run[k], key, rooms[1]), value) == 0;
    if (seen) continue;
    if (++different > MOST) {
      buffer_add(b, ", ...");
      break;
    }
    buffer_add(b, "%s %s", different > 1 ? "," : "", value);
  }
  return different;
}

/* "METRIC from a to b" */
static void put_range(struct buffer *b, const struct runset *set, const char *metric)
{
  double least = NAN, most = NAN;
  for (int i = 0; i < set->runs; i++)
    least = fmin(least, set->run[i].metric), most = fmax(most, set->run[i].metric);
  buffer_add(b, "%s from %.5g to %.5g", metric, least, most);
}

struct keeping {
  struct runset *set;
  struct error *error;
};

static int keep_where(void *context, const char *part)
{
  struct keeping *keeping = context;
  struct runset *set = keeping->set;
  struct condition c;
  char *text = memory_text(part);
  int status = read_condition(&c, text, set, keeping->error), kept = 0;
  if (!status && c.of_metric) status = runset_measure(set, c.key, keeping->error);
  for (int i = 0; i < set->runs && !status; i++) kept += holds(&c, &set->run[i]);
  if (!status && !kept) {
    struct buffer values = {0};
    if (c.of_metric)
      put_range(&values, set, c.key);
    else
      put_values(&values, set, c.key);
    status =
      error_set(keeping->error, STATUS_USAGE, "--where %s: no such run; there is %s", part, values.text);
    memory_free(values.text);
  }
  if (!status) {
    kept = 0;
    for (int i = 0; i < set->runs; i++) {
      if (holds(&c, &set->run[i]))
        set->run[kept++] = set->run[i];
      else
        run_free(&set->run[i]);
    }
    set->runs = kept;
  }
  memory_free(text);
  return status;
}

static int is_of_metric(void *context, const char *condition)
{
  char key[96];
  (void)context;
  text_fill(key, sizeof key, condition);
  key[strcspn(key, " !<>=")] = 0;
  return is_metric_name(key);
}

int runset_keeps_by_metric(const struct selection *selection)
{
  for (int i = 0; i < selection->wheres; i++)
    if (text_split(selection->where[i], '&', is_of_metric, NULL)) return 1;
  return 0;
}

int runset_keep(struct runset *set, const struct selection *selection, struct error *error)
{
  struct keeping keeping = {set, error};
  int status = STATUS_OK;
  for (int i = 0; i < selection->wheres && !status; i++)
    if (strstr(selection->where[i], "&&"))
      status = error_set(error, STATUS_USAGE, "--where %s: one '&' joins conditions", selection->where[i]);
    else
      status = text_split(selection->where[i], '&', keep_where, &keeping);
  return status;
}

/* --- keys in which groups differ ----------------------------------------------------------------------- */

char *runset_differences(const struct runset *set)
{
  struct buffer text = {0};
  struct keys keys;
  keys_init(&keys);
  buffer_add(&text, "\n  ");
  if (put_values(&text, set, "kind") < 2) text.text[text.length = 0] = 0;
  for (size_t k = 0; k < keys.count; k++) {
    int said = 0;
    for (int g = 1; g < set->groups && !said; g++) { /* kinds stand together */
      const struct run_group *group = &set->group[g], *before = group - 1;
      said = strcmp(group->run->kind, before->run->kind) == 0 &&
             strcmp(group_value(group, &keys.key[k]), group_value(before, &keys.key[k])) != 0;
    }
    if (!said) continue;
    buffer_add(&text, "\n  ");
    put_values(&text, set, keys.key[k].name);
  }
  memory_free(keys.key);
  return text.text;
}
