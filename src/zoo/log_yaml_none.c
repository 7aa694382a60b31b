/* log_yaml_none.c - in the place of log_yaml.c where there is no libyaml */
#include "zoo/log_yaml.h"

int log_yaml(const char *path, int (*each)(void *, const char *key, const char *value), void *context,
             struct error *e)
{
  (void)each, (void)context;
  return error_set(
    e, STATUS_USAGE,
    "%s: this build reads no YAML: ./configure has not found libyaml (package libyaml-dev); JSON does", path);
}
