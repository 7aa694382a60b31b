#include "ledger/ledger_file.h"

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

/* Returns NULL if the file is missing or is not a ledger. */
static json_t *load(const struct ledger *l)
{
  char *path = path_of(l);
  json_t *all = NULL;
  if (!access(path, F_OK)) {
    all = other_ledger_read(path, NULL);
    if (!json_is_array(all)) {
      warning("%s is not a ledger: what was found before is not known", path);
      json_decref(all);
      all = NULL;
    }
  }
  memory_free(path);
  return all;
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
  struct buffer settings = {0};
  json_t *all = l->folder ? load(l) : NULL;
  ledger_settings(l, &settings);
  for (int i = 0; i < l->entries; i++)
    for (size_t k = 0; k < json_array_size(all); k++)
      if (is_of(json_array_get(all, k), l->entry[i].claim->id, settings.text))
        recall(&l->entry[i], json_array_get(all, k));
  memory_free(settings.text);
  json_decref(all);
}

static int is_in(const json_t *all, const json_t *one)
{
  for (size_t k = 0; k < json_array_size(all); k++)
    if (is_of(json_array_get(all, k), entry_text(one, "id"), entry_text(one, "settings"))) return 1;
  return 0;
}

int ledger_save(const struct ledger *l, struct error *error)
{
  if (!l->folder) return STATUS_OK;
  json_t *now = ledger_json(l), *old = load(l);
  for (size_t k = 0; k < json_array_size(old); k++)
    if (!is_in(now, json_array_get(old, k))) json_array_append(now, json_array_get(old, k));
  char *text = json_dumps(now, JSON_INDENT(1) | JSON_REAL_PRECISION(15)), *path = path_of(l);
  REQUIRE(text);
  int status = file_write(path, text, strlen(text), error);
  memory_free(path);
  free(text);
  json_decref(now);
  json_decref(old);
  return status;
}
