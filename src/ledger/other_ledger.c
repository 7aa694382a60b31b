#include "ledger/other_ledger.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "ledger/readme.h"

/* Clean every text of a ledger, because another program may have written it; settings have several lines. */
static void clean_texts(json_t *x)
{
  const char *key;
  json_t *part;
  size_t i;
  if (json_is_array(x))
    json_array_foreach(x, i, part) clean_texts(part);
  else if (json_is_object(x))
    json_object_foreach(x, key, part) clean_texts(part);
  else if (json_is_string(x)) {
    char *text = text_cleaned(json_string_value(x), "\n");
    REQUIRE(json_string_set(x, text) == 0);
    memory_free(text);
  }
}

json_t *other_ledger_read(const char *path, struct lock *lock, struct error *e)
{
  char *text = NULL;
  size_t length;
  if (file_read_held(path, &text, &length, lock, e)) return NULL;
  json_t *all = text_ends_with(path, ".md") ? readme_read(text, length) : json_loadb(text, length, 0, NULL);
  memory_free(text);
  clean_texts(all);
  return all;
}

/* Name and settings of a ledger are those of its first entry. */
static int has_settings_of_first(const struct other_ledger *k, const json_t *entry)
{
  return !strcmp(entry_text(entry, "settings"), entry_text(other_ledger_first(k), "settings"));
}

int other_ledger_open(struct other_ledger *k, const char *name, struct error *error)
{
  struct buffer b = {0};
  struct error found = {0};
  buffer_add(&b, file_is_folder(name) ? "%s/claims.json" : "%s", name);
  *k = (struct other_ledger){.path = b.text, .all = other_ledger_read(b.text, NULL, &found)};
  training_text_name(entry_text(other_ledger_first(k), "settings"), k->name);
  if (json_is_array(k->all) && json_is_string(json_object_get(other_ledger_first(k), "verdict"))) {
    int others = 0;
    for (size_t i = 1; i < json_array_size(k->all); i++)
      others += !has_settings_of_first(k, json_array_get(k->all, i));
    if (others)
      warning("%s: %d of its verdicts are of other settings than the first, which are %.200s", k->path,
              others, entry_text(other_ledger_first(k), "settings"));
    return STATUS_OK;
  }
  if (found.status == STATUS_FAIL) return error_set(error, STATUS_FAIL, "%s", found.text);
  return error_set(
    error, STATUS_USAGE,
    "%s is not a ledger: claims.json beside a ledger's runs, or a README.md with its verdicts, is wanted",
    k->path);
}

void other_ledger_close(struct other_ledger *k)
{
  json_decref(k->all);
  memory_free(k->path);
}

const json_t *other_ledger_first(const struct other_ledger *k)
{
  return k ? json_array_get(k->all, 0) : NULL;
}

const json_t *other_ledger_claim(const struct other_ledger *k, const char *id)
{
  const json_t *other = NULL;
  for (size_t i = 0; k && i < json_array_size(k->all); i++) {
    const json_t *entry = json_array_get(k->all, i);
    if (strcmp(entry_text(entry, "id"), id)) continue;
    if (has_settings_of_first(k, entry)) return entry;
    if (!other) other = entry;
  }
  return other;
}

const char *entry_text(const json_t *entry, const char *key)
{
  const char *text = json_string_value(json_object_get(entry, key));
  return text ? text : "";
}

/* JSON stores numbers that are not finite as strings. */
double entry_number(const json_t *entry, const char *key)
{
  const json_t *x = json_object_get(entry, key);
  return json_is_number(x)   ? json_number_value(x)
         : json_is_string(x) ? strtod(json_string_value(x), NULL)
                             : NAN;
}

struct interval entry_interval(const json_t *entry, const char *key)
{
  const json_t *i = json_object_get(entry, key);
  const json_int_t n = json_integer_value(json_object_get(i, "n"));
  return (struct interval){n > 0 && n <= INT_MAX ? (int)n : 0, entry_number(i, "mean"), entry_number(i, "lo"),
                           entry_number(i, "hi")};
}

enum verdict entry_verdict(const json_t *entry)
{
  enum verdict v = 0;
  while (v < VERDICT_OPEN && strcmp(verdict_name(v), entry_text(entry, "verdict")) != 0) v++;
  return v;
}

void training_text_name(const char *settings, char out[64])
{
  const char *path = strstr(settings, "data.path=");
  char *copy = path ? memory_text(path + strlen("data.path=")) : NULL;
  if (copy) copy[strcspn(copy, " ")] = 0;
  text_fill(out, 64, copy ? text_file_name(copy) : "built-in chain");
  memory_free(copy);
}
