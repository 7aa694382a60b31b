#include "ledger/kept.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

int kept_read(const char *name, json_t **all, char **path, struct error *error)
{
  json_error_t wrong;
  struct buffer b = {0};
  buffer_add(&b, file_is_folder(name) ? "%s/claims.json" : "%s", name);
  *path = b.text;
  *all = json_load_file(*path, 0, &wrong);
  if (json_is_array(*all) && json_is_string(json_object_get(json_array_get(*all, 0), "verdict")))
    return STATUS_OK;
  return error_set(error, STATUS_USAGE, "%s is no ledger: claims.json beside a ledger's runs is wanted",
                   *path);
}

const json_t *kept_claim(const json_t *all, const char *id)
{
  for (size_t k = 0; k < json_array_size(all); k++)
    if (!strcmp(kept_text(json_array_get(all, k), "id"), id)) return json_array_get(all, k);
  return NULL;
}

const char *kept_text(const json_t *entry, const char *key)
{
  const char *text = json_string_value(json_object_get(entry, key));
  return text ? text : "";
}

/* What is not finite is a text in JSON. */
double kept_number(const json_t *entry, const char *key)
{
  const json_t *x = json_object_get(entry, key);
  return json_is_number(x)   ? json_number_value(x)
         : json_is_string(x) ? strtod(json_string_value(x), NULL)
                             : NAN;
}

struct interval kept_interval(const json_t *entry, const char *key)
{
  const json_t *i = json_object_get(entry, key);
  return (struct interval){(int)json_integer_value(json_object_get(i, "n")), kept_number(i, "mean"),
                           kept_number(i, "lo"), kept_number(i, "hi")};
}

enum verdict kept_verdict(const json_t *entry)
{
  enum verdict v = 0;
  while (v < VERDICT_OPEN && strcmp(verdict_name(v), kept_text(entry, "verdict")) != 0) v++;
  return v;
}

void kept_name(const char *settings, char out[64])
{
  const char *path = strstr(settings, "data.path=");
  char *copy = path ? memory_text(path + strlen("data.path=")) : NULL;
  if (copy) copy[strcspn(copy, " ")] = 0;
  snprintf(out, 64, "%.63s", copy ? text_file_name(copy) : "built-in chain");
  memory_free(copy);
}
