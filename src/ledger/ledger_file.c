#include "ledger/ledger_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "ledger/other_ledger.h"
#include "ledger/print.h"

static char *path_of(const struct ledger *l)
{
  struct buffer path = {0};
  buffer_add(&path, "%s/claims.json", l->folder);
  return path.text;
}

static int is_ledger(const json_t *all)
{
  for (size_t k = 0; k < json_array_size(all); k++) {
    const json_t *one = json_array_get(all, k);
    if (!json_is_string(json_object_get(one, "id")) || !json_is_string(json_object_get(one, "verdict")))
      return 0;
  }
  return json_is_array(all);
}

/* Returns NULL if the file is missing. A file that is not a ledger is an error, because it may be the user's own. */
static json_t *load(const char *path, struct lock *lock, struct error *error)
{
  if (access(path, F_OK) && errno == ENOENT) return NULL;
  json_t *all = other_ledger_read(path, lock, error);
  if (is_ledger(all) || error->status) return all;
  json_decref(all);
  error_set(
    error, STATUS_USAGE,
    "%s is not a ledger and stays as it is: rename or remove it, then the same command writes the verdicts",
    path);
  return NULL;
}

static int is_of(const json_t *old, const char *id, const char *settings)
{
  return !strcmp(entry_text(old, "id"), id) && !strcmp(entry_text(old, "settings"), settings);
}

static void keep_former(struct former *f, const json_t *from)
{
  text_fill(f->registered, sizeof f->registered, entry_text(from, "registered"));
  text_fill(f->verdict, sizeof f->verdict, entry_text(from, "verdict"));
  text_fill(f->made_by, sizeof f->made_by, entry_text(from, "made_by"));
  f->effect = entry_interval(from, "effect");
}

/* The first verdict that was changed is kept, however often the claim is changed afterwards. */
static void recall(struct entry *x, const json_t *old)
{
  const json_t *changed = json_object_get(old, "changed_after_the_fact");
  if (json_is_object(changed))
    keep_former(&x->former, changed);
  else if (json_integer_value(json_object_get(old, "stages")) &&
           strcmp(entry_text(old, "registered"), x->registered) != 0)
    keep_former(&x->former, old);
}

void ledger_recall(struct ledger *l)
{
  if (!l->folder) return;
  struct buffer settings = {0};
  struct error ignored = {0}; /* ledger_save reports it */
  char *path = path_of(l);
  json_t *all = load(path, NULL, &ignored);
  ledger_settings(l, &settings);
  for (int i = 0; i < l->entries; i++)
    for (size_t k = 0; k < json_array_size(all); k++)
      if (is_of(json_array_get(all, k), l->entry[i].claim->id, settings.text))
        recall(&l->entry[i], json_array_get(all, k));
  memory_free(settings.text);
  memory_free(path);
  json_decref(all);
}

static int is_in(const json_t *all, const json_t *one)
{
  for (size_t k = 0; k < json_array_size(all); k++)
    if (is_of(json_array_get(all, k), entry_text(one, "id"), entry_text(one, "settings"))) return 1;
  return 0;
}

static int join_and_write(const struct ledger *l, const char *path, struct lock *lock, struct error *error)
{
  json_t *old = load(path, lock, error);
  if (error->status) return error->status;
  json_t *now = ledger_json(l);
  for (size_t k = 0; k < json_array_size(old); k++)
    if (!is_in(now, json_array_get(old, k))) json_array_append(now, json_array_get(old, k));
  char *text = json_dumps(now, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
  REQUIRE(text);
  int status = file_write_held(path, text, strlen(text), lock, error);
  free(text);
  json_decref(now);
  json_decref(old);
  return status;
}

int ledger_save(const struct ledger *l, struct error *error)
{
  if (!l->folder) return STATUS_OK;
  struct buffer lock_path = {0};
  char *path = path_of(l);
  buffer_add(&lock_path, "%s.lock", path);
  struct lock *lock = NULL;
  for (int turns = 0; turns < 100 && !lock; turns++) { /* of a tenth of a second */
    *error = (struct error){0};
    lock = lock_take(lock_path.text, error);
    if (!lock && errno != EWOULDBLOCK) break;
  }
  int status = lock ? join_and_write(l, path, lock, error) : error->status;
  lock_release(lock, lock_path.text);
  memory_free(lock_path.text);
  memory_free(path);
  return status;
}
